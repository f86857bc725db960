"""What the engine sends to a stage's process: answers; and the wish to stop, which comes as SIGTERM."""

from __future__ import annotations

import contextlib
import itertools
import queue
import signal
import threading
from collections.abc import Mapping

from mimo.errors import StoppedSafely
from mimo.pipeline.channel import Channel, Message
from mimo.pipeline.processes import kill_descendants
from mimo.types import Json

_LOOK_EVERY_S = 0.2


class Inbox:
    """Reads the channel in a thread. When the engine is gone, this process and all below it die at once."""

    def __init__(self, channel: Channel) -> None:
        self.stop_asked = False
        self._channel = channel
        self._numbers = itertools.count(1)
        self._waiting: dict[int, queue.SimpleQueue[Message]] = {}
        self.finished = False

    def open(self) -> None:
        """Start reading, take SIGTERM as the wish to stop, ignore Ctrl-C (the engine passes it on)."""
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=self._read, name="inbox", daemon=True).start()

    def ask(self, channel: Channel, question: Mapping[str, Json]) -> Message:
        """Send a question and wait for its answer; StoppedSafely when a stop was asked for meanwhile."""
        number = next(self._numbers)
        box: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._waiting[number] = box
        channel.send({**question, "number": number})
        while not self.stop_asked:
            with contextlib.suppress(queue.Empty):
                return box.get(timeout=_LOOK_EVERY_S)
        raise StoppedSafely(f"stopped while waiting for the {question['kind']}")

    def _read(self) -> None:
        for message in self._channel.messages():
            waiting = self._waiting.get(int(str(message.get("number", 0))))
            if waiting is not None:
                waiting.put(message)
        if not self.finished:
            kill_descendants()

    def _stop(self, number: int, frame: object) -> None:  # noqa: ARG002 - the signature of a handler
        self.stop_asked = True
