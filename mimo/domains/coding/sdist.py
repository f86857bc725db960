"""A release's source archive: fetched by pip, checked by sha256, unpacked by our own filter."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path, PurePosixPath

from mimo.domains.coding import sdist_fetch
from mimo.errors import FetchFailed, RecipeError, WrongSource
from mimo.recipe.problems import hide_passwords
from mimo.run_dir.files import file_sha256

MAX_FILES = 4000
MAX_BYTES = 64_000_000
FETCH_TIMEOUT_S = 300.0
_log = logging.getLogger(__name__)
_OTHER_HASH = "the archive is not the one this task was made for; correct the recipe only if you trust it"


def fetch(name: str, version: str, sha256: str, cache: Path) -> Path:
    """The archive's path in `cache`, fetched if it is not there.

    Raises:
        FetchFailed: pip could not reach its index, or the download broke off; another try may do.
        WrongSource: the index has no such source archive, or one with another hash (the file is removed).
    """
    cache.mkdir(parents=True, exist_ok=True)
    kept = cache / f"{sha256}.tar.gz"
    if kept.is_file() and file_sha256(kept) == sha256:
        return kept
    inbox = cache / f"{name}-{version}"
    shutil.rmtree(inbox, ignore_errors=True)  # what a broken download left
    inbox.mkdir()
    _download(name, version, sha256, inbox)
    found = sorted(inbox.glob("*.tar.gz"))
    if not found:
        raise FetchFailed(f"{name} {version}: pip said that it is done, but no source archive came")
    got = file_sha256(found[0])
    if got != sha256:
        found[0].unlink()
        raise WrongSource(
            f"{name} {version}: {found[0].name} has sha256 {got}, the recipe says {sha256}",
            hint=_OTHER_HASH,
        )
    found[0].rename(kept)
    return kept


def _download(name: str, version: str, sha256: str, inbox: Path) -> None:
    """Have `sdist_fetch` put the archive into `inbox`; see `fetch` for what it raises."""
    command = [sys.executable, str(Path(sdist_fetch.__file__)), name, version, sha256, str(inbox)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise FetchFailed(f"{name} {version}: pip did not answer in {FETCH_TIMEOUT_S:.0f} s") from error
    said = hide_passwords(done.stderr)
    for line in said.splitlines():
        if line.startswith(sdist_fetch.FALLBACK):
            _log.warning("pip's finder cannot be used, pip download ran instead (%s)", line)
    if done.returncode == 0:
        return
    if "DO NOT MATCH THE HASHES" in said:
        raise WrongSource(
            f"{name} {version}: the archive that pip found has not the recipe's sha256 {sha256}",
            hint=_OTHER_HASH,
        )
    last = "; ".join(said.strip().splitlines()[-3:])[-400:] or "no archive came"
    by_hand = f"python -m pip download --no-deps --no-binary :all: {name}=={version}"
    if done.returncode == sdist_fetch.NOT_THERE:
        raise WrongSource(
            f"{name} {version}: no source archive: {last}",
            hint=f"correct package and version in tasks.sources; by hand: {by_hand}",
        )
    raise FetchFailed(f"{name} {version}: cannot be fetched: {last}", hint=f"by hand: {by_hand}")


def unpack(archive: Path) -> dict[str, bytes]:
    """Path (without the archive's top folder) to content of its regular files.

    Raises:
        RecipeError: a link, device or path that leaves the archive, or more than the caps allow.
    """
    files: dict[str, bytes] = {}
    left = MAX_BYTES
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                path = _inner(archive, member)
                if path is None:
                    continue
                left -= member.size
                if left < 0 or len(files) >= MAX_FILES:
                    raise RecipeError(f"{archive.name}: more than {MAX_FILES} files or {MAX_BYTES} bytes")
                stream = tar.extractfile(member)
                files[path] = stream.read() if stream else b""
    except (tarfile.TarError, EOFError, OSError) as error:
        raise RecipeError(f"{archive.name}: cannot be unpacked: {error}") from error
    return files


def _inner(archive: Path, member: tarfile.TarInfo) -> str | None:
    """The member's path below the top folder; None for folders."""
    pure = PurePosixPath(member.name)
    if pure.is_absolute() or ".." in pure.parts or "\\" in member.name:
        raise RecipeError(f"{archive.name}: {member.name!r} leaves the archive")
    if member.isdir():
        return None
    if not member.isreg():
        raise RecipeError(f"{archive.name}: {member.name!r} is neither a file nor a folder")
    return "/".join(pure.parts[1:]) or None
