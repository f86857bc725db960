"""How the client and rank 0 talk: one JSON object a line over a Unix socket; the client listens."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import cast

from mimo.backends.base import TrainerConfig
from mimo.types import Json

_PATHS = ("model_dir", "hostfile", "log_file")


def encode_config(config: TrainerConfig) -> str:
    """The configuration as one word for the workers' command line (base64 of JSON)."""
    data = {**asdict(config), "optimizer": dict(config.optimizer), "deepspeed": dict(config.deepspeed)}
    plain = {key: str(value) if key in _PATHS and value is not None else value for key, value in data.items()}
    return base64.urlsafe_b64encode(json.dumps(plain).encode()).decode()


def decode_config(word: str) -> TrainerConfig:
    """The configuration that `encode_config` wrote."""
    data = json.loads(base64.urlsafe_b64decode(word))
    paths = {key: Path(str(data[key])) for key in _PATHS if data[key] is not None}
    return TrainerConfig(**{**data, **paths})


def socket_path(tmp_dir: Path) -> Path:
    """Where the client listens: in the engine's own temporary folder, which its guardian removes."""
    return tmp_dir / "trainer.sock"


class Line:
    """A connected socket that carries JSON lines."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._rest = b""

    def send(self, message: Mapping[str, Json]) -> None:
        """Send one message whole."""
        self._socket.settimeout(None)
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self, timeout_s: float | None = None) -> dict[str, Json] | None:
        """The next message; None when nothing whole came within `timeout_s`.

        Raises:
            EOFError: the other side is gone.
        """
        self._socket.settimeout(timeout_s)
        while b"\n" not in self._rest:
            try:
                data = self._socket.recv(1 << 20)
            except TimeoutError:
                return None
            except ConnectionError as error:
                raise EOFError("the connection broke") from error
            if not data:
                raise EOFError("the connection ended")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return cast("dict[str, Json]", json.loads(line))

    def close(self) -> None:
        """Close the socket; the other side sees the end."""
        self._socket.close()
