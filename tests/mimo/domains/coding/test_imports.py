"""Tasks of other formats: what becomes a task that holds, what is left out and why; imports resume."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from mimo.domains.coding.folders import FolderTasks
from mimo.domains.coding.imports.harbor import harbor_tasks
from mimo.domains.coding.imports.importing import Outcome, import_all
from mimo.domains.coding.imports.repository import Repositories
from mimo.domains.coding.imports.swebench import swebench_tasks
from mimo.errors import RecipeError
from mimo.types import Task
from sandbox.git_run import GitRebuildError, run_git
from tests.mimo.domains.coding.conftest import LIMITS, NOTHING, RIGHT, VISIBLE, WRONG, Lab
from tests.mimo.domains.coding.source_repository import Source, made_source

TEST = "from mathx import add\n\n\ndef test_add():\n    assert add(19, 23) == 42\n"
OWN = '[metadata.mimo]\nfamily = "mine"\nvisible = ["test_mathx.py"]\n\n[verifier]\ntimeout_sec = 30\n'
INNER = {"FAIL_TO_PASS": ["calc/tests/test_inner.py::test_inner"], "PASS_TO_PASS": []}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    return made_source(tmp_path_factory.mktemp("clones"))


def swebench(
    source: Source, folder: Path, *changes: dict[str, Any], place: str | None = None
) -> list[Outcome]:
    file = source.write(folder / "records.jsonl", *changes)
    repositories = Repositories(place=place or str(source.clones), cache=folder / "cache")
    return list(import_all(swebench_tasks(file, repositories), folder / "out"))


def holds(lab: Lab, folder: Path, name: str) -> Task:
    """The imported task, after the gate: the reference passes, nothing fails."""
    maker = FolderTasks.of({"kind": "folder", "path": str(folder / "out" / name), "split": "heldout"})
    (task_id,) = maker.task_ids()
    task = lab.imported(maker.build(task_id, folder / "built"))
    good = lab.verdict(task, lab.domain.reference(task, lab.store))
    assert good.passed, good.detail
    assert not lab.verdict(task, NOTHING).passed
    assert (task.task_id, task.split) == (task_id, "heldout")
    return task


def messages(tree: Path) -> list[str]:
    return run_git("-C", str(tree), "log", "--format=%s").decode().split()


def test_a_record_becomes_a_task_that_holds(lab: Lab, source: Source, tmp_path: Path) -> None:
    (done,) = swebench(source, tmp_path, {})
    assert (done.what, done.notes) == ("imported", ("1 symbolic links of the work tree left out",))
    task = holds(lab, tmp_path, "acme__calc-1")
    assert task.verifier.fail_to_pass == ("tests/tests/test_core.py::test_add",)
    assert task.verifier.pass_to_pass == ("tests/tests/test_core.py::test_twice",)
    assert task.verifier.expect["visible"] == ["tests/test_core.py"]
    assert task.instruction == "add subtracts\n"
    assert task.source.version == source.record["base_commit"]
    tree = lab.store.snapshot(task)
    assert task.base_commit == source.record["base_commit"]
    assert messages(tree) == ["change", "before"]
    with pytest.raises(GitRebuildError):
        run_git("-C", str(tree), "cat-file", "-e", source.after)
    assert "test_add" not in (tree / "tests/test_core.py").read_text()
    assert (tree / "calc/old.py").exists()
    solution = tmp_path / "out/acme__calc-1/solution"
    assert (solution / "deleted.txt").read_text() == "calc/old.py\n"
    assert (solution / "files/calc/new.py").read_text() == "here = True\n"
    everything = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert b"SECRET HINT" not in everything


def test_a_history_that_does_not_fit_is_an_error(lab: Lab, source: Source, tmp_path: Path) -> None:
    swebench(source, tmp_path, {})
    folder = tmp_path / "out" / "acme__calc-1"
    task = lab.domain.import_folder(folder, lab.store, limits=LIMITS, history="none", cache=lab.cache)
    assert task.base_commit != source.record["base_commit"]
    assert messages(lab.store.snapshot(task)) == ["base"]
    (folder / "environment" / "history.pack").write_bytes(b"damaged")
    with pytest.raises(RecipeError, match="does not hold metadata"):
        lab.imported(folder)


def test_tests_inside_a_package_run_in_place(lab: Lab, source: Source, tmp_path: Path) -> None:
    (done,) = swebench(source, tmp_path, INNER)
    assert any("weaker runner" in note for note in done.notes)
    assert holds(lab, tmp_path, "acme__calc-1").verifier.expect["runner"] == "script"


def test_a_repository_by_url_is_cloned_once(source: Source, tmp_path: Path) -> None:
    bare = tmp_path / "server" / "acme" / "calc"
    bare.parent.mkdir(parents=True)
    (source.clones / "acme__calc" / ".git").rename(bare)
    try:
        (done,) = swebench(source, tmp_path, {}, place=f"file://{tmp_path / 'server'}")
    finally:
        bare.rename(source.clones / "acme__calc" / ".git")
    assert done.what == "imported"
    again = swebench(source, tmp_path, {"instance_id": "two"}, place=f"file://{tmp_path / 'server'}")
    assert [item.what for item in again] == ["imported"]
    (gone,) = swebench(source, tmp_path, {"repo": "a/b", "instance_id": "x"}, place=f"file://{tmp_path}")
    assert "cannot be cloned" in gone.reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"repo": "acme/other"}, "no clone of acme/other in"),
        ({"base_commit": "0" * 40}, "is not in"),
        ({"FAIL_TO_PASS": "[]"}, "no tests: FAIL_TO_PASS is empty"),
        ({"FAIL_TO_PASS": ["tests/test_gone.py::test_x"]}, "no tests: tests/test_gone.py is not in"),
        ({"FAIL_TO_PASS": ["test_x (app.tests.Case)"]}, "is no test of pytest"),
        ({"FAIL_TO_PASS": "{"}, "neither a list nor a JSON list"),
        ({"image_assets": '{"problem_statement": ["http://x/y.png"]}'}, "multimodal"),
        ({"patch": "--- a/calc/core.py\n+++ b/calc/core.py\n@@ -1 +1 @@\n-x\n+y\n"}, "patch does not apply"),
        ({"test_patch": "nonsense"}, "test_patch does not apply"),
        ({"patch": ""}, "there is no reference solution"),
        ({"problem_statement": None}, "problem_statement: missing"),
        ({"instance_id": None}, "instance_id is missing"),
    ],
)  # fmt: skip
def test_what_cannot_be_imported_says_why(
    source: Source, tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    (done,) = swebench(source, tmp_path, change)
    assert done.what == "left out"
    assert reason in done.reason
    assert list((tmp_path / "out").iterdir()) == []


def test_images_that_are_none_are_no_reason(source: Source, tmp_path: Path) -> None:
    rows = [
        {"instance_id": str(n), "image_assets": value}
        for n, value in enumerate(("{}", None, '{"patch": []}'))
    ]
    assert {item.what for item in swebench(source, tmp_path, *rows)} == {"imported"}


def test_an_import_goes_on_and_replaces_nothing(source: Source, tmp_path: Path) -> None:
    first = swebench(source, tmp_path, {}, {"instance_id": "b", "repo": "no/repo"}, {})
    assert [item.what for item in first] == ["imported", "left out", "left out"]
    assert first[2].reason == "the same name twice"
    (tmp_path / "out/.importing/half").mkdir(parents=True)
    again = swebench(source, tmp_path, {}, {"instance_id": "b"})
    assert [item.what for item in again] == ["there", "imported"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["acme__calc-1", "b"]
    (other,) = swebench(source, tmp_path, {"problem_statement": "something else"})
    assert "made of something else; remove it" in other.reason


def test_a_file_that_is_no_swe_bench_is_an_error(source: Source, tmp_path: Path) -> None:
    repositories = Repositories(place=str(source.clones), cache=tmp_path)
    for text, said in (("{}\n{", "line 2: not JSON"), ("[1]", "record 1: got int"), ("", "holds no record")):
        (tmp_path / "f.json").write_text(text)
        with pytest.raises(RecipeError, match=said):
            list(swebench_tasks(tmp_path / "f.json", repositories))
    (tmp_path / "f.json").write_text(json.dumps([source.record], indent=1))
    assert len(list(swebench_tasks(tmp_path / "f.json", repositories))) == 1


def foreign(root: Path, **files: str) -> Path:
    """A Harbor task as another tool makes it; an empty text leaves the file out."""
    usual = {
        "task.toml": '[task]\nname = "org/add"\n[environment]\nallow_internet = true\n'
        "[verifier]\ntimeout_sec = 60.0\n",
        "instruction.md": "Repair add in /app/mathx.py.\n",
        "environment/Dockerfile": "FROM python:3.11\nRUN apt-get update && \\\n  apt-get install -y git\n"
        "WORKDIR /app\nCOPY code/ .\nCOPY extra.txt /etc/extra.txt\n",
        "environment/code/mathx.py": WRONG,
        "environment/code/test_mathx.py": VISIBLE,
        "environment/extra.txt": "x",
        "tests/test.sh": "apt-get install -y curl\ncurl https://x | sh\nuvx pytest /tests\n",
        "tests/test_outputs.py": "import sys\nsys.path.insert(0, '/app')\nfrom mathx import add\n\n\n"
        "def test_add():\n    assert add(19, 23) == 42\n    assert open('/app/done.txt').read() == 'yes'\n",
        "solution/solve.sh": "#!/bin/bash\nsed -i 's/a - b/a + b/' mathx.py\nprintf yes > /app/done.txt\n",
    }
    for path, text in {**usual, **files}.items():
        if text:
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    return root


def harbor(lab: Lab, folder: Path) -> list[Outcome]:
    return list(import_all(harbor_tasks(folder / "in", lab.cache), folder / "out"))


def test_a_foreign_harbor_task_becomes_one_that_holds(lab: Lab, tmp_path: Path) -> None:
    foreign(tmp_path / "in" / "add")
    (done,) = harbor(lab, tmp_path)
    assert done.what == "imported", done.reason
    assert done.notes == (
        "/etc/extra.txt lies outside the work tree and is left out",
        "1 RUN of the Dockerfile not carried out",
        "tests/test.sh needs a network; pytest on the test files in its place",
        "it asks for a network; boxes have none",
    )
    task = holds(lab, tmp_path, "add")
    assert task.environment.workdir == "/app"
    assert task.family == "org/add"
    changed = (tmp_path / "out/add/solution/files/mathx.py").read_text()
    assert changed == RIGHT
    assert [item.what for item in harbor(lab, tmp_path)] == ["there"]


def test_a_folder_of_our_own_stays_as_it_is(lab: Lab, tmp_path: Path) -> None:
    folder = foreign(
        tmp_path / "in" / "own",
        **{
            "task.toml": OWN,
            "environment/repo/mathx.py": WRONG,
            "environment/repo/test_mathx.py": VISIBLE,
            "tests/test.sh": "",
            "tests/test_outputs.py": TEST,
            "solution/files/mathx.py": RIGHT,
        },
    )
    assert [item.what for item in harbor(lab, tmp_path)] == ["imported"]
    facts = tomllib.loads((tmp_path / "out/own/task.toml").read_text())
    assert (facts["metadata"]["mimo"]["family"], facts["verifier"]["timeout_sec"]) == ("mine", 30)
    assert holds(lab, tmp_path, "own").family == "mine"
    assert folder.is_dir()


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"instruction.md": " "}, "no instruction.md"),
        ({"environment/docker-compose.yaml": "services: {}"}, "several containers"),
        ({"task.toml": '[[steps]]\nname = "a"\n'}, "several steps"),
        ({"task.toml": "[environment]\ngpus = 1\n"}, "needs a GPU"),
        ({"task.toml": "x ="}, "task.toml: "),
        ({"environment/Dockerfile": ""}, "lies in an image"),
        ({"environment/Dockerfile": "FROM x\nWORKDIR /etc\n"}, "WORKDIR /etc"),
        ({"environment/Dockerfile": "FROM x\nWORKDIR /app\nCOPY gone.txt .\n"}, "copies gone.txt"),
        ({"tests/test_outputs.py": ""}, "needs a network, and there are no test files"),
        ({"solution/solve.sh": ""}, "no solution"),
        ({"solution/solve.sh": "exit 3\n"}, "solution/solve.sh fails"),
        ({"solution/solve.sh": "true\n"}, "changes nothing in the work tree"),
    ],
)
def test_a_harbor_task_that_cannot_be_imported_says_why(
    lab: Lab, tmp_path: Path, files: dict[str, str], reason: str
) -> None:
    foreign(tmp_path / "in" / "add", **files)
    (done,) = harbor(lab, tmp_path)
    assert done.what == "left out"
    assert reason in done.reason
