"""A root file system and folders that any user may read, shared by the tests of this folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.conformance import Opener
from sandbox.paths import remove_tree
from sandbox.reaper import left_over
from sandbox.rootfs import ensure_rootfs


@pytest.fixture(scope="session")
def open_work() -> Iterator[Path]:
    """A folder outside pytest's own, which only its owner may enter."""
    folder = Path(tempfile.mkdtemp(prefix="mimo-test-"))
    folder.chmod(0o755)
    yield folder
    remove_tree(folder)


@pytest.fixture(scope="session")
def rootfs(open_work: Path) -> Path:
    return ensure_rootfs(open_work / "roots")


@pytest.fixture(scope="session")
def opener(rootfs: Path, open_work: Path) -> Iterator[Opener]:
    work = open_work / "boxes"
    work.mkdir()
    yield Opener("local", rootfs, work)
    assert left_over(state=work / "state") == []
