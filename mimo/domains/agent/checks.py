"""The atomic checks of an end state: what must be there, and that nothing else has changed.

    file PATH                 the file's text (white space at its end does not count)
    gone PATH                 the file is not there any more
    row TABLE ID              a row that is added or changed; `no row TABLE ID` for one that goes
    other files               every other file is as it was, and there is no new one
    other rows TABLE          every other row of the table is as it was
    schema                    tables, views, triggers and indexes are as they were

Each is passed or failed by itself. The first four kinds fail where nothing was done; the others pass there.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from typing import cast

from mimo.domains.agent.world import DATABASE, Row, Tables, Value
from mimo.types import Json, record
from sandbox.base import FileChange

OTHER_FILES = "other files"
SCHEMA = "schema"
FILE = "tests/checks.json"
"""Where a task's private files hold its end state."""


@record
class EndState:
    """What a task wants: texts by path (None: gone), and with a database the statements that make its tables,
    all their rows after and before."""

    files: dict[str, str | None]
    statements: dict[str, str]
    rows: dict[str, list[Json]]
    before: dict[str, list[Json]]


@record
class Database:
    """A database as the reader in the box found it; `error` when it could not be read."""

    sound: bool = False
    schema: list[Json]
    rows: dict[str, list[Json]]
    error: str | None = None


def end_state(
    files: Mapping[str, str | None], schema: Mapping[str, str], before: Tables, after: Tables
) -> EndState:
    """The end state of a case; tables that `after` does not name stay as they are."""
    return EndState(
        files=dict(files),
        statements=dict(schema),
        rows={name: _plain(after.get(name, before.get(name, ()))) for name in schema},
        before={name: _plain(before.get(name, ())) for name in schema},
    )


def check_names(wanted: EndState) -> tuple[list[str], list[str]]:
    """The checks that must be made true, and those that must stay true."""
    turns = [f"gone {path}" if text is None else f"file {path}" for path, text in wanted.files.items()]
    stays = [OTHER_FILES]
    for table in wanted.statements:
        old, new = _by_id(wanted.before[table]), _by_id(wanted.rows[table])
        turns += [f"row {table} {number}" for number, row in new.items() if old.get(number) != row]
        turns += [f"no row {table} {number}" for number in old if number not in new]
        stays.append(f"other rows {table}")
    return turns, stays + ([SCHEMA] if wanted.statements else [])


def file_checks(
    wanted: EndState, base: Mapping[str, bytes], changes: Sequence[FileChange]
) -> dict[str, bool]:
    """The checks of files. Files that were written with what they held before have not changed.

    Args:
        base: content of every file of the pristine workspace.
        changes: what a policy left, all of it.
    """
    refused = [change.path for change in changes if change.refused is not None or _is_link(change)]
    left = {change.path: change.data for change in changes if change.path not in refused}
    changed = {path for path, data in left.items() if data != base.get(path)}
    found: dict[str, bool] = {}
    for path, text in wanted.files.items():
        data = left.get(path, base.get(path))
        if text is None:
            good = data is None
        else:
            good = data is not None and data.rstrip() == text.encode().rstrip()
        found[f"gone {path}" if text is None else f"file {path}"] = good and path not in refused
    allowed = {*wanted.files, *([DATABASE] if wanted.statements else [])}
    found[OTHER_FILES] = not changed - allowed and not refused
    return found


def _is_link(change: FileChange) -> bool:
    """A link's `data` is its target: text that was never written to a file."""
    return change.mode is not None and stat.S_ISLNK(change.mode)


def database_checks(wanted: EndState, found: Database | None) -> dict[str, bool]:
    """The checks of the database; None and an unsound one fail them all."""
    turns, stays = check_names(replace_files(wanted))
    names = [name for name in (*turns, *stays) if name != OTHER_FILES]
    if found is None or found.error is not None or not found.sound:
        return dict.fromkeys(names, False)
    same_schema = sorted(map(str, found.schema)) == sorted(
        str(["table", name, name, statement]) for name, statement in wanted.statements.items()
    )
    results = {SCHEMA: same_schema}
    for table in wanted.statements:
        results |= _table_checks(table, wanted, found.rows.get(table) if same_schema else None)
    return results


def replace_files(wanted: EndState) -> EndState:
    """The database's part of an end state."""
    return EndState(files={}, statements=wanted.statements, rows=wanted.rows, before=wanted.before)


def _table_checks(table: str, wanted: EndState, rows: list[Json] | None) -> dict[str, bool]:
    old, new = _by_id(wanted.before[table]), _by_id(wanted.rows[table])
    turning = {number for number in old.keys() | new.keys() if old.get(number) != new.get(number)}
    is_there = {} if rows is None else _by_id(rows)
    twice = rows is not None and len(is_there) != len(rows)
    results = {}
    for number in turning:
        want = new.get(number)
        name = f"no row {table} {number}" if want is None else f"row {table} {number}"
        results[name] = rows is not None and is_there.get(number) == want
    rest = {number: row for number, row in is_there.items() if number not in turning}
    kept = {number: row for number, row in old.items() if number not in turning}
    results[f"other rows {table}"] = rows is not None and not twice and rest == kept
    return results


def _by_id(rows: Sequence[Json]) -> dict[Json, list[Json]]:
    """Rows by their first value, which must be a plain one (else by its text)."""
    found: dict[Json, list[Json]] = {}
    for row in cast("list[list[Json]]", rows):
        key = row[0] if row and not isinstance(row[0], list | dict) else str(row[:1])
        found[key] = row
    return found


def _plain(rows: Sequence[Row]) -> list[Json]:
    return [cast("list[Json]", [_value(value) for value in row]) for row in rows]


def _value(value: Value) -> Json:
    return value
