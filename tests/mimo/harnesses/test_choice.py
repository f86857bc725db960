from __future__ import annotations

from typing import ClassVar

import pytest

from mimo.errors import RecipeError
from mimo.harnesses import draw_harness, supported

HERE = "tests.mimo.harnesses.test_choice"
SECOND = f"{HERE}:Second"


class Second:
    """Another way to act in the coding domain, by a dotted path."""

    domains: ClassVar[tuple[str, ...]] = ("coding", "cyber")


def test_only_harnesses_that_support_the_domain_are_drawn() -> None:
    names = ["edit-lines", SECOND]
    assert supported(names, "coding") == names
    assert {draw_harness(names, "cyber", seed) for seed in range(20)} == {SECOND}


def test_a_draw_is_the_same_for_the_same_group_and_uses_all() -> None:
    names = ["edit-lines", SECOND]
    drawn = [draw_harness(names, "coding", 1, f"g{n}") for n in range(40)]
    assert drawn == [draw_harness(names, "coding", 1, f"g{n}") for n in range(40)]
    assert 8 < drawn.count("edit-lines") < 32


def test_none_is_a_clear_error() -> None:
    with pytest.raises(RecipeError, match=r"harness.names \(edit-lines\) supports the cyber domain") as error:
        draw_harness(["edit-lines"], "cyber")
    assert error.value.hint is not None
    assert "tasks.sources" in error.value.hint
    with pytest.raises(RecipeError, match="did you mean 'edit-lines'"):
        supported(["edit-line"], "coding")
