"""What a domain is: where its tasks come from, how one is verified, how an expert solves one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal, Protocol, runtime_checkable

from mimo.harnesses.base import ExpertTurn
from mimo.types import Json, Limits, Task, Verdict, record
from sandbox import open_sandbox
from sandbox.base import BoxSpec, Changes, Sandbox


@record
class Rejected:
    """A task that does not become one, and why (shown, counted, written to rejects.jsonl)."""

    task_id: str
    source: str
    reason: str


@record
class Fault:
    """A mistake to act out: the faulty turns, and one sentence that names the mistake.

    `tests`: whether a run of the visible tests has to show it before it is corrected (`if-room`: where the
    harness leaves a turn for that).
    """

    kind: str
    note: str
    turns: tuple[str, ...]
    tests: Literal["no", "if-room", "yes"] = "no"


class NotCorrectable(ValueError):
    """Nothing can follow these faulty turns; the message says why. The caller counts it and goes on."""


class TaskStore:
    """Paths of a prepared task set: `tasks.jsonl`, `snapshots/<sha256>/`, `private/<key>/`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def snapshot(self, task: Task) -> Path:
        """The read-only work tree (with its rebuilt .git) that a policy's box starts from."""
        return self.root / "snapshots" / task.environment.snapshot

    def private(self, task: Task) -> Path:
        """Hidden tests, reference changes, rubrics: never mounted into a policy's box."""
        return self.root / "private" / task.private


BoxFactory = Callable[[Path, Mapping[str, Path]], Sandbox]
"""`(snapshot, readonly mounts) -> a fresh box`; what a verifier gets instead of a back end."""


OpenSpec = Callable[[BoxSpec], Sandbox]
"""Opens a box where the recipe says; what a domain gets that needs one while it imports."""


def open_local(spec: BoxSpec) -> Sandbox:
    """A box of this machine's bubblewrap."""
    return open_sandbox("local", spec)


CONTEXT = "context"
"""The kind of the agent domain's tasks that need context management."""


def share_kind(task: Task) -> str:
    """The key of `rl_mixed.shares` that the task counts under: its domain, or `context`.

    `context` are the agent domain's families whose name begins with `context-`.
    """
    return CONTEXT if task.domain == "agent" and task.family.startswith(f"{CONTEXT}-") else task.domain


class Domain(Protocol):
    """One domain. `source` is the recipe's entry as plain data; blocking calls."""

    name: ClassVar[str]

    def list_sources(self, source: Mapping[str, Json]) -> Sequence[str]:
        """The opaque ids of the tasks this source will make, in order, without making them (for progress)."""
        ...

    def build(self, source: Mapping[str, Json], task_id: str, folder: Path) -> Path:
        """Make one task folder (Harbor layout + [metadata.mimo]) under `folder`; raises RecipeError."""
        ...

    def import_folder(
        self,
        folder: Path,
        store: TaskStore,
        *,
        limits: Limits,
        history: str,
        cache: Path,
        open_spec: OpenSpec = open_local,
    ) -> Task:
        """Bring a task folder into the store: work tree with git rebuilt, snapshot, private files.

        Args:
            limits: of a policy's box, from the recipe.
            history: past | none.
            cache: MIMO_HOME/cache, where the root file system lives (its digest becomes `image`).
            open_spec: opens the boxes that tests are tried in.

        Raises:
            RecipeError: the folder is no task (no tests, no instruction, ...); the message says which file.
        """
        ...

    def verify(self, task: Task, changes: Changes, store: TaskStore, open_box: BoxFactory) -> Verdict:
        """Judge the changes on a pristine snapshot in a fresh box with the hidden tests."""
        ...

    def reference(self, task: Task, store: TaskStore) -> Changes:
        """The reference solution as changes (for the gate; for the rubric contrast)."""
        ...

    def demonstrates(self, task: Task) -> bool:
        """Whether an expert can be scripted for the task (never for a held-out family)."""
        ...

    def demonstrate(self, task: Task, store: TaskStore, *, harness: str, seed: int) -> Sequence[ExpertTurn]:
        """The expert's turns for the task, spoken in `harness`; `seed` varies the way, not the result."""
        ...


@runtime_checkable
class MistakeExpert(Protocol):
    """A domain whose expert can also act out mistakes and correct them; not every domain has one."""

    def faults(self, task: Task, store: TaskStore, *, harness: str, seed: int) -> Sequence[Fault]:
        """Mistakes that the expert can act out on the task, in an order drawn by `seed`."""
        ...

    def correct(
        self, task: Task, store: TaskStore, *, harness: str, fault: Fault, max_turns: int
    ) -> Sequence[ExpertTurn]:
        """The faulty turns, a turn that names the mistake and corrects it, and the rest of the work.

        May be longer than `max_turns`, which only decides about turns that are not needed.

        Raises:
            NotCorrectable: nothing can follow the faulty turns.
        """
        ...


@runtime_checkable
class PartlyMade(Protocol):
    """A domain that can make some of a source's tasks where this machine lacks what the others need."""

    def lacks(self, source: Mapping[str, Json]) -> Sequence[str]:
        """What is missing here for some of the source's tasks, a word each; nothing is made or opened."""
        ...
