"""A task's work tree by its Dockerfile: WORKDIR, and what COPY puts there. Nothing is built or run."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from mimo.domains.coding.imports.importing import CannotImport

_QUIET = ("FROM", "LABEL", "MAINTAINER", "CMD", "ENTRYPOINT", "EXPOSE", "SHELL", "STOPSIGNAL", "ARG")
_DEFAULT_WORKDIR = "/work"
_TAKEN = (
    "/bin",
    "/dev",
    "/etc",
    "/lib",
    "/logs",
    "/opt",
    "/proc",
    "/sys",
    "/tests",
    "/tmp",
    "/usr",
    "/verify",
)


@dataclass(slots=True)
class Built:
    """The work tree: its place in the box, its files, and what the Dockerfile says that is not done."""

    workdir: str
    files: dict[str, bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_dockerfile(context: Path) -> Built:
    """The work tree of the Dockerfile in `context` (a task's `environment/`).

    Raises:
        CannotImport: a work tree that a box cannot have, or a COPY of something that is not there.
    """
    lines = _instructions((context / "Dockerfile").read_text(errors="replace"))
    workdirs = [words for verb, words in lines if verb == "WORKDIR" and words]
    built = Built(workdir=_final(workdirs))
    here = PurePosixPath("/")
    left_out: dict[str, int] = {}
    for verb, words in lines:
        if verb == "WORKDIR" and words:
            here = _inside(here, words[0])
        elif verb in ("COPY", "ADD"):
            _copy(built, context, here, words)
        elif verb not in _QUIET:
            left_out[verb] = left_out.get(verb, 0) + 1
    built.notes += [f"{number} {verb} of the Dockerfile not carried out" for verb, number in left_out.items()]
    return built


def _instructions(text: str) -> list[tuple[str, list[str]]]:
    joined: list[str] = []
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            continue
        if joined and joined[-1].endswith("\\"):
            joined[-1] = joined[-1][:-1] + " " + line.strip()
        elif line.strip():
            joined.append(line.strip())
    return [(verb.upper(), _words(rest)) for verb, _, rest in (line.partition(" ") for line in joined)]


def _words(rest: str) -> list[str]:
    text = rest.strip()
    if text.startswith("["):
        text = text.strip("[]").replace(",", " ")
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _final(workdirs: list[list[str]]) -> str:
    here = PurePosixPath("/")
    for words in workdirs:
        here = _inside(here, words[0])
    place = str(here) if workdirs else _DEFAULT_WORKDIR
    if (
        place == "/"
        or "$" in place
        or any(place == taken or place.startswith(f"{taken}/") for taken in _TAKEN)
    ):
        raise CannotImport(f"WORKDIR {place}: a box cannot have its work tree there")
    return place


def _inside(here: PurePosixPath, path: str) -> PurePosixPath:
    """`path` seen from `here`, without dots."""
    parts: list[str] = []
    for part in (here / path).parts[1:]:
        if part == "..":
            parts = parts[:-1]
        else:
            parts.append(part)
    return PurePosixPath("/", *parts)


def _copy(built: Built, context: Path, here: PurePosixPath, words: list[str]) -> None:
    flags = [word for word in words if word.startswith("--")]
    places = [word for word in words if not word.startswith("--")]
    if (
        len(places) < 2
        or any(flag.startswith("--from") for flag in flags)
        or any("<<" in word for word in places)
    ):
        built.notes.append(f"COPY {' '.join(words)[:80]} not carried out")
        return
    *sources, last = places
    target = _inside(here, last)
    for source in sources:
        found = sorted(context.glob(source.strip("/"))) if source.strip("/.") else [context]
        if not found:
            raise CannotImport(f"the Dockerfile copies {source}, which is not in environment/")
        for path in found:
            several = len(sources) > 1 or len(found) > 1 or last.endswith(("/", ".")) or last == "."
            _put(built, context, path, target / path.name if path.is_file() and several else target)


def _put(built: Built, context: Path, path: Path, target: PurePosixPath) -> None:
    """The files at `path` to `target`, those that land in the work tree."""
    if path.is_symlink() or not path.resolve().is_relative_to(context.resolve()):
        raise CannotImport(f"{path}: a task folder holds only regular files and folders")
    rows = [path] if path.is_file() else [item for item in sorted(path.rglob("*")) if item.is_file()]
    for item in rows:
        if item.is_symlink():
            raise CannotImport(f"{item}: a task folder holds only regular files and folders")
        if item.parent == context and item.name in ("Dockerfile", ".dockerignore"):
            continue
        place = target if path.is_file() else target / item.relative_to(path).as_posix()
        if place.is_relative_to(built.workdir):
            built.files[str(place.relative_to(built.workdir))] = item.read_bytes()
        else:
            built.notes.append(f"{place} lies outside the work tree and is left out")
