"""The tracker of a live run: calls go to the journal and a queue, one thread tells MLflow.

Trouble has one cure: whatever failed (server away, database locked, run deleted, queue full), the thread
waits and then replays the run's journal, which changes nothing that is already right. So nothing is lost as
long as the journal can be written, and memory stays bounded.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from mimo.tracking import journal
from mimo.tracking.base import Info, MetricRow, Status
from mimo.tracking.journal import Call
from mimo.tracking.mirror import Mirror, runs_told
from mimo.tracking.owner import this_process
from mimo.tracking.reconcile import mark_dead
from mimo.tracking.traces import shrink
from mimo.tracking.trouble import diagnose
from mimo.types import Json

_QUEUE = 2_000
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0


class MlflowTracker:
    """See `base.Tracker`. `warn` gets one line per kind of trouble, from the tracker's thread."""

    def __init__(self, mirror: Mirror, warn: Callable[[str], None]) -> None:
        self._mirror = mirror
        self._warn = warn
        self._warned: set[str] = set()
        self._run = ""
        self._told_before: set[str] = set()
        self._files: dict[str, bool] = {}
        self._queue: deque[Call] = deque()
        self._wake = threading.Condition()
        self._behind = False
        self._working = False
        self._stopping = False
        self._dropped = 0
        self._thread = threading.Thread(target=self._work, name="mimo-tracking", daemon=True)

    @property
    def location(self) -> str:
        """The tracking URI, without a password."""
        return self._mirror.place.shown

    def start_run(self, info: Info) -> None:
        """Open the parent run and the thread."""
        self._run = str(info["run"])
        self._told_before = runs_told(journal.read(self._folder), self._run)
        own: dict[str, Json] = {"owner": this_process(), "tracking": self._mirror.settings()}
        self._tell("start_run", {"info": {**info, **own}})

    def start_stage(self, stage: str, info: Info) -> None:
        """Open the child run of a stage."""
        self._files[stage] = bool(info.get("metrics_file"))
        self._tell("start_stage", {"stage": stage, "info": {**info, "owner": this_process()}})

    def commit(self, stage: str, step: int, rows: Sequence[MetricRow]) -> None:
        """Send the rows of committed steps."""
        data = cast(Json, [dict(row) for row in rows])
        self._tell("commit", {"stage": stage, "step": step, "rows": data})

    def reused_stage(self, stage: str, origin_run: str, key: str, metrics: Mapping[str, float]) -> None:
        """Show a stage whose output was there."""
        told: dict[str, Json] = {"stage": stage, "origin_run": origin_run, "key": key}
        self._tell("reused_stage", {**told, "metrics": dict(metrics)})

    def trace(self, stage: str, step: int, data: Info) -> None:
        """Send a sampled rollout."""
        self._tell("trace", {"stage": stage, "step": step, "data": shrink(dict(data))})

    def end_stage(
        self,
        stage: str,
        status: Status,
        *,
        headline: Mapping[str, float],
        counts: Mapping[str, float],
        artifacts: Mapping[str, Path],
    ) -> None:
        """Close the child run."""
        files: dict[str, Json] = {name: str(path) for name, path in artifacts.items()}
        numbers: dict[str, Json] = {"headline": dict(headline), "counts": dict(counts)}
        self._tell("end_stage", {"stage": stage, "status": status, **numbers, "artifacts": files})

    def end_run(self, status: Status, headline: Mapping[str, float]) -> None:
        """Close the parent run."""
        self._tell("end_run", {"status": status, "headline": dict(headline)})

    def flush(self, timeout: float) -> bool:
        """Wait until MLflow has everything, at most `timeout` seconds."""
        with self._wake:
            return self._wake.wait_for(self._idle, timeout)

    def close(self, timeout: float = 10.0) -> None:
        """Wait at most `timeout` seconds for the rest, then let go."""
        done = self.flush(timeout) if self._thread.is_alive() else self._idle()
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if done and self._thread.is_alive():
            self._thread.join(timeout=2.0)
        if self._dropped:
            self._warn(f"MLflow: {self._dropped} updates were left out (see the warnings above)")
        if not done:
            self._warn(
                f"MLflow did not get everything; `mimo track sync {self._run}` sends it from the files"
            )

    def _idle(self) -> bool:
        return not (self._queue or self._behind or self._working)

    def _tell(self, name: str, arguments: Mapping[str, Json]) -> None:
        call = Call(ts=time.time(), name=name, arguments=arguments)
        self._write_down(call)
        with self._wake:
            if self._stopping:
                return
            if len(self._queue) >= _QUEUE:
                self._queue.clear()
                self._behind = True
            elif not self._behind:
                self._queue.append(call)
            if not self._thread.is_alive():
                self._thread.start()
            self._wake.notify_all()

    def _write_down(self, call: Call) -> None:
        """Journal the call; metric rows and traces only where no file of the stage holds them."""
        arguments = dict(call.arguments)
        if self._files.get(str(arguments.get("stage"))):
            arguments.pop("rows", None)
            if call.name == "trace":
                return
        try:
            journal.append(self._folder, Call(ts=call.ts, name=call.name, arguments=arguments))
        except OSError as error:
            self._dropped += 1
            self._warn_once(
                "journal", f"MLflow: cannot write {self._folder / journal.CALLS}: {error.strerror}"
            )

    @property
    def _folder(self) -> Path:
        return self._mirror.place.home / "runs" / self._run

    def _work(self) -> None:
        pause = _FIRST_PAUSE_S
        reconciled = False
        while (call := self._next()) is not None:
            try:
                if not reconciled:
                    mark_dead(self._mirror.client)
                    reconciled = True
                self._catch_up() if self._behind else self._one(call)
                pause = _FIRST_PAUSE_S
            except Exception as error:  # noqa: BLE001 - telemetry can never kill a run: diagnosed and said
                self._trouble(error)
                self._sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            finally:
                self._rest()

    def _next(self) -> Call | None:
        """The next call (any call while behind, to be replayed from the journal), or None to end."""
        with self._wake:
            self._wake.wait_for(lambda: self._queue or self._behind or self._stopping)
            if self._stopping and not self._queue:
                return None
            self._working = True
            return Call(ts=0.0, name="", arguments={}) if self._behind else self._queue.popleft()

    def _one(self, call: Call) -> None:
        """Apply a call; one that MLflow refuses for what it says is left out and counted."""
        try:
            self._mirror.apply(call)
        except Exception as error:
            trouble = diagnose(error, self.location)
            if trouble.passing:
                raise
            self._dropped += 1
            self._warn_once(trouble.kind, f"MLflow refused a {call.name}: {trouble.message}; it is left out")
        self._look_for_lost_runs()

    def _look_for_lost_runs(self) -> None:
        """Say what was deleted in MLflow since an earlier start; what is gone for good is filled again."""
        while self._mirror.restored:
            name = self._mirror.restored.pop()
            self._warn_once(f"restored {name}", f"MLflow: the run {name} was deleted there; it is restored")
        if self._mirror.made & self._told_before:
            self._told_before = set()
            text = "MLflow: a run of an earlier start is gone; a new one is made and filled from the files"
            self._warn_once("run gone", text)
            with self._wake:
                self._behind = True
                self._queue.clear()

    def _catch_up(self) -> None:
        with self._wake:
            self._behind = False
            self._queue.clear()
        self._mirror.forget()
        for call in journal.read(self._folder):
            self._one(call)
        self._warn_once("caught up", "MLflow is up to date again")

    def _trouble(self, error: Exception) -> None:
        with self._wake:
            self._behind = True
            self._queue.clear()
        self._mirror.forget()
        trouble = diagnose(error, self.location)
        text = f"MLflow ({self.location}): {trouble.message}; the run goes on and its files keep everything"
        self._warn_once(trouble.kind, text)

    def _sleep(self, seconds: float) -> None:
        with self._wake:
            self._wake.wait_for(lambda: self._stopping, seconds)

    def _rest(self) -> None:
        with self._wake:
            self._working = False
            self._wake.notify_all()

    def _warn_once(self, kind: str, message: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            self._warn(message)
