"""Temporary folders of a killed process lie where its owner cleans up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

KILLED = """
import os, signal, sys
from pathlib import Path
from sandbox import git_rebuild
from sandbox.scratch import keep_temporary_in
keep_temporary_in(Path(sys.argv[1]))
git_rebuild.run_git = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
git_rebuild.init_git(Path(sys.argv[2]))
"""


def test_a_killed_process_leaves_nothing_in_the_systems_place(tmp_path: Path) -> None:
    system, kept, tree = (tmp_path / name for name in ("system", "kept", "tree"))
    system.mkdir()
    tree.mkdir()
    (tree / "a.txt").write_text("a")
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(kept), str(tree)],
        env={**os.environ, "TMPDIR": str(system)},
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert list(system.iterdir()) == []
    assert [path.name.startswith("mimo-git-") for path in kept.iterdir()] == [True]
