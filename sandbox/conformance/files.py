"""Checks of `read`, `write`, `freeze` and `changes`."""

from __future__ import annotations

import contextlib
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

from sandbox.base import Changes, Sandbox
from sandbox.conformance.opener import WORKDIR, Opener
from sandbox.errors import SandboxError, SandboxFileError


def _refuses(action: Callable[[], object], kind: type[SandboxError] = SandboxFileError) -> bool:
    try:
        action()
    except kind:
        return True
    return False


def check_read_and_write(open_box: Opener) -> None:
    """Files come back as written, belong to the box's user, folders are made, other kinds are refused."""
    with open_box({"a.txt": b"abc"}) as box:
        data = bytes(range(256)) * 100
        box.write(f"{WORKDIR}/x/y/z.bin", data)
        assert box.read(f"{WORKDIR}/x/y/z.bin", max_bytes=1 << 20) == data
        assert box.read(f"{WORKDIR}/a.txt", max_bytes=2) == b"ab"
        assert box.exec("stat -c %U x x/y/z.bin | uniq; echo more >> x/y/z.bin; rm -r x").output == "user\n"
        box.write("/tmp/t", b"1")
        assert box.exec("cat /tmp/t").output == "1"
        box.write(f"{WORKDIR}/a.txt", b"z")
        assert box.exec("cat a.txt").output == "z"
        box.exec("mkfifo f; mkdir d; chmod 000 a.txt")
        for path in (f"{WORKDIR}/none", f"{WORKDIR}/f", f"{WORKDIR}/d", f"{WORKDIR}/a.txt/b", "/dev/zero"):
            assert _refuses(lambda path=path: box.read(path, max_bytes=1)), path  # type: ignore[misc]
        for path in (f"{WORKDIR}/f", f"{WORKDIR}/d", "/etc/passwd", "/usr/x"):
            assert _refuses(lambda path=path: box.write(path, b"x")), path  # type: ignore[misc]
        assert _refuses(lambda: box.read("relative", max_bytes=1), SandboxError)


def check_links_stay_in_the_box(open_box: Opener) -> None:
    """Reading and writing through any link reaches files of the box only."""
    with tempfile.TemporaryDirectory() as folder, open_box() as box:
        Path(folder).chmod(0o777)
        secret = Path(folder, "secret")
        secret.write_text("host")
        secret.chmod(0o666)
        climb = "../" * 12
        box.exec(f"ln -s {secret} l1; ln -s {climb}{str(secret)[1:]} l2; ln -s {folder} l3")
        box.exec("ln -s /proc/1/root l4")
        box.exec(f"ln -s {climb}etc/passwd l5; ln -s /proc/self/environ l6")
        for path in ("l1", "l2", "l3/secret", f"l4{secret}", f"{climb}{str(secret)[1:]}"):
            with contextlib.suppress(SandboxFileError):
                assert b"host" not in box.read(f"{WORKDIR}/{path}", max_bytes=100), path
            with contextlib.suppress(SandboxFileError):
                box.write(f"{WORKDIR}/{path}", b"owned")
        assert secret.read_text() == "host", "a write left the box"
        assert b"root:x:0:0" in box.read(f"{WORKDIR}/l5", max_bytes=4096)
        assert b"user" in box.read(f"{WORKDIR}/l5", max_bytes=4096), "that is the host's passwd"
        assert _refuses(lambda: box.read(f"{WORKDIR}/l6", max_bytes=10))


def _changes(box: Sandbox, command: str, **caps: int) -> Changes:
    result = box.exec(command)
    assert result.exit_code == 0, result
    box.freeze()
    return box.changes(**caps)


def check_freeze_kills_daemons(open_box: Opener) -> None:
    """After freeze no process of the box writes any more, and only changes and close are taken."""
    with open_box() as box:
        box.exec("setsid -f bash -c 'while :; do date +%N >> grows; done'")
        box.exec("nohup sleep 400 >/dev/null 2>&1 & sleep 0.3")
        box.freeze()
        box.freeze()
        first = box.changes().files
        assert [change.path for change in first] == ["grows"]
        assert box.changes().files == first, "something still writes"
        assert _refuses(lambda: box.exec("true"), SandboxError)
        assert _refuses(lambda: box.read(f"{WORKDIR}/a.txt", max_bytes=1), SandboxError)


def check_changes(open_box: Opener) -> None:
    """New, edited, deleted, replaced and renamed paths are reported; equal ones, and `.git`, are not."""
    names = ("a", "b", "c", "d/e", "d/f/g", "h", "i/j", "run.sh", ".git/HEAD")
    files = {name: name.encode() for name in names}
    with open_box(files) as box:
        changes = _changes(
            box,
            "echo new > n; echo more >> a; touch b; chmod 600 b; rm c; rm -r d; mkdir d; echo e2 > d/e2; "
            "rm h; mkdir h; echo in > h/in; rm -r i; echo file > i; chmod +x run.sh; mkdir empty; "
            "echo x >> .git/HEAD; echo x > .git/y; mkdir -p p/.git; echo z > p/.git/z; "
            "mv n n2; cp b b2; mv b2 b",
        )
        found = {change.path: (change.data, change.mode) for change in changes.files}
        expected = {
            "a": (b"amore\n", 0o644),
            "c": (None, None),
            "d/e": (None, None),
            "d/e2": (b"e2\n", 0o644),
            "d/f/g": (None, None),
            "h": (None, None),
            "h/in": (b"in\n", 0o644),
            "i": (b"file\n", 0o644),
            "i/j": (None, None),
            "n2": (b"new\n", 0o644),
            "p/.git/z": (b"z\n", 0o644),
            "run.sh": (b"run.sh", 0o755),
        }
        assert found == expected, found
        assert [change.path for change in changes.files] == sorted(found)
        assert not changes.capped
        assert all(change.refused is None for change in changes.files)


def check_hostile_changes(open_box: Opener) -> None:
    """Links out, fifos, sockets, odd names, closed folders, deep trees, large files: data, never followed."""
    program = (
        "import os,socket\nsocket.socket(socket.AF_UNIX).bind('sock')\n"
        "open(b'bad\\xff\\xfename','w').write('1')\nopen('new\\nline','w').write('2')\n"
        "open('closed','w').write('3'); os.chmod('closed',0)\n"
        "os.mkdir('shut'); open('shut/in','w').write('4'); os.chmod('shut',0)\n"
        "os.mkdir('deep'); os.chdir('deep')\nfor i in range(300): os.mkdir('x'); os.chdir('x')\n"
    )
    with open_box() as box:
        box.write("/tmp/h.py", program.encode())
        changes = _changes(
            box,
            "mkfifo fifo; ln -s /etc/passwd out; ln -s ../../x up; ln -s a.txt in; ln -s .git/config g; "
            "head -c 5000000 /dev/zero > large; python3 /tmp/h.py",
        )
    found = {change.path: change for change in changes.files}
    for name in ("fifo", "sock", "out", "up", "g", "large"):
        assert found[name].refused, name
        assert found[name].data is None, name
    assert found["in"].data == b"a.txt"
    assert found["in"].mode == stat.S_IFLNK
    assert found["bad\udcff\udcfename"].data == b"1"
    assert found["new\nline"].data == b"2"
    assert found["closed"].data == b"3"
    assert found["shut/in"].data == b"4"
    assert any(change.refused and "deep" in change.refused for change in changes.files)
    assert changes.capped, "a file over the cap does not show as capped"


def check_caps(open_box: Opener) -> None:
    """Numbers of files and bytes are capped, and said to be."""
    with open_box() as box:
        changes = _changes(box, "for i in $(seq 50); do echo $i > f$i; done", max_files=10)
        assert len(changes.files) == 10
        assert changes.capped
        again = box.changes(max_bytes=50)
        assert again.capped
        assert sum(len(change.data or b"") for change in again.files) <= 50
        assert not box.changes().capped


CHECKS = (
    check_read_and_write,
    check_links_stay_in_the_box,
    check_freeze_kills_daemons,
    check_changes,
    check_hostile_changes,
    check_caps,
)
