"""Read a database that a policy left, as data: its schema, and the rows of the tables that are as they were.

Runs in a box of its own, isolated (`-I`), with nothing of the policy's on the path; the plan comes in through
standard input: {path, schema: [[type, name, table, sql]], key}. One line goes out: the key, then JSON.
"""

from __future__ import annotations

import json
import sqlite3
import sys

MOST_ROWS = 5000
MOST_TEXT = 10_000


def plain(value: object) -> object:
    """A value as JSON holds it; what is no text or number by its kind and size."""
    if isinstance(value, bytes):
        return {"blob": len(value)}
    if isinstance(value, str) and len(value) > MOST_TEXT:
        return {"text": len(value)}
    return value


def read(path: str, wanted: list[list[str]]) -> dict[str, object]:
    """Schema and rows, or what is wrong."""
    db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA cell_size_check = ON")
    sound = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
    found = sorted(
        [str(part) for part in row]
        for row in db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
    )
    rows = {}
    if found == sorted(wanted):
        for kind, name, _, _ in wanted:
            if kind == "table":
                taken = db.execute(f'SELECT * FROM "{name}"').fetchmany(MOST_ROWS + 1)
                if len(taken) > MOST_ROWS:
                    return {"error": f"more than {MOST_ROWS} rows in {name}"}
                rows[name] = [[plain(value) for value in row] for row in taken]
    return {"sound": sound == "ok", "schema": found, "rows": rows}


def main() -> None:
    """Answer the plan."""
    plan = json.load(sys.stdin)
    try:
        answer = read(plan["path"], plan["schema"])
    except (sqlite3.Error, OSError, ValueError) as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(plan["key"], json.dumps(answer))


main()
