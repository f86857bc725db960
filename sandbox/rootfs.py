"""A root file system made from the host, without a registry: Python and its standard library, bash, core
tools, git.

No site-packages, no tests, no caches, no host files. One folder per content, built once; the same folder
serves bubblewrap and `docker import`. Python finds itself (it lies at /usr), so no PYTHONHOME or
LD_LIBRARY_PATH is needed.
"""

from __future__ import annotations

import compileall
import fcntl
import hashlib
import importlib.metadata
import os
import py_compile
import secrets
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from sandbox.errors import SandboxUnavailable
from sandbox.local_setup import SHELL
from sandbox.paths import remove_tree

_VERSION = 1
_TOOLS = (
    "[ arch awk b2sum base32 base64 basename bash cat chgrp chmod chown cksum cmp comm cp csplit cut date "
    "dd df diff diff3 dircolors dirname du echo egrep env expand expr factor false fgrep find fmt fold "
    "git grep groups gunzip gzip head hostname id install join kill link ln logname ls make md5sum mkdir "
    "mkfifo mktemp mv nice nl nohup nproc numfmt od paste patch pathchk pr printenv printf ps ptx pwd "
    "readlink realpath rm rmdir sdiff sed seq setsid sha1sum sha224sum sha256sum sha384sum sha512sum "
    "shred shuf sleep sort split stat stdbuf stty sum sync tac tail tar tee test timeout touch tr true "
    "truncate tsort tty uname unexpand uniq unlink uptime users wc which who whoami xargs yes zcat "
)
_REQUIRED = ("bash", "cat", "git", "grep", "ls", "sed", "find", "diff")
_NOT_FROM_STDLIB = {
    "__pycache__", "dist-packages", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "sitecustomize.py",
    "site-packages", "test", "tests", "tkinter", "turtledemo", "turtle.py",
}  # fmt: skip
_TEST_TOOLS = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
_ETC = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/tmp:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
    "group": "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost sbx\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "gitconfig": "[safe]\n\tdirectory = *\n[user]\n\tname = user\n\temail = user@localhost\n"
    "[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n",
}


def _python() -> Path:
    return Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))


def _libraries(programs: list[Path]) -> dict[Path, Path]:
    """Target (relative to the root) to source of every shared library the programs load, loader included."""
    arguments = [str(program) for program in programs]
    text = subprocess.run(["ldd", *arguments], capture_output=True, text=True, check=False).stdout
    sources: set[Path] = set()
    for line in text.splitlines():
        words = line.split()
        sources |= {Path(word) for word in words if word.startswith("/") and not word.endswith(":")}
    system = next((path.parent for path in sources if path.name == "libc.so.6"), Path("/usr/lib"))
    standard = ("/lib", "/usr/lib", "/lib64", "/usr/lib64")
    found = {}
    for source in sources:
        place = source.parent if str(source).startswith(standard) else system
        target = str(place / source.name).lstrip("/")
        found[Path(target if target.startswith("usr/") else f"usr/{target}")] = source.resolve()
    return found


def _stdlib() -> Iterator[tuple[Path, Path]]:
    source = Path(sysconfig.get_path("stdlib"))
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for folder, folders, files in os.walk(source):
        folders[:] = sorted(set(folders) - _NOT_FROM_STDLIB)
        if Path(folder).name.startswith("config-"):
            folders.clear()
            continue
        for file in sorted(set(files) - _NOT_FROM_STDLIB):
            path = Path(folder, file)
            if path.is_file() and not file.startswith(("_tkinter", "_test", "_ctypes_test", "xxlimited")):
                yield Path("usr/lib", name) / path.relative_to(source), path.resolve()


def _files() -> dict[Path, Path]:
    """Target (relative to the root) to source of every file that is copied."""
    found: dict[Path, Path] = {}
    for name in _TOOLS.split():
        source = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
        if source:
            found[Path("usr/bin", name)] = Path(os.path.realpath(source))
    missing = [name for name in _REQUIRED if Path("usr/bin", name) not in found]
    if missing:
        raise SandboxUnavailable(
            f"not on this machine: {', '.join(missing)}", hint=f"install {' '.join(missing)}"
        )
    found[Path("usr/bin/sh")] = found[Path(SHELL)] = found[Path("usr/bin/bash")]
    found[Path(f"usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")] = _python()
    found |= dict(_stdlib())
    locale = Path("/usr/lib/locale/C.utf8")
    for path in locale.rglob("*") if locale.is_dir() else ():
        if path.is_file():
            found[path.relative_to("/")] = path
    return found


def _with_libraries(files: dict[Path, Path]) -> dict[Path, Path]:
    return _libraries([source for source in files.values() if _is_elf(source)]) | files


def _signature(files: dict[Path, Path]) -> str:
    """A quick name for the same unchanged files of the host: finds the digest without reading them all."""
    digest = hashlib.sha256(f"{_VERSION}\0{sorted(_ETC.items())}\0".encode())
    for target, source in sorted(files.items()):
        facts = source.stat()
        digest.update(f"{target} {source} {facts.st_size} {facts.st_mtime_ns} {facts.st_ino}\0".encode())
    return digest.hexdigest()


def _is_elf(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def _digest(files: dict[Path, Path]) -> str:
    digest = hashlib.sha256(f"mimo root {_VERSION}\0{sorted(_ETC.items())}\0".encode())
    for target, source in sorted(files.items()):
        with open(source, "rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{target} {content}\0".encode())
    return digest.hexdigest()


def ensure_rootfs(store_dir: Path) -> Path:
    """The folder of the root file system, `store_dir/DIGEST`, built if it is missing; the name is its digest.

    Raises:
        SandboxUnavailable: a program that a box needs is not installed.
    """
    store_dir.mkdir(parents=True, exist_ok=True)
    files = _files()
    known = store_dir / f".known-{_signature(files)}"
    if known.is_file() and (store_dir / known.read_text()).is_dir():
        return store_dir / known.read_text()
    files = _with_libraries(files)
    final = store_dir / _digest(files)
    with open(store_dir / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not final.is_dir():
            work = store_dir / f".work-{secrets.token_hex(4)}"
            try:
                _build(work, files)
                work.rename(final)
            finally:
                remove_tree(work)
        new = known.with_suffix(".new")
        new.write_text(final.name)
        new.replace(known)
    return final


def rootfs_digest(rootfs: Path) -> str:
    """The digest under which `ensure_rootfs` keeps it, to record as the image of a box."""
    return rootfs.name


def _build(root: Path, files: dict[Path, Path]) -> None:
    linked: dict[Path, Path] = {}
    for target, source in sorted(files.items()):
        place = root / target
        place.parent.mkdir(parents=True, exist_ok=True)
        if source in linked and str(target) != SHELL:
            place.symlink_to(f"/{linked[source]}")
            continue
        shutil.copyfile(source, place)
        place.chmod(0o755 if os.access(source, os.X_OK) else 0o644)
        linked.setdefault(source, target)
    (root / SHELL).chmod(0o111)
    for name in ("bin", "sbin", *{target.parts[1] for target in files if target.parts[1].startswith("lib")}):
        (root / "usr" / name).mkdir(exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for name in ("python3", "python"):
        (root / "usr/bin" / name).symlink_to(f"python{version}")
    for name, text in _ETC.items():
        (root / "etc").mkdir(exist_ok=True)
        (root / "etc" / name).write_text(text)
    for name in ("usr/local/bin", "usr/share/git-core/templates", "usr/lib/git-core"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("proc", "dev", "tmp"):
        (root / name).mkdir()
    _compile(root / f"usr/lib/python{version}", f"/usr/lib/python{version}")


def _compile(folder: Path, seen_as: str) -> None:
    """Bytecode that does not depend on times; the boxes cannot write it themselves."""
    compileall.compile_dir(
        folder,
        ddir=seen_as,
        quiet=2,
        workers=min(4, os.cpu_count() or 1),
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )


def build_test_tools(dest: Path) -> Path:
    """`dest`, a folder with pytest and its pure Python dependencies from the running environment, for
    PYTHONPATH.

    Meant for the verifier's box (`BoxSpec.readonly`); an existing folder is left as it is.

    Raises:
        SandboxUnavailable: one of them is not installed here.
    """
    if dest.is_dir():
        return dest
    work = dest.with_name(f".{dest.name}-{secrets.token_hex(4)}")
    try:
        for name in _TEST_TOOLS:
            _copy_distribution(name, work)
        _compile(work, "/opt/test-tools")
        work.rename(dest)
    except OSError:
        if not dest.is_dir():
            raise
    finally:
        remove_tree(work)
    return dest


def _copy_distribution(name: str, target: Path) -> None:
    try:
        files = importlib.metadata.files(name) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise SandboxUnavailable(f"{name} is not installed", hint=f"pip install {name}") from error
    for file in files:
        if ".." in file.parts or file.suffix in (".pyc", ".so") or file.name in ("RECORD", "direct_url.json"):
            continue
        place = target / file
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(str(file.locate()), place)
