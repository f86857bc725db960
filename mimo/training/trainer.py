"""The trainer as its stage sees it: blocking calls to a guarded training process, none of which can hang."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import cast

import mimo
from mimo import errors
from mimo.backends.base import LossSpec, TrainerConfig, TrainReport
from mimo.backends.deepspeed import check_config
from mimo.backends.guardian import Guarded
from mimo.backends.malloc import with_huge_pages
from mimo.errors import EngineFailed, MimoError
from mimo.training.protocol import Line, encode_config, socket_path
from mimo.training.state_files import check_state
from mimo.types import Json

STALL_S = 1800.0
"""A call is given up when no row was finished for this long."""
TAIL_BYTES = 4000


class DeepSpeedTrainer:
    """`Trainer` over a DeepSpeed process (or a launcher's tree of them); made by `start_trainer`."""

    def __init__(self, engine: Guarded, line: Line, config: TrainerConfig, *, stall_s: float) -> None:
        self._engine = engine
        self._line = line
        self._config = config
        self._stall_s = stall_s
        self._closed = False
        self.pid = engine.pid
        """Process id of the worker, or of the launcher above the workers."""
        self.start_seconds: Mapping[str, float] = {}
        """How long the start took, by part."""

    def train_step(
        self, batch_dir: Path, loss: LossSpec, *, learning_rate: float, share_prefix: bool = True
    ) -> TrainReport:
        """One optimiser step over the batch folder; `metrics` as in docs/training.md.

        Args:
            share_prefix: False computes a group's prompt once per rollout (same gradient, slower).

        Raises:
            StageFailed: the batch cannot be trained on (damaged, other kind, other vocabulary).
            EngineFailed: a loss or gradient is not finite, or the engine died; it is closed then.
        """
        reply = self._call(
            "train_step",
            batch_dir=str(batch_dir.absolute()),
            loss=cast(Json, asdict(loss)),
            learning_rate=learning_rate,
            share_prefix=share_prefix,
        )
        metrics = cast("dict[str, float]", reply["metrics"])
        return TrainReport(
            step=int(cast(int, reply["step"])),
            metrics=metrics,
            trained_tokens=int(metrics["tokens/trained"]),
            seconds=float(cast(float, reply["seconds"])),
        )

    def score(self, sequences: Sequence[Sequence[int]], *, temperature: float) -> list[tuple[float, ...]]:
        """Per sequence, the policy logprob of each token but the first given those before it."""
        ids: list[Json] = [[int(token) for token in sequence] for sequence in sequences]
        reply = self._call("score", sequences=ids, temperature=temperature)
        return [tuple(values) for values in cast("list[list[float]]", reply["logprobs"])]

    def export(self, model_dir: Path) -> Mapping[str, Json]:
        """Write a servable folder, whole or not at all; its manifest."""
        reply = self._call("export", model_dir=str(model_dir.absolute()))
        return cast("dict[str, Json]", reply["manifest"])

    def save(self, trainer_dir: Path) -> None:
        """Write weights, optimiser and random state for an exact resume."""
        self._call("save", trainer_dir=str(trainer_dir.absolute()))

    def load(self, trainer_dir: Path) -> None:
        """Read what `save` wrote; call it before the first step.

        Raises:
            EngineFailed: damaged, incomplete (then the engine still runs), or of another set-up.
        """
        check_state(trainer_dir, quickly=False)
        self._call("load", trainer_dir=str(trainer_dir.absolute()))

    def wait_ready(self, *, deadline_s: float) -> None:
        """Wait for the engine's first message; called once, by `start_trainer`."""
        try:
            reply = self._receive(deadline_s=deadline_s)
        except (EOFError, OSError) as error:
            raise self._died("its start") from error
        except BaseException:
            self.close()
            raise
        if "error" in reply:
            raise self._refused("its start", reply)
        self.start_seconds = {key: float(cast(float, reply[f"{key}_s"])) for key in ("import", "engine")}

    def close(self) -> None:
        """End the training processes and everything they left. Idempotent."""
        if self._closed:
            return
        self._closed = True
        try:
            self._line.send({"command": "close"})
            self._receive(deadline_s=10.0)
        except (OSError, EOFError, MimoError):
            pass  # it is ended by force just below
        finally:
            self._line.close()
            self._engine.close()

    def __enter__(self) -> DeepSpeedTrainer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, command: str, **arguments: Json) -> dict[str, Json]:
        if self._closed:
            raise EngineFailed(f"trainer: {command} after it was closed")
        try:
            self._line.send({"command": command, **arguments})
            reply = self._receive(deadline_s=self._stall_s)
        except (EOFError, OSError) as error:
            raise self._died(command) from error
        except BaseException:
            self.close()
            raise
        if "error" in reply:
            raise self._refused(command, reply)
        return reply

    def _receive(self, *, deadline_s: float) -> dict[str, Json]:
        """The next message that is not a sign of life.

        Raises:
            EngineFailed: nothing came for `deadline_s`.
            EOFError: the engine is gone.
        """
        last = time.monotonic()
        while True:
            message = self._line.receive(timeout_s=1.0)
            if message is not None and "beat" not in message:
                return message
            if message is not None:
                last = time.monotonic()
            elif time.monotonic() - last > deadline_s:
                raise EngineFailed(f"trainer: no progress for {deadline_s:.0f} s{self._tail()}")
            elif self._engine.poll() is not None:
                raise EOFError("the training process ended")

    def _died(self, command: str) -> EngineFailed:
        self._closed = True
        self._line.close()
        self._engine.close()
        code = self._engine.poll()
        return EngineFailed(
            f"trainer: the training process died in {command} (exit code {code}){self._tail()}",
            hint=f"its whole log: {self._config.log_file}",
        )

    def _refused(self, command: str, reply: Mapping[str, Json]) -> MimoError:
        """The error the worker answered with; it has ended itself."""
        self.close()
        if reply["kind"] == "unexpected":
            return EngineFailed(
                f"trainer: the training process failed in {command}: {reply['error']}{self._tail()}",
                hint=f"its whole log: {self._config.log_file}",
            )
        kind = getattr(errors, str(reply["kind"]), EngineFailed)
        hint = reply["hint"]
        return cast(MimoError, kind(str(reply["error"]), hint=None if hint is None else str(hint)))

    def _tail(self) -> str:
        return log_tail(self._config.log_file)


def start_trainer(config: TrainerConfig, *, stall_s: float = STALL_S) -> DeepSpeedTrainer:
    """A running trainer (a context manager); it and all its processes end with this process at the latest.

    One process on one machine is started directly, with the variables that DeepSpeed's launcher sets;
    several, or a hostfile, go through the launcher (about 5 s more). The first host of a hostfile must be
    this machine.

    Raises:
        RecipeError: a configuration that cannot work (see `mimo.backends.deepspeed.check_config`).
        EngineFailed: it did not come up within `config.start_timeout_s`, or died; with the end of its log.
    """
    check_config(config)
    began = time.monotonic()
    engine = Guarded.start(
        _command(config), env=_environment(config), log_file=config.log_file or Path(os.devnull)
    )
    try:
        line = _accept(engine, config, deadline=began + config.start_timeout_s)
    except BaseException:
        engine.close()
        raise
    trainer = DeepSpeedTrainer(engine, line, config, stall_s=stall_s)
    trainer.wait_ready(deadline_s=began + config.start_timeout_s - time.monotonic())
    trainer.start_seconds = {**trainer.start_seconds, "total": time.monotonic() - began}
    return trainer


def log_tail(log_file: Path | None) -> str:
    """The last lines of an engine's log, ready to be appended to a message; empty without a log."""
    if log_file is None or not log_file.is_file():
        return ""
    with open(log_file, "rb") as file:
        file.seek(max(log_file.stat().st_size - TAIL_BYTES, 0))
        text = file.read().decode(errors="replace").strip()
    return f"; the end of {log_file}:\n{text}" if text else ""


def _accept(engine: Guarded, config: TrainerConfig, *, deadline: float) -> Line:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(socket_path(engine.tmp_dir)))
        server.listen(1)
        server.settimeout(0.5)
        while True:
            try:
                return Line(server.accept()[0])
            except TimeoutError:
                code = engine.poll()
                if code is None and time.monotonic() < deadline:
                    continue
                what = "did not come up in time" if code is None else f"ended with exit code {code}"
                raise EngineFailed(f"trainer: it {what}{log_tail(config.log_file)}") from None


def _command(config: TrainerConfig) -> list[str]:
    worker = ["mimo.training.worker", "--config", encode_config(config)]
    if config.num_processes == 1 and config.hostfile is None:
        return [sys.executable, "-u", "-m", *worker]
    launcher = [sys.executable, "-u", "-m", "deepspeed.launcher.runner"]
    if config.hostfile is not None:
        launcher += ["--hostfile", str(config.hostfile.absolute())]
    else:
        launcher += ["--num_gpus", str(config.num_processes), "--master_addr", "127.0.0.1"]
    return [*launcher, "--master_port", str(_free_port()), "--module", *worker]


def _environment(config: TrainerConfig) -> dict[str, str]:
    threads = config.threads or max(len(os.sched_getaffinity(0)) // config.num_processes, 1)
    path = [str(Path(mimo.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(part for part in path if part),
        "OMP_NUM_THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    if config.device == "cpu":
        env |= {"DS_ACCELERATOR": "cpu", "LOCAL_SIZE": str(config.num_processes), "CUDA_VISIBLE_DEVICES": ""}
        # Threads that spin at every barrier made a step 15 times slower as soon as a core was shared.
        env.setdefault("OMP_WAIT_POLICY", "passive")
        env = with_huge_pages(env, keep_freed=True)
    if config.num_processes == 1 and config.hostfile is None:
        alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
        env |= {**alone, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    return env


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
