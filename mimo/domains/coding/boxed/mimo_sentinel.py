"""What rewritten asserts call: refuses a value that claims to be equal to a fresh object."""

from __future__ import annotations

from typing import TypeVar

_T = TypeVar("_T")
_TRUSTED = ("unittest.mock", "_pytest.python_api", "_pytest.recwarn")


class _Fresh:
    """Nothing honest is equal to this."""


def mimo_real(value: _T) -> _T:
    """The value; AssertionError if it is equal to everything (test doubles such as mock.ANY may be)."""
    fresh = _Fresh()
    if type(value).__module__ not in _TRUSTED and ((value == fresh) is True or (value != fresh) is False):
        raise AssertionError("a value that is equal to everything")
    return value
