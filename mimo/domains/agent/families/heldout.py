"""Held-out families: no training task and no demonstration is made of them."""

from __future__ import annotations

import random
from itertools import pairwise

from mimo.domains.agent.families import words
from mimo.domains.agent.families.tables import HINT, SERVICE_HINT
from mimo.domains.agent.family import Case, Family, read, shell
from mimo.domains.agent.world import World


def merge(rng: random.Random, level: int) -> Case:
    """Lines of two files in one; at level 2 sorted and without repeats."""
    paths = words.paths(rng, 2)
    people = rng.sample(words.PEOPLE, 6)
    groups = [people[:4], people[3:]] if level == 2 else [people[:3], people[3:]]
    files = {path: "".join(f"{name}\n" for name in group) for path, group in zip(paths, groups, strict=True)}
    target = "all.txt"
    if level == 1:
        return Case(
            instruction=f"Write the lines of {paths[0]}, then those of {paths[1]}, to {target}",
            world=World(files=files),
            after={target: files[paths[0]] + files[paths[1]]},
            steps=(shell(f"cat {paths[0]} {paths[1]} > {target}"),),
        )
    return Case(
        instruction=f"Write every different line of {paths[0]} and {paths[1]} to {target}, once each, sorted",
        world=World(files=files),
        after={target: "".join(f"{name}\n" for name in sorted(people))},
        steps=(shell(f"sort -u {paths[0]} {paths[1]} > {target}"), read(target)),
    )


def export(rng: random.Random, level: int) -> Case:
    """Rows of the database as a CSV file; at level 2 in an order."""
    tables = dict(words.shop(rng, level))
    status = rng.choice(tables["orders"])[4]
    chosen = [row for row in tables["orders"] if row[4] == status]
    names = ("id", "customer", "item", "quantity", "status")
    world = World(files={}, schema=words.SHOP, tables=tables, programs=("desk",))
    path = f"{status}.csv"
    if level == 2:
        chosen.sort(key=lambda row: (-int(str(row[3])), int(str(row[0]))))
    text = "".join(",".join(map(str, row)) + "\n" for row in (names, *chosen))
    order = ", the largest quantity first, then by id" if level == 2 else ""
    query = f"SELECT * FROM orders WHERE status = '{status}' ORDER BY quantity DESC, id"
    command = f"bin/desk orders status {status}" if level == 1 else f'bin/desk sql "{query}"'
    return Case(
        instruction=f"Write the {status} orders, after a line of column names, to {path}{order} {HINT}",
        world=world,
        after={path: text},
        steps=(shell(f"{command} > {path}"),),
    )


def assign(rng: random.Random, level: int) -> Case:
    """Tickets get another owner through the service; at level 2 also a new ticket."""
    rows = words.tickets(rng, 4 if level == 1 else 7)
    old = rows[0][3]
    new = rng.choice([name for name in words.PEOPLE if name != old])
    mine = [int(str(row[0])) for row in rows if row[3] == old]
    after = rows
    for number in mine:
        after = words.set_value(after, number, 3, new)
    command = (
        f'for n in {" ".join(map(str, mine))}; do bin/api PATCH /tickets/$n \'{{"owner": "{new}"}}\'; done'
    )
    told = f"Give every ticket of {old} to {new}"
    steps = [shell(f"bin/api GET /tickets?owner={old}"), shell(command)]
    if level == 2:
        title = f"hand over to {new}"
        after = (*after, (len(rows) + 1, title, "open", new))
        told += f", then open a new ticket of {new} with the title: {title}"
        body = f'{{"title": "{title}", "status": "open", "owner": "{new}"}}'
        steps.append(shell(f"bin/api POST /tickets '{body}'"))
    return Case(
        instruction=f"{told}. Use the service {SERVICE_HINT}",
        world=World(files={}, schema=words.SERVICE, tables={"tickets": rows}, programs=("api",)),
        rows={"tickets": after},
        steps=tuple(steps),
    )


def chain(rng: random.Random, level: int) -> Case:
    """Documents that name one another; what the last one says is written down."""
    length = 3 if level == 1 else 5
    names = rng.sample(words.TOPICS, length)
    other = [name for name in words.TOPICS if name not in names]
    word = f"{rng.choice(words.ITEMS)}-{rng.randint(100, 999)}"
    files = {f"docs/{name}.md": f"Read docs/{after}.md\n" for name, after in pairwise(names)}
    files[f"docs/{names[-1]}.md"] = f"The word is {word}\n"
    files[f"docs/{other[0]}.md"] = f"The word is {rng.choice(words.ITEMS)}-{rng.randint(100, 999)}\n"
    return Case(
        instruction=f"Begin with docs/{names[0]}.md and follow the documents. Write the word to word.txt",
        world=World(files=files),
        after={"word.txt": f"{word}\n"},
        steps=(shell("tail -n +1 docs/*"), shell(f"echo {word} > word.txt")),
    )


FAMILIES = (
    Family(name="merge", split="heldout", make=merge, kind="files"),
    Family(name="export", split="heldout", make=export, kind="database"),
    Family(name="assign", split="heldout", make=assign, kind="HTTP service"),
    Family(name="context-chain", split="heldout", make=chain, kind="spread instructions"),
)
