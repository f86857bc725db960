#!/usr/bin/env python3
"""The ticket service: JSON over HTTP on 127.0.0.1:8070, kept in data/desk.db.

GET    /tickets            all; ?status=open and the like filter by a column
GET    /tickets/ID         one
PATCH  /tickets/ID         change columns: {"status": "closed"}
POST   /tickets            a new one: {"title": ..., "status": ..., "owner": ...}
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

DATABASE = Path(__file__).resolve().parents[1] / "data" / "desk.db"
PORT = 8070
COLUMNS = ("id", "title", "status", "owner")


class Refused(Exception):
    """An answer that is no success: status and words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


def tickets(db: sqlite3.Connection, where: Iterable[tuple[str, str]] = ()) -> list[dict[str, object]]:
    """The tickets whose columns have these values."""
    where = list(where)
    bad = [name for name, _ in where if name not in COLUMNS]
    if bad:
        raise Refused(400, f"no column {bad[0]}; columns: {', '.join(COLUMNS)}")
    clause = " AND ".join(f"{name} = ?" for name, _ in where) or "1"
    rows = db.execute(
        f"SELECT {', '.join(COLUMNS)} FROM tickets WHERE {clause} ORDER BY id", [value for _, value in where]
    )
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


def one(db: sqlite3.Connection, number: str) -> dict[str, object]:
    """The ticket of that number."""
    found = tickets(db, [("id", number)])
    if not found:
        raise Refused(404, f"no ticket {number}")
    return found[0]


def answer(method: str, path: str, query: list[tuple[str, str]], body: Mapping[str, object]) -> object:
    """What a request gives back."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] != ["tickets"] or len(parts) > 2:
        raise Refused(404, "no such path; see the head of service/api.py")
    with sqlite3.connect(DATABASE) as db:
        if method == "GET":
            return one(db, parts[1]) if len(parts) == 2 else tickets(db, query)
        values = {name: value for name, value in body.items() if name in COLUMNS[1:]}
        if not values or len(values) != len(body):
            raise Refused(400, f"give some of {', '.join(COLUMNS[1:])}")
        names = list(values)
        if method == "PATCH" and len(parts) == 2:
            one(db, parts[1])
            sets = ", ".join(f"{name} = ?" for name in names)
            db.execute(f"UPDATE tickets SET {sets} WHERE id = ?", [*values.values(), parts[1]])
            return one(db, parts[1])
        if method == "POST" and len(parts) == 1:
            marks = ", ".join("?" for _ in names)
            done = db.execute(
                f"INSERT INTO tickets ({', '.join(names)}) VALUES ({marks})", list(values.values())
            )
            return one(db, str(done.lastrowid))
    raise Refused(405, f"{method} is not possible here")


class Handler(BaseHTTPRequestHandler):
    """One request."""

    def handle_any(self) -> None:
        """Answer with JSON; errors too."""
        place = urlsplit(self.path)
        try:
            text = self.rfile.read(min(int(self.headers.get("Content-Length") or 0), 100_000))
            body = json.loads(text) if text else {}
            if not isinstance(body, dict):
                raise Refused(400, "the body must be an object")
            status: int = 200
            data: object = answer(self.command, place.path, parse_qsl(place.query), body)
        except Refused as error:
            status, data = error.status, {"error": str(error)}
        except (ValueError, sqlite3.Error) as error:
            status, data = 400, {"error": str(error)}
        raw = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    do_GET = do_PATCH = do_POST = do_DELETE = handle_any

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""


if __name__ == "__main__":
    try:
        ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
    except OSError as error:
        sys.exit(f"service: {error}")
