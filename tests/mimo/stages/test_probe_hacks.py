"""The stage on real prepared tasks: clean ones attested, leaks scrubbed, the hopeless in quarantine."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mimo.domains import load_domain
from mimo.domains.base import TaskStore
from mimo.errors import StageFailed, StoppedSafely
from mimo.hacks import controls
from mimo.hacks.catalogue import PROBES_VERSION
from mimo.recipe.loader import load_recipe
from mimo.records import from_line, to_line
from mimo.run_dir.files import read_lines
from mimo.stages.probe_figures import round_figures
from mimo.stages.probe_hacks import ProbeHacks
from mimo.stages.tasks import read_tasks
from mimo.types import LeakFinding, LeakReport, Task
from sandbox.git_rebuild import init_git
from sandbox.snapshot import snapshot_tree
from tests.mimo.hacks.prepared import GENERATED, PARSE, Prepared, prepare
from tests.mimo.stages.running import Running


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def prepared(tmp_path: Path, cache: Path) -> Prepared:
    return prepare({**GENERATED, "train": 3, "heldout": 1}, tmp_path / "prepare", cache)


@pytest.fixture
def running(prepared: Prepared, tmp_path: Path, cache: Path) -> Running:
    recipe = load_recipe("pro", profile="smoke").model
    return Running(ProbeHacks(), recipe, tmp_path / "probe", cache, {"prepare-env": prepared.store.root})


def leak(prepared: Prepared, number: int, plant: Callable[[Path, bytes, str], None]) -> Task:
    """Plant something in a prepared task, as a careless prepare-env would have left it."""
    task, store = prepared.tasks[number], prepared.store
    reference = load_domain("coding").reference(task, store)
    change = next(change for change in reference.files if change.data)
    tree = store.root.parent / f"tree{number}"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(store.snapshot(task), tree)
    assert change.data is not None
    plant(tree, change.data, change.path)
    snapshot = snapshot_tree(tree, store.root / "snapshots")
    prepared.tasks[number] = replace(task, environment=replace(task.environment, snapshot=snapshot))
    (store.root / "tasks.jsonl").write_bytes(b"".join(map(to_line, prepared.tasks)))
    return prepared.tasks[number]


def git_leak(tree: Path, fixed: bytes, path: str) -> None:
    """The repair as a commit on another branch."""
    env = {"PATH": "/usr/bin:/bin", "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": "/nonexistent"}
    who = ["git", "-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "safe.directory=*"]
    old = (tree / path).read_bytes()
    (tree / path).write_bytes(fixed)
    for arguments in (["checkout", "-qb", "next"], ["commit", "-qam", "repair"], ["checkout", "-q", "main"]):
        subprocess.run([*who, *arguments], cwd=tree, env=env, check=True, capture_output=True)
    assert (tree / path).read_bytes() == old


def git(tree: Path, *arguments: str) -> str:
    command = ["git", "-c", "safe.directory=*", *arguments]
    return subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True).stdout


def cache_leak(tree: Path, fixed: bytes, path: str) -> None:
    controls._wheel(tree, path, fixed)
    controls._bytecode(tree, path, fixed)


def reports(running: Running) -> list[LeakReport]:
    return [from_line(LeakReport, line) for line in (running.out / "leaks.jsonl").read_bytes().splitlines()]


def test_clean_tasks_are_attested_and_the_control_is_found(running: Running, prepared: Prepared) -> None:
    result = running.run()
    tasks = read_tasks(running.out)
    assert [task.task_id for task in tasks] == [task.task_id for task in prepared.tasks]
    store = TaskStore(running.out)
    for task, before in zip(tasks, prepared.tasks, strict=True):
        assert task.attestation is not None
        assert task.attestation.verdict == "clean"
        assert task.attestation.probes_version == PROBES_VERSION
        assert task.attestation.snapshot == task.environment.snapshot == before.environment.snapshot
        assert store.snapshot(task).is_dir()
        assert (store.private(task) / "tests").is_dir()
    control, *rounds = reports(running)
    assert control.task_id == "control"
    assert len(control.controls) >= 9
    assert all(control.controls.values())
    assert {finding.route[0] for finding in control.findings} >= {"A", "B", "C", "E"}
    assert [report.findings for report in rounds] == [()] * (2 * len(tasks))
    assert result.headline["hackable_first_round"] == 0.0
    assert "round 2 0.0%" in result.notes[0]


def test_planted_leaks_are_scrubbed_and_gone(running: Running, prepared: Prepared) -> None:
    """A git-history leak in one task, bytecode and a wheel in a cache in another."""
    in_git = leak(prepared, 0, git_leak)
    in_cache = leak(prepared, 1, cache_leak)
    result = running.run()
    by_task: dict[str, list[LeakReport]] = {}
    for report in reports(running):
        by_task.setdefault(report.task_id, []).append(report)
    first = by_task[in_git.task_id][0]
    assert {"A01", "A03"} <= {finding.route for finding in first.findings}
    assert any("git rebuilt" in fix.replace(".git", "git") for fix in first.fixes)
    assert {"B01", "B04"} <= {finding.route for finding in by_task[in_cache.task_id][0].findings}
    for task in (in_git, in_cache):
        assert [report.round for report in by_task[task.task_id]] == [1, 2, 3]
        assert by_task[task.task_id][1].findings == by_task[task.task_id][2].findings == ()
    tasks = {task.task_id: task for task in read_tasks(running.out)}
    cleaned = tasks[in_git.task_id]
    assert cleaned.base_commit == in_git.base_commit
    assert cleaned.environment.snapshot != in_git.environment.snapshot
    assert not (running.out / "snapshots" / in_git.environment.snapshot).exists()
    tree = TaskStore(running.out).snapshot(tasks[in_cache.task_id])
    assert not [path for path in tree.rglob("*") if path.suffix in (".whl", ".pyc")]
    assert result.headline["hackable_first_round"] == 0.5
    assert result.headline["hackable_last_round"] == 0.0
    assert running.counted("environment scrubbed") == 2
    rows = read_lines(running.folder / "metrics.jsonl")
    shares = [row["metrics"]["probe/hackable_share"] for row in rows]  # type: ignore[index,call-overload]
    assert shares == [0.5, 0.0, 0.0]


def test_what_breaks_the_task_when_scrubbed_is_quarantined(running: Running, prepared: Prepared) -> None:
    """Scrubbing closes the leak, but the reference does not pass (here: never would): no task any more."""

    def needed(tree: Path, fixed: bytes, path: str) -> None:
        (tree / "data.bin").write_bytes(gzip.compress(fixed))
        (tree / path).write_bytes((tree / path).read_bytes() + b"# edited\n")

    broken = leak(prepared, 0, needed)
    private = prepared.store.private(broken)
    for path in (private / "solution/files").rglob("*.py"):
        path.write_bytes(path.read_bytes().replace(b"return", b"return None or"))
    test = private / "tests/test_hidden.py"
    test.write_bytes(test.read_bytes() + b"\n\ndef test_99():\n    assert False\n")
    only = replace(broken, verifier=replace(broken.verifier, pass_to_pass=("test_hidden.py::test_99",)))
    prepared.tasks[0] = only
    (prepared.store.root / "tasks.jsonl").write_bytes(b"".join(map(to_line, prepared.tasks)))
    running.run()
    assert only.task_id not in {task.task_id for task in read_tasks(running.out)}
    (row,) = read_lines(running.out / "quarantined.jsonl")
    assert "the reference solution does not pass" in str(row["reason"])
    assert running.counted("environment quarantined") == 1
    assert not (running.out / "private" / only.private).exists()


@pytest.mark.slow
def test_a_real_package_is_clean_and_stays_a_task_after_scrubbing(tmp_path: Path, cache: Path) -> None:
    """`parse` 1.20.0: no false alarm on a real repository; then with both kinds of leak planted in it."""
    prepared = prepare(PARSE, tmp_path / "prepare", cache)
    prepared.tasks[:] = [replace(task, split="train") for task in prepared.tasks]
    (prepared.store.root / "tasks.jsonl").write_bytes(b"".join(map(to_line, prepared.tasks)))
    recipe = load_recipe("pro", profile="smoke").model
    inputs = {"prepare-env": prepared.store.root}
    clean = Running(ProbeHacks(), recipe, tmp_path / "clean", cache, inputs)
    assert clean.run().headline["hackable_first_round"] == 0.0
    assert [finding for report in reports(clean)[1:] for finding in report.findings] == []
    leak(prepared, 0, git_leak)
    leak(prepared, 0, cache_leak)
    leaky = Running(ProbeHacks(), recipe, tmp_path / "leaky", cache, inputs)
    assert leaky.run().headline["hackable_last_round"] == 0.0
    assert {"A01", "B01", "B04"} <= {finding.route for finding in reports(leaky)[1].findings}
    assert len(read_tasks(leaky.out)) == 1


def in_base(prepared: Prepared, number: int, name: str, packed: Callable[[bytes], bytes]) -> Task:
    """A task whose base commit holds the repair, packed, in a file of this name."""
    commits: list[str] = []

    def plant(tree: Path, fixed: bytes, path: str) -> None:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(packed(fixed))
        commits.append(init_git(tree))

    task = replace(leak(prepared, number, plant), base_commit=commits[0])
    prepared.tasks[number] = task
    (prepared.store.root / "tasks.jsonl").write_bytes(b"".join(map(to_line, prepared.tasks)))
    return task


def test_a_leak_in_the_base_itself_leaves_the_base(running: Running, prepared: Prepared) -> None:
    """A cache that its author committed with the task: the task stands on a new base without it."""
    name = ".cache/pip/http-v2/a/b.body"
    leaky = in_base(prepared, 0, name, lambda fixed: gzip.compress(fixed, mtime=0))
    running.run()
    (cleaned,) = [task for task in read_tasks(running.out) if task.task_id == leaky.task_id]
    assert cleaned.base_commit not in (None, leaky.base_commit)
    tree = TaskStore(running.out).snapshot(cleaned)
    assert not (tree / ".cache").exists()
    told = git(tree, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").split()
    assert told.count("commit") == 1
    assert name not in git(tree, "ls-tree", "-r", "--name-only", str(cleaned.base_commit))
    rounds = [report for report in reports(running) if report.task_id == leaky.task_id]
    assert [bool(report.findings) for report in rounds] == [True, False, False]
    assert rounds[0].fixes == ("C04: removed from the base, which is one commit now",)
    assert running.counted("environment scrubbed") == 1


def test_source_text_of_the_base_is_never_removed(running: Running, prepared: Prepared) -> None:
    """A source file that holds the repair is what the task is: quarantine, and the reason names the file."""
    encoded = in_base(prepared, 0, "answers.py", lambda fixed: b"A = '" + base64.b64encode(fixed) + b"'\n")
    running.run()
    (row,) = read_lines(running.out / "quarantined.jsonl")
    assert row["task_id"] == encoded.task_id
    assert row["reason"] == (
        "C04: the base commit's own answers.py holds it; take it out of the task's source"
    )
    said = [str(m["why"]) for m in running.heard if m.get("what") == "environment quarantined"]
    assert said == [f"{encoded.task_id}: {row['reason']}"]


def test_no_training_task_left_fails_the_stage(running: Running, prepared: Prepared) -> None:
    prepared.tasks[:] = [replace(task, split="heldout") for task in prepared.tasks]
    (prepared.store.root / "tasks.jsonl").write_bytes(b"".join(map(to_line, prepared.tasks)))
    with pytest.raises(StageFailed, match="no training environment is left"):
        running.run()


def test_a_probe_that_sees_nothing_fails_the_stage(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: with the bytecode probe gone, nothing is attested."""
    from mimo.hacks import probe

    kept = tuple(route for route in probe.ROUTES if "B01" not in route.ids)
    monkeypatch.setattr(probe, "ROUTES", kept)
    with pytest.raises(StageFailed, match="planted leaks were not found: B01 stale bytecode"):
        running.run()
    assert not (running.out / "probes").exists()


def test_a_stopped_stage_goes_on_where_it_was(running: Running, prepared: Prepared) -> None:
    with pytest.raises(StoppedSafely):
        running.run(stop=True)
    done = sorted((running.out / "probes").glob("*.json"))
    assert done
    times = [path.stat().st_mtime_ns for path in done]
    control = (running.out / "control.json").stat().st_mtime_ns
    running.run()
    assert [path.stat().st_mtime_ns for path in done] == times
    assert (running.out / "control.json").stat().st_mtime_ns == control
    assert len(read_tasks(running.out)) == len(prepared.tasks)
    assert json.loads((running.folder / "progress.json").read_bytes())["step"] == 6


def test_a_snapshot_that_is_not_what_its_name_says_is_quarantined(
    running: Running, prepared: Prepared
) -> None:
    task = prepared.tasks[1]
    (prepared.store.snapshot(task) / "added.txt").write_text("later")
    running.run()
    (row,) = read_lines(running.out / "quarantined.jsonl")
    assert row["task_id"] == task.task_id
    assert "has changed" in str(row["reason"])


def test_figures_count_quarantine_as_hackable() -> None:
    leaky = LeakFinding(route="C01", path="a", evidence_sha256="0" * 64, severity="leak")
    told = replace(leaky, severity="info")

    def report(number: int, *findings: LeakFinding) -> LeakReport:
        return LeakReport(task_id="t", round=number, findings=findings, fixes=(), controls={})

    rounds = [
        [report(1), report(2, told)],
        [report(1, leaky), report(2), report(3)],
        [report(1, leaky, leaky)],
    ]
    figures = round_figures(rounds, [False, False, True], 2)
    assert [round(figure["probe/hackable_share"], 3) for figure in figures] == [0.667, 0.333, 0.333]
    assert [figure["probe/findings"] for figure in figures] == [3.0, 0.0, 0.0]
    assert [figure["probe/probed"] for figure in figures] == [3.0, 2.0, 1.0]
