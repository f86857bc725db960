"""`mimo rank`: the order of patches with its evidence, ties, failures, and folders that are not enough."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from commands.cli import cli
from mimo.errors import RecipeError

BASE = 'def add(a, b):\n    """Return a plus b."""\n    return a - b\n'
TEST = "from m import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n"


def patch(new: str) -> str:
    """A diff that replaces the last line of m.py by `new`."""
    added = "".join(f"+{line}\n" for line in new.splitlines())
    size = 2 + len(new.splitlines())
    head = f"--- a/m.py\n+++ b/m.py\n@@ -1,3 +1,{size} @@\n"
    return f'{head} def add(a, b):\n     """Return a plus b."""\n-    return a - b\n{added}'


CLEAN = patch("    return a + b")
FITTED = patch("    if a == 2 and b == 3:\n        return 5\n    return a + b")
SWALLOWS = patch("    try:\n        return a + b\n    except Exception:\n        return 0")
TESTS_TOO = (
    CLEAN + "--- a/test_m.py\n+++ b/test_m.py\n@@ -5 +5 @@\n-    assert add(2, 3) == 5\n+    assert True\n"
)
WRONG = patch("    return a * b")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "m.py").write_text(BASE)
    (tmp_path / "base" / "test_m.py").write_text(TEST)
    (tmp_path / "patches").mkdir()
    for name, text in (
        ("clean.patch", CLEAN), ("same.diff", CLEAN), ("fitted.patch", FITTED), ("swallows.patch", SWALLOWS),
        ("tests.patch", TESTS_TOO), ("wrong.patch", WRONG),
    ):  # fmt: skip
        (tmp_path / "patches" / name).write_text(text)
    (tmp_path / "results.json").write_text('{"wrong.patch": false}')
    return tmp_path


def call(*args: str) -> Result:
    return CliRunner().invoke(cli, ["rank", *args])


def data(folder: Path) -> dict[str, Any]:
    result = call(str(folder), "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.output)
    return found


def test_better_patches_come_first(folder: Path) -> None:
    found = data(folder)
    rows = {row["name"]: row for row in found["patches"]}
    assert [rows[name]["place"] for name in ("clean.patch", "same.diff")] == [1, 1]
    assert rows["clean.patch"]["factor"] == rows["same.diff"]["factor"] == 1.0
    assert [row["name"] for row in found["patches"]][-1] == "wrong.patch"
    assert (rows["wrong.patch"]["place"], rows["wrong.patch"]["factor"]) == (None, None)
    for worse in ("fitted.patch", "swallows.patch", "tests.patch"):
        assert rows[worse]["place"] > 1, worse
        assert 0 < rows[worse]["factor"] < 1
    assert any("m.py:3: fitted" in line for line in rows["fitted.patch"]["evidence"])
    assert any("swallowed-exception" in line for line in rows["swallows.patch"]["evidence"])
    assert any("test_m.py: changed" in line for line in rows["tests.patch"]["evidence"])
    assert "results.json does not name clean.patch" in found["notes"][0]


def test_the_table_says_the_same(folder: Path) -> None:
    shown = call(str(folder))
    assert shown.exit_code == 0, shown.output
    assert "fitted" in shown.output
    assert any(line.split()[:2] == ["1", "clean.patch"] for line in shown.output.splitlines())
    assert any(line.split()[:2] == ["failed", "wrong.patch"] for line in shown.output.splitlines())


def test_a_task_folder_will_do_and_its_reference_counts(folder: Path) -> None:
    (folder / "environment").mkdir()
    (folder / "base").rename(folder / "environment" / "repo")
    (folder / "solution" / "files").mkdir(parents=True)
    (folder / "solution" / "files" / "m.py").write_text(BASE.replace("a - b", "a + b"))
    found = data(folder)
    assert found["patches"][0]["name"] == "clean.patch"
    assert not any("solution" in note for note in found["notes"])


def test_what_is_not_enough_is_one_clear_error(folder: Path) -> None:
    def refused() -> str:
        error = call(str(folder)).exception
        assert isinstance(error, RecipeError)
        return error.message

    (folder / "patches" / "bad.patch").write_text("--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-x\n+y\n")
    assert "bad.patch does not apply" in refused()
    (folder / "patches" / "bad.patch").write_text("--- /dev/null\n+++ b/../out.py\n@@ -0,0 +1 @@\n+x\n")
    assert "bad.patch does not apply" in refused()
    (folder / "patches" / "bad.patch").unlink()
    (folder / "results.json").write_text('{"other.patch": true}')
    assert "names other.patch, which is not in patches/" in refused()
    names = [path.name for path in (folder / "patches").iterdir()]
    (folder / "results.json").write_text(json.dumps({name: name == "clean.patch" for name in names}))
    assert "1 of 6 patches pass; an order needs two" in refused()
    (folder / "results.json").write_text("[")
    assert "not JSON" in refused()
    shutil.rmtree(folder / "patches")
    assert "no .patch or .diff file" in refused()
    shutil.rmtree(folder / "base")
    assert "no base/ and no environment/repo/" in refused()
