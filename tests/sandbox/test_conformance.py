"""The conformance suite on the back end `local`: as who runs the tests, and as an ordinary user if that is
root."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import sandbox
from sandbox.base import BoxSpec
from sandbox.conformance import CHECKS, Opener

ORDINARY_UID = 61234
_AS_USER = """
import json, sys
from pathlib import Path
from sandbox.conformance import run
from sandbox.rootfs import ensure_rootfs
work = Path(sys.argv[1])
for result in run("local", ensure_rootfs(work / "roots"), work):
    print(json.dumps([result.name, result.error]), flush=True)
"""


@pytest.mark.parametrize("name", CHECKS)
def test_local(opener: Opener, name: str) -> None:
    CHECKS[name](opener)


def _readable_python() -> str:
    """A Python that another user can run: ours may lie in a folder of root's."""
    for program in (os.path.realpath(sys.executable), "/usr/bin/python3"):
        check = "import ctypes, hashlib, sys; open(sys.executable)"
        trial = ["setpriv", "--reuid", str(ORDINARY_UID), "--clear-groups", program, "-c", check]
        if subprocess.run(trial, capture_output=True, check=False).returncode == 0:
            return program
    raise AssertionError("no Python 3.11 that an ordinary user can run")


@pytest.fixture(scope="module")
def as_user(open_work: Path) -> dict[str, str | None]:
    """Name of a check to its error, from one run of the whole suite as an ordinary user."""
    home = open_work / "user"
    home.mkdir()
    package = Path(sandbox.__file__).parent
    shutil.copytree(package, home / "sandbox", ignore=shutil.ignore_patterns("__pycache__"))
    for path in (home, *home.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.chown(path, ORDINARY_UID, ORDINARY_UID)
    uid = str(ORDINARY_UID)
    done = subprocess.run(
        [
            "setpriv",
            "--reuid",
            uid,
            "--regid",
            uid,
            "--clear-groups",
            _readable_python(),
            "-c",
            _AS_USER,
            str(home),
        ],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(home), "HOME": str(home)},
        cwd=home,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=400,
    )
    return dict(json.loads(line) for line in done.stdout.splitlines())


if os.geteuid() == 0:

    @pytest.mark.slow
    @pytest.mark.parametrize("name", CHECKS)
    def test_local_as_an_ordinary_user(as_user: dict[str, str | None], name: str) -> None:
        assert as_user[name] is None

    def test_a_state_folder_without_overlays_gets_plain_copies(rootfs: Path, tmp_path: Path) -> None:
        for name in ("lower", "upper", "scratch", "merged"):
            (tmp_path / name).mkdir()
        options = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/scratch"
        merged = tmp_path / "merged"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(merged)], check=True)
        try:
            opener = Opener("local", rootfs, merged)
            with opener() as box:
                assert box.describe()["tree"] == "copy"  # type: ignore[attr-defined]
            CHECKS["changes"](opener)
            CHECKS["close_leaves_nothing"](opener)
        finally:
            subprocess.run(["umount", str(merged)], check=True)

    class CopyOpener(Opener):
        """Snapshots that the box's user does not own: then a plain copy takes the overlay's place."""

        def spec(self, *arguments: object, **changes: object) -> BoxSpec:
            spec = super().spec(*arguments, **changes)  # type: ignore[arg-type]
            os.chown(spec.snapshot, 0, 0)
            return replace(spec, label=spec.label)

    @pytest.mark.parametrize(
        "name", ["state_persists", "boxes_are_apart", "changes", "hostile_changes", "caps", "disk_limit"]
    )
    def test_local_with_plain_copies(rootfs: Path, tmp_path: Path, name: str) -> None:
        opener = CopyOpener("local", rootfs, tmp_path)
        with opener() as box:
            assert box.describe()["tree"] == "copy"  # type: ignore[attr-defined]
        CHECKS[name](opener)
