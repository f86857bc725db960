#!/usr/bin/env python3
"""desk: the workspace's database on the command line.

bin/desk TABLE                      every row
bin/desk TABLE COLUMN VALUE         rows where COLUMN is VALUE
bin/desk set TABLE ID COLUMN VALUE  change one value
bin/desk add TABLE VALUE...         a new row, values in the order of the columns
bin/desk del TABLE ID               remove a row
bin/desk sql STATEMENT              anything else
"""

from __future__ import annotations

import csv
import sqlite3
import sys
from pathlib import Path

DATABASE = Path(__file__).resolve().parents[1] / "data" / "desk.db"


def columns(db: sqlite3.Connection, table: str) -> list[str]:
    """The names of a table's columns; ends the program if there is no such table."""
    rows = db.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
    if not rows:
        names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        sys.exit(f"desk: no table {table!r}; tables: {', '.join(names)}")
    return [row[0] for row in rows]


def column(db: sqlite3.Connection, table: str, name: str) -> str:
    """The quoted name; ends the program if there is no such column."""
    known = columns(db, table)
    if name not in known:
        sys.exit(f"desk: no column {name!r}; columns: {', '.join(known)}")
    return f'"{name}"'


def show(cursor: sqlite3.Cursor) -> None:
    """Rows as CSV, the columns first."""
    if cursor.description is not None:
        out = csv.writer(sys.stdout, lineterminator="\n")
        out.writerow([item[0] for item in cursor.description])
        out.writerows(cursor)


def change(db: sqlite3.Connection, words: list[str]) -> None:
    """set, add or del."""
    action, table, *rest = words
    if action == "add":
        marks = ", ".join("?" for _ in columns(db, table))
        done = db.execute(f'INSERT INTO "{table}" VALUES ({marks})', rest)
    elif action == "del":
        columns(db, table)
        done = db.execute(f'DELETE FROM "{table}" WHERE id = ?', rest[:1])
    else:
        number, name, value = rest
        done = db.execute(f'UPDATE "{table}" SET {column(db, table, name)} = ? WHERE id = ?', (value, number))
    db.commit()
    print(f"{done.rowcount} row{'' if done.rowcount == 1 else 's'} changed")


def main(words: list[str]) -> None:
    """Carry out the words of the command line."""
    db = sqlite3.connect(DATABASE)
    if not words or words[0] in ("-h", "--help"):
        sys.exit((__doc__ or "").strip())
    if words[0] == "sql":
        show(db.execute(words[1]))
        db.commit()
    elif words[0] in ("set", "add", "del"):
        change(db, words)
    elif len(words) == 1:
        columns(db, words[0])
        show(db.execute(f'SELECT * FROM "{words[0]}"'))
    else:
        table, name, value = words
        show(db.execute(f'SELECT * FROM "{table}" WHERE {column(db, table, name)} = ?', (value,)))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (sqlite3.Error, ValueError, IndexError) as error:
        sys.exit(f"desk: {error}")
