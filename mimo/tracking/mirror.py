"""One run in MLflow, brought up to date by idempotent steps: telling it twice changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mimo.tracking import artifacts, journal, points, tags, traces
from mimo.tracking.base import Info, MetricRow
from mimo.tracking.connection import Connection, Place, check_experiment, connect
from mimo.tracking.journal import Call
from mimo.types import Json

if TYPE_CHECKING:
    from mlflow import MlflowClient


_DELETED_ONLY = 2
"""`mlflow.entities.ViewType.DELETED_ONLY`, without importing MLflow here."""


@dataclass(kw_only=True, slots=True)
class StageRun:
    """The child run of a stage: which steps MLflow has, which rollouts of each step are traces."""

    mlflow_id: str
    key: str
    metrics_file: Path | None
    sent: set[int]
    traces: dict[int, set[str]] = field(default_factory=dict)


class Mirror:
    """The MLflow side of one run. Not for several threads; every method may raise what MLflow raises."""

    def __init__(self, place: Place, *, traces_per_step: int, artifact_limit_bytes: int) -> None:
        self.place = place
        self.traces_per_step = traces_per_step
        self.artifact_limit_bytes = artifact_limit_bytes
        self.points_sent = 0
        self.traces_sent = 0
        self.restored: list[str] = []
        """Names of runs that somebody had deleted in MLflow and that were restored; the reader empties it."""
        self.made: set[str] = set()
        """Runs that were made because MLflow had none, as `identity_text` has them."""
        self._connection: Connection | None = None
        self._run = ""
        self._parent = ""
        self._stages: dict[str, StageRun] = {}

    @property
    def connection(self) -> Connection:
        """The open store, connected at first use."""
        if self._connection is None:
            self._connection = connect(self.place)
        return self._connection

    @property
    def client(self) -> MlflowClient:
        """The open store's client."""
        return self.connection.client

    def settings(self) -> dict[str, Json]:
        """What a sync needs to make this mirror again; written into the journal, so no secret."""
        return {
            "uri": self.place.written if self.place.written is not None else self.place.uri,
            "experiment": self.place.experiment,
            "traces_per_step": self.traces_per_step,
            "artifact_limit_bytes": self.artifact_limit_bytes,
        }

    def forget(self) -> None:
        """Drop what is known of MLflow's side, after trouble; the next call looks again."""
        self._connection, self._parent = None, ""
        self._stages.clear()

    def apply(self, call: Call) -> None:
        """Do what `call` says.

        Raises:
            ExperimentDeleted, MlflowException, OSError and what the database or HTTP layers raise.
        """
        {
            "start_run": self._start_run,
            "start_stage": self._start_stage,
            "commit": self._commit,
            "reused_stage": self._reused_stage,
            "trace": self._trace,
            "end_stage": self._end_stage,
            "end_run": self._end_run,
        }[call.name](call.arguments, call.ts)

    def _start_run(self, told: Info, ts: float) -> None:
        info = _object(told, "info")
        check_experiment(self.connection, self.place)
        self._run = str(info["run"])
        self._parent = self._find_or_create(tags.run_identity(self._run), self._run, ts)
        self.client.update_run(self._parent, status="RUNNING")
        tags.set_all(self.client, self._parent, tags.of_run(info, self.place.home))
        tags.log_params(self.client, self._parent, _object(info, "params"))
        artifacts.log_texts(self.client, self._parent, info)

    def _start_stage(self, told: Info, ts: float) -> None:
        stage, info = str(told["stage"]), _object(told, "info")
        run = self._child(stage, str(info["key"]), ts)
        file = info.get("metrics_file")
        run.metrics_file = Path(str(file)) if file else None
        self.client.update_run(run.mlflow_id, status="RUNNING")
        committed = info.get("committed")
        extra = tags.of_stage(info)
        if isinstance(committed, int) and run.sent and max(run.sent) > committed:
            extra["mimo.rewound"] = f"from step {max(run.sent)} to {committed}"
        tags.set_all(self.client, run.mlflow_id, extra)
        if isinstance(committed, int):
            self._send_files(stage, committed, ts)

    def _commit(self, told: Info, ts: float) -> None:
        stage, step = str(told["stage"]), int(cast(int, told["step"]))
        if "rows" in told:
            self._send_rows(self._stages[stage], step, cast("Sequence[MetricRow]", told["rows"]))
        else:
            self._send_files(stage, step, ts)

    def _send_files(self, stage: str, step: int, ts: float) -> None:
        """Send rows and traces of the stage's files up to `step`, as far as MLflow lacks them."""
        run = self._stages[stage]
        metrics = self._metrics_file(stage, run)
        self._send_rows(run, step, cast("Sequence[MetricRow]", journal.stage_rows(metrics, step)))
        for row in journal.stage_rows(metrics.with_name("traces.jsonl"), step):
            self._trace({"stage": stage, **row}, ts)

    def _send_rows(self, run: StageRun, step: int, rows: Sequence[MetricRow]) -> None:
        missing = [row for row in rows if row["step"] <= step and row["step"] not in run.sent]
        self.points_sent += points.send_rows(self.client, run.mlflow_id, missing, run.sent)

    def _metrics_file(self, stage: str, run: StageRun) -> Path:
        """Where the metrics are: in the attempt's folder, or in the output once it is published."""
        published = self.place.home / "store" / stage / run.key[:16] / "_run" / "metrics.jsonl"
        given = run.metrics_file
        return given if given is not None and given.is_file() else published

    def _reused_stage(self, told: Info, ts: float) -> None:
        stage = str(told["stage"])
        run, origin = self._child(stage, str(told["key"]), ts), str(told["origin_run"])
        if origin != self._run:
            tags.set_all(self.client, run.mlflow_id, {"mimo.reused": "true", "mimo.reused_from": origin})
        self._headline(stage, run, _object(told, "metrics"), ts)
        if self.client.get_run(run.mlflow_id).info.status != "FINISHED":
            self.client.set_terminated(run.mlflow_id, "FINISHED", int(ts * 1000))

    def _trace(self, told: Info, ts: float) -> None:
        stage, step = str(told["stage"]), int(cast(int, told["step"]))
        run = self._stages[stage]
        data = _object(told, "data")
        shown = run.traces.setdefault(step, set())
        if len(shown) >= self.traces_per_step:
            return
        shown.add(str(_object(data, "rollout").get("rollout_id")))
        where = traces.Where(run=self._run, stage=stage, step=step, mlflow_id=run.mlflow_id, ts=ts)
        self.traces_sent += traces.send(self.connection, where, data)

    def _end_stage(self, told: Info, ts: float) -> None:
        stage = str(told["stage"])
        run = self._stages[stage]
        self._headline(stage, run, _object(told, "headline"), ts)
        counts = {f"count/{name}": value for name, value in _object(told, "counts").items()}
        self.points_sent += points.send_latest(self.client, run.mlflow_id, _numbers(counts), ts)
        self.client.set_terminated(run.mlflow_id, str(told["status"]), int(ts * 1000))
        files = {name: Path(str(path)) for name, path in _object(told, "artifacts").items()}
        artifacts.log_files(self.connection, run.mlflow_id, files, self.artifact_limit_bytes)

    def _end_run(self, told: Info, ts: float) -> None:
        headline = _numbers(_object(told, "headline"))
        self.points_sent += points.send_latest(self.client, self._parent, headline, ts)
        self.client.set_terminated(self._parent, str(told["status"]), int(ts * 1000))

    def _headline(self, stage: str, run: StageRun, headline: Mapping[str, Json], ts: float) -> None:
        numbers = _numbers(headline)
        self.points_sent += points.send_latest(self.client, run.mlflow_id, numbers, ts)
        copied = {f"{stage}/{name}": value for name, value in numbers.items()}
        self.points_sent += points.send_latest(self.client, self._parent, copied, ts)

    def _child(self, stage: str, key: str, ts: float) -> StageRun:
        known = self._stages.get(stage)
        if known is not None and known.key == key:
            return known
        mlflow_id = self._find_or_create(tags.stage_identity(self._run, stage, key), stage, ts)
        self.client.set_tag(mlflow_id, "mlflow.parentRunId", self._parent)
        sent = points.steps_sent(self.client, mlflow_id)
        run = StageRun(mlflow_id=mlflow_id, key=key, metrics_file=None, sent=sent)
        self._stages[stage] = run
        return run

    def _find_or_create(self, identity: Mapping[str, str], name: str, ts: float) -> str:
        wanted = " and ".join(f"tags.`{key}` = {json.dumps(value)}" for key, value in identity.items())
        experiments = [self.connection.experiment_id]
        if found := self.client.search_runs(experiments, wanted, max_results=1):
            return str(found[0].info.run_id)
        deleted = self.client.search_runs(experiments, wanted, _DELETED_ONLY, max_results=1)
        if deleted:
            self.client.restore_run(deleted[0].info.run_id)
            self.restored.append(name)
            return str(deleted[0].info.run_id)
        self.made.add(identity_text(identity))
        made = self.client.create_run(
            self.connection.experiment_id,
            start_time=int(ts * 1000),
            tags={**identity, **tags.ours()},
            run_name=name,
        )
        return str(made.info.run_id)


def identity_text(identity: Mapping[str, str]) -> str:
    """A run's identity as one text."""
    return json.dumps(identity, sort_keys=True)


def runs_told(calls: Iterable[Call], run: str) -> set[str]:
    """The runs that MLflow must have if it was told `calls`, as `identity_text` has them."""
    told = set()
    for call in calls:
        if call.name == "start_run":
            told.add(identity_text(tags.run_identity(run)))
        elif call.name in ("start_stage", "reused_stage"):
            key = _object(call.arguments, "info").get("key", call.arguments.get("key"))
            told.add(identity_text(tags.stage_identity(run, str(call.arguments["stage"]), str(key))))
    return told


def _object(told: Info, key: str) -> Mapping[str, Json]:
    value = told.get(key)
    return value if isinstance(value, dict) else {}


def _numbers(values: Mapping[str, Json]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if isinstance(value, int | float)}
