"""What a rollout changed, as content-addressed JSON files: the `diff` field of a record is the file's name.

Policy-written names and bytes: never used as a path on this machine, never given to git.
"""

from __future__ import annotations

import base64
import difflib
import hashlib
import json
from pathlib import Path

from mimo.run_dir.files import write_atomic
from sandbox.base import Changes, FileChange


def changes_digest(changes: Changes) -> str:
    """sha256 over paths, modes, contents, refusals and caps."""
    return hashlib.sha256(_encode(changes)).hexdigest()


def write_changes(folder: Path, changes: Changes) -> str:
    """Keep `changes` under `folder`; returns the digest that names them."""
    data = _encode(changes)
    digest = hashlib.sha256(data).hexdigest()
    path = folder / f"{digest}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data)
    return digest


def read_changes(folder: Path, digest: str) -> Changes:
    """The changes named `digest`; ValueError when the file's content is not what its name says."""
    data = (folder / f"{digest}.json").read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"{folder / digest}.json: content does not match its name")
    row = json.loads(data)
    files = tuple(
        FileChange(
            path=item["path"],
            data=None if item["data"] is None else base64.b64decode(item["data"]),
            mode=item["mode"],
            refused=item["refused"],
        )
        for item in row["files"]
    )
    return Changes(files=files, capped=row["capped"], outside=tuple(row["outside"]))


def unified_diff(changes: Changes, base: dict[str, bytes]) -> str:
    """The changes as text for people; `base` maps path to the snapshot's content (missing = new file)."""
    lines: list[str] = []
    for change in changes.files:
        if change.refused:
            lines.append(f"# refused: {change.path!r}: {change.refused}\n")
            continue
        old = base.get(change.path, b"").decode("utf-8", "replace").splitlines(keepends=True)
        new = (change.data or b"").decode("utf-8", "replace").splitlines(keepends=True)
        target = "/dev/null" if change.data is None else f"b/{change.path}"
        lines += difflib.unified_diff(old, new, f"a/{change.path}", target)
    return "".join(lines)


def _encode(changes: Changes) -> bytes:
    files = [
        {
            "path": item.path,
            "mode": item.mode,
            "refused": item.refused,
            "data": None if item.data is None else base64.b64encode(item.data).decode(),
        }
        for item in changes.files
    ]
    body = {"files": files, "capped": changes.capped, "outside": list(changes.outside)}
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
