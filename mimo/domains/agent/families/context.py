"""Families about following instructions that are spread over documents (the share `context`)."""

from __future__ import annotations

import random

from mimo.domains.agent.families import words
from mimo.domains.agent.family import Case, Family, shell
from mimo.domains.agent.world import World


def brief(rng: random.Random, level: int) -> Case:
    """A brief says what, another document says how; at level 2 a third one says where."""
    topic, person = rng.choice(words.TOPICS), rng.choice(words.PEOPLE)
    item, city = rng.choice(words.ITEMS), rng.choice(words.CITIES)
    style = rng.choice(("upper case", "lower case"))
    text = f"{person} {item} {city}"
    said = text.upper() if style == "upper case" else text
    files = {
        "brief.md": f"Write one line to {topic}.txt: the words {person.title()}, {item} and {city}, "
        "with a space between. How to write it: rules.md\n",
        "rules.md": f"# Rules\nEvery line is in {style}. No full stop.\n",
    }
    target = f"{topic}.txt"
    if level == 2:
        folder = rng.choice(words.FOLDERS)
        files["rules.md"] += "Where files go: places.md\n"
        others = "".join(f"{name}: {rng.choice(words.FOLDERS)}\n" for name in words.TOPICS if name != topic)
        files["places.md"] = f"A new file goes to the folder of its name:\n{topic}: {folder}\n{others}"
        target = f"{folder}/{topic}.txt"
    make = "" if level == 1 else f"mkdir -p {target.split('/')[0]} && "
    return Case(
        instruction="Do what brief.md asks and follow the documents it names.",
        world=World(files=files),
        after={target: said + "\n"},
        steps=(shell("cat *.md"), shell(f"{make}echo '{said}' > {target}")),
    )


def amended(rng: random.Random, level: int) -> Case:
    """Dated memos about one setting; the newest one counts, and at level 2 only those of the right office."""
    key = rng.choice(("limit", "budget", "quota", "deposit"))
    days = sorted(rng.sample(range(10, 28), 3))
    values = rng.sample(range(100, 900), 3)
    offices = rng.sample(words.CITIES, 2)
    path = f"{rng.choice(words.FOLDERS)}/{key}.txt"
    files = {path: f"{key}: {rng.randint(10, 90)}\n"}
    right = values[2]
    for place, (day, value) in enumerate(zip(days, values, strict=True)):
        office = offices[1] if level == 2 and place == 2 else offices[0]
        about = f" for {office}" if level == 2 else ""
        files[f"memos/05-{day}.md"] = f"From today the {key}{about} is {value}.\n"
    if level == 2:
        right = values[1]
    who = f" for {offices[0]}" if level == 2 else ""
    return Case(
        instruction=f"The memos are named by date; a later one replaces an earlier one. "
        f"Write the {key}{who} that holds now into {path}, as before.",
        world=World(files=files),
        after={path: f"{key}: {right}\n"},
        steps=(shell(f"tail -n +1 memos/* {path}"), shell(f"echo '{key}: {right}' > {path}")),
    )


FAMILIES = (
    Family(name="context-brief", split="train", make=brief, kind="spread instructions"),
    Family(name="context-amended", split="train", make=amended, kind="spread instructions"),
)
