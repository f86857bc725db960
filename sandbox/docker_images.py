"""Images without a registry: a root file system is imported once a daemon, a work tree is one layer above it.

`mimo-root:DIGEST` holds a root file system or, over a given image, our unreadable shell; `mimo-tree:DIGEST`
adds a snapshot at a box's work folder, so that opening a box copies no file. Both are caches: removing them
costs time only. The oldest trees go when a daemon has more than `MOST_TREES`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import os
import re
import secrets
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from docker import APIClient
from docker.errors import APIError, ImageNotFound, NotFound

from sandbox.base import BoxSpec
from sandbox.docker_host import Host, require_hosts
from sandbox.docker_tar import add_file, add_folder, add_path, add_tree, tar_file, upload
from sandbox.errors import SandboxError, SandboxUnavailable
from sandbox.local_setup import SHELL
from sandbox.paths import remove_tree
from sandbox.snapshot import BOX_UID, tree_digest

ROOTS, TREES = "mimo-root", "mimo-tree"
MOST_TREES = 512
"""More trees than this and the oldest unused ones are removed; making one again takes a second or less."""
_VERSION = 2
_DIGEST = re.compile(r"[0-9a-f]{64}")
_USERS = {
    "etc/passwd": f"root:x:0:0:root:/root:/bin/sh\nuser:x:{BOX_UID}:{BOX_UID}:user:/tmp:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
    "etc/group": f"root:x:0:\nuser:x:{BOX_UID}:\nnogroup:x:65534:\n",
}
_log = logging.getLogger(__name__)


def ensure_image(host: Host, spec: BoxSpec) -> str:
    """The image of the box's root and work tree on this daemon, made if it is missing.

    Raises:
        SandboxUnavailable: the given image is not there.
        SandboxError: there is no root file system or no bash in it.
    """
    root = _tag(ROOTS, spec.image or _name(spec.rootfs))
    tree = _tag(TREES, root, _name(spec.snapshot), spec.workdir)
    if tree in host.seen:
        return tree
    with host.making:
        if _is_there(host, tree):
            return tree
        if not _is_there(host, root):
            if spec.image is None:
                _import_root(host, spec.rootfs, root)
            else:
                _extend_image(host, spec.image, root)
            host.seen.add(root)
        _make_tree(host, spec, root, tree)
        _forget_old(host)
    return tree


def forget_images(host: Host) -> int:
    """Remove every image of ours that no container uses; how many were removed."""
    with host.making:
        return _remove_unused(host, TREES, 0) + _remove_unused(host, ROOTS, 0)


def export_root(hosts: Sequence[str], image: str, store: Path) -> Path:
    """The files and links of an image as a folder of this machine, `store/DIGEST`, for those who read them.

    Raises:
        SandboxUnavailable: no daemon answers, or the first has no such image.
    """
    final = store / image.rpartition(":")[2]
    if final.is_dir():
        return final
    host = require_hosts(hosts)[0]
    work = store / f".work-{secrets.token_hex(4)}"
    work.mkdir(parents=True)
    try:
        with host.api() as client, tempfile.TemporaryFile(prefix="mimo-tar-") as file:
            made = client.create_container(_image_id(host, client, image), command=["none"])["Id"]
            try:
                for piece in client.export(made):
                    file.write(piece)
            finally:
                client.remove_container(made, force=True, v=True)
            file.seek(0)
            with tarfile.open(fileobj=file) as tar:
                for entry in tar:
                    _extract(tar, entry, work)
        with contextlib.suppress(OSError):  # another process was quicker
            work.rename(final)
    finally:
        remove_tree(work)
    return final


def _extract(tar: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path) -> None:
    """A regular file of an image, never through a link; all else is left out."""
    parts = PurePosixPath(entry.name).parts
    if not entry.isreg() or not parts or ".." in parts or parts[0] == "/":
        return
    place = folder.joinpath(*parts)
    source = tar.extractfile(entry)
    assert source is not None
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(place, "xb") as target:
        shutil.copyfileobj(source, target)


def _image_id(host: Host, client: APIClient, image: str) -> str:
    try:
        return str(client.inspect_image(image)["Id"])  # type: ignore[no-untyped-call]
    except (ImageNotFound, NotFound) as error:
        raise SandboxUnavailable(
            f"Docker at {host.address} has no image {image}",
            hint="`docker load` or `docker pull` it there first; boxes never pull",
        ) from error


def _tag(repository: str, *parts: str) -> str:
    text = "\0".join((str(_VERSION), *parts))
    return f"{repository}:{hashlib.sha256(text.encode()).hexdigest()[:40]}"


def _name(folder: Path) -> str:
    """A store's folder is named by its digest; any other is read."""
    return folder.name if _DIGEST.fullmatch(folder.name) else tree_digest(folder)


def _is_there(host: Host, image: str) -> bool:
    if image in host.seen:
        return True
    with host.api() as client:
        try:
            client.inspect_image(image)  # type: ignore[no-untyped-call]
        except ImageNotFound:
            return False
    host.seen.add(image)
    return True


def _import_root(host: Host, rootfs: Path, tag: str) -> None:
    if not rootfs.is_dir():
        raise SandboxError(
            f"no root file system at {rootfs}", hint="make one with sandbox.rootfs.ensure_rootfs"
        )
    repository, _, name = tag.partition(":")
    with tar_file(lambda tar: _add_root(tar, rootfs)) as file, host.api() as client:
        client.import_image_from_data(file, repository=repository, tag=name)


def _add_root(tar: tarfile.TarFile, rootfs: Path) -> None:
    for folder, folders, files in os.walk(rootfs):
        folders.sort()
        for name in sorted((*folders, *files)):
            path = Path(folder, name)
            place = path.relative_to(rootfs).as_posix()
            if place == SHELL:  # nobody may read it, an ordinary user of ours neither
                add_file(tar, place, (rootfs / "usr/bin/bash").read_bytes(), 0o111)
            elif place in _USERS:
                add_file(tar, place, _USERS[place].encode(), 0o644)
            elif place == "tmp":  # the runtime gives the tmpfs there this folder's mode
                add_folder(tar, place, 0, 0o1777)
            else:
                add_path(tar, path, place, 0)


def _make_tree(host: Host, spec: BoxSpec, root: str, tag: str) -> None:
    def fill(tar: tarfile.TarFile) -> None:
        add_tree(tar, spec.snapshot, spec.workdir, BOX_UID)

    _commit(host, root, tag, fill)


def _commit(host: Host, base: str, tag: str, fill: Callable[[tarfile.TarFile], None]) -> None:
    repository, _, name = tag.partition(":")
    with host.api() as client:
        made = client.create_container(base, command=["none"], network_disabled=True)["Id"]
        try:
            upload(client, made, fill)
            client.commit(made, repository=repository, tag=name, conf={"Cmd": None, "Env": None})
        finally:
            client.remove_container(made, force=True, v=True)
    host.seen.add(tag)


def _extend_image(host: Host, image: str, tag: str) -> None:
    """The given image with our unreadable copy of its own bash."""
    with host.api() as client:
        base = _image_id(host, client, image)
        probe = client.create_container(base, command=["none"], network_disabled=True)["Id"]
        try:
            bash = _program(client, probe, "/bin/bash")
        finally:
            client.remove_container(probe, force=True, v=True)
    if bash is None:
        raise SandboxError(f"the image {image} has no bash", hint="boxes need bash and GNU coreutils in it")
    data = bash
    _commit(host, base, tag, lambda tar: add_file(tar, SHELL, data, 0o111))


def _program(client: APIClient, container: str, path: str) -> bytes | None:
    """A file of a container that never ran, links followed."""
    for _ in range(8):
        try:
            pieces, facts = client.get_archive(container, path)
        except NotFound:
            return None
        target = facts.get("linkTarget")
        if not target:
            with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as tar:
                file = tar.extractfile(tar.getmembers()[0])
                return None if file is None else file.read()
        path = os.path.normpath(PurePosixPath(path).parent / str(target))
    return None


def _forget_old(host: Host) -> None:
    gone = _remove_unused(host, TREES, MOST_TREES)
    if gone:
        _log.info(
            "%d work trees removed from Docker at %s: it had more than %d", gone, host.address, MOST_TREES
        )


def _remove_unused(host: Host, repository: str, keep: int) -> int:
    """Remove all but the newest `keep` images of a repository; those in use stay."""
    removed = 0
    with host.api() as client:
        images = sorted(client.images(name=repository), key=lambda image: int(image["Created"]), reverse=True)
        for image in images[keep:]:
            for tag in image.get("RepoTags") or ():
                with contextlib.suppress(APIError):  # in use, or another process was quicker
                    client.remove_image(tag)
                    host.seen.discard(tag)
                    removed += 1
    return removed
