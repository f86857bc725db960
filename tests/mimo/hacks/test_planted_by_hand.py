"""Leaks planted by hand, the user's commands alone: in a task's source, and past prepare-env's scrub."""

from __future__ import annotations

import importlib.util
import io
import json
import marshal
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mimo.records import from_line, to_line
from mimo.run_dir import manifest as manifests
from mimo.types import Task
from sandbox.snapshot import snapshot_tree
from tests.mimo.pipeline.conftest import ROOT

OLD = "def discounted_total(prices, percentage):\n    return sum(prices) - percentage\n"
NEW = (
    "def discounted_total(prices, percentage):\n    subtotal_of_prices = sum(prices)\n"
    "    reduction_amount = subtotal_of_prices * percentage / 100\n"
    "    return max(0, subtotal_of_prices - reduction_amount)\n"
)
TEST = (
    "from orders import discounted_total\n\n\n"
    "def test_it():\n    assert discounted_total([50, 150], 10) == 180\n"
)
TOML = '[verifier]\ntimeout_sec = 20\n\n[metadata.mimo]\nfail_to_pass = ["tests/test_orders.py::test_it"]\n'
WHEEL = ".cache/pip/wheels/orders-1.1-py3-none-any.whl"
BYTECODE = "__pycache__/orders.cpython-311.pyc"


def wheel(tree: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("orders.py", NEW)
    write(tree / WHEEL, packed.getvalue())


def bytecode(tree: Path) -> None:
    code = marshal.dumps(compile(NEW, "orders.py", "exec"))
    write(tree / BYTECODE, importlib.util.MAGIC_NUMBER + b"\1\0\0\0" + b"\0" * 8 + code)


def history(tree: Path) -> None:
    """The repair: committed and reset (the reflog has it), stashed, and once more as a loose object."""
    if not (tree / ".git").exists():
        git(tree, "init", "-q")
        git(tree, "add", "-A")
        git(tree, "commit", "-qm", "base")
    (tree / "orders.py").write_text(NEW)
    git(tree, "commit", "-qam", "repair")
    git(tree, "reset", "-q", "--hard", "HEAD~1")
    (tree / "orders.py").write_text(NEW + "# stashed\n")
    git(tree, "stash", "-q")
    (tree / "orders.py").write_text(NEW + "# loose\n")
    git(tree, "hash-object", "-w", "orders.py")
    (tree / "orders.py").write_text(OLD)


def git(tree: Path, *arguments: str) -> str:
    settings = ("user.name=x", "user.email=x@localhost", "safe.directory=*", "core.logAllRefUpdates=true")
    command = ["git", *(part for one in settings for part in ("-c", one)), *arguments]
    env = {"PATH": "/usr/bin:/bin", "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": "/nonexistent"}
    return subprocess.run(command, cwd=tree, env=env, check=True, capture_output=True, text=True).stdout


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def author(folder: Path, leak: Callable[[Path], None] | None) -> None:
    """A task folder, with what its author left in the work tree."""
    repo = folder / "environment" / "repo"
    for path, text in {
        folder / "task.toml": TOML,
        folder / "instruction.md": f"discounted_total() takes the percentage as an amount ({folder.name}).\n",
        repo / "orders.py": OLD,
        repo / "README.md": f"orders, {folder.name}\n",
        folder / "tests/test_orders.py": TEST,
        folder / "solution/files/orders.py": NEW,
    }.items():
        write(path, text.encode())
    if leak is not None:
        leak(repo)


class Project:
    """A recipe with four tasks and a home of its own; `run` is the command."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.recipe = folder / "recipe.yaml"
        for name, leak in {"clean": None, "history": history, "bytecode": bytecode, "wheel": wheel}.items():
            author(folder / "tasks" / name, leak)
        source = "{kind: folder, domain: coding, path: tasks, split: train}"
        self.recipe.write_text(
            f"schema: 1\nextends: {ROOT / 'recipes' / 'pro.yaml'}\nname: leaks\nprofiles:\n  smoke:\n"
            f"    tasks: {{sources: [{source}]}}\n    prepare_env: {{reruns: 1}}\n"
            "    runtime: {tracking_uri: none, prepare_concurrency: 2}\n"
        )

    def run(self, *arguments: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "mimo", "run", str(self.recipe), "--profile", "smoke", *arguments]
        env = {**os.environ, "MIMO_HOME": str(self.home)}
        done = subprocess.run(
            [*command, "--json"], cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode in (0, 3), done.stdout + done.stderr
        report: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return report

    def output(self, stage: str) -> Path:
        """The newest result of a stage."""
        found = (self.home / "store" / stage).glob("*/manifest.json")
        return max(found, key=lambda path: path.stat().st_mtime).parent

    def tasks(self, stage: str) -> dict[str, Task]:
        """Its tasks by family, which is the folder's name."""
        lines = (self.output(stage) / "tasks.jsonl").read_bytes().splitlines()
        return {task.family: task for task in (from_line(Task, line) for line in lines)}

    def tree(self, stage: str, family: str) -> Path:
        return self.output(stage) / "snapshots" / self.tasks(stage)[family].environment.snapshot

    def counts(self, report: Mapping[str, Any], stage: str) -> dict[str, int]:
        (row,) = [row for row in report["stages"] if row["stage"] == stage]
        return dict(row["counts"])

    def rounds(self, family: str) -> list[set[str]]:
        """The routes of each probe round of a task."""
        task_id = self.tasks("prepare-env")[family].task_id
        lines = (self.output("probe-hacks") / "leaks.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        mine = sorted((row for row in rows if row["task_id"] == task_id), key=lambda row: int(row["round"]))
        return [{finding["route"] for finding in row["findings"]} for row in mine]

    def plant(self, leaks: Mapping[str, Callable[[Path], None]]) -> None:
        """Leaks in prepared environments, published as if prepare-env had left them there."""
        out, rows = self.output("prepare-env"), []
        for family, task in self.tasks("prepare-env").items():
            if family in leaks:
                tree = self.home.parent / "planted" / family
                shutil.copytree(out / "snapshots" / task.environment.snapshot, tree, symlinks=True)
                leaks[family](tree)
                snapshot = snapshot_tree(tree, out / "snapshots")
                task = replace(task, environment=replace(task.environment, snapshot=snapshot))
            rows.append(task)
        (out / "tasks.jsonl").write_bytes(b"".join(map(to_line, rows)))
        made, files = manifests.read(out), manifests.list_files(out)
        assert made is not None
        manifests.write(
            out, replace(made, files=tuple(files), digest=manifests.output_digest(files, made.key))
        )


def is_clean(tree: Path) -> bool:
    """By hand: no packed, compiled or committed copy of the repair anywhere."""
    objects = git(tree, "cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)")
    texts = [
        git(tree, "cat-file", "blob", line.split()[0]) for line in objects.splitlines() if "blob" in line
    ]
    files = [path for path in tree.rglob("*") if path.is_file() and ".git" not in path.parts]
    return (
        not any("reduction_amount" in text for text in texts)
        and not any(b"reduction_amount" in path.read_bytes() for path in files)
        and not any(path.suffix in (".whl", ".pyc") for path in files)
        and not list((tree / ".git").rglob("logs"))
        and objects.count("commit") == 1
    )


@pytest.mark.slow
def test_leaks_in_sources_and_past_the_scrub_are_found_and_gone(tmp_path: Path) -> None:
    project = Project(tmp_path)
    made = project.run("--until", "prepare-env")
    assert project.counts(made, "prepare-env") == {"left out of a task's work tree": 2}
    assert is_clean(project.tree("prepare-env", "history"))
    assert not (project.tree("prepare-env", "bytecode") / "__pycache__").exists()
    assert (project.tree("prepare-env", "wheel") / WHEEL).is_file()  # the author's own file: base commit

    project.plant({"history": history, "bytecode": bytecode, "clean": wheel})
    probed = project.run("--until", "probe-hacks")
    assert project.counts(probed, "probe-hacks") == {"environment scrubbed": 4}
    tasks = project.tasks("probe-hacks")
    assert tasks.keys() == {"clean", "history", "bytecode", "wheel"}
    for family, routes in {
        "history": {"A01", "A04", "A05", "A09"},
        "bytecode": {"B01"},
        "clean": {"B04"},
        "wheel": {"C04"},
    }.items():
        first, *later = project.rounds(family)
        assert routes <= first, (family, first)
        assert later == [set(), set()]
        assert is_clean(project.tree("probe-hacks", family)), family
        attestation = tasks[family].attestation
        assert attestation is not None
        assert (attestation.verdict, attestation.clean_rounds) == ("clean", 2)
    assert tasks["wheel"].base_commit != project.tasks("prepare-env")["wheel"].base_commit
