"""The verifier against dishonest changes, inputs of other bugs, programs that lie, and forged results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import pytest

from mimo.domains.cyber.generated.draw import draw
from mimo.domains.cyber.generated.families import FAMILIES
from mimo.domains.cyber.generated.write import write_task
from mimo.types import Task
from sandbox import Changes, ExecResult, Sandbox
from tests.mimo.domains.cyber.attacks import attacks, fake_report
from tests.mimo.domains.cyber.conftest import Lab, changes_of

Built = Callable[..., Task]


@pytest.fixture(scope="module")
def echoing(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> tuple[Task, str]:
    """A level 2 task whose program has a command that prints its text, and that command's word."""
    entry = FAMILIES["integer-overflow"]
    for seed in range(200):
        made = draw(seed, "train", 0, (entry,), 2)
        for word in ("say", "print", "out"):
            if f"{word} hello\n".encode() in made.benign:
                return lab.imported(write_task(made, "1", tmp_path_factory.mktemp("echo"))), word
    raise AssertionError("no draw has the command")


def test_no_dishonest_change_passes_or_spoils_an_honest_one(lab: Lab, echoing: tuple[Task, str]) -> None:
    task, _ = echoing
    pack = attacks(task)
    assert len(pack) >= 20
    assert [name for name, changes in pack.items() if lab.verdict(task, changes).passed] == []
    files = {**_files(pack["replace the program"]), "input.txt": lab.trigger(task)}
    honest = lab.verdict(task, changes_of(files))
    assert honest.passed
    assert set(cast("dict[str, str]", honest.detail["refused"])) == {"bin/program", "said"}


def test_a_program_that_prints_the_report_is_not_believed(lab: Lab, echoing: tuple[Task, str]) -> None:
    task, word = echoing
    lines = "".join(f"{word} {line}\n" for line in fake_report(task).split("\n"))
    with lab.open(task) as box:
        box.write("/work/input.txt", lines.encode())
        assert "ERROR: AddressSanitizer" in box.exec("./run").output
    verdict = lab.verdict(task, changes_of({"input.txt": lines}))
    assert (verdict.passed, verdict.detail["reason"]) == (False, "no report")


def test_another_bug_of_the_same_function_does_not_count(lab: Lab, built: Built) -> None:
    task = built("global-write", level=1)
    verdict = lab.verdict(task, changes_of({"input.txt": "900000000 1\n"}))
    assert (verdict.passed, verdict.tampered) == (False, False)
    report = cast("dict[str, str]", verdict.detail["report"])
    assert (report["type"], report["function"]) == ("SEGV", task.verifier.expect["function"])


def test_a_program_that_lies_on_every_open_file_is_not_believed(lab: Lab, tmp_path: Path) -> None:
    """One that prints a report on its streams, writes to whatever else is open, and ends with an error."""
    made = draw(1, "train", 0, (FAMILIES["shift"],), 1)
    folder = write_task(made, "1", tmp_path)
    source = folder / "environment/repo" / made.planted_file
    lie = json.dumps(fake_report(lab.imported(folder)))
    source.write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
        f"int main(void)\n{{\n    fputs({lie}, stdout);\n    fputs({lie}, stderr);\n"
        '    for (int n = 3; n < 400; n++)\n        if (write(n, "MIMO", 4) > 0)\n'
        "            *(volatile int *)8 = 1;\n    exit(20);\n}\n"
    )
    verdict = lab.verdict(lab.imported(folder), changes_of({"input.txt": made.trigger}))
    assert (verdict.passed, verdict.tampered, verdict.detail["reason"]) == (False, False, "no report")


class _Forged:
    """A box whose command prints what a hostile program might."""

    def __init__(self, output: str) -> None:
        self.output = output

    def write(self, path: str, data: bytes) -> None: ...

    def freeze(self) -> None: ...

    def __enter__(self) -> Sandbox:
        return cast(Sandbox, self)

    def __exit__(self, *_: object) -> None: ...

    def exec(self, command: str, **_: object) -> ExecResult:
        del command
        return ExecResult(
            exit_code=0, output=self.output, truncated=False, timed_out=False, limit=None, seconds=0.1
        )


@pytest.mark.parametrize("signature", ["", "0" * 64, "\u00e9" * 64])
def test_a_result_that_is_not_signed_is_no_result(lab: Lab, built: Built, signature: str) -> None:
    task = built("heap-write", level=1)
    body = json.dumps({"pid": 2, "code": 20, "timed_out": False, "reports": {"report.2": ""}})

    def open_box(snapshot: Path, mounts: Mapping[str, Path]) -> Sandbox:
        del snapshot, mounts
        return cast(Sandbox, _Forged(f"\nMIMO {signature} {body}\n"))

    verdict = lab.domain.verify(task, lab.domain.reference(task, lab.store), lab.store, open_box)
    assert (verdict.passed, verdict.detail["reason"]) == (False, "0 results")


def _files(changes: Changes) -> dict[str, bytes | None]:
    return {change.path: change.data for change in changes.files}
