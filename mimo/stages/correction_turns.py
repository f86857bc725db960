"""Demonstrations with a mistake in them: which ones, what is played, and which of them may be trained on.

A mistake is the expert's own (a seeded share of the demonstrations) or a recorded one, from the corrections
file of an earlier run's audit. It is played in the task's box, the tool answers, and the expert names it,
corrects it and goes on. Its tokens stay in the record with loss mask False: seen, never a target. What is not
played or not kept is a row with its reason.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mimo.domains import load_domain
from mimo.domains.base import Fault, MistakeExpert, NotCorrectable
from mimo.errors import RecipeError
from mimo.graders.behavior import test_outcome
from mimo.harnesses.base import ExpertTurn
from mimo.records import from_line, to_line
from mimo.rollouts.corrections import KINDS, Correction, CorrectionSource, read_corrections
from mimo.rollouts.groups import GroupPlan
from mimo.rollouts.house import House
from mimo.rollouts.loop import Attempt, Finished, derived_seed
from mimo.run_dir.files import write_atomic
from mimo.types import Rollout, RolloutStatus, Task, Turn, record

FILE = "corrections.jsonl"
_WITH_TESTS = ("edit-fails-tests", "submit-failing")
_PLAYED_TWICE = "repeated-call"
_NO_EXPERT = "its domain's expert acts out no mistakes"


@record
class Corrected:
    """One mistake and what became of it: `left_out` says why it is not trained on, None = it is.

    `rollout_id` names the demonstration it was played in, None where it was not played; `source` where it
    was recorded, None for a mistake of the expert's own.
    """

    task_id: str
    kind: str
    rollout_id: str | None
    source: CorrectionSource | None
    left_out: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    """The turns of a demonstration with a mistake; `answer` is the tool's recorded answer to the mistake."""

    turns: Sequence[ExpertTurn]
    kind: str
    answer: str | None
    source: CorrectionSource | None


class Corrections:
    """Writes the scripts of one replay and keeps the account; used from one event loop."""

    def __init__(self, house: House, *, share: float, seed: int) -> None:
        self._house = house
        self._share = share
        self._seed = seed
        self._scripts: dict[str, Script] = {}
        self.rows: list[Corrected] = []

    def own(self, attempt: Attempt) -> Sequence[ExpertTurn] | None:
        """The attempt with a mistake of the expert's own; None for one without, or where none fits."""
        if derived_seed("correction", self._seed, attempt.rollout_id) >= self._share * 2**31:
            return None
        expert, store = load_domain(attempt.task.domain), self._house.store
        if not isinstance(expert, MistakeExpert):
            self._not_played(attempt.task.task_id, "any", None, _NO_EXPERT)
            return None
        for fault in expert.faults(attempt.task, store, harness=attempt.harness, seed=attempt.seed):
            script = self._script(attempt.task, attempt.harness, fault, None)
            if script is not None:
                self._scripts[attempt.rollout_id] = script
                return script.turns
        return None

    def recorded(
        self, path: Path, tasks: Sequence[Task], *, harnesses: Sequence[str], most: int
    ) -> list[GroupPlan]:
        """A plan for each recorded mistake that can be played, at most `most` of them, drawn by seed.

        Raises:
            RecipeError: a bad file, or none of its lines is of this run's tasks.
        """
        lines = read_corrections(path)
        known = {task.task_id: task for task in tasks}
        if lines and not any(line.task_id in known for line in lines):
            raise RecipeError(
                f"{path}: none of its {len(lines)} corrections is of a training task of this run "
                f"(the first is of {lines[0].task_id})",
                hint="corrections hold for the task set they were recorded on: the same tasks.sources",
            )
        fitting = [
            (line, script)
            for line in self._usable(lines, known, harnesses)
            if (script := self._replayed(known[line.task_id], line)) is not None
        ]
        random.Random(derived_seed("corrections", self._seed)).shuffle(fitting)
        for line, _ in fitting[most:]:
            self._leave(line, "over cold_start.corrections_max_share")
        plans = []
        for number, (line, script) in enumerate(fitting[:most]):
            plan = GroupPlan(
                group_id=f"fix-{number:05d}", task=known[line.task_id], harness=line.harness, step=0, size=1
            )
            self._scripts[f"{plan.group_id}.0"] = script
            plans.append(plan)
        return plans

    def script(self, rollout_id: str) -> Sequence[ExpertTurn] | None:
        """The turns written for a rollout, if it holds a mistake."""
        known = self._scripts.get(rollout_id)
        return None if known is None else known.turns

    def judged(self, finished: Iterable[Finished]) -> list[Finished]:
        """The rollouts with every mistake's tokens out of the loss, and a row for each that was played."""
        rows = []
        for item in finished:
            script = self._scripts.get(item.rollout.rollout_id)
            if script is not None:
                self.rows.append(
                    Corrected(
                        task_id=item.rollout.task_id,
                        kind=script.kind,
                        rollout_id=item.rollout.rollout_id,
                        source=script.source,
                        left_out=_why_left_out(item.rollout, script),
                    )
                )
            rows.append(item if script is None else _unlearnt(item, script.turns))
        return rows

    def _usable(
        self, lines: Sequence[Correction], known: Mapping[str, Task], harnesses: Sequence[str]
    ) -> Iterator[Correction]:
        """Each mistake once, of training tasks that have an expert and a harness of this run."""
        seen: set[tuple[str, str, str]] = set()
        for line in lines:
            task = known.get(line.task_id)
            one = (line.task_id, line.harness, line.faulty)
            if task is None:
                self._leave(line, "its task is no training task of this run")
            elif line.harness not in harnesses:
                self._leave(line, f"its harness {line.harness[:40]} is not one of this run")
            elif not load_domain(task.domain).demonstrates(task):
                self._leave(line, "its task has no expert")
            elif not isinstance(load_domain(task.domain), MistakeExpert):
                self._leave(line, _NO_EXPERT)
            elif one in seen:
                self._leave(line, "the same turn on the same task again")
            else:
                seen.add(one)
                yield line

    def _replayed(self, task: Task, line: Correction) -> Script | None:
        fault = Fault(
            kind=line.kind,
            note=KINDS.get(line.kind, line.note),
            turns=(line.faulty,) * (2 if line.kind == _PLAYED_TWICE else 1),
            tests="if-room" if line.kind in _WITH_TESTS else "no",
        )
        return self._script(task, line.harness, fault, line)

    def _script(self, task: Task, harness: str, fault: Fault, line: Correction | None) -> Script | None:
        limit = self._house.harness(harness).max_turns
        source = None if line is None else line.source
        expert = load_domain(task.domain)
        assert isinstance(expert, MistakeExpert)
        try:
            turns = expert.correct(task, self._house.store, harness=harness, fault=fault, max_turns=limit)
            why = self._too_long(turns, limit)
        except NotCorrectable as error:
            turns, why = (), str(error)
        except RecipeError as error:  # the expert does not speak this harness
            turns, why = (), error.message
        if why is not None:
            self._not_played(task.task_id, fault.kind, source, why)
            return None
        answer = None if line is None else line.observation
        return Script(turns=turns, kind=fault.kind, answer=answer, source=source)

    def _too_long(self, turns: Sequence[ExpertTurn], limit: int) -> str | None:
        """Why no policy could say this within the recipe's sizes."""
        if len(turns) > limit:
            return f"needs {len(turns)} turns, harness.max_turns is {limit}"
        most = self._house.sizes.turn_tokens
        ours = [turn.text for turn in turns if not turn.faulty]
        if max(len(self._house.renderer.assistant_ids(text)) for text in ours) > most:
            return f"has a turn longer than sampling.turn_tokens ({most})"
        return None

    def _leave(self, line: Correction, why: str) -> None:
        self._not_played(line.task_id, line.kind, line.source, why)

    def _not_played(self, task_id: str, kind: str, source: CorrectionSource | None, why: str) -> None:
        self.rows.append(Corrected(task_id=task_id, kind=kind, rollout_id=None, source=source, left_out=why))


def write_rows(folder: Path, rows: Sequence[Corrected]) -> None:
    """Keep the account beside the demonstrations."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / FILE, b"".join(map(to_line, rows)))


def read_rows(folder: Path) -> list[Corrected]:
    """The account of a replay; empty for one made before there was any."""
    path = folder / FILE
    lines = path.read_bytes().splitlines() if path.is_file() else []
    return [from_line(Corrected, line) for line in lines]


def numbers(rows: Sequence[Corrected]) -> dict[str, float]:
    """Kept corrections: all, by kind, of recorded mistakes; and those played or not that were left out."""
    kept = [row for row in rows if row.left_out is None]
    found = {
        "corrections": float(len(kept)),
        "corrections/recorded": float(sum(row.source is not None for row in kept)),
        "corrections/left_out": float(len(rows) - len(kept)),
    }
    kinds = Counter(row.kind for row in kept)
    return found | {f"corrections/kind/{kind}": float(number) for kind, number in sorted(kinds.items())}


def _unlearnt(item: Finished, script: Sequence[ExpertTurn]) -> Finished:
    """The payload with loss mask False on every faulty turn."""
    if item.payload is None:
        return item
    mask = item.payload.loss_mask.copy()
    for said, turn in zip(script, _assistant(item.rollout), strict=False):
        if said.faulty:
            mask[turn.span[0] : turn.span[1]] = False
    return replace(item, payload=replace(item.payload, loss_mask=mask))


def _why_left_out(rollout: Rollout, script: Script) -> str | None:
    if rollout.error is not None:
        return f"{rollout.status}: {rollout.error.type} in {rollout.error.where}"
    if rollout.status is not RolloutStatus.DONE:
        return f"{rollout.status} before the submit"
    if rollout.verdict is None or not rollout.verdict.passed:
        return "the verifier does not pass it"
    answers = _answers(rollout)
    for number, said in enumerate(script.turns):
        if said.facts.get("shows_fault"):
            result = answers[number].tool_result
            if test_outcome(answers[number].text, None if result is None else result.exit_code) is not False:
                return "the visible tests do not show the mistake"
    mistakes = [number for number, said in enumerate(script.turns) if said.faulty]
    if script.answer and not _alike(answers[mistakes[-1]].text, script.answer):
        return "the tool answers otherwise than it was recorded"
    return None


def _assistant(rollout: Rollout) -> list[Turn]:
    return [turn for context in rollout.contexts for turn in context.turns if turn.role == "assistant"]


def _answers(rollout: Rollout) -> list[Turn]:
    """The tool's answer to each assistant turn but a last one that has none."""
    return [turn for context in rollout.contexts for turn in context.turns if turn.role == "tool"]


def _alike(now: str, recorded: str) -> bool:
    """The same first line, as far as neither is cut (turns left and length differ with the recipe)."""
    one, other = (text.split("\n", 1)[0].removesuffix("[cut]").rstrip() for text in (now, recorded))
    return one.startswith(other) or other.startswith(one)
