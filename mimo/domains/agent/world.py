"""A workspace before and after: its files, its database, the programs in it."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from mimo.types import Json
from sandbox.scratch import temporary_parent

DATABASE = "data/desk.db"
"""Where the database lies in the workspace."""
PROGRAMS: Mapping[str, Mapping[str, str]] = {
    "desk": {"bin/desk": "mimo.domains.agent.boxed.desk"},
    "api": {
        "bin/api": "mimo.domains.agent.boxed.api_client",
        "service/api.py": "mimo.domains.agent.boxed.api_server",
    },
}
"""Name of a tool to path in the workspace and the module that lies there (whole names: a stage's code digest
follows them)."""

Value = int | float | str | None
Row = tuple[Value, ...]
Tables = Mapping[str, tuple[Row, ...]]
"""Table to its rows; the first value of a row is its id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """A workspace: texts by path, and, with a `schema` (table to the SQL that makes it), a database."""

    files: Mapping[str, str]
    schema: Mapping[str, str] = field(default_factory=dict)
    tables: Tables = field(default_factory=dict)
    programs: tuple[str, ...] = ()

    def contents(self) -> dict[str, bytes]:
        """Every file of the workspace by path; the same world gives the same bytes with the same sqlite."""
        found = {path: text.encode() for path, text in self.files.items()}
        for name in self.programs:
            for path, source in PROGRAMS[name].items():
                found[path] = program(source)
        if self.schema:
            found[DATABASE] = database(self.schema, self.tables)
        return found


def program(module: str) -> bytes:
    """The source of a module of `boxed`."""
    package, _, name = module.rpartition(".")
    return (resources.files(package) / f"{name}.py").read_bytes()


def database(schema: Mapping[str, str], tables: Tables) -> bytes:
    """A database file with these tables and rows, written in one transaction."""
    with tempfile.TemporaryDirectory(prefix="mimo-desk-", dir=temporary_parent()) as folder:
        path = Path(folder) / "desk.db"
        db = sqlite3.connect(path)
        try:
            for name, statement in schema.items():
                db.execute(statement)
                for row in tables.get(name, ()):
                    db.execute(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(row))})', row)
            db.commit()
        finally:
            db.close()
        return path.read_bytes()


def schema_rows(schema: Mapping[str, str]) -> list[Json]:
    """The schema as sqlite keeps it: [type, name, table, sql] of every entry."""
    return [["table", name, name, statement] for name, statement in schema.items()]
