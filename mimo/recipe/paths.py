"""Files and folders that a recipe names: relative to the file they are written in, absolute once resolved."""

from __future__ import annotations

import re
from pathlib import Path

from mimo.recipe.problems import Origin
from mimo.recipe.yaml_tree import Value, put

PATH_KEYS = re.compile(
    r"tasks\.sources\.\d+\.path|cold_start\.corrections|runtime\.trainer\.hostfile|policy\.source|"
    r"runtime\.plan\.policy_config"
)
_SOURCE = "path:"


def absolute_paths(tree: Value) -> Value:
    """`tree` with every path absolute; one from `--set` is relative to the current folder.

    `policy.source` holds a path only after `path:`; a path that starts with a reference is left as it is.
    """
    for key, value in tree.walk():
        written = value.content
        if not isinstance(written, str) or not PATH_KEYS.fullmatch(key):
            continue
        head = _SOURCE if key == "policy.source" else ""
        if written.startswith(head) and written != head:
            path = head + _absolute(written.removeprefix(head), value.origin)
            tree = put(tree, key.split("."), Value(value.origin, path))
    return tree


def _absolute(path: str, origin: Origin) -> str:
    if path.startswith("${"):
        return path
    folder = Path(origin.file).parent if origin.line else Path()
    return str((folder / Path(path).expanduser()).resolve())
