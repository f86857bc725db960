"""`mimo scan` on checkouts: clean, leaking, not a checkout."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.git_rebuild import init_git

DIFF = (
    b"--- a/m.py\n+++ b/m.py\n@@ -1,2 +1,2 @@\n def half(n):\n-    return n\n+    return n / 2 if n else 0\n"
)


def scan(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mimo", "scan", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> tuple[Path, str]:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "m.py").write_text("def half(n):\n    return n\n")
    return tree, init_git(tree)


def test_a_rebuilt_checkout_is_clean(checkout: tuple[Path, str], tmp_path: Path) -> None:
    tree, commit = checkout
    (tmp_path / "fix.diff").write_bytes(DIFF)
    done = scan(tree, "--base", commit, "--needles", tmp_path / "fix.diff")
    assert (done.returncode, done.stdout) == (0, f"no leak found in {tree}\n")


def test_leaks_are_listed_and_the_exit_code_is_4(checkout: tuple[Path, str], tmp_path: Path) -> None:
    tree, commit = checkout
    (tree / "notes.txt").write_text("maybe: return n / 2 if n else 0\n")
    (tree / ".git/ORIG_HEAD").write_text(f"{commit}\n")
    (tree / "a\nb.orig").write_text("x")
    (tmp_path / "fix.diff").write_bytes(DIFF)
    done = scan(tree, "--base", commit[:10], "--needles", tmp_path / "fix.diff")
    assert done.returncode == 4
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["C04", "A04", "C01"]
    assert "a\\nb.orig" in done.stdout
    assert "n / 2" not in done.stdout + done.stderr
    assert "3 leaks" in done.stderr


def test_json_holds_the_same(checkout: tuple[Path, str]) -> None:
    tree, commit = checkout
    (tree / "m.pyc").write_bytes(b"x")
    done = scan(tree, "--base", commit, "--json")
    assert done.returncode == 4
    (row,) = json.loads(done.stdout)["findings"]
    assert (row["route"], row["path"], row["severity"]) == ("B01", "m.pyc", "leak")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "no folder nowhere"),
        (["{tree}", "--base", "f" * 40], "no commit"),
        (["{tree}", "--needles", "none.diff"], "no file none.diff"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    checkout: tuple[Path, str], arguments: list[str], said: str
) -> None:
    done = scan(*[word.format(tree=checkout[0]) for word in arguments])
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
