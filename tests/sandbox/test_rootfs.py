from __future__ import annotations

from pathlib import Path

from sandbox.conformance import Opener
from sandbox.rootfs import build_test_tools, ensure_rootfs, rootfs_digest


def test_is_small_built_once_and_named_by_its_content(rootfs: Path, open_work: Path) -> None:
    before = rootfs.stat().st_ino
    assert ensure_rootfs(open_work / "roots") == rootfs
    assert rootfs.stat().st_ino == before
    assert rootfs_digest(rootfs) == rootfs.name
    size = sum(path.lstat().st_blocks * 512 for path in rootfs.rglob("*"))
    assert size < 150_000_000


def test_holds_no_other_packages_and_nothing_of_ours(rootfs: Path) -> None:
    names = {path.name for path in rootfs.rglob("*")}
    assert not names & {"site-packages", "dist-packages", "ensurepip", "idlelib", "sitecustomize.py", "pip"}
    assert not list(rootfs.rglob("*.pth"))
    for link in rootfs.rglob("*"):
        if link.is_symlink():
            target = str(link.readlink())
            assert (rootfs / target.lstrip("/")).exists() or (link.parent / target).exists()


def test_python_and_git_work_in_it(opener: Opener) -> None:
    modules = "ssl,sqlite3,ctypes,hashlib,lzma,bz2,zlib,json,asyncio,multiprocessing,unittest,decimal,uuid"
    with opener() as box:
        result = box.exec(
            f"python3 -c 'import sys,{modules}; print(sys.prefix, sys.path[1:])'; python --version"
        )
        assert result.exit_code == 0, result.output
        assert result.output.startswith("/usr [")
        assert "packages" not in result.output
        result = box.exec(
            "git init -q . && git add -A && git commit -qm x && git log --oneline | wc -l; git status -s"
        )
        assert result.output == "1\n", result.output
        tools = "awk sed grep find diff patch tar gzip xargs sort timeout setsid ps"
        assert box.exec(f"for t in {tools}; do command -v $t >/dev/null || echo $t; done").output == ""
        assert box.exec("python3 -c 'import pytest'").exit_code != 0


def test_test_tools_run_in_a_box(opener: Opener, open_work: Path) -> None:
    tools = build_test_tools(open_work / "test-tools")
    assert build_test_tools(tools) == tools
    files = {"test_x.py": b"def test_x():\n    assert 1 + 1 == 3\n"}
    env = {"PYTHONPATH": "/opt/test-tools", "PYTHONDONTWRITEBYTECODE": "1"}
    with opener(files, env=env, readonly={"/opt/test-tools": tools}) as box:
        result = box.exec("python3 -m pytest -q -p no:cacheprovider")
        assert result.exit_code == 1, result.output
        assert "assert (1 + 1) == 3" in result.output
        assert "1 failed" in result.output
        assert not list(tools.rglob("*.so"))
