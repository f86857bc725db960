"""JSON lines between a stage's process and the engine over one socket; end of file is the death signal."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import cast

from mimo.types import Json

Message = dict[str, Json]


class Channel:
    """One end. Sending is safe from any thread; one thread reads."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._lock = threading.Lock()

    @classmethod
    def pair(cls) -> tuple[Channel, socket.socket]:
        """The engine's end, and the socket that the stage's process inherits (close it here afterwards)."""
        ours, theirs = socket.socketpair()
        return cls(ours), theirs

    @classmethod
    def inherited(cls, handle: int) -> Channel:
        """The end that this process was given as a file number."""
        end = socket.socket(fileno=handle)
        end.set_inheritable(False)
        return cls(end)

    def send(self, message: Mapping[str, Json]) -> bool:
        """Send one message; False when the other side is gone."""
        data = json.dumps(message, ensure_ascii=False).encode() + b"\n"
        try:
            with self._lock:
                self._end.sendall(data)
        except OSError:
            return False
        return True

    def messages(self, redact: Callable[[str], str] | None = None) -> Iterator[Message]:
        """Messages until the other side closes or dies; `redact` sees each line before it is read."""
        with self._end.makefile("rb") as lines:
            try:
                for line in lines:
                    if line.endswith(b"\n"):
                        yield cast(Message, json.loads(redact(line.decode()) if redact else line))
            except OSError:
                return

    def close(self) -> None:
        """Close this end. Idempotent."""
        self._end.close()
