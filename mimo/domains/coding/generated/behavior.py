"""What a generated function returns on its inputs, under a step limit (only our own templates run here)."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from mimo.types import Json

MAX_STEPS = 1000


class _TooLong(Exception):
    """The function did not end within MAX_STEPS lines."""


def outcomes(source: str, function: str, inputs: Sequence[tuple[Json, ...]]) -> list[str]:
    """Per input, `= value` as Python text, or `! ErrorType`; `! TooLong` for a run that does not end."""
    space: dict[str, Any] = {}
    exec(compile(source, "<generated>", "exec"), space)
    return [_outcome(space[function], arguments) for arguments in inputs]


def _outcome(function: Callable[..., object], arguments: tuple[Json, ...]) -> str:
    before, steps = sys.gettrace(), 0

    def count(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal steps
        steps += event == "line"
        if steps > MAX_STEPS:
            raise _TooLong
        return count

    sys.settrace(count)
    try:
        return f"= {function(*copy.deepcopy(arguments))!r}"
    except _TooLong:
        return "! TooLong"
    except (
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        NameError,
        RuntimeError,
    ) as error:
        return f"! {type(error).__name__}"
    finally:
        sys.settrace(before)
