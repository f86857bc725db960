"""The back end `docker` on a real daemon: the conformance suite, several hosts, a given image, left-overs."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from docker.errors import NotFound

from sandbox import docker_images, open_sandbox
from sandbox.base import BoxSpec
from sandbox.conformance import CHECKS, Opener
from sandbox.docker import DockerBox
from sandbox.docker_host import default_address, host_at
from sandbox.docker_images import ROOTS, ensure_image, export_root, forget_images
from sandbox.docker_reaper import sweep
from sandbox.errors import SandboxUnavailable
from sandbox.reaper import left_over
from tests.docker_daemon import why_not

pytestmark = [pytest.mark.docker, pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")]


@pytest.fixture(scope="module")
def docker_opener(rootfs: Path, open_work: Path) -> Iterator[Opener]:
    work = open_work / "docker-boxes"
    work.mkdir()
    yield Opener("docker", rootfs, work, many=6)
    assert left_over(state=work / "state") == []
    with host_at(default_address()).api() as client:
        with contextlib.suppress(NotFound):
            client.remove_image("mimo-test:given", force=True)
        mine = client.containers(all=True, filters={"label": f"mimo.box.pid={os.getpid()}"})
        assert mine == [], "containers are left"


def _open(spec: BoxSpec) -> DockerBox:
    return cast(DockerBox, open_sandbox("docker", spec))


@pytest.mark.parametrize("name", CHECKS)
def test_conformance(docker_opener: Opener, name: str) -> None:
    CHECKS[name](docker_opener)


def test_the_containers_limits_are_those_of_the_box(docker_opener: Opener) -> None:
    with _open(docker_opener.spec(memory_mb=200, processes=40, disk_mb=48)) as box:
        with host_at(default_address()).api() as client:
            facts = client.inspect_container(box.describe()["container"])
        config = facts["HostConfig"]
        assert config["NetworkMode"] == "none"
        assert config["CapDrop"] == ["ALL"]
        assert not config["Privileged"]
        assert config["Binds"] is None
        assert config["Memory"] == config["MemorySwap"] == 200 << 20
        assert 40 < config["PidsLimit"] <= 48
        assert config["LogConfig"]["Type"] == "none"
        assert "no-new-privileges" in config["SecurityOpt"]
        assert facts["Config"]["Hostname"] == "sbx"
        assert "0" not in facts["Config"]["User"].split(":")


def test_what_is_written_outside_the_tree_is_told(docker_opener: Opener) -> None:
    """Only where the image lets the box's user write: here a folder of a given image."""
    root = _image_with_an_open_folder(docker_opener)
    with _open(replace(docker_opener.spec(), image=root)) as box:
        assert box.exec("echo x > /open/f; echo y > new; cat /proc/1/comm").exit_code == 0
        box.freeze()
        changes = box.changes()
        assert [change.path for change in changes.files] == ["new"]
        assert changes.outside == ("/open", "/open/f")


def test_a_given_image(docker_opener: Opener, tmp_path: Path) -> None:
    image = _image_with_an_open_folder(docker_opener)
    spec = replace(docker_opener.spec(), image=image, rootfs=tmp_path / "none")
    with _open(spec) as box:
        assert (
            box.exec("cat /from-image; ls /usr/libexec/box-shell").output == "image\n/usr/libexec/box-shell\n"
        )
        assert box.exec("cat /usr/libexec/box-shell").exit_code != 0, "the shell's program can be read"
        seen = box.exec("env; cat /proc/[0-9]*/environ 2>/dev/null").output
        assert "HOME=/tmp" in seen
        assert "of-the-image" not in seen
    files = export_root((), image, tmp_path)
    assert (files / "from-image").read_text() == "image\n"
    assert export_root((), image, tmp_path) == files
    with pytest.raises(SandboxUnavailable, match=r"has no image sha256:0000.*"):
        _open(replace(spec, image="sha256:" + "0" * 64))


def _image_with_an_open_folder(opener: Opener) -> str:
    """The id of an image of the host's root with one file, and one folder that anybody may write."""
    host = host_at(default_address())
    with opener() as box:
        assert box.exec("true").exit_code == 0
    with host.api() as client:
        roots = client.images(name=ROOTS)
        made = client.create_container(roots[0]["Id"], command=["none"])["Id"]
        try:
            data = io.BytesIO()
            with tarfile.open(fileobj=data, mode="w") as tar:
                folder = tarfile.TarInfo("open")
                folder.type, folder.mode = tarfile.DIRTYPE, 0o777
                tar.addfile(folder)
                entry = tarfile.TarInfo("from-image")
                entry.size = 6
                tar.addfile(entry, io.BytesIO(b"image\n"))
            client.put_archive(made, "/", data.getvalue())
            conf = {"Env": ["GIVEN=of-the-image"]}
            return str(client.commit(made, repository="mimo-test", tag="given", conf=conf)["Id"])
        finally:
            client.remove_container(made, force=True)


@contextlib.contextmanager
def _tcp_host() -> Iterator[str]:
    """The daemon's socket offered at a TCP port of this machine."""
    path = default_address().removeprefix("unix://")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=_relay, args=(client, path), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"


def _relay(client: socket.socket, path: str) -> None:
    with client, socket.socket(socket.AF_UNIX) as daemon:
        daemon.connect(path)
        back = threading.Thread(target=_pump, args=(daemon, client), daemon=True)
        back.start()
        _pump(client, daemon)
        back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def test_boxes_are_spread_over_hosts(docker_opener: Opener) -> None:
    with _tcp_host() as second:
        hosts = (default_address(), second)
        spec = replace(docker_opener.spec({"a.txt": b"a\n"}), hosts=hosts)
        with contextlib.ExitStack() as opened:
            boxes = [opened.enter_context(_open(spec)) for _ in range(4)]
            assert sorted(box.describe()["host"] for box in boxes) == sorted(hosts * 2)
            for box in boxes:
                box.write("/repo/b.bin", bytes(range(256)) * 300)
                assert box.exec("cat a.txt; wc -c < b.bin").output == "a\n76800\n"
                box.freeze()
                assert [change.path for change in box.changes().files] == ["b.bin"]


def test_an_unreachable_host_is_named(docker_opener: Opener) -> None:
    spec = replace(docker_opener.spec(), hosts=(default_address(), "tcp://127.0.0.1:9"))
    with pytest.raises(
        SandboxUnavailable, match=r"^no Docker daemon answers at tcp://127.0.0.1:9: Connection re"
    ):
        _open(spec)
    with pytest.raises(SandboxUnavailable, match=r"has no runtime 'none-such'; it has .*runc"):
        _open(replace(docker_opener.spec(), runtime="none-such"))


def test_labels_alone_find_a_dead_owners_container(docker_opener: Opener, open_work: Path) -> None:
    """Also when the folder with the records is gone; a living owner's container stays."""
    work = open_work / "lost"
    work.mkdir()
    program = (
        "import sys, time; from pathlib import Path; from sandbox.conformance import Opener\n"
        "box = Opener('docker', Path(sys.argv[1]), Path(sys.argv[2]))()\n"
        "print('up', flush=True); time.sleep(600)"
    )
    arguments = [sys.executable, "-c", program, str(docker_opener.rootfs), str(work)]
    path = str(Path(__file__).parents[2])
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"up\n"
        name = f"mimo-{left_over(state=work / 'state')[0].name}"
        owner.send_signal(signal.SIGKILL)
    shutil.rmtree(work / "state")
    host = host_at(default_address())
    with docker_opener() as mine:
        assert "conformance" in sweep(host)
        assert mine.exec("echo alive").output == "alive\n"
    with host.api() as client:
        assert client.containers(all=True, filters={"name": name}) == []


def test_an_image_that_was_removed_is_made_again(docker_opener: Opener) -> None:
    host = host_at(default_address())
    spec = docker_opener.spec({"own.txt": b"only here\n"})
    tree = ensure_image(host, spec)
    with host.api() as client:
        client.remove_image(tree)
    assert tree in host.seen
    with _open(spec) as box:
        assert box.exec("cat own.txt").output == "only here\n"


def test_the_oldest_trees_go_and_those_in_use_stay(
    docker_opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under names of its own: other tests use the daemon at the same time."""
    monkeypatch.setattr(docker_images, "TREES", "mimo-test-tree")
    monkeypatch.setattr(docker_images, "MOST_TREES", 1)
    host = host_at(default_address())
    with _open(docker_opener.spec({"a": b"1"})) as box:
        for name in ("b", "c"):
            ensure_image(host, docker_opener.spec({name: b"1"}))
        with host.api() as client:
            assert len(client.images(name="mimo-test-tree")) == 2, "the oldest in use, and the newest"
        assert box.exec("cat a").output == "1"
    monkeypatch.setattr(docker_images, "ROOTS", "mimo-test-root")
    assert forget_images(host) == 2
    with host.api() as client:
        assert client.images(name="mimo-test-tree") == []
