"""Signals to the engine: the first asks for a stop at the next safe point, the second kills.

SIGHUP says that the terminal is gone. It often comes twice (from the shell and from the kernel), so it never
counts as the second; and who starts a run with `nohup` wants it ignored.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

from mimo.errors import Interrupted, MimoError, StoppedSafely

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """`with StopSignals() as stop:` counts SIGINT, SIGTERM and SIGHUP; `level` is 0, 1 (stop) or 2 (kill)."""

    def __init__(self) -> None:
        self.level = 0
        self._interrupt = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                    continue
                self._before[number] = signal.signal(number, self._got)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def error(self, message: str) -> MimoError:
        """The error that a stop ends the run with: Ctrl-C or another signal."""
        return Interrupted(message) if self._interrupt else StoppedSafely(message)

    def _got(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of a handler
        if self.level == 0:
            self._interrupt = number == signal.SIGINT
        self.level = max(self.level, 1) if number == signal.SIGHUP else min(self.level + 1, 2)
