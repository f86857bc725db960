"""The demo's stages with a real box and a real guarded engine."""

from __future__ import annotations

import os
import signal

from mimo.backends.guardian import Guarded
from mimo.stages.base import StageContext
from sandbox import BoxLimits, BoxSpec, open_sandbox
from sandbox.rootfs import ensure_rootfs


def start_guarded(ctx: StageContext) -> None:
    """Start something under a guardian and say where."""
    guarded = Guarded.start(["sleep", "601"], env=dict(os.environ), log_file=ctx.out / "engine.log")
    (ctx.out / "guarded").write_text(f"{guarded.pid} {guarded.tmp_dir}")


def keep_a_box_and_die(ctx: StageContext) -> None:
    """Open a real box, start something in it, and be killed."""
    snapshot = ctx.scratch / "tree"
    snapshot.mkdir()
    limits = BoxLimits(wall_s=600, command_s=60, memory_mb=512, processes=32, disk_mb=64, output_bytes=4096)
    box = open_sandbox(
        "local",
        BoxSpec(
            rootfs=ensure_rootfs(ctx.cache), snapshot=snapshot, workdir="/w", limits=limits, label=ctx.label
        ),
    )
    box.exec("sleep 500 & echo started")
    os.kill(os.getpid(), signal.SIGKILL)
