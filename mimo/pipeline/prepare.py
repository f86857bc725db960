"""The folder of an attempt made ready: fresh, gone on with, or begun from an older output."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace

from mimo.pipeline.decide import Decision, State
from mimo.pipeline.identity import StageFacts
from mimo.records import to_json
from mimo.run_dir import outputs
from mimo.run_dir.attempt import Attempt, Committed, Work
from mimo.run_dir.files import write_json
from mimo.run_dir.home import Home
from mimo.run_dir.locks import KernelLock
from mimo.run_dir.manifest import ENGINE_FOLDER
from mimo.run_dir.outputs import Published
from mimo.types import Json


def prepare_work(
    home: Home, facts: StageFacts, decision: Decision, identity: dict[str, Json], run_id: str, *, fresh: bool
) -> Work:
    """The attempt's folder, ready for a stage's process; `attempt.json` says what it is for.

    Unfinished work that is not gone on with is set aside (`mimo gc` removes it later); with `fresh` (the user
    asked for it) it is removed.
    """
    assert decision.key
    assert decision.work_key
    work = Work(home.work(facts.name, decision.work_key))
    known = work.attempt()
    goes_on = decision.state in (State.RESUME, State.ADOPT)
    if known is not None and goes_on and decision.output is None:
        work.begin(_again(known, facts, decision.key, identity, run_id))
        return work
    _clear(work, fresh=fresh or known is None)
    begun = _new(facts, decision, identity, run_id)
    if goes_on and decision.output is not None:
        begun = _take_over(work, decision.output, begun)
    work.begin(begun)
    return work


def leave_out(home: Home, stage: str, decision: Decision) -> bool:
    """Remove unfinished work that would make a result which is there (`--fresh`); False where there is none.

    Raises:
        Busy: a run works on it at this moment.
    """
    assert decision.work_key
    work = Work(home.work(stage, decision.work_key))
    attempt = work.attempt()
    if attempt is None or not attempt.asked or attempt.key != decision.key:
        return False
    lock = home.stage_lock(stage, decision.work_key)
    with KernelLock(lock, f"stage {stage}", hint="another run makes this very result; wait for it"):
        shutil.rmtree(work.folder)
    return True


def _again(known: Attempt, facts: StageFacts, key: str, identity: dict[str, Json], run_id: str) -> Attempt:
    return replace(
        known,
        key=key,
        identity=identity,
        horizon=dict(facts.horizon),
        codes=_with(known.codes, facts.code_digest),
        runs=_with(known.runs, run_id),
        attempts=known.attempts + 1,
    )


def _new(facts: StageFacts, decision: Decision, identity: dict[str, Json], run_id: str) -> Attempt:
    assert decision.key
    assert decision.work_key
    return Attempt(
        stage=facts.name,
        work_key=decision.work_key,
        key=decision.key,
        identity=identity,
        horizon=dict(facts.horizon),
        codes=(facts.code_digest,),
        runs=(run_id,),
        attempts=1,
        started=time.time(),
        asked=decision.asked,
    )


def _clear(work: Work, *, fresh: bool) -> None:
    if not work.folder.exists():
        work.folder.mkdir(parents=True)
        return
    if fresh:
        shutil.rmtree(work.folder)
    else:
        outputs.set_aside(work.folder)
    work.folder.mkdir(parents=True)


def _take_over(work: Work, older: Published, begun: Attempt) -> Attempt:
    """Copy an older output and its progress into the attempt; `attempt.json` is written after this."""
    manifest = older.manifest
    outputs.copy_tree(older.folder, work.out)
    for path in (work.metrics, work.traces, work.log):
        kept = older.folder / ENGINE_FOLDER / path.name
        if kept.exists():
            shutil.copyfile(kept, path)
    state = manifest.progress.get("state")
    committed = Committed(
        step=int(str(manifest.progress.get("step", 0))),
        state=dict(state) if isinstance(state, dict) else {},
        planned=manifest.planned,
        counts=manifest.counts,
    )
    write_json(work.folder / "progress.json", to_json(committed))
    return replace(
        begun,
        codes=_with(manifest.codes, begun.codes[-1]),
        seconds=manifest.wall_s,
        continued_from=manifest.key,
    )


def _with(items: tuple[str, ...], item: str) -> tuple[str, ...]:
    return items if items and items[-1] == item else (*items, item)
