"""docs/recipe.md lists exactly the keys of the models."""

from __future__ import annotations

from pathlib import Path

from mimo.recipe.reference import rewrite

PAGE = Path(__file__).parents[3] / "docs" / "recipe.md"


def test_the_page_is_what_the_models_say() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert rewrite(page) == page, "run: python -m mimo.recipe.reference docs/recipe.md"
    assert "| `rl_mixed.group_size` | whole number | `16` | Rollouts of a group, at least 2. |" in page
