"""Warnings of our code become counts of the stage that they are logged in."""

from __future__ import annotations

import logging
import threading

from mimo.pipeline.counted_warnings import warnings_counted


class Counts:
    def __init__(self) -> None:
        self.told: list[tuple[str, int, str]] = []

    def count(self, what: str, amount: int = 1, *, why: str = "") -> None:
        self.told.append((what, amount, why))


def test_warnings_are_counted_by_their_name_from_any_thread() -> None:
    counts = Counts()
    deep, box = logging.getLogger("mimo.domains.coding.sdist"), logging.getLogger("sandbox.docker")
    with warnings_counted(counts):
        deep.info("nothing to say")
        deep.warning("another way was taken (%s: %d)", "pip", 3)
        logging.getLogger("elsewhere").warning("not ours")
        thread = threading.Thread(target=box.warning, args=("a box is left behind",))
        thread.start()
        thread.join()
    box.warning("after the stage")
    assert counts.told == [("another way was taken", 1, "pip: 3"), ("a box is left behind", 1, "")]
