"""The reference solution in a task's private files: `solution/files/` and the list of deleted paths."""

from __future__ import annotations

from pathlib import Path

from sandbox.base import Changes, FileChange

FILES = Path("solution/files")
DELETED = Path("solution/deleted.txt")


def reference_files(private: Path) -> dict[str, bytes | None]:
    """Path to new content (None: deleted) of every file the reference changes."""
    root = private / FILES
    files: dict[str, bytes | None] = {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
    deleted = private / DELETED
    gone = deleted.read_text().splitlines() if deleted.is_file() else []
    return files | {path: None for path in gone if path}


def reference_changes(private: Path) -> Changes:
    """The reference as the changes of a rollout."""
    rows = [
        FileChange(path=path, data=data, mode=None if data is None else 0o644)
        for path, data in sorted(reference_files(private).items())
    ]
    return Changes(files=tuple(rows), capped=False)
