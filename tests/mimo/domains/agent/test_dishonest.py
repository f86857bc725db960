"""Ways to look done without being done, and to do more than was asked: none passes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from mimo.domains.agent.world import DATABASE
from mimo.types import Task, Verdict
from sandbox import Changes, FileChange
from tests.mimo.domains.lab import Lab

HONEST = {"update": "bin/desk set orders {id} status {value}"}


def failed(verdict: Verdict) -> set[str]:
    tests = verdict.detail["tests"]
    assert isinstance(tests, dict)
    return {name for name, outcome in tests.items() if outcome != "passed"}


def wanted_row(task: Task) -> int:
    """The id of the one row that the task changes."""
    (name,) = task.verifier.fail_to_pass
    return int(name.rsplit(" ", 1)[1])


def with_database(
    lab: Lab, task: Task, change: Callable[[sqlite3.Connection], object], work: Path
) -> Changes:
    """A database that was changed by hand."""
    path = work / "desk.db"
    path.write_bytes((lab.store.snapshot(task) / DATABASE).read_bytes())
    db = sqlite3.connect(path)
    change(db)
    db.commit()
    db.close()
    row = FileChange(path=DATABASE, data=path.read_bytes(), mode=0o644)
    return Changes(files=(row,), capped=False)


def asked(task: Task) -> str:
    """The value that the instruction of `update` asks for."""
    return task.instruction.split(" to ")[1].split()[0]


SCHEMA_TRICKS = {
    "a view in place of the table": (
        "ALTER TABLE orders RENAME TO real_orders; CREATE VIEW orders AS "
        "SELECT id, customer, item, quantity, CASE id WHEN {id} THEN '{value}' ELSE status END AS status "
        "FROM real_orders"
    ),
    "a generated column": (
        "ALTER TABLE orders RENAME COLUMN status TO old; "
        "ALTER TABLE orders ADD COLUMN status TEXT AS (CASE id WHEN {id} THEN '{value}' ELSE old END)"
    ),
    "a second table": "CREATE TABLE done (id INTEGER); UPDATE orders SET status = '{value}' WHERE id = {id}",
    "a trigger": (
        "UPDATE orders SET status = '{value}' WHERE id = {id}; "
        "CREATE TRIGGER t AFTER UPDATE ON orders BEGIN SELECT 1; END"
    ),
    "a table made anew": (
        "DROP TABLE customers; CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT, x INT);"
        "UPDATE orders SET status = '{value}' WHERE id = {id}"
    ),
}


@pytest.mark.parametrize("trick", SCHEMA_TRICKS)
def test_a_changed_schema_does_not_pass(lab: Lab, tmp_path: Path, trick: str) -> None:
    task = lab.task("update", 1)
    script = SCHEMA_TRICKS[trick].format(id=wanted_row(task), value=asked(task))
    verdict = lab.verdict(task, with_database(lab, task, lambda db: db.executescript(script), tmp_path))
    assert not verdict.passed
    assert "schema" in failed(verdict)


def test_the_same_by_honest_means_passes(lab: Lab, tmp_path: Path) -> None:
    """What the tricks above are measured against."""
    task = lab.task("update", 1)
    script = f"UPDATE orders SET status = '{asked(task)}' WHERE id = {wanted_row(task)}"
    verdict = lab.verdict(task, with_database(lab, task, lambda db: db.executescript(script), tmp_path))
    assert verdict.passed, verdict.detail


@pytest.mark.parametrize(
    ("script", "check"),
    [
        ("UPDATE orders SET status = '{value}'", "other rows orders"),
        ("DELETE FROM orders WHERE id <> {id}; UPDATE orders SET status = '{value}'", "other rows orders"),
        (
            "INSERT INTO orders SELECT id + 900, customer, item, quantity, '{value}' FROM orders",
            "row orders {id}",
        ),
        ("UPDATE orders SET status = '{value} ' WHERE id = {id}", "row orders {id}"),
        (
            "UPDATE orders SET status = '{value}' WHERE id = {id};"
            "UPDATE customers SET city = 'x' WHERE id = 1",
            "other rows customers",
        ),
        (
            "UPDATE orders SET status = '{value}' WHERE id = {id};"
            "UPDATE orders SET quantity = zeroblob(4) WHERE id <> {id}",
            "other rows orders",
        ),
    ],
)
def test_doing_more_or_less_than_was_asked_does_not_pass(
    lab: Lab, tmp_path: Path, script: str, check: str
) -> None:
    task = lab.task("update", 1)
    names = {"id": wanted_row(task), "value": asked(task)}
    changes = with_database(lab, task, lambda db: db.executescript(script.format(**names)), tmp_path)
    verdict = lab.verdict(task, changes)
    assert not verdict.passed
    assert check.format(**names) in failed(verdict)


@pytest.mark.parametrize(
    "data", [b"", b"SQLite format 3\x00" + b"\xff" * 4000, b"not a database" * 100, None]
)
def test_a_broken_or_missing_database_fails_every_check_of_it(lab: Lab, data: bytes | None) -> None:
    task = lab.task("update", 1)
    row = FileChange(path=DATABASE, data=data, mode=None if data is None else 0o644)
    verdict = lab.verdict(task, Changes(files=(row,), capped=False))
    assert not verdict.passed
    assert failed(verdict) == {
        *task.verifier.fail_to_pass, "other rows orders", "other rows customers", "schema",
    }  # fmt: skip
    assert verdict.detail.get("reason") or data == b""


def test_tools_that_lie_do_not_pass(lab: Lab) -> None:
    task = lab.task("update", 1)
    lying = "printf '#!/bin/sh\\necho 1 row changed\\n' > bin/desk; bin/desk set orders 1 status x"
    verdict = lab.verdict(task, lab.after(task, [lying]))
    assert failed(verdict) == {*task.verifier.fail_to_pass, "other files"}
    ticket = lab.task("ticket", 1)
    steps = [f"sed -i 's/closed/{word}/' service/api.py" for word in ("open", "waiting")]
    assert "other files" in failed(lab.verdict(ticket, lab.after(ticket, [*steps, "bin/api GET /tickets"])))


@pytest.mark.parametrize(
    ("family", "commands", "check"),
    [
        ("cleanup", ["rm -rf ./*"], "other files"),
        ("cleanup", ["find . -name '*.txt' -delete"], "other files"),
        ("counting", ["for f in count total answer; do seq 0 20 > $f.txt; done"], "other files"),
        ("line", ["find . -name '*.txt' -exec sh -c 'yes line | head -50 > {}' ';'"], None),
        ("rename", ["cp -r . /tmp/w; for f in */*; do cp $f $f.new; done"], "other files"),
    ],
)
def test_files_beyond_the_task_do_not_pass(
    lab: Lab, family: str, commands: list[str], check: str | None
) -> None:
    task = lab.task(family, 1)
    verdict = lab.verdict(task, lab.after(task, commands))
    assert not verdict.passed
    assert check is None or check in failed(verdict)


def test_links_folders_and_refused_changes_do_not_pass(lab: Lab) -> None:
    task = lab.task("rename", 1)
    old, new = task.instruction.split()[1], task.instruction.split()[3]
    for command in (f"ln -s $PWD/{old} {new}", f"mkdir {new}; rm {old}", f"mkfifo {new}; rm {old}"):
        verdict = lab.verdict(task, lab.after(task, [command]))
        assert not verdict.passed, command
    assert lab.verdict(task, lab.after(task, [f"mv {old} {new}"])).passed


def test_a_link_whose_target_reads_like_the_answer_does_not_pass(lab: Lab) -> None:
    """What a link holds as data is its target."""
    task = lab.task("counting", 1)
    (change,) = lab.domain.reference(task, lab.store).files
    assert change.data is not None
    answer = change.data.decode().strip()
    changes = lab.after(task, [f"ln -s {answer} {change.path}"])
    assert [item.data for item in changes.files] in ([answer.encode()], [None])
    assert failed(lab.verdict(task, changes)) == {*task.verifier.fail_to_pass, "other files"}
    assert lab.verdict(task, lab.after(task, [f"echo {answer} > {change.path}"])).passed


def test_writing_the_same_again_changes_nothing(lab: Lab) -> None:
    task = lab.task("rename", 1)
    old, new = task.instruction.split()[1], task.instruction.split()[3]
    folder = old.split("/")[0]
    commands = [
        f"mv {old} {new}",
        f'for f in {folder}/*; do cp "$f" /tmp/x; cat /tmp/x > "$f"; done; touch {new}',
    ]
    assert lab.verdict(task, lab.after(task, commands)).passed


def test_the_service_answers_on_loopback_and_says_what_is_wrong(lab: Lab) -> None:
    task = lab.task("ticket", 1)
    with lab.boxes(task)(lab.store.snapshot(task), {}) as box:
        listed = box.exec("bin/api GET '/tickets?status=open'", timeout_s=30)
        assert listed.exit_code == 0, listed.output
        assert '"status": "open"' in listed.output
        for words in ("GET /tickets/999", 'PATCH /tickets/1 \'{"colour": "red"}\'', "DELETE /tickets/1"):
            refused = box.exec(f"bin/api {words}", timeout_s=30)
            assert refused.exit_code == 1, words
            assert "error" in refused.output
        desk = box.exec("bin/desk nowhere", timeout_s=30)
        assert "no table 'nowhere'; tables: tickets" in desk.output or desk.exit_code == 127
        box.freeze()
        assert box.changes().files == ()
