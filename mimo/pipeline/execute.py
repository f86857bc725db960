"""One stage executed: lock, folder, process, messages, stop; then its output judged and published."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from mimo import errors
from mimo.errors import MachineLacks, MimoError, StageFailed
from mimo.pipeline.channel import Message
from mimo.pipeline.context import StageSpec
from mimo.pipeline.decide import Decision
from mimo.pipeline.finish import check_result, make_manifest
from mimo.pipeline.identity import StageFacts
from mimo.pipeline.prepare import prepare_work
from mimo.pipeline.session import Session
from mimo.pipeline.stage_process import StageProcess
from mimo.records import to_json
from mimo.run_dir import outputs
from mimo.run_dir.attempt import Work
from mimo.run_dir.files import write_json
from mimo.run_dir.locks import KernelLock
from mimo.run_dir.outputs import Published
from mimo.types import Json
from sandbox.errors import SandboxError
from sandbox.reaper import reap

_TICK_S = 0.2


@dataclass(slots=True)
class _Heard:
    """What the stage's process told before it ended."""

    result: Message | None = None
    failure: Message | None = None
    killed_by_us: bool = False
    left: list[str] = field(default_factory=list)


def execute_stage(
    session: Session,
    facts: StageFacts,
    decision: Decision,
    inputs: Mapping[str, Published],
    *,
    fresh: bool = False,
) -> Published:
    """Run the stage and publish its output.

    Raises:
        StageFailed, GateRefused, MachineLacks, ...: what the stage raised, or why its end is no success.
        StoppedSafely, Interrupted: a stop was asked for; everything committed is kept.
        Busy: another run works on this very result.
    """
    assert decision.key
    assert decision.work_key
    lock = session.home.stage_lock(facts.name, decision.work_key)
    with KernelLock(lock, f"stage {facts.name}", hint="another run makes this very result; wait for it"):
        _check_disk(session)
        digests = {name: item.manifest.digest for name, item in inputs.items()}
        identity = facts.identity(digests)
        work = prepare_work(session.home, facts, decision, identity, session.run.run_id, fresh=fresh)
        return _StageRun(session, facts, work, inputs).run()


class _StageRun:
    """One stage's process from start to published output."""

    def __init__(
        self, session: Session, facts: StageFacts, work: Work, inputs: Mapping[str, Published]
    ) -> None:
        self.session, self.facts, self.work, self.inputs = session, facts, work, inputs
        attempt = work.attempt()
        assert attempt is not None
        self.attempt = attempt
        self.heard = _Heard()
        self.stop_sent = False

    def run(self) -> Published:
        started = time.monotonic()
        committed = max(self.work.step(), 0)
        self._tell_started(committed)
        about: dict[str, Json] = {"attempt": self.attempt.attempts, "committed": committed}
        self.session.event(self.facts.name, "start", about)
        reap_boxes(self.session, self.facts.name)
        process = StageProcess(self._spec(), self.session.redact)
        try:
            self._follow(process)
        finally:
            self.heard.left = process.close()
            for message in process.drain():
                self._hear(process, message)
            self._after(started)
        try:
            return self._judge(process.poll())
        except MimoError as error:
            self._tell_failed(error)
            raise

    def _tell_started(self, committed: int) -> None:
        """Tell the tracker how much is committed: less than it was sent means that the stage went back."""
        attempt = self.attempt
        self.session.stage_started(
            self.facts.name, attempt.key, self.work.metrics, attempt.attempts, committed=committed
        )

    def _spec(self) -> StageSpec:
        return StageSpec(
            stage=self.facts.name,
            target=self.facts.target,
            recipe=self.session.recipe.data(),
            work=str(self.work.folder),
            cache=str(self.session.home.cache),
            inputs={name: str(item.folder) for name, item in self.inputs.items()},
            label=f"{self.session.run.run_id}-{self.facts.name}-{os.getpid()}",
        )

    def _follow(self, process: StageProcess) -> None:
        """Listen until the process ends; pass a stop on, kill at the second."""
        while process.poll() is None:
            message = process.message(_TICK_S)
            if message is not None:
                self._hear(process, message)
            self.session.observer.tick()
            level = self.session.stop.level
            if level >= 1 and not self.stop_sent:
                self.stop_sent = True
                self.session.event(self.facts.name, "stopping", {"committed": max(self.work.step(), 0)})
                process.stop()
            if level >= 2:
                self.heard.killed_by_us = True
                process.kill()

    def _hear(self, process: StageProcess, message: Message) -> None:
        stage, kind = self.facts.name, message["kind"]
        if kind == "commit":
            rows, traces = message["rows"], message["traces"]
            assert isinstance(rows, list)
            assert isinstance(traces, list)
            self.session.committed(stage, int(str(message["step"])), rows, traces)
        elif kind == "progress":
            self.session.observer.progress(
                stage,
                int(str(message["done"])),
                int(str(message["total"])),
                str(message["unit"]),
                str(message["note"]),
            )
        elif kind == "sampler":
            threading.Thread(target=self._give_sampler, args=(process, message), daemon=True).start()
        elif kind == "sampler-holds":
            self.session.engines.holds(Path(str(message["model_dir"])), int(str(message["version"])))
        elif kind == "result":
            self.heard.result = message
        elif kind == "failure":
            self.heard.failure = message
        else:
            self._note(kind, message)

    def _note(self, kind: Json, message: Message) -> None:
        about = message.get("about")
        if kind == "event" and isinstance(about, dict):
            self.session.event(self.facts.name, str(message["event"]), about)
        elif kind == "count":
            about = {"what": message["what"], "amount": message["amount"], "why": message["why"]}
            self.session.event(self.facts.name, "count", about)
        elif kind == "rewind":
            about = {"before": message["before"], "step": message["step"]}
            self.session.event(self.facts.name, "rewound", about)
            self._tell_started(int(str(message["step"])))
        elif kind == "plan":
            self.session.event(self.facts.name, "units", {"planned": message["units"]})

    def _give_sampler(self, process: StageProcess, message: Message) -> None:
        def starting(seconds: float, line: str) -> None:
            note = f"sampler is starting: {line}"[:100]
            self.session.observer.progress(self.facts.name, int(seconds), 0, "s", note)

        answer = self.session.engines.ask(Path(str(message["model_dir"])), starting)
        process.answer({**answer, "kind": "sampler", "number": message["number"]})

    def _after(self, started: float) -> None:
        """Whatever the end was: time kept, scratch gone, leftovers told."""
        seconds = self.attempt.seconds + time.monotonic() - started
        self.attempt = replace(self.attempt, seconds=seconds)
        write_json(self.work.folder / "attempt.json", to_json(self.attempt))
        shutil.rmtree(self.work.scratch, ignore_errors=True)
        if self.heard.left:
            about: dict[str, Json] = {"processes": list(self.heard.left)}
            number = len(self.heard.left)
            said = f"{number} process{'es' if number > 1 else ''} had to be killed after its end"
            self.session.warn(self.facts.name, "leftovers-killed", about, said)
        reap_boxes(self.session, self.facts.name)

    def _judge(self, code: int | None) -> Published:
        """Publish, or raise why not."""
        stage = self.facts.name
        step = max(self.work.step(), 0)
        if code == 0 and self.heard.result is not None:
            check_result(self.facts, self.work, self.heard.result)
            manifest = make_manifest(
                self.work,
                self.attempt,
                self.heard.result,
                self.session.run.run_id,
                published=self.session.home.output(stage, self.attempt.key),
            )
            self.work.finish()
            folder = outputs.publish(self.session.home, self.work.folder, manifest)
            self.session.stage_done(folder, manifest)
            about: dict[str, Json] = {"key": manifest.key[:16], "wall_s": manifest.wall_s, "committed": step}
            self.session.event(stage, "done", {**about, "counts": manifest.counts})
            return Published(folder=folder, manifest=manifest)
        raise self._error(code, step)

    def _tell_failed(self, error: MimoError) -> None:
        stopped = isinstance(error, (errors.StoppedSafely, errors.Interrupted))
        committed = self.work.committed()
        counts = committed.counts if committed else {}
        self.session.stage_ended(self.facts.name, "KILLED" if stopped else "FAILED", counts)
        about: dict[str, Json] = {"error": type(error).__name__, "message": error.message}
        about["committed"] = max(self.work.step(), 0)
        self.session.event(self.facts.name, "stopped" if stopped else "failed", about)

    def _error(self, code: int | None, step: int) -> MimoError:
        """The error of a process that ended without a result."""
        stage, log = self.facts.name, self.work.log
        if self.heard.killed_by_us:
            return self.session.stop.error(f"{stage} was killed; step {step} is saved")
        failure = self.heard.failure
        if failure is not None:
            kind = getattr(errors, str(failure["type"]), StageFailed)
            if kind is errors.StoppedSafely and self.session.stop.level:
                return self.session.stop.error(f"{stage} stopped; step {step} is saved")
            hint = failure["hint"] or f"see {log}"
            assert issubclass(kind, MimoError)
            return kind(f"{stage}: {failure['message']}", hint=str(hint))
        return StageFailed(f"{stage}: its process {_ending(code)} after step {step}", hint=_hint(code, log))


def reap_boxes(session: Session, stage: str) -> None:
    """Remove sandboxes whose owner is dead, of any run; those of living owners stay."""
    try:
        labels = reap()
    except (OSError, SandboxError) as error:
        said = f"sandboxes of dead processes may be left: {error}"
        session.warn(stage, "reaper", {"message": said}, said)
        return
    if labels:
        owners: list[Json] = list(dict.fromkeys(labels))
        session.event(stage, "boxes-removed", {"count": len(labels), "owners": owners})


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with {code} and no result"


def _hint(code: int | None, log: Path) -> str:
    if code == -signal.SIGKILL:
        return f"often the kernel, out of memory: lower the sizes or free memory (`dmesg` says); log: {log}"
    return f"see {log}"


def _check_disk(session: Session) -> None:
    """MachineLacks when less is free than `runtime.min_free_disk_gb`."""
    wanted = session.recipe.runtime.min_free_disk_gb
    free = shutil.disk_usage(session.home.root).free / 1e9
    if free < wanted:
        raise MachineLacks(
            f"{free:.1f} GB free on the disk of {session.home.root}, "
            f"runtime.min_free_disk_gb asks for {wanted:g}",
            hint="free space (`mimo gc` shows what can go) or lower runtime.min_free_disk_gb",
        )
