"""All keys in docs/recipe.md, from the models: `python -m mimo.recipe.reference docs/recipe.md`."""

from __future__ import annotations

import sys
from pathlib import Path

from mimo.recipe.loader import load_recipe
from mimo.recipe.schema import Key, all_keys
from mimo.recipe.yaml_tree import dump_yaml
from mimo.types import Json

START = "<!-- keys: made by python -m mimo.recipe.reference -->"
END = "<!-- keys end -->"


def reference() -> str:
    """Every key as Markdown tables, one for each part: key, type, value in base.yaml, meaning."""
    # Any shipped recipe shows base.yaml's values, but for what it sets itself; those are shown empty.
    base = load_recipe("pro")
    data = base.model.data()
    from_base = {key for key, origin in base.origins.items() if origin.file.endswith("base.yaml")}
    lines = ["| key | type | base | meaning |", "|---|---|---|---|"]
    lines += [_row(key, data, from_base) for key in all_keys()]
    return "\n".join(lines)


def _row(key: Key, data: Json, from_base: set[str]) -> str:
    value = _value(data, key.dotted) if key.leaf and key.dotted in from_base else ""
    return f"| `{key.dotted}` | {_cell(key.kind)} | {_cell(value)} | {_cell(key.meaning)} |"


def _value(data: Json, dotted: str) -> str:
    for part in dotted.split("."):
        if not isinstance(data, dict):
            return ""
        data = data.get(part)
    return f"`{_inline(data)}`"


def _inline(value: Json) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    return dump_yaml(value).removesuffix("...\n").strip()


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def rewrite(page: str) -> str:
    """`page` with the tables between its two markers made anew."""
    head, _, rest = page.partition(START)
    _, _, tail = rest.partition(END)
    return f"{head}{START}\n{reference()}\n{END}{tail}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(rewrite(path.read_text(encoding="utf-8")), encoding="utf-8")
