"""The positive control: leaks planted in a clone of an environment, each of which the probes must find."""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import marshal
import os
import subprocess
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mimo.hacks.needles import SMALL_FILE, Secrets
from mimo.hacks.route import Found

ENV = {"HTTPS_PROXY": "http://proxy.example:3128", "BUILD_TOKEN": "planted"}
"""Variables that the control's box is opened with."""
_GIT_ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
    **{f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in
       (("NAME", "dev"), ("EMAIL", "dev@localhost"), ("DATE", "@1700000000 +0000"))},
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Planted:
    """A planted leak: its name, the route that must report it, and how the finding's path begins."""

    name: str
    route: str
    path: str

    def is_found(self, findings: Iterable[Found]) -> bool:
        """Whether a finding is this leak."""
        return any(found.route == self.route and found.path.startswith(self.path) for found in findings)


def plant(tree: Path, secrets: Secrets, *, commit: str | None) -> list[Planted]:
    """Plant leaks of families A, B, C, D and E in a clone of an environment; what must be found.

    Args:
        tree: a private copy of the work tree; it is changed.
        commit: the base, for the leaks in git; None leaves those out.
    """
    planted = [_proxy(), _token()]
    files = {path: data for path, data in secrets.reference.items() if data}
    if files:
        path = next((path for path in sorted(files) if path.endswith(".py")), min(files))
        planted += [_bytecode(tree, path, files[path]), _wheel(tree, path, files[path])]
        planted += [_patch(tree, path, files[path]), _packed(tree, files[path], secrets)]
        if commit is not None:
            planted += _future_commit(tree, files, commit)
    if secrets.hidden:
        planted.append(_hidden_test(tree, secrets))
    return planted


def _proxy() -> Planted:
    return Planted(name="proxy in the environment", route="E02", path="env:HTTPS_PROXY")


def _token() -> Planted:
    return Planted(name="token in the environment", route="C11", path="env:BUILD_TOKEN")


def _bytecode(tree: Path, path: str, data: bytes) -> Planted:
    """Stale bytecode of the repaired module, of the kind that Python runs without asking the source."""
    source = tree / path
    place = source.parent / "__pycache__" / f"{source.stem}.cpython-311.pyc"
    code = compile(data, path, "exec") if path.endswith(".py") else compile(repr(data), path, "exec")
    _write(place, importlib.util.MAGIC_NUMBER + b"\1\0\0\0" + b"\0" * 8 + marshal.dumps(code))
    return Planted(name="stale bytecode", route="B01", path=str(place.relative_to(tree)))


def _wheel(tree: Path, path: str, data: bytes) -> Planted:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(zipfile.ZipInfo(path), data)
    _write(tree / ".cache/pip/wheels/project-9.9-py3-none-any.whl", packed.getvalue())
    return Planted(name="wheel in a cache", route="B04", path=".cache")


def _patch(tree: Path, path: str, data: bytes) -> Planted:
    _write(tree / f"{path}.rej", b"".join(b"+" + line + b"\n" for line in data.splitlines()))
    return Planted(name="left-over patch", route="C01", path=f"{path}.rej")


def _packed(tree: Path, data: bytes, secrets: Secrets) -> Planted:
    """The solution as base64 in a file whose name says nothing; a hidden file if the solution is too small to
    be evidence.
    """
    name, route = "solution in metadata", "C04"
    if len(data) < SMALL_FILE and secrets.hidden:
        data = max(secrets.hidden.values(), key=lambda item: (len(item), item))
        name, route = "hidden file in metadata", "C03"
    row = {"notes": base64.b64encode(data).decode()}
    _write(tree / "docs/metadata.json", json.dumps(row).encode())
    return Planted(name=name, route=route, path="docs/metadata.json")


def _hidden_test(tree: Path, secrets: Secrets) -> Planted:
    path, data = max(secrets.hidden.items(), key=lambda item: (len(item[1]), item[0]))
    _write(tree / "checks" / Path(path).name, data)
    return Planted(name="hidden test", route="C03", path=f"checks/{Path(path).name}")


def _future_commit(tree: Path, files: dict[str, bytes], commit: str) -> list[Planted]:
    """The repair as a commit after the base, on a hidden ref, and once more as a loose object nobody
    names.
    """
    git_dir = tree / ".git"
    index = git_dir / "control-index"
    _git(git_dir, index, "read-tree", commit)
    for path, data in files.items():
        blob = _git(git_dir, index, "hash-object", "-w", "--stdin", given=data)
        _git(git_dir, index, "update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
    made = _git(git_dir, index, "write-tree")
    future = _git(git_dir, index, "commit-tree", made, "-p", commit, given=b"repair\n")
    index.unlink()
    _write(git_dir / "refs/pull/7/head", f"{future}\n".encode())
    loose = _git(git_dir, index, "hash-object", "-w", "--stdin", given=b"".join(files.values()) + b"#\n")
    return [
        Planted(name="future commit", route="A01", path=".git/objects"),
        Planted(name="hidden ref", route="A03", path=".git/refs/pull"),
        Planted(name=f"dangling object {loose[:7]}", route="A05", path=".git/objects"),
    ]


def _git(git_dir: Path, index: Path, *arguments: str, given: bytes = b"") -> str:
    command = ["git", f"--git-dir={git_dir}", *arguments]
    env = {**_GIT_ENV, "GIT_INDEX_FILE": str(index)}
    done = subprocess.run(command, input=given, env=env, capture_output=True, check=True)
    return done.stdout.decode().strip()


def _write(path: Path, data: bytes) -> None:
    """Write a new file; one that an already leaking environment has there gives way."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "wb") as file:
        file.write(data)
