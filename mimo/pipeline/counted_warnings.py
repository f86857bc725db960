"""Every warning that our code logs in a stage's process becomes a count: the run's summary shows it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

_OURS = ("mimo", "sandbox")


class Counts(Protocol):
    """What takes counts: a stage's context."""

    def count(self, what: str, amount: int = 1, *, why: str = "") -> None:
        """See `mimo.stages.base.StageContext`."""
        ...


class _Counter(logging.Handler):
    """`"what (%s)"` is counted as `what`; what is in the parentheses is why."""

    def __init__(self, counts: Counts) -> None:
        super().__init__(logging.WARNING)
        self._counts = counts

    def emit(self, record: logging.LogRecord) -> None:
        what, text = str(record.msg).partition(" (")[0], record.getMessage()
        why = text.removeprefix(f"{what} (").removesuffix(")")
        self._counts.count(what, why="" if why == what else why)


@contextmanager
def warnings_counted(counts: Counts) -> Iterator[None]:
    """Count the warnings of `mimo` and `sandbox` meanwhile, from any thread."""
    handler = _Counter(counts)
    for name in _OURS:
        logging.getLogger(name).addHandler(handler)
    try:
        yield
    finally:
        for name in _OURS:
            logging.getLogger(name).removeHandler(handler)
