"""Closing findings on a copy of the work tree; git is rebuilt and the snapshot made by the caller."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from mimo.hacks.route import Found
from mimo.hacks.scene import SOURCES, Scene
from mimo.hacks.tables import words

_KEPT = SOURCES + words(
    """
    .jsx .tsx .mjs .cjs .vue .svelte .hh .hpp .hxx .cxx .inl .cu .m .mm .cs .fs .vb .kt .kts .scala
    .groovy .swift .dart .php .pl .pm .lua .r .jl .ex .exs .erl .hs .ml .clj .lisp .el .asm .s .f90 .pyi
    .pyx .pxd .ipynb .sh .bash .ps1 .bat .sql .proto .html .htm .css .scss .less .svg .xml .json .yaml
    .yml .ini .in .txt .adoc .tex .cmake .mk .gradle .lock
    """
)
"""Endings of text that is what a task is, whatever their case; so is text in a file without an ending."""


@dataclass(kw_only=True)
class Scrub:
    """A copy being cleaned. `rebuild` and `squash` ask for a new `.git` from the base commit (with its
    history,
    or as one commit), `without` for one that lacks these paths of the base; `drop_env` names variables of
    the task to drop. The routes' rules fill them.
    """

    root: Path
    scene: Scene
    rebuild: bool = False
    squash: bool = False
    without: set[str] = field(default_factory=set)
    drop_env: set[str] = field(default_factory=set)

    def rebuild_git(self, found: Found) -> str:
        """Rule: a new `.git` with nothing but what the base commit reaches."""
        self.rebuild = True
        return f"{found.route}: .git rebuilt from the base commit"

    def squash_git(self, found: Found) -> str:
        """Rule: a new `.git` of one commit."""
        self.rebuild = self.squash = True
        return f"{found.route}: history cut to one commit"

    def remove(self, found: Found) -> str:
        """Rule: the base's file comes back; what the base does not have goes, and folders left empty by
        it. Where the base's own file is the leak, the base is made anew without it.

        Raises:
            ValueError: that file is text of the project, by its name, or one that the reference changes: it
                is what the task is.
        """
        path = found.path.split("!")[0]
        target = self._inside(path)
        base = self.scene.base or {}
        if path in self.without:
            return f"{found.route}: removed from the base, which is one commit now"
        if path in base and base[path].mode in ("100644", "100755") and self.scene.git is not None:
            ((_, data),) = self.scene.git.contents([base[path].oid])
            if target.is_file() and not target.is_symlink() and target.read_bytes() == data:
                return self._without(found, path, target)
            _delete(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            target.chmod(0o755 if base[path].mode == "100755" else 0o644)
            return f"{found.route}: base content restored"
        _delete(target)
        self._drop_empty(target.parent)
        return f"{found.route}: removed"

    def _without(self, found: Found, path: str, target: Path) -> str:
        name = path.rpartition("/")[2].lower()
        text = name.endswith(_KEPT) or ("." not in name and b"\0" not in target.read_bytes())
        if text or path in self.scene.secrets.reference:
            raise ValueError(f"the base commit's own {path} holds it; take it out of the task's source")
        _delete(target)
        self._drop_empty(target.parent)
        self.without.add(path)
        return f"{found.route}: removed from the base, which is one commit now"

    def drop_variable(self, found: Found) -> str:
        """Rule: the task no longer sets the variable `env:NAME`."""
        self.drop_env.add(found.path.removeprefix("env:"))
        return f"{found.route}: variable dropped"

    def normalise(self, found: Found) -> str:
        """Rule: nothing to do here, the new snapshot writes owners, modes and times anew."""
        return f"{found.route}: times, owners and modes made uniform"

    def _inside(self, path: str) -> Path:
        """`path` below the copy; its folders must be real ones, so that nothing outside is touched."""
        target = self.root
        parts = [part for part in path.split("/") if part]
        if not parts or ".." in parts:
            raise ValueError(f"not a path of the work tree: {path!r}")
        for part in parts[:-1]:
            target = target / part
            if target.is_symlink():
                raise ValueError(f"a link on the way to {path!r}")
        return target / parts[-1]

    def _drop_empty(self, folder: Path) -> None:
        while folder != self.root and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent


def _delete(target: Path) -> None:
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
