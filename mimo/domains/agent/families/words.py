"""Names and small tables that the families draw from."""

from __future__ import annotations

import random
from collections.abc import Mapping

from mimo.domains.agent.world import Row, Tables

PEOPLE = ("ana", "ben", "carla", "deng", "eva", "farid", "gina", "hugo", "ines", "jonas", "kira", "leo")
ITEMS = ("pen", "lamp", "desk", "chair", "mug", "clock", "shelf", "cable", "phone", "board")
TOPICS = ("budget", "travel", "hiring", "garden", "kitchen", "security", "archive", "printer", "parking")
FOLDERS = ("notes", "docs", "papers", "drafts", "inbox", "plans")
STATUSES = ("open", "paid", "shipped", "returned", "closed")
CITIES = ("lima", "oslo", "rome", "cairo", "quito", "delhi", "paris", "tokyo")

ORDERS = (
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, item TEXT, quantity INTEGER, status TEXT)"
)
CUSTOMERS = "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT)"
TICKETS = "CREATE TABLE tickets (id INTEGER PRIMARY KEY, title TEXT, status TEXT, owner TEXT)"
SHOP: Mapping[str, str] = {"orders": ORDERS, "customers": CUSTOMERS}
SERVICE: Mapping[str, str] = {"tickets": TICKETS}


def orders(rng: random.Random, number: int) -> tuple[Row, ...]:
    """Rows of the table `orders`."""
    return tuple(
        (n, rng.choice(PEOPLE), rng.choice(ITEMS), rng.randint(1, 9), rng.choice(STATUSES))
        for n in range(1, number + 1)
    )


def shop(rng: random.Random, level: int) -> Tables:
    """The tables of `SHOP`; larger at level 2."""
    people = rng.sample(PEOPLE, 4)
    return {
        "orders": orders(rng, 5 if level == 1 else 12),
        "customers": tuple((n, name, rng.choice(CITIES)) for n, name in enumerate(people, 1)),
    }


def tickets(rng: random.Random, number: int) -> tuple[Row, ...]:
    """Rows of the table `tickets`; the first two are open and have the same owner."""
    owner = rng.choice(PEOPLE)
    rows = []
    for n in range(1, number + 1):
        status = "open" if n < 3 else rng.choice(("open", "closed", "waiting"))
        rows.append(
            (n, f"{rng.choice(TOPICS)} {rng.choice(ITEMS)}", status, owner if n < 3 else rng.choice(PEOPLE))
        )
    return tuple(rows)


def sentences(rng: random.Random, number: int) -> str:
    """Lines of a note."""
    return "".join(
        f"{rng.choice(PEOPLE)} asked for the {rng.choice(ITEMS)} in {rng.choice(CITIES)}\n"
        for _ in range(number)
    )


def paths(rng: random.Random, number: int, suffix: str = ".txt") -> list[str]:
    """Different paths of notes, all in one folder."""
    folder = rng.choice(FOLDERS)
    return [f"{folder}/{topic}{suffix}" for topic in rng.sample(TOPICS, number)]


def set_value(rows: tuple[Row, ...], number: int, column: int, value: str | int) -> tuple[Row, ...]:
    """The rows with one value changed: of the row with id `number`, at place `column`."""
    return tuple((*row[:column], value, *row[column + 1 :]) if row[0] == number else row for row in rows)
