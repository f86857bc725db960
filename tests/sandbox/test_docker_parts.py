"""Parts of the back end `docker` that need no daemon: errors, arguments, the filter, streams, archives."""

from __future__ import annotations

import io
import os
import socket
import struct
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from sandbox.base import BoxLimits, BoxSpec, Changes
from sandbox.changes import tree_changes
from sandbox.docker_changes import archive_changes, written_paths
from sandbox.docker_create import host_config
from sandbox.docker_host import require_hosts
from sandbox.docker_shell import DockerShell, _Between
from sandbox.docker_stream import ERR, OUT, Stream
from sandbox.docker_tar import add_tree
from sandbox.docker_warden import Warden
from sandbox.errors import SandboxFileError, SandboxLost, SandboxUnavailable
from sandbox.seccomp import _DENIED, _FAMILIES, _NEW_NAMESPACE, docker_profile
from sandbox.selftest import probe
from sandbox.shell import Output

LIMITS = BoxLimits(wall_s=60, command_s=20, memory_mb=256, processes=64, disk_mb=64, output_bytes=20_000)


def test_no_daemon_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = f"unix://{tmp_path}/none.sock"
    with pytest.raises(
        SandboxUnavailable, match=r"^no Docker daemon answers at unix://.*: No such file"
    ) as caught:
        require_hosts([gone])
    assert "dockerd" in str(caught.value.hint)
    both = rf"^no Docker daemon answers at {gone}: .*; no Docker .* tcp://127.0.0.1:9: Connection refused$"
    with pytest.raises(SandboxUnavailable, match=both):
        require_hosts([gone, "tcp://127.0.0.1:9"])
    monkeypatch.setenv("DOCKER_HOST", gone)
    found = probe("docker")
    assert not found.ok
    assert found.reason.startswith("no Docker daemon answers")
    assert found.hint


@pytest.mark.parametrize("address", ["ssh://me@box", "https://box:2376", "box:2375", ""])
def test_an_address_that_cannot_be_used_says_what_can(address: str) -> None:
    with pytest.raises(SandboxUnavailable, match="no Docker address") as caught:
        require_hosts([address])
    assert "ssh -N -L" in str(caught.value.hint)


def test_every_argument_that_isolates(tmp_path: Path) -> None:
    spec = BoxSpec(rootfs=tmp_path, snapshot=tmp_path, workdir="/repo", limits=LIMITS, runtime="runsc")
    config = host_config(docker.APIClient(version="1.41"), spec)
    expected = {
        "NetworkMode": "none", "CapDrop": ["ALL"], "IpcMode": "private", "Init": True, "Runtime": "runsc",
        "Memory": 256 << 20, "MemorySwap": 256 << 20, "PidsLimit": 71, "ShmSize": 64 << 20,
        "LogConfig": {"Type": "none", "Config": {}},
        "Tmpfs": {"/tmp": "size=67108864,mode=1777,exec,nosuid,nodev"},
    }  # fmt: skip
    assert {name: config[name] for name in expected} == expected
    assert not {"Binds", "CapAdd", "Privileged", "Devices", "PidMode", "UsernsMode"} & set(config)
    assert config["SecurityOpt"][0] == "no-new-privileges"
    assert config["SecurityOpt"][1].startswith("seccomp={")
    assert {limit["Name"]: limit["Hard"] for limit in config["Ulimits"]}["core"] == 0
    assert {"/proc/kcore", "/sys/kernel", "/sys/devices"} <= set(config["MaskedPaths"])


def test_the_filter_denies_what_the_local_one_denies() -> None:
    profile = docker_profile()
    rules = profile["syscalls"]
    assert isinstance(rules, list)
    assert profile["defaultAction"] == "SCMP_ACT_ALLOW"
    assert set(rules[0]["names"]) == set(_DENIED)
    clone = [rule["args"][0] for rule in rules if rule["names"] == ["clone"]]
    assert sum(argument["value"] for argument in clone) == _NEW_NAMESPACE & ~0xFF
    refused = [rule["args"][0] for rule in rules if rule["names"] == ["socket"]]
    for family in range(60):
        hit = any(
            argument["value"] == family if argument["op"] == "SCMP_CMP_EQ" else family > argument["value"]
            for argument in refused
        )
        assert hit == (family not in _FAMILIES), family


def _frame(kind: int, data: bytes) -> bytes:
    return struct.pack(">BxxxL", kind, len(data)) + data


@pytest.mark.parametrize("size", [1, 3, 7, 8, 9, 100])
def test_two_outputs_are_told_apart_however_they_are_cut(size: int) -> None:
    sent = _frame(OUT, b"one") + _frame(ERR, b"two\0") + _frame(OUT, b"") + _frame(OUT, b"three" * 10)
    ours, theirs = socket.socketpair()
    stream = Stream((ours, sent[:5]))
    got = {OUT: b"", ERR: b""}
    with theirs:
        for start in range(5, len(sent), size):
            theirs.sendall(sent[start : start + size])
            for kind, data in stream.exchange(memoryview(b""), 1)[1]:
                got[kind] += data
        while not got[OUT].endswith(b"three" * 10):
            for kind, data in stream.exchange(memoryview(b""), 1)[1]:
                got[kind] += data
    assert got == {OUT: b"one" + b"three" * 10, ERR: b"two\0"}
    assert not stream.ended
    stream.exchange(memoryview(b""), 1)
    assert stream.ended
    stream.close()


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_a_commands_output_is_what_stands_between_its_marks(size: int) -> None:
    output = Output(1000)
    between = _Between("BEGIN-x", ("END-x", "SHELL-END"), output)
    sent = b"noise of an older command BEGIN-BEGIN-xfirst END- BEGIN-x lastEND-xnoise BEGIN-x"
    for start in range(0, len(sent), size):
        between.add(sent[start : start + size])
    assert between.complete
    assert output.text() == "first END- BEGIN-x last"


def test_output_without_an_end_is_kept() -> None:
    output = Output(1000)
    between = _Between("BEGIN-x", ("END-x",), output)
    between.add(b"BEGIN-xkilled in the mid")
    between.finish()
    assert output.text() == "killed in the mid"


class _Box:
    """The far end of a stream, for one order."""

    def __init__(self, answer: bytes) -> None:
        ours, self._theirs = socket.socketpair()
        self.stream = Stream((ours, b""))
        self._answer = answer

    def reply(self) -> bytes:
        """Answer with the order's own token in the place of TOKEN; the order."""
        order = self._theirs.recv(65536)
        token = order.split(b"\0")[1]
        self._theirs.sendall(_frame(OUT, self._answer.replace(b"TOKEN", token)))
        self._theirs.close()
        return order


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"TOKEN\0Permission denied\0TOKEN\0", SandboxFileError),
        (b"0123456789abcdef\0ok\0eA==\0TOKEN\0", SandboxLost),
    ],
)
def test_a_wardens_answer_is_believed_only_with_its_orders_token(
    answer: bytes, error: type[Exception]
) -> None:
    box = _Box(answer)
    warden = Warden(box.stream)
    thread = threading.Thread(target=box.reply)
    thread.start()
    with pytest.raises(error):
        warden.read("/repo/a", 10)
    thread.join()
    warden.close()


def test_a_shell_that_is_gone_says_so() -> None:
    ours, theirs = socket.socketpair()
    shell = DockerShell(Stream((ours, b"")), "/repo")
    theirs.close()
    report = shell.run("true", Output(10), 1.0, lambda: None)
    assert report.box_ended
    assert shell.ended
    shell.close()


def _packed(tree: Path) -> Iterator[bytes]:
    """The daemon's archive of a work folder."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.add(tree, arcname="repo")
    data = packed.getvalue()
    return iter([data[start : start + 1000] for start in range(0, len(data), 1000)])


def _both(tree: Path, snapshot: Path, **caps: int) -> tuple[Changes, Changes]:
    """The changes as a folder shows them and as the daemon's archive does."""
    limits = {"max_files": 200, "max_bytes": 100_000} | caps
    return tree_changes(tree, snapshot, **limits), archive_changes(_packed(tree), snapshot, (), **limits)


def test_only_what_the_archive_lacks_is_a_socket(tmp_path: Path) -> None:
    """Folders too deep to be told are there nevertheless, and must not use up the cap."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    deep = new.joinpath(*["d"] * 150)
    deep.mkdir(parents=True)
    (deep / "f").write_text("x")
    listed = [b"/".join([b"d"] * depth) for depth in range(1, 151)]
    listed += [listed[-1] + b"/f", b"sock"]
    found = archive_changes(_packed(new), old, listed, 5, 1000)
    assert [(change.path, change.refused) for change in found.files] == [
        ("/".join(["d"] * 101), "folders nested too deep"), ("sock", "socket")
    ]  # fmt: skip
    assert not found.capped


def test_an_archive_tells_what_the_folder_tells(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for top in (old, new):
        (top / ".git").mkdir(parents=True)
        (top / "d").mkdir()
        (top / "gone").mkdir()
        for name in ("same", "edited", "touched", "removed", "d/in", "run.sh", "gone/x", "large"):
            (top / name).write_text(f"{name}\n")
        (top / "link").symlink_to("same")
        (top / "turned").symlink_to("same")
    (new / "edited").write_text("EDITED\n")
    (new / "removed").unlink()
    (new / "run.sh").chmod(0o755)
    (new / "turned").unlink()
    (new / "turned").symlink_to("/etc/passwd")
    (new / "gone/x").unlink()
    (new / "gone").rmdir()
    (new / "gone").write_text("a file now\n")
    (new / "large").write_bytes(b"x" * 90_000)
    (new / "more").write_bytes(b"y" * 90_000)
    (new / ".git/HEAD").write_text("x")
    (new / "new").symlink_to("d/in")
    os.mkfifo(new / "fifo")
    (new / os.fsdecode(b"bad\xff")).write_text("1")
    folder, archive = _both(new, old)
    assert archive == folder
    assert {change.path for change in archive.files} >= {
        "gone",
        "gone/x",
        "fifo",
        "turned",
        "bad\udcff",
        "more",
    }
    assert archive.capped


def test_hard_links_in_an_archive_carry_their_content(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for top in (old, new):
        top.mkdir()
        for name in ("a", "b", "z"):
            (top / name).write_text(name)
    (new / "b").unlink()
    (new / "b").hardlink_to(new / "a")
    (new / "c").hardlink_to(new / "a")
    (new / "m").write_text("new")
    (new / "n").hardlink_to(new / "m")
    folder, archive = _both(new, old)
    assert archive == folder
    assert [(change.path, change.data) for change in archive.files] == [
        ("b", b"a"), ("c", b"a"), ("m", b"new"), ("n", b"new")
    ]  # fmt: skip


def test_a_snapshots_link_is_never_followed_by_an_archives_name(tmp_path: Path) -> None:
    """The snapshot has a link where the box has a folder: the link's target is not what is compared."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    (tmp_path / "host").mkdir()
    (tmp_path / "host/secret").write_text("same")
    (old / "x").symlink_to(tmp_path / "host")
    (new / "x").mkdir(parents=True)
    (new / "x/secret").write_text("same")
    folder, archive = _both(new, old)
    assert archive == folder
    assert [change.path for change in archive.files] == ["x", "x/secret"]


def test_the_daemons_list_gives_sockets_and_paths_outside() -> None:
    listed = [
        {"Path": "/repo", "Kind": 0}, {"Path": "/repo/sock", "Kind": 1}, {"Path": "/repo/old", "Kind": 2},
        {"Path": "/opt", "Kind": 0}, {"Path": "/opt/tests/t", "Kind": 1}, {"Path": "/var", "Kind": 0},
        {"Path": "/var/x", "Kind": 1}, {"Path": "/repository", "Kind": 1},
        {"Path": "/sbin/docker-init", "Kind": 1},
    ]  # fmt: skip
    inside, outside = written_paths(listed, "/repo", ("/opt/tests",))
    assert inside == [b"sock"]
    assert outside == ["/var", "/var/x", "/repository"]


def test_a_tree_goes_up_without_owners_times_and_odd_modes(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir(mode=0o700)
    (tmp_path / "d/run").write_text("x")
    (tmp_path / "d/run").chmod(0o4770)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        add_tree(tar, tmp_path, "/opt/tools", 0)
    packed.seek(0)
    with tarfile.open(fileobj=packed) as tar:
        entries = {entry.name: entry for entry in tar}
    assert sorted(entries) == ["opt", "opt/tools", "opt/tools/d", "opt/tools/d/run"]
    assert {(entry.uid, entry.gid, entry.uname, entry.mode) for entry in entries.values()} == {
        (0, 0, "", 0o755)
    }
    assert len({entry.mtime for entry in entries.values()}) == 1
