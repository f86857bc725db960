"""The training process: `python -m mimo.training.worker --config C`, one per rank.

Started by DeepSpeed's launcher (or alone, with the launcher's variables in its environment). Rank 0 reads
commands from the socket and gives each to every rank; all run it together; rank 0 answers. An error is
answered and ends the process: ranks that failed half-way are not fit for another collective.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from mimo.backends.base import LossSpec
from mimo.errors import MimoError
from mimo.run_dir.files import disk_full_is_clear
from mimo.training.protocol import Line, decode_config, socket_path
from mimo.types import Json

Reply = dict[str, Json]
CONNECT_S = 30.0


def main() -> int:
    """Serve until `close` or the end of the client; 1 after an error."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True, help="base64 of the TrainerConfig as JSON")
    parser.add_argument("--local_rank", type=int, default=0)
    options = parser.parse_args()
    line = _connect(socket_path(Path(os.environ["TMPDIR"]))) if int(os.environ["RANK"]) == 0 else None
    try:
        return _serve(options.config, line)
    except MimoError as error:
        traceback.print_exc()
        _answer(line, {"error": error.message, "hint": error.hint, "kind": type(error).__name__})
    except BaseException as error:
        traceback.print_exc()
        sys.stderr.flush()
        _answer(line, {"error": f"{type(error).__name__}: {error}", "hint": None, "kind": "unexpected"})
        if not isinstance(error, Exception):
            raise
    return 1


def _serve(config_text: str, line: Line | None) -> int:
    import torch

    began = time.perf_counter()
    config = decode_config(config_text)
    if config.threads:
        torch.set_num_threads(config.threads)
    from mimo.training.engine import Engine

    imported = time.perf_counter()
    engine = Engine(config, on_progress=_beats(line))
    ready: Reply = {
        "ready": True,
        "ranks": engine.world_size,
        "import_s": imported - began,
        "engine_s": time.perf_counter() - imported,
    }
    if line:
        line.send(ready)
    while True:
        text = _next_command(line) if line else None
        command = json.loads(engine.broadcast_text(text))
        name = command.pop("command")
        if name == "close":
            _answer(line, {"closed": True})
            sys.stdout.flush()
            os._exit(0)  # nothing is left to write; tearing down gloo and DeepSpeed takes seconds
        reply = _COMMANDS[name](engine, command)
        if line:
            line.send(reply)


def _beats(line: Line | None) -> Callable[[], None]:
    """Tells the client, at most once a second, that a row was done: a rank that hangs is then seen."""
    last = 0.0

    def beat() -> None:
        nonlocal last
        now = time.monotonic()
        if line and now - last > 1.0:
            last = now
            line.send({"beat": True})

    return beat


def _next_command(line: Line) -> str:
    try:
        message = line.receive()
    except EOFError:
        return '{"command": "close"}'
    return json.dumps(message)


def _train_step(engine: object, command: Mapping[str, Json]) -> Reply:
    from mimo.training.batch import read_batch
    from mimo.training.engine import Engine
    from mimo.training.steps import train_step

    assert isinstance(engine, Engine)
    began = time.perf_counter()
    batch = read_batch(Path(str(command["batch_dir"])))
    read_s = time.perf_counter() - began
    loss = LossSpec(**cast("dict[str, float]", command["loss"]))  # type: ignore[arg-type]
    metrics = train_step(
        engine,
        batch,
        loss,
        learning_rate=float(cast(float, command["learning_rate"])),
        share_prefix=bool(command["share_prefix"]),
    )
    found: Json = {**metrics, "time/read_s": read_s}
    return {"step": batch.step, "metrics": found, "seconds": time.perf_counter() - began}


def _score(engine: object, command: Mapping[str, Json]) -> Reply:
    from mimo.training.engine import Engine
    from mimo.training.steps import score

    assert isinstance(engine, Engine)
    sequences = cast("list[list[int]]", command["sequences"])
    found = score(engine, sequences, temperature=float(cast(float, command["temperature"])))
    return {"logprobs": [list(values) for values in found]}


def _export(engine: object, command: Mapping[str, Json]) -> Reply:
    from mimo.training.engine import Engine
    from mimo.training.export import export_model

    assert isinstance(engine, Engine)
    folder = Path(str(command["model_dir"]))
    with disk_full_is_clear(folder):
        return {"manifest": export_model(engine, folder)}


def _save(engine: object, command: Mapping[str, Json]) -> Reply:
    from mimo.training.engine import Engine
    from mimo.training.state import save_state

    assert isinstance(engine, Engine)
    folder = Path(str(command["trainer_dir"]))
    with disk_full_is_clear(folder):
        save_state(engine, folder)
    return {"steps": engine.steps}


def _load(engine: object, command: Mapping[str, Json]) -> Reply:
    from mimo.training.engine import Engine
    from mimo.training.state import load_state

    assert isinstance(engine, Engine)
    load_state(engine, Path(str(command["trainer_dir"])))
    return {"steps": engine.steps}


_COMMANDS: dict[str, Callable[[object, Mapping[str, Json]], Reply]] = {
    "train_step": _train_step,
    "score": _score,
    "export": _export,
    "save": _save,
    "load": _load,
}


def _connect(path: Path) -> Line:
    """The client listens there as soon as it knows the folder, which is long before we ask."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    deadline = time.monotonic() + CONNECT_S
    while True:
        try:
            connection.connect(str(path))
            return Line(connection)
        except (FileNotFoundError, ConnectionRefusedError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _answer(line: Line | None, reply: Reply) -> None:
    if line is None:
        return
    try:
        line.send(reply)
    except OSError:
        print("the client is gone", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
