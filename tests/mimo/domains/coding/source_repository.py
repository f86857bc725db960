"""A small real repository with a bug, its repair, and records of both in SWE-bench's form."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import git

CORE = 'def add(a, b):\n    """Return a plus b."""\n    return a - b\n\n\ndef twice(a):\n    return 2 * a\n'
OLD_TEST = (
    "from calc.core import add, twice\nfrom tests.helper import FOUR\n\n\n"
    "def test_twice():\n    assert twice(2) == FOUR\n"
)
NEW_TEST = OLD_TEST + "\n\ndef test_add():\n    assert add(2, 2) == FOUR\n"
INNER = "from ..core import add\n\n\ndef test_zero():\n    assert add(0, 0) == 0\n"
NEW_INNER = INNER + "\n\ndef test_inner():\n    assert add(1, 2) == 3\n"
FIRST = {
    "calc/__init__.py": "",
    "calc/core.py": CORE,
    "calc/old.py": "gone = True\n",
    "calc/tests/__init__.py": "",
    "calc/tests/test_inner.py": INNER,
    "tests/__init__.py": "",
    "tests/helper.py": "FOUR = 4\n",
    "tests/test_core.py": OLD_TEST,
    "README.md": "calc\n",
}
SECOND = {
    "calc/core.py": CORE.replace("a - b", "a + b"),
    "calc/new.py": "here = True\n",
    "tests/test_core.py": NEW_TEST,
    "calc/tests/test_inner.py": NEW_INNER,
}


@dataclass(frozen=True)
class Source:
    """The clone and the two commits' patches."""

    clones: Path
    record: dict[str, Any]
    after: str
    """The commit of the repair."""

    def write(self, file: Path, *changes: dict[str, Any]) -> Path:
        """JSON lines: a record for each set of changes to the usual one."""
        file.write_text("".join(json.dumps({**self.record, **change}) + "\n" for change in changes))
        return file


def made_source(folder: Path) -> Source:
    """The repository `acme/calc` at `folder/acme__calc`."""
    repo = git.Repo.init(folder / "acme__calc")
    with repo.config_writer() as config:
        config.set_value("user", "name", "a").set_value("user", "email", "a@b")
    root = Path(repo.working_dir)
    (root / "link").symlink_to("README.md")
    _commit(repo, {"README.md": "to be\n"}, "before")
    base = _commit(repo, FIRST)
    (root / "calc/old.py").unlink()
    after = _commit(repo, SECOND)
    tests = ("tests", "calc/tests")
    record = {
        "instance_id": "acme__calc-1",
        "repo": "acme/calc",
        "base_commit": base,
        "patch": repo.git.diff(base, "HEAD", "--", "calc/core.py", "calc/new.py", "calc/old.py"),
        "test_patch": repo.git.diff(base, "HEAD", "--", *tests),
        "problem_statement": "add subtracts",
        "hints_text": "SECRET HINT",
        "FAIL_TO_PASS": json.dumps(["tests/test_core.py::test_add"]),
        "PASS_TO_PASS": ["tests/test_core.py::test_twice"],
    }
    return Source(clones=folder, record=record, after=after)


def _commit(repo: git.Repo, files: dict[str, str], message: str = "change") -> str:
    for path, text in files.items():
        target = Path(repo.working_dir) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    repo.git.add("--all")
    return repo.index.commit(message).hexsha
