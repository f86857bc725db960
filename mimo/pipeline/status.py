"""How a recipe stands: its newest run, each stage's state, where a running stage is; reads only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mimo.pipeline.decide import Decision, State
from mimo.pipeline.project import Project
from mimo.run_dir.attempt import Work
from mimo.run_dir.locks import holder
from mimo.run_dir.manifest import ENGINE_FOLDER
from mimo.run_dir.outputs import every
from mimo.run_dir.runs import RunFolder
from mimo.types import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """The newest run of a recipe (None: never run), who holds its lock, and its stages."""

    run: RunFolder | None
    status: str
    holder: dict[str, Json] | None
    decisions: tuple[Decision, ...]
    running: str | None
    """The stage that a living run works on."""
    committed: int | None
    planned: int | None

    def as_json(self) -> dict[str, Json]:
        """The standing as data."""
        stages: list[Json] = [
            {
                "stage": item.stage,
                "state": str(item.state),
                "reason": item.reason,
                "committed": item.committed,
            }
            for item in self.decisions
        ]
        return {
            "schema": 1,
            "run": self.run.run_id if self.run else None,
            "status": self.status,
            "holder": self.holder,
            "running": self.running,
            "committed": self.committed,
            "planned": self.planned,
            "stages": stages,
        }


def standing(project: Project) -> Standing:
    """How the recipe stands now."""
    runs = project.runs()
    run = runs[0] if runs else None
    held = holder(project.lock)
    state = run.state() if run else None
    decisions = project.plan().decisions
    running = state.stage if state and held else None
    committed = _work(project, decisions.get(running or ""))
    return Standing(
        run=run,
        status=_status(state.status if state else None, alive=held is not None),
        holder=held,
        decisions=tuple(decisions.values()),
        running=running,
        committed=committed[0],
        planned=committed[1],
    )


def log_file(project: Project, stage: str) -> Path | None:
    """The log of a stage's unfinished work, else of the result in use, else of the newest; None: no log."""
    project.order.load(stage)
    decision = project.plan().decisions[stage]
    candidates = []
    if decision.work_key:
        candidates.append(Work(project.home.work(stage, decision.work_key)).log)
    if decision.output:
        candidates.append(decision.output.folder / ENGINE_FOLDER / "stage.log")
    unfinished = sorted(project.home.outputs(stage).glob("*.work/stage.log"), key=_age)
    candidates += [path for path in unfinished if decision.state is not State.CACHED]
    candidates += [item.folder / ENGINE_FOLDER / "stage.log" for item in every(project.home, stage)]
    return next((path for path in candidates if path.exists()), None)


def _row(item: Decision) -> Json:
    return {
        "stage": item.stage,
        "state": str(item.state),
        "reason": item.reason,
        "committed": item.committed,
    }


def _age(path: Path) -> float:
    return -path.stat().st_mtime


def _status(written: str | None, *, alive: bool) -> str:
    if written is None:
        return "running" if alive else "never run"
    if written == "running" and not alive:
        return "killed"
    return "running" if alive else written


def _work(project: Project, decision: Decision | None) -> tuple[int | None, int | None]:
    if decision is None or decision.work_key is None:
        return None, None
    committed = Work(project.home.work(decision.stage, decision.work_key)).committed()
    return (committed.step, committed.planned) if committed else (0, None)
