"""One environment from its first probe round to its attestation, or to quarantine with a reason."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from mimo.domains import load_domain
from mimo.domains.base import TaskStore
from mimo.errors import StageFailed
from mimo.hacks.catalogue import PROBES_VERSION
from mimo.hacks.controls import ENV, Planted, plant
from mimo.hacks.git_view import GitError
from mimo.hacks.needles import Needles, Secrets
from mimo.hacks.probe import CannotScrub, Cleaned, find_leaks, leaks_only, look_inside, scrub_copy
from mimo.hacks.route import Found
from mimo.hacks.scene import Expected, Scene, open_scene
from mimo.run_dir.outputs import copy_tree
from mimo.stages.base import StageContext
from mimo.stages.tasks import box_opener, box_root
from mimo.types import Attestation, LeakReport, Task, Verdict
from sandbox.base import Changes
from sandbox.errors import SandboxError
from sandbox.paths import remove_tree
from sandbox.snapshot import snapshot_tree, tree_digest

_NOTHING = Changes(files=(), capped=False)
_CANDIDATES = 8
_MOST_NAMED = 3
CONTROL = "control"
"""The task id of the control's report."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Probed:
    """The cleaned task, or the reason of its quarantine; every round's report; wall seconds."""

    task: Task | None
    reason: str | None
    reports: tuple[LeakReport, ...]
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class _Round:
    """What one round found; with leaks, the cleaned copy or why there is none."""

    findings: list[Found]
    needles: Needles
    cleaned: Cleaned | None = None
    refusal: str | None = None

    def report(self, task_id: str, number: int) -> LeakReport:
        return LeakReport(
            task_id=task_id,
            round=number,
            findings=tuple(found.record() for found in self.findings),
            fixes=self.cleaned.fixes if self.cleaned else (),
            controls={},
        )


class EnvironmentProbe:
    """Probes environments of the prepared set into this stage's own store; used from several threads."""

    def __init__(self, ctx: StageContext) -> None:
        self.rules = ctx.recipe.probe_hacks
        self.scratch = ctx.scratch
        self.source = TaskStore(ctx.inputs["prepare-env"])
        self.store = TaskStore(ctx.out)
        self.open_box = box_opener(ctx)
        self.image = box_root(ctx)

    def clean(self, task: Task) -> Probed:
        """Probe, scrub and probe again."""
        started = time.monotonic()
        reports: list[LeakReport] = []
        try:
            self._bring(task)
            task, reason = self._rounds(task, reports)
        except (SandboxError, GitError) as error:
            reason = f"the probe did not work: {type(error).__name__}: {error}"
        seconds = round(time.monotonic() - started, 3)
        kept = self._attested(task) if reason is None else None
        return Probed(task=kept, reason=reason, reports=tuple(reports), seconds=seconds)

    def control(self, tasks: Sequence[Task]) -> LeakReport:
        """A clone of one environment with planted leaks: which were found; all found ones are closed again.

        Raises:
            StageFailed: a planted leak that was found could not be scrubbed, or is still there afterwards.
        """
        task = self._fit_for_control(tasks)
        secrets = secrets_of(task, self.source)
        with self._folder("control") as folder:
            tree, store = folder / "tree", TaskStore(folder)
            shutil.copytree(self.source.snapshot(task), tree, symlinks=True)
            planted = plant(tree, secrets, commit=task.base_commit)
            environment = replace(
                task.environment,
                snapshot=snapshot_tree(tree, folder / "snapshots"),
                env={**task.environment.env, **ENV},
            )
            leaky = replace(task, environment=environment)
            seen = self._round(leaky, store, secrets, None, folder)
            found = {f"{item.route} {item.name}": item.is_found(seen.findings) for item in planted}
            if all(found.values()):
                self._is_closed(leaky, seen, planted, store)
        return replace(seen.report(CONTROL, 0), controls=found)

    def _is_closed(self, leaky: Task, seen: _Round, planted: Sequence[Planted], store: TaskStore) -> None:
        if seen.cleaned is None:
            raise StageFailed(f"the planted leaks cannot be scrubbed: {seen.refusal}")
        task = _after(leaky, seen.cleaned, store)
        again = self._round(task, store, secrets_of(leaky, self.source), seen.needles, store.root)
        left = [f"{item.route} {item.name}" for item in planted if item.is_found(again.findings)]
        if left:
            raise StageFailed(
                f"scrubbing did not close planted leaks: {', '.join(left)}", hint="a scrub rule is broken"
            )

    def _fit_for_control(self, tasks: Sequence[Task]) -> Task:
        """The first task whose reference changes Python and whose environment has no leak of its own."""
        if not tasks:
            raise StageFailed("the prepared set has no task", hint="see rejects.jsonl of prepare-env")
        fit = [task for task in tasks if self._repairs_python(task)] or list(tasks)
        for task in fit[:_CANDIDATES]:
            with self._folder("candidate") as folder:
                seen = self._round(task, self.source, secrets_of(task, self.source), None, folder)
                if not leaks_only(seen.findings):
                    return task
        return fit[0]

    def _repairs_python(self, task: Task) -> bool:
        reference = load_domain(task.domain).reference(task, self.source)
        return any(change.path.endswith(".py") and change.data for change in reference.files)

    def _rounds(self, task: Task, reports: list[LeakReport]) -> tuple[Task, str | None]:
        """The task after its last round, and why it is quarantined if it is."""
        secrets, needles, clean = secrets_of(task, self.store), None, 0
        for number in range(1, self.rules.max_rounds + 1):
            with self._folder("round") as folder:
                seen = self._round(task, self.store, secrets, needles, folder)
                reports.append(seen.report(task.task_id, number))
                needles = seen.needles
                if seen.refusal is not None:
                    return task, seen.refusal
                clean = 0 if seen.cleaned else clean + 1
                if clean == self.rules.clean_rounds:
                    return task, None
                if seen.cleaned is not None:
                    before, task = task, _after(task, seen.cleaned, self.store)
                    problem = "nothing has changed" if task == before else self._gate(task)
                    if problem is not None:
                        return task, f"after scrubbing {_named(seen.findings)}, {problem}"
        return task, f"not {self.rules.clean_rounds} clean rounds in a row within {self.rules.max_rounds}"

    def _round(
        self, task: Task, store: TaskStore, secrets: Secrets, needles: Needles | None, folder: Path
    ) -> _Round:
        """One probe round on the snapshot and in a fresh box of it; leaks are scrubbed on a copy in
        `folder`.
        """
        snapshot = store.snapshot(task)
        expected = Expected(workdir=task.environment.workdir, env=task.environment.env)
        with open_scene(snapshot, task.base_commit, secrets, needles=needles, expected=expected) as scene:
            scene.image = self.image
            with self.open_box(task, snapshot, {}) as box:
                scene.box = look_inside(box)
            findings = [*find_leaks(scene), *_touched_by_us(snapshot)]
            leaks = leaks_only(findings)
            if not leaks:
                return _Round(findings=findings, needles=scene.needles)
            return _scrubbed(scene, findings, leaks, folder)

    def _gate(self, task: Task) -> str | None:
        """Why the scrubbed environment is no task any more, or None."""
        domain = load_domain(task.domain)

        def verdict(changes: Changes) -> Verdict:
            return domain.verify(
                task, changes, self.store, lambda snapshot, mounts: self.open_box(task, snapshot, mounts)
            )

        good = verdict(domain.reference(task, self.store))
        if not good.passed or good.tampered:
            return "the reference solution does not pass"
        return "an empty change passes" if verdict(_NOTHING).passed else None

    def _attested(self, task: Task) -> Task:
        attestation = Attestation(
            snapshot=task.environment.snapshot,
            probes_version=PROBES_VERSION,
            clean_rounds=self.rules.clean_rounds,
            verdict="clean",
        )
        return replace(task, attestation=attestation)

    def _bring(self, task: Task) -> None:
        """The task's snapshot and private files in this stage's store."""
        made = snapshot_tree(self.source.snapshot(task), self.store.root / "snapshots")
        if made != task.environment.snapshot:
            raise SandboxError(f"snapshot {task.environment.snapshot} of {task.task_id} has changed: {made}")
        target = self.store.private(task)
        if target.exists():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._folder("private") as folder:
            copy_tree(self.source.private(task), folder / "copy")
            try:
                (folder / "copy").rename(target)
            except OSError:
                if not target.is_dir():
                    raise

    @contextmanager
    def _folder(self, prefix: str) -> Iterator[Path]:
        folder = Path(tempfile.mkdtemp(dir=self.scratch, prefix=f"{prefix}-"))
        try:
            yield folder
        finally:
            remove_tree(folder)


def secrets_of(task: Task, store: TaskStore) -> Secrets:
    """What must not be in the environment: the reference's files, everything private, the task's names."""
    reference = load_domain(task.domain).reference(task, store)
    private = store.private(task)
    known = {change.data for change in reference.files}
    hidden = {
        path.relative_to(private).as_posix(): data
        for path in sorted(private.rglob("*"))
        if path.is_file() and (data := path.read_bytes()) not in known
    }
    return Secrets(
        reference={change.path: change.data for change in reference.files},
        hidden=hidden,
        ids=(task.task_id, task.environment.snapshot, task.private),
    )


def _named(findings: Sequence[Found]) -> str:
    """Route and path of the first leaks."""
    leaks = [f"{found.route} {found.path}" for found in leaks_only(findings)]
    more = f" and {len(leaks) - _MOST_NAMED} more" if len(leaks) > _MOST_NAMED else ""
    return ", ".join(leaks[:_MOST_NAMED]) + more


def _scrubbed(scene: Scene, findings: list[Found], leaks: list[Found], folder: Path) -> _Round:
    try:
        cleaned = scrub_copy(scene, leaks, folder)
    except CannotScrub as refusal:
        return _Round(findings=findings, needles=scene.needles, refusal=str(refusal))
    return _Round(findings=findings, needles=scene.needles, cleaned=cleaned)


def _touched_by_us(snapshot: Path) -> Iterator[Found]:
    """D12: probing must leave the snapshot as it was."""
    if tree_digest(snapshot) != snapshot.name:
        yield Found(route="D12", path=".", evidence=b"the snapshot has changed", severity="critical")


def _after(task: Task, cleaned: Cleaned, store: TaskStore) -> Task:
    """The task on the cleaned copy's snapshot."""
    env = {name: value for name, value in task.environment.env.items() if name not in cleaned.drop_env}
    snapshot = snapshot_tree(cleaned.tree, store.root / "snapshots")
    environment = replace(task.environment, snapshot=snapshot, env=env)
    return replace(task, base_commit=cleaned.commit, environment=environment)
