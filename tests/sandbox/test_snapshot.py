from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox.errors import SandboxError
from sandbox.snapshot import BOX_UID, MTIME, snapshot_tree, tree_digest


def make(folder: Path) -> Path:
    (folder / "b/c").mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    (folder / "b/run").write_text("#!/bin/sh\n")
    (folder / "b/run").chmod(0o750)
    (folder / "b/c/link").symlink_to("../run")
    (folder / "b/empty").mkdir()
    (folder / os.fsdecode(b"bad\xff")).write_text("x")
    return folder


def test_equal_trees_share_one_normalised_snapshot(tmp_path: Path) -> None:
    one, two = make(tmp_path / "one"), make(tmp_path / "two")
    os.utime(two / "a.txt", (5, 5))
    (two / "a.txt").chmod(0o600)
    digest = snapshot_tree(one, tmp_path / "store")
    assert snapshot_tree(two, tmp_path / "store") == digest == tree_digest(tmp_path / "store" / digest)
    kept = [path for path in (tmp_path / "store").iterdir() if not path.name.startswith(".lock")]
    assert kept == [tmp_path / "store" / digest]
    for path in (kept[0], *kept[0].rglob("*")):
        facts = path.lstat()
        assert facts.st_mtime == MTIME
        assert os.geteuid() != 0 or facts.st_uid == facts.st_gid == BOX_UID
    assert (kept[0] / "a.txt").stat().st_mode & 0o777 == 0o644
    assert (kept[0] / "b/run").stat().st_mode & 0o777 == 0o755
    assert str((kept[0] / "b/c/link").readlink()) == "../run"


@pytest.mark.parametrize("edit", ["content", "name", "mode", "link", "folder"])
def test_every_difference_changes_the_digest(tmp_path: Path, edit: str) -> None:
    tree = make(tmp_path / "tree")
    before = tree_digest(tree)
    match edit:
        case "content":
            (tree / "a.txt").write_text("b")
        case "name":
            (tree / "a.txt").rename(tree / "a2.txt")
        case "mode":
            (tree / "a.txt").chmod(0o744)
        case "link":
            (tree / "b/c/link").unlink()
            (tree / "b/c/link").symlink_to("../run2")
        case "folder":
            (tree / "b/empty").rmdir()
    assert tree_digest(tree) != before


def test_special_files_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    tree = make(tmp_path / "tree")
    os.mkfifo(tree / "fifo")
    with pytest.raises(SandboxError, match="fifo"):
        snapshot_tree(tree, tmp_path / "store")
    assert not (tmp_path / "store").exists()
