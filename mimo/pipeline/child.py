"""The process of one stage: `python -m mimo.pipeline.child SPEC.json HANDLE` (started by the engine only)."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from pathlib import Path

from mimo.errors import MachineLacks, MimoError, StageFailed, StoppedSafely
from mimo.pipeline.channel import Channel
from mimo.pipeline.context import RunningStage, StageSpec
from mimo.pipeline.counted_warnings import warnings_counted
from mimo.pipeline.inbox import Inbox
from mimo.pipeline.order import Order
from mimo.pipeline.processes import become_subreaper
from mimo.recipe.models import Recipe
from mimo.run_dir.files import disk_full, is_disk_full
from mimo.stages.base import StageResult
from sandbox.errors import SandboxError, SandboxUnavailable
from sandbox.scratch import keep_temporary_in


def main(spec_file: str, handle: str) -> int:
    """Run the stage of the spec; the exit code, as documented for `mimo run`."""
    become_subreaper()
    channel = Channel.inherited(int(handle))
    inbox = Inbox(channel)
    inbox.open()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s", stream=sys.stderr)
    spec = StageSpec(**json.loads(Path(spec_file).read_bytes()))
    try:
        ctx = RunningStage(spec, Recipe.model_validate(spec.recipe), channel, inbox)
        keep_temporary_in(ctx.scratch / "tmp")
        with warnings_counted(ctx):
            result = Order({spec.stage: spec.target}).load(spec.stage).run(ctx)
    except Exception as error:  # noqa: BLE001 - the boundary of a stage: told to the engine, with its traceback
        code = _tell_failure(channel, error, spec)
    else:
        _tell_result(channel, ctx, result)
        code = 0
    inbox.finished = True
    return code


def _tell_result(channel: Channel, ctx: RunningStage, result: StageResult) -> None:
    refusal = result.refusal
    channel.send(
        {
            "kind": "result",
            "headline": {name: float(value) for name, value in result.headline.items()},
            "notes": list(result.notes),
            "planned": ctx.planned,
            "step": ctx.step,
            "counts": dict(ctx.counts),
            "refusal": None if refusal is None else {"message": refusal.message, "hint": refusal.hint},
        }
    )


def _tell_failure(channel: Channel, error: Exception, spec: StageSpec) -> int:
    if not isinstance(error, StoppedSafely):
        traceback.print_exc()
    known = as_mimo_error(error, Path(spec.work))
    channel.send(
        {
            "kind": "failure",
            "type": type(known).__name__,
            "message": known.message,
            "hint": known.hint,
            "traceback": "".join(traceback.format_exception(error)),
        }
    )
    return known.exit_code


def as_mimo_error(error: Exception, work: Path) -> MimoError:
    """`error` as one of ours: a full disk, a sandbox that this machine cannot run, anything else a bug."""
    if isinstance(error, MimoError):
        return error
    if is_disk_full(error):
        return disk_full(work)
    if isinstance(error, SandboxUnavailable):
        return MachineLacks(str(error), hint=error.hint)
    hint = error.hint if isinstance(error, SandboxError) else None
    return StageFailed(f"{type(error).__name__}: {error}", hint=hint or "the log has the traceback")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
