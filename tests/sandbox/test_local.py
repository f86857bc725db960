from __future__ import annotations

import json
import os
import select
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox import SandboxError, SandboxUnavailable, open_sandbox
from sandbox.conformance import Opener
from sandbox.paths import remove_tree, used_bytes
from sandbox.reaper import left_over, reap
from sandbox.seccomp import filter_program
from sandbox.selftest import probe
from sandbox.shell import Output
from sandbox.state import Owner, new_box_folder, read_owner, record_owner, state_dir


def test_an_unknown_back_end_names_the_known_ones(opener: Opener) -> None:
    with pytest.raises(SandboxError, match="podman") as caught:
        open_sandbox("podman", opener.spec())
    assert "local" in (caught.value.hint or "")


def test_without_bubblewrap_the_package_is_named(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SandboxUnavailable) as caught:
        open_sandbox("local", opener.spec())
    assert caught.value.hint == "apt-get install bubblewrap"
    assert probe("local").hint == "apt-get install bubblewrap"
    assert not probe("local").ok


def test_probe_says_how_boxes_are_made() -> None:
    found = probe("local")
    assert found.ok, found
    assert found.details["tree"] in ("overlay", "copy")
    assert found.details["limits"].startswith(("cgroup", "watcher"))


def test_a_bad_spec_leaves_nothing(opener: Opener, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="no root file system"):
        open_sandbox("local", replace(opener.spec(), rootfs=tmp_path / "none"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(SandboxError):
        open_sandbox("local", replace(opener.spec(), rootfs=tmp_path / "empty"))
    with pytest.raises(SandboxError):
        open_sandbox("local", replace(opener.spec(), readonly={"/usr/none/x": tmp_path}))
    with pytest.raises(SandboxError, match="no snapshot"):
        open_sandbox("local", replace(opener.spec(), snapshot=tmp_path / "none"))
    assert left_over(state=opener.state) == []


def test_the_output_keeps_first_and_last_bytes() -> None:
    output = Output(10)
    for piece in (b"01234", b"56789"):
        output.add(piece)
    assert (output.text(), output.truncated) == ("0123456789", False)
    output.add(b"abc" * 100_000 + b"vwxyz")
    assert output.truncated
    assert output.text() == "01234\n[... 300000 bytes left out ...]\nvwxyz".replace(
        "300000", str(300_015 - 10)
    )


def test_the_filter_checks_the_architecture_first() -> None:
    for machine, arch in (("x86_64", 0xC000003E), ("aarch64", 0xC00000B7)):
        program = filter_program(machine)
        code = [struct.unpack("HBBI", program[i : i + 8]) for i in range(0, len(program), 8)]
        assert code[0] == (0x20, 0, 0, 4)
        assert code[1][3] == arch
        for at, (operation, yes, no, _value) in enumerate(code):
            if operation & 7 == 5:  # every jump lands inside
                assert at + 1 + max(yes, no) < len(code)
    with pytest.raises(SandboxUnavailable):
        filter_program("riscv64")


def test_reaping_spares_the_living_and_takes_the_dead(tmp_path: Path) -> None:
    state = state_dir(tmp_path / "state")
    mine = Owner.of_this_process("run-1")
    alive = new_box_folder(state, mine)
    dead = new_box_folder(state, replace(mine, label="run-2", start=1))
    other_boot = new_box_folder(state, replace(mine, label="run-3", boot="x"))
    elsewhere = new_box_folder(state, replace(mine, label="run-4", start=1, pid_namespace="pid:[1]"))
    (dead / "upper/deep").mkdir(parents=True, mode=0o000)
    assert reap("run-3", state) == ["run-3"]
    assert not other_boot.exists()
    assert reap("", state) == ["run-2"]
    assert left_over("", state) == sorted([alive, elsewhere])
    assert record_owner(alive, mine, init=7) == read_owner(alive)


def test_two_reapers_at_once(tmp_path: Path) -> None:
    state = state_dir(tmp_path / "state")
    dead = replace(Owner.of_this_process("run"), start=1)
    for _ in range(60):
        (new_box_folder(state, dead) / "upper").mkdir()
    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(reap, "", state) for _ in range(4)]
    assert sum(len(item.result()) for item in done) >= 60
    assert left_over("", state) == []


def test_measuring_and_removing_odd_trees(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    folder = os.open(top, os.O_RDONLY)
    for _ in range(400):
        os.mkdir("x" * 20, dir_fd=folder)
        inner = os.open("x" * 20, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    (tmp_path / "kept").write_text("kept")
    (top / "link").symlink_to(tmp_path)
    (top / "shut").mkdir(mode=0o000)
    (top / "f").write_bytes(b"x" * 100_000)
    assert used_bytes(top) > 400 * 1024 + 100_000
    remove_tree(top)
    assert not top.exists()
    assert (tmp_path / "kept").exists()


def test_no_descriptor_or_child_of_the_owner_reaches_the_launcher(opener: Opener) -> None:
    """Forked copies of the owner do not keep its boxes alive."""
    script = (
        "import os,sys,time\nfrom pathlib import Path\nfrom sandbox.conformance import Opener\n"
        "box = Opener('local', Path(sys.argv[1]), Path(sys.argv[2]))()\n"
        "pid = os.fork()\nif pid == 0: time.sleep(20); os._exit(0)\n"
        "import json; print(json.dumps([pid, box._process.init]), flush=True); os._exit(9)\n"
    )
    done = subprocess.Popen(
        [sys.executable, "-c", script, str(opener.rootfs), str(opener.work)], stdout=subprocess.PIPE
    )
    assert done.stdout is not None
    child, init = json.loads(done.stdout.readline())
    done.wait()
    try:
        handle = os.pidfd_open(init)
    except ProcessLookupError:
        handle = -1
    if handle >= 0:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        assert poll.poll(5000), "the box outlives its owner"
        os.close(handle)
    os.kill(child, 9)
    done.stdout.close()
    assert reap("", opener.state) == ["conformance"]
