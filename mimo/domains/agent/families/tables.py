"""Families about the database, through the command line `bin/desk` or the ticket service on loopback."""

from __future__ import annotations

import random

from mimo.domains.agent.families import words
from mimo.domains.agent.family import Case, Family, read, shell
from mimo.domains.agent.world import World

HINT = "(bin/desk --help)"
SERVICE_HINT = "(bin/api GET /tickets; more in service/api.py)"


def update(rng: random.Random, level: int) -> Case:
    """One value of one order; at level 2 the order is told by what it holds."""
    tables = dict(words.shop(rng, level))
    row = rng.choice(tables["orders"])
    status = rng.choice([word for word in words.STATUSES if word != row[4]])
    world = World(files={}, schema=words.SHOP, tables=tables, programs=("desk",))
    if level == 1:
        return Case(
            instruction=f"In the table orders, set the status of order {row[0]} to {status} {HINT}",
            world=world,
            rows={"orders": words.set_value(tables["orders"], int(str(row[0])), 4, status)},
            steps=(shell(f"bin/desk set orders {row[0]} status {status}"),),
        )
    same = [other for other in tables["orders"] if other[1:3] == row[1:3]]
    rows = tables["orders"]
    for other in same:
        rows = words.set_value(rows, int(str(other[0])), 4, status)
    where = f"customer = '{row[1]}' AND item = '{row[2]}'"
    return Case(
        instruction=f"In orders, set the status of every {row[2]} of {row[1]} to {status} {HINT}",
        world=world,
        rows={"orders": rows},
        steps=(
            shell(f"bin/desk orders customer {row[1]}"),
            shell(f"bin/desk sql \"UPDATE orders SET status = '{status}' WHERE {where}\""),
        ),
    )


def remove(rng: random.Random, level: int) -> Case:
    """One order goes; at level 2 all of a status."""
    tables = dict(words.shop(rng, level))
    row = rng.choice(tables["orders"])
    world = World(files={}, schema=words.SHOP, tables=tables, programs=("desk",))
    if level == 1:
        return Case(
            instruction=f"Remove order {row[0]} from the table orders {HINT}",
            world=world,
            rows={"orders": tuple(other for other in tables["orders"] if other[0] != row[0])},
            steps=(shell(f"bin/desk del orders {row[0]}"),),
        )
    return Case(
        instruction=f"Remove every order whose status is {row[4]} from the table orders {HINT}",
        world=world,
        rows={"orders": tuple(other for other in tables["orders"] if other[4] != row[4])},
        steps=(
            shell(f"bin/desk orders status {row[4]}"),
            shell(f"bin/desk sql \"DELETE FROM orders WHERE status = '{row[4]}'\""),
        ),
    )


def insert(rng: random.Random, level: int) -> Case:
    """A new customer; at level 2 the rows of a CSV file."""
    tables = dict(words.shop(rng, level))
    first = len(tables["customers"]) + 1
    names = rng.sample([name for name in words.PEOPLE if name not in {r[1] for r in tables["customers"]}], 3)
    new = tuple((first + n, name, rng.choice(words.CITIES)) for n, name in enumerate(names))
    if level == 1:
        number, name, city = new[0]
        return Case(
            instruction=f"Add a row to the table customers: id {number}, name {name}, city {city} {HINT}",
            world=World(files={}, schema=words.SHOP, tables=tables, programs=("desk",)),
            rows={"customers": (*tables["customers"], new[0])},
            steps=(shell(f"bin/desk add customers {number} {name} {city}"),),
        )
    path = f"{rng.choice(words.FOLDERS)}/new.csv"
    text = "id,name,city\n" + "".join(f"{n},{name},{city}\n" for n, name, city in new)
    command = f"tail -n +2 {path} | while IFS=, read -r a b c; do bin/desk add customers $a $b $c; done"
    return Case(
        instruction=f"Add the rows of {path} to the table customers {HINT}",
        world=World(files={path: text}, schema=words.SHOP, tables=tables, programs=("desk",)),
        rows={"customers": (*tables["customers"], *new)},
        steps=(read(path), shell(command)),
    )


def ticket(rng: random.Random, level: int) -> Case:
    """One ticket through the service; at level 2 every open ticket of an owner."""
    rows = words.tickets(rng, 4 if level == 1 else 8)
    world = World(files={}, schema=words.SERVICE, tables={"tickets": rows}, programs=("api",))
    if level == 1:
        row = rng.choice(rows)
        status = rng.choice([word for word in ("open", "closed", "waiting") if word != row[2]])
        return Case(
            instruction=f"Set the status of ticket {row[0]} to {status} through the service {SERVICE_HINT}",
            world=world,
            rows={"tickets": words.set_value(rows, int(str(row[0])), 2, status)},
            steps=(shell(f'bin/api PATCH /tickets/{row[0]} \'{{"status": "{status}"}}\''),),
        )
    owner = rows[0][3]
    mine = [int(str(row[0])) for row in rows if row[3] == owner and row[2] == "open"]
    after = rows
    for number in mine:
        after = words.set_value(after, number, 2, "closed")
    numbers = " ".join(map(str, mine))
    command = f'for n in {numbers}; do bin/api PATCH /tickets/$n \'{{"status": "closed"}}\'; done'
    return Case(
        instruction=f"Close every open ticket of {owner} (status closed) through the service {SERVICE_HINT}",
        world=world,
        rows={"tickets": after},
        steps=(shell(f"bin/api GET '/tickets?status=open&owner={owner}'"), shell(command)),
    )


FAMILIES = (
    Family(name="update", split="train", make=update, kind="database"),
    Family(name="remove", split="train", make=remove, kind="database"),
    Family(name="insert", split="train", make=insert, kind="database"),
    Family(name="ticket", split="train", make=ticket, kind="HTTP service"),
)
