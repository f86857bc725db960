"""Families about files: rename, settings, lines, clean-up, sorting, counting."""

from __future__ import annotations

import random

from mimo.domains.agent.families import words
from mimo.domains.agent.family import Case, Family, read, shell
from mimo.domains.agent.world import World


def rename(rng: random.Random, level: int) -> Case:
    """One file gets another name; at level 2 all files of a folder get another ending."""
    paths = words.paths(rng, 3)
    files = {path: words.sentences(rng, 2) for path in paths}
    if level == 1:
        new = f"{paths[0].split('/')[0]}/{rng.choice(words.ITEMS)}.txt"
        return Case(
            instruction=f"Rename {paths[0]} to {new}",
            world=World(files=files),
            after={paths[0]: None, new: files[paths[0]]},
            steps=(shell(f"mv {paths[0]} {new}"),),
        )
    folder, ending = paths[0].split("/")[0], rng.choice(("md", "log", "old"))
    after: dict[str, str | None] = {}
    for path in paths:
        after |= {path: None, path.removesuffix(".txt") + f".{ending}": files[path]}
    return Case(
        instruction=f"In {folder}, change the ending of every .txt file to .{ending}",
        world=World(files=files | {f"{folder}/list.csv": "name,city\n"}),
        after=after,
        steps=(shell(f'for f in {folder}/*.txt; do mv "$f" "${{f%.txt}}.{ending}"; done'),),
    )


def setting(rng: random.Random, level: int) -> Case:
    """A value in a file of settings; at level 2 there are several sections with the same keys."""
    keys = rng.sample(("port", "workers", "retries", "timeout", "limit", "depth"), 4)
    values = {key: rng.randint(2, 90) for key in keys}
    key, new = keys[1], rng.randint(91, 999)
    path = f"{rng.choice(('config', 'settings', 'etc'))}/{rng.choice(words.TOPICS)}.ini"
    if level == 1:
        text = "".join(f"{name} = {value}\n" for name, value in values.items())
        return Case(
            instruction=f"In {path}, set {key} to {new}",
            world=World(files={path: text}),
            after={path: text.replace(f"{key} = {values[key]}\n", f"{key} = {new}\n")},
            steps=(shell(f"sed -i 's/^{key} = .*/{key} = {new}/' {path}"),),
        )
    sections = rng.sample(words.CITIES, 3)
    target = sections[1]
    body = {name: {key: rng.randint(2, 90) for key in keys} for name in sections}
    changed = body | {target: body[target] | {key: new}}
    return Case(
        instruction=f"In {path}, set {key} of the section {target} to {new}",
        world=World(files={path: _sections(body)}),
        after={path: _sections(changed)},
        steps=(read(path), shell(f"sed -i '/^\\[{target}\\]/,/^$/ s/^{key} = .*/{key} = {new}/' {path}")),
    )


def _sections(body: dict[str, dict[str, int]]) -> str:
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in values.items())
        for name, values in body.items()
    )


def line(rng: random.Random, level: int) -> Case:
    """A line at the end of a file; at level 2 before the line that names a person."""
    path = words.paths(rng, 1)[0]
    added = f"{rng.choice(words.PEOPLE)} needs a {rng.choice(words.ITEMS)}"
    people = rng.sample(words.PEOPLE, 3)
    text = "".join(f"{name}: {rng.choice(words.CITIES)}\n" for name in people)
    if level == 1:
        return Case(
            instruction=f"Add this line at the end of {path}: {added}",
            world=World(files={path: text}),
            after={path: text + added + "\n"},
            steps=(shell(f"echo '{added}' >> {path}"),),
        )
    before = people[rng.randrange(3)]
    return Case(
        instruction=f"In {path}, add this line just before the line of {before}: {added}",
        world=World(files={path: text}),
        after={path: text.replace(f"{before}: ", f"{added}\n{before}: ")},
        steps=(read(path), shell(f"sed -i '/^{before}: /i {added}' {path}")),
    )


def cleanup(rng: random.Random, level: int) -> Case:
    """Files of one ending go; at level 2 only the empty ones, in all folders."""
    paths = words.paths(rng, 3)
    folder = paths[0].split("/")[0]
    ending = rng.choice(("tmp", "bak", "swp"))
    gone = [f"{folder}/{item}.{ending}" for item in rng.sample(words.ITEMS, 2)]
    files = {path: words.sentences(rng, 2) for path in paths}
    if level == 1:
        files |= dict.fromkeys(gone, "old\n")
        return Case(
            instruction=f"Delete every .{ending} file in {folder}",
            world=World(files=files),
            after=dict.fromkeys(gone),
            steps=(shell(f"rm {folder}/*.{ending}"),),
        )
    deep = f"{folder}/{rng.choice(words.CITIES)}/{rng.choice(words.ITEMS)}.txt"
    files |= {gone[0]: "", gone[1]: "keep me\n", deep: ""}
    return Case(
        instruction=f"Delete every empty file below {folder}, also in its folders",
        world=World(files=files),
        after={gone[0]: None, deep: None},
        steps=(shell(f"find {folder} -type f -empty -delete"),),
    )


def sorting(rng: random.Random, level: int) -> Case:
    """Files into folders by their ending; at level 2 by the first word of their text."""
    folder = rng.choice(words.FOLDERS)
    names = rng.sample(words.TOPICS, 4)
    if level == 1:
        endings = ("csv", "txt", "txt", "csv")
        files = {f"{folder}/{n}.{e}": words.sentences(rng, 1) for n, e in zip(names, endings, strict=True)}
        moved = {path: text for path, text in files.items() if path.endswith(".csv")}
        return Case(
            instruction=f"Move every .csv file from {folder} to the folder tables",
            world=World(files=files),
            after=dict.fromkeys(moved) | {f"tables/{p.split('/')[1]}": t for p, t in moved.items()},
            steps=(shell(f"mkdir -p tables && mv {folder}/*.csv tables/"),),
        )
    people = rng.sample(words.PEOPLE, 2)
    owners = [people[n % 2] for n in range(4)]
    files = {
        f"{folder}/{name}.txt": f"{owner}: {rng.choice(words.ITEMS)}\n"
        for name, owner in zip(names, owners, strict=True)
    }
    after: dict[str, str | None] = {}
    for (path, text), owner in zip(files.items(), owners, strict=True):
        after |= {path: None, f"{owner}/{path.split('/')[1]}": text}
    command = f'for f in {folder}/*; do d=$(cut -d: -f1 "$f"); mkdir -p "$d"; mv "$f" "$d"/; done'
    return Case(
        instruction=f"Each file in {folder} begins with a name. Move each into a folder of that name.",
        world=World(files=files),
        after=after,
        steps=(shell(f"head -n 1 {folder}/*"), shell(command)),
    )


def counting(rng: random.Random, level: int) -> Case:
    """How many lines name a person; at level 2 the sum of a column."""
    folder = rng.choice(words.FOLDERS)
    path, report = f"{folder}/visits.csv", f"{rng.choice(('count', 'total', 'answer'))}.txt"
    people = rng.sample(words.PEOPLE, 3)
    rows = [(rng.choice(people), rng.randint(1, 40)) for _ in range(8 if level == 1 else 14)]
    text = "name,number\n" + "".join(f"{name},{number}\n" for name, number in rows)
    who = rows[0][0]
    if level == 1:
        count = sum(name == who for name, _ in rows)
        return Case(
            instruction=f"Count the lines of {path} that begin with {who}. Write only the number to {report}",
            world=World(files={path: text}),
            after={report: f"{count}\n"},
            steps=(shell(f"grep -c '^{who},' {path} > {report}"),),
        )
    total = sum(number for name, number in rows if name == who)
    command = f"awk -F, '$1 == \"{who}\" {{ s += $2 }} END {{ print s }}' {path} > {report}"
    return Case(
        instruction=f"Add up the numbers of {who} in {path}. Write only the sum to {report}",
        world=World(files={path: text}),
        after={report: f"{total}\n"},
        steps=(shell(command), read(report)),
    )


FAMILIES = (
    Family(name="rename", split="train", make=rename, kind="files"),
    Family(name="setting", split="train", make=setting, kind="files"),
    Family(name="line", split="train", make=line, kind="files"),
    Family(name="cleanup", split="train", make=cleanup, kind="files"),
    Family(name="sorting", split="train", make=sorting, kind="files"),
    Family(name="counting", split="train", make=counting, kind="files"),
)
