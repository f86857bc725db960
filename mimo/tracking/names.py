"""Names and values MLflow accepts, made from ours; the raw ones stay in the files."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping

from mimo.types import Json

PARAM_LIMIT = 6000
"""Characters of a parameter's value (MLflow's own limit, where it would cut silently)."""
TAG_LIMIT = 5000
KEY_LIMIT = 250


def metric_name(name: str) -> str:
    """`name` as MLflow takes it: `@` becomes `_at_`, other characters it refuses `_`; at most 250 long."""
    clean = re.sub(r"[^\w\-. :/]", "_", name.replace("@", "_at_"))
    parts = [part for part in clean.split("/") if part not in ("", ".", "..")]
    return "/".join(parts)[:KEY_LIMIT] or "_"


def finite_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics under MLflow's names; NaN and infinities become `NAME_nonfinite = 1`, never a value."""
    sent: dict[str, float] = {}
    for name, value in metrics.items():
        number = float(value)
        if math.isfinite(number):
            sent[metric_name(name)] = number
        else:
            sent[metric_name(f"{name[: KEY_LIMIT - 10]}_nonfinite")] = 1.0
    return sent


def flatten(params: Mapping[str, Json]) -> dict[str, str]:
    """Nested parameters as `a.b.c -> text`; lists as JSON, long values cut with a notice."""
    return {metric_name(key): cut(value, PARAM_LIMIT) for key, value in _leaves("", params)}


def cut(text: str, limit: int) -> str:
    """`text` of at most `limit` characters that any database stores; a cut says how long it was."""
    clean = text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if len(clean) <= limit:
        return clean
    notice = f" [cut: {len(clean)} characters in all]"
    return clean[: limit - len(notice)] + notice


def tag_text(value: Json) -> str:
    """A tag's value."""
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), TAG_LIMIT)


def _leaves(prefix: str, value: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    for key, item in value.items():
        name = f"{prefix}{key}"
        if isinstance(item, dict) and item:
            yield from _leaves(f"{name}.", item)
        elif isinstance(item, str):
            yield name, item
        else:
            yield name, json.dumps(item, ensure_ascii=False)
