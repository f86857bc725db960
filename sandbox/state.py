"""Where boxes keep what they leave on disk, and who owns it.

    STATE/boxes/ID/owner.json   written before anything else of the box exists
    STATE/boxes/ID/upper …      what the box wrote

STATE is `BoxSpec.state_dir`, else MIMO_SANDBOX_STATE, else a folder of this user in the temporary folder.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import tempfile
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from sandbox.errors import SandboxError
from sandbox.procs import boot_id, is_alive, read_process

STATE_VARIABLE = "MIMO_SANDBOX_STATE"
_RECORD = "owner.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """Who made a box and what to remove if that process is gone."""

    label: str
    pid: int
    start: int
    boot: str
    pid_namespace: str
    cgroups: list[str] = field(default_factory=list)
    init: int | None = None
    init_start: int | None = None
    host: str | None = None
    container: str | None = None
    """docker: the daemon's address and the container's name."""

    @classmethod
    def of_this_process(cls, label: str) -> Owner:
        """The record of a box that this process is about to make."""
        me = read_process(os.getpid())
        return cls(
            label=label,
            pid=os.getpid(),
            start=me.start if me else 0,
            boot=boot_id(),
            pid_namespace=os.readlink("/proc/self/ns/pid"),
        )

    def is_gone(self) -> bool | None:
        """Whether the owner is dead; None where that cannot be known (another container's process)."""
        if self.boot != boot_id():
            return True
        if self.pid_namespace != os.readlink("/proc/self/ns/pid"):
            return None
        return not is_alive(self.pid, self.start)


def state_dir(given: Path | None = None) -> Path:
    """The state folder, made for this user alone if missing.

    Raises:
        SandboxError: it belongs to somebody else or is a link.
    """
    named = given or os.environ.get(STATE_VARIABLE)
    path = Path(named) if named else Path(tempfile.gettempdir()) / f"mimo-sandbox-{os.geteuid()}"
    (path / "boxes").mkdir(mode=0o700, parents=True, exist_ok=True)
    if not named:
        facts = path.lstat()
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
            raise SandboxError(
                f"{path} belongs to somebody else", hint=f"set {STATE_VARIABLE} to a folder of your own"
            )
        path.chmod(0o700)
    return path.resolve()


def new_box_folder(state: Path, owner: Owner) -> Path:
    """A new folder under `boxes/` that already carries its owner's record."""
    name = secrets.token_hex(8)
    unborn = state / "boxes" / f".{name}"
    unborn.mkdir(mode=0o700)
    (unborn / _RECORD).write_text(json.dumps(asdict(owner)))
    return unborn.rename(state / "boxes" / name)


def record_owner(folder: Path, owner: Owner, **changed: object) -> Owner:
    """The record with `changed` fields, written in one step."""
    owner = replace(owner, **changed)  # type: ignore[arg-type]
    new = folder / f"{_RECORD}.new"
    new.write_text(json.dumps(asdict(owner)))
    new.replace(folder / _RECORD)
    return owner


def read_owner(folder: Path) -> Owner | None:
    """The record of a box's folder, None if there is none or it cannot be read."""
    try:
        return Owner(**json.loads((folder / _RECORD).read_text()))
    except (OSError, ValueError, TypeError):
        return None
