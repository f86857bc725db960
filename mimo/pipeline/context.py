"""The stage's side of the contract (mimo.stages.base.StageContext): commits to files, tells the engine."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mimo.errors import EngineFailed, MachineLacks, StoppedSafely
from mimo.pipeline.channel import Channel
from mimo.pipeline.inbox import Inbox
from mimo.pipeline.processes import kill_descendants
from mimo.recipe.models import Recipe
from mimo.run_dir.attempt import Committed, Work
from mimo.stages.base import Progress, SamplerHandle
from mimo.types import Json

_PROGRESS_EVERY_S = 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
class StageSpec:
    """What the engine hands to a stage's process (JSON): paths as text, secrets as references."""

    stage: str
    target: str
    recipe: dict[str, Json]
    work: str
    cache: str
    inputs: dict[str, str]
    label: str


class RunningStage:
    """The context of one running stage; see the contract for what each method promises."""

    def __init__(self, spec: StageSpec, recipe: Recipe, channel: Channel, inbox: Inbox) -> None:
        self.recipe = recipe
        self.inputs: Mapping[str, Path] = {name: Path(path) for name, path in spec.inputs.items()}
        self.label = spec.label
        self.cache = Path(spec.cache)
        self._work = Work(Path(spec.work))
        self.out = self._work.out
        self.scratch = self._work.scratch
        self._channel = channel
        self._inbox = inbox
        committed = self._work.committed()
        self._step = committed.step if committed else None
        self._counts: dict[str, Json] = dict(committed.counts) if committed else {}
        self.resume = Progress(step=committed.step, state=committed.state) if committed else None
        self._planned = 0
        self._rows: dict[int, dict[str, Json]] = {}
        self._traces: list[dict[str, Json]] = []
        self._traces_allowed = recipe.tracking.traces_per_step
        self._told = 0.0
        self._counting = threading.Lock()

    @property
    def planned(self) -> int:
        """Units planned."""
        return self._planned

    @property
    def step(self) -> int:
        """Units committed, 0 before the first commit."""
        return self._step or 0

    @property
    def counts(self) -> dict[str, Json]:
        """What was counted, the commits of earlier attempts included."""
        return self._counts

    def plan(self, units: int) -> None:
        """See the contract."""
        self._planned = units
        self._tell({"kind": "plan", "units": units})

    def commit(self, step: int, state: Mapping[str, Json]) -> None:
        """See the contract. Raises ValueError when `step` goes back."""
        if self._step is not None and step < self._step:
            raise ValueError(f"commit of step {step} after step {self._step}: commits do not go back")
        rows = [self._rows.pop(key) for key in sorted(self._rows) if key <= step]
        traces = [row for row in self._traces if int(str(row["step"])) <= step]
        self._traces = [row for row in self._traces if int(str(row["step"])) > step]
        committed = Committed(step=step, state=dict(state), planned=self._planned, counts=self._counts)
        self._work.commit(committed, rows, traces)
        self._step = step
        self._tell({"kind": "commit", "step": step, "rows": list(rows), "traces": list(traces)})

    def rewind(self, step: int, state: Mapping[str, Json]) -> None:
        """See the contract."""
        if self._step is None or step >= self._step:
            return
        planned = self._planned
        committed = Committed(step=step, state=dict(state), planned=planned, counts=self._counts)
        self._work.rewind(committed)
        before, self._step = self._step, step
        self.resume = Progress(step=step, state=dict(state))
        self._tell({"kind": "rewind", "step": step, "before": before})

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """See the contract."""
        row = self._rows.setdefault(step, {"step": step, "ts": time.time(), "metrics": {}})
        known = row["metrics"]
        assert isinstance(known, dict)
        for name, value in metrics.items():
            number = float(value)
            if math.isfinite(number):
                known[name] = number
            else:
                known[f"{name}_nonfinite"] = 1.0
                self.count("metric not finite", why=f"{name} = {number} at step {step}")

    def trace(self, step: int, data: Mapping[str, Json]) -> None:
        """See the contract."""
        if sum(row["step"] == step for row in self._traces) < self._traces_allowed:
            self._traces.append({"step": step, "data": dict(data)})

    def count(self, what: str, amount: int = 1, *, why: str = "") -> None:
        """See the contract. Safe from any thread."""
        with self._counting:
            self._counts[what] = int(str(self._counts.get(what, 0))) + amount
        self._tell({"kind": "count", "what": what, "amount": amount, "why": why})

    def progress(self, done: int, total: int, unit: str, note: str = "") -> None:
        """See the contract."""
        now = time.monotonic()
        if now - self._told >= _PROGRESS_EVERY_S or done >= total:
            self._told = now
            self._tell({"kind": "progress", "done": done, "total": total, "unit": unit, "note": note})

    def event(self, event: str, about: Mapping[str, Json]) -> None:
        """See the contract."""
        self._tell({"kind": "event", "event": event, "about": dict(about)})

    def should_stop(self) -> bool:
        """See the contract."""
        return self._inbox.stop_asked

    def check_stop(self) -> None:
        """See the contract."""
        if self._inbox.stop_asked:
            raise StoppedSafely(f"stopped after step {self.step} was saved")

    def sampler(self, model_dir: Path) -> SamplerHandle:
        """See the contract. EngineFailed or MachineLacks when the server cannot be started."""
        answer = self._inbox.ask(self._channel, {"kind": "sampler", "model_dir": str(model_dir)})
        if "error" in answer:
            hint = answer.get("hint")
            kind = MachineLacks if answer.get("type") == "MachineLacks" else EngineFailed
            raise kind(str(answer["error"]), hint=str(hint) if hint else None)
        if answer.get("restarted") is True:
            self.count("sampler started again", why="it had ended; sampler.log says why")
        return SamplerHandle(
            url=str(answer["url"]),
            model_dir=Path(str(answer["model_dir"])),
            version=int(str(answer["version"])),
        )

    def sampler_holds(self, model_dir: Path, version: int) -> None:
        """See the contract."""
        self._tell({"kind": "sampler-holds", "model_dir": str(model_dir), "version": version})

    def _tell(self, message: Mapping[str, Json]) -> None:
        if not self._channel.send(message):
            kill_descendants()
