"""The smoke recipe, end to end, on the real engines: killed on the way, resumed, audited, explained.

One run serves every test: it is `kill -9`ed once in prepare-env, in cold-start and in rl-mixed, and the same
command goes on each time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from mimo.recipe.loader import load_recipe
from mimo.rollouts.corrections import read_corrections
from mimo.rollouts.store import RolloutStore
from mimo.stages.tasks import read_tasks
from tests.smoke.driver import RECIPE, Driver, shared_memory

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(1800)]


@dataclass(frozen=True)
class Smoke:
    """The finished run and what was seen on the way."""

    driver: Driver
    output: str
    left: dict[str, list[str]]
    shared_before: set[str]


def _commit(stage: str, step: int) -> Callable[[Mapping[str, object]], bool]:
    def wanted(event: Mapping[str, object]) -> bool:
        about = event.get("about")
        return (
            event.get("stage") == stage
            and event.get("event") == "commit"
            and isinstance(about, dict)
            and int(about["step"]) >= step
        )

    return wanted


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Smoke:
    """Kill the run three times, then let it finish."""
    shared = shared_memory()
    driver = Driver(tmp_path_factory.mktemp("smoke") / "home")
    left: dict[str, list[str]] = {}
    for name, stage, step, after_s in (
        ("prepare-env", "prepare-env", 5, 0.05),
        ("cold-start", "cold-start", 10, 0.3),
        ("rl-mixed step", "rl-mixed", 1, 2.0),
    ):
        killed = driver.kill_at(_commit(stage, step), after_s=after_s)
        left[name] = driver.left_behind() if killed else ["the run ended before it could be killed"]
    finished = driver.run("run", RECIPE, "--profile", "smoke")
    return Smoke(driver, finished.stdout + finished.stderr, left, shared)


def test_it_ends_well_after_three_kills(smoke: Smoke) -> None:
    assert "audit" in smoke.output
    assert smoke.left == {name: [] for name in smoke.left}
    again = smoke.driver.run("run", RECIPE, "--profile", "smoke")
    assert again.returncode == 0, again.stdout + again.stderr
    assert smoke.driver.left_behind() == []


def test_nothing_of_ours_stays_in_shared_memory(smoke: Smoke) -> None:
    assert shared_memory() - smoke.shared_before == set()


def test_every_trained_stage_changed_its_weights_and_says_how_far_the_canary_was(smoke: Smoke) -> None:
    for stage in ("cold-start", "rl-mixed", "mopd2"):
        rows = _metric_rows(smoke.driver.output(stage))
        canary = [row["canary/mean"] for row in rows if "canary/mean" in row]
        assert canary, stage
        assert max(canary) < 1e-5, stage
        changed = [row["weights/changed_tensors"] for row in rows if "weights/changed_tensors" in row]
        assert any(changed), stage


def test_no_metric_is_doubled_in_mlflow_and_committed_steps_are_there(smoke: Smoke) -> None:
    with sqlite3.connect(smoke.driver.home / "mlflow.db") as database:
        rows = database.execute(
            "select run_uuid, key, step, count(*) from metrics "
            "where key like 'train/%' or key like 'canary/%' group by run_uuid, key, step"
        ).fetchall()
    assert rows
    assert max(number for *_, number in rows) == 1
    rl_steps = {step for _, key, step, _ in rows if key == "train/grad_norm"}
    assert rl_steps >= set(range(1, 5))


def test_what_was_trained_on_is_what_was_sampled(smoke: Smoke) -> None:
    store = RolloutStore(smoke.driver.output("rl-mixed"))
    for step in store.steps():
        payloads = store.payloads(step)
        for rollout in store.rollouts(step):
            if not rollout.contexts:
                continue  # it failed before its first token
            payload = payloads[rollout.rollout_id]
            spans = [turn.span for turn in rollout.contexts[0].turns if turn.role == "assistant"]
            marked = sorted(place for start, end in spans for place in range(start, end))
            assert payload.loss_mask.nonzero()[0].tolist() == marked
            assert set(payload.weight_version[payload.loss_mask].tolist()) <= {2_000_000 + step - 1}


def test_distillation_brings_the_student_nearer_to_the_rl_teacher(smoke: Smoke) -> None:
    folder = smoke.driver.output("mopd2") / "evaluation"
    first, last = (json.loads((folder / f"{name}.json").read_text()) for name in ("first", "last"))
    assert first["sft_prefix/cold-start"] == 0.0
    taught = ("student/rl-mixed", "teacher_prefix/rl-mixed")
    assert sum(last[name] for name in taught) < sum(first[name] for name in taught)
    assert last["student/rl-mixed"] < first["student/rl-mixed"]


def test_single_turns_go_on_from_recorded_ids(smoke: Smoke) -> None:
    recorded: dict[str, list[int]] = {}
    for output in (smoke.driver.output("rl-mixed"), smoke.driver.output("cold-start") / "demonstrations"):
        source = RolloutStore(output)
        for step in source.steps():
            recorded |= {name: row.token_ids.tolist() for name, row in source.payloads(step).items()}
    store = RolloutStore(smoke.driver.output("mopd2"))
    seen = 0
    for step in store.steps():
        payloads = store.payloads(step)
        for rollout in store.rollouts(step):
            parent = rollout.contexts[0].parent if rollout.contexts else None
            if parent is None:
                continue
            payload, seen = payloads[rollout.rollout_id], seen + 1
            start = int(payload.loss_mask.argmax())
            assert payload.token_ids[:start].tolist() == recorded[parent][:start]
            assert payload.loss_mask[start:].all()
            assert payload.teacher_logprobs is not None
            assert set(payload.weight_version[start:].tolist()) == {3_000_000 + step - 1}
    assert seen > 0


def test_the_report_compares_every_policy(smoke: Smoke) -> None:
    report = json.loads((smoke.driver.output("audit") / "report.json").read_text())
    rates = {row["name"]: row["train"]["rate"] for row in report["policies"]}
    assert {"base", "cold-start", "rl-mixed", "mopd2"} <= set(rates)
    assert rates["base"] == 0.0
    assert rates["cold-start"] > 0.0
    page = (smoke.driver.output("audit") / "report.html").read_text()
    assert "rl-mixed" in page


def test_the_audit_looks_at_every_trajectory_of_every_stage(smoke: Smoke) -> None:
    output = smoke.driver.output("audit")
    report = json.loads((output / "report.json").read_text())
    sampling = ("cold-start", "synthesize-rubrics", "rl-mixed", "mopd2", "audit")
    stored = {name: _stored(smoke.driver.output(name)) for name in sampling}
    audited = dict.fromkeys(sampling, 0)
    for row in report["hacks"]["counts"]:
        audited[row["stage"]] += sum(row["verdicts"].values())
    assert audited == stored
    assert min(stored.values()) > 0
    assert report["hacks"]["planted_controls"] == 2
    assert report["gate"]["verdict"] == "passed"
    assert report["resets"]["mismatches"] == []
    graded = {(row["policy"], row["split"]) for row in report["quality"]}
    assert graded >= {(name, split) for name in ("base", "mopd2") for split in ("train", "heldout")}
    assert "hack audit of" in smoke.output
    train = {task.task_id for task in read_tasks(smoke.driver.output("prepare-env")) if task.split == "train"}
    corrections = read_corrections(output / "corrections.jsonl")
    assert {item.task_id for item in corrections} <= train
    assert len(corrections) == report["corrections"]["written"] > 0


def _stored(output: Path) -> int:
    stores = (RolloutStore(output), RolloutStore(output / "evaluation"))
    return sum(1 for store in stores for step in store.steps() for _ in store.rollouts(step))


def test_more_steps_continue_instead_of_starting_over(smoke: Smoke) -> None:
    more = load_recipe("pro", profile="smoke").model.rl_mixed.steps + 1
    wanted = ("--set", f"rl_mixed.steps={more}", "--until", "rl-mixed")
    result = smoke.driver.run("run", RECIPE, "--profile", "smoke", *wanted, "--json")
    assert result.returncode == 0, result.stderr
    events = [json.loads(line) for line in result.stdout.splitlines()]
    commits = [e["about"]["step"] for e in events if e["event"] == "commit" and e["stage"] == "rl-mixed"]
    assert commits == [more]


def _metric_rows(output: Path) -> list[dict[str, float]]:
    lines = (output / "_run" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["metrics"] for line in lines]
