"""A run from plan to summary: reuse, resume inside a stage, failures, what a stage may not get away with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from mimo.errors import RecipeError
from mimo.pipeline.run import Tools
from mimo.run_dir.files import read_lines
from mimo.run_dir.locks import KernelLock
from sandbox.reaper import left_over
from tests.mimo.pipeline.conftest import Bench

Knobs = Callable[..., None]


def test_everything_runs_then_nothing_does(bench: Bench) -> None:
    report = bench.run()
    assert bench.what(report) == {"prepare-env": "ran", "rl-mixed": "ran", "mopd2": "skipped", "audit": "ran"}
    assert report.error is None
    assert report.headline == {"prepare-env/tasks": 3.0, "rl-mixed/pass_rate": 0.5, "audit/hacks": 0.0}
    made = json.loads((bench.output("audit") / "report.json").read_bytes())
    assert made == {"steps": ["step-1", "step-2", "step-3", "step-4"], "inputs": ["prepare-env", "rl-mixed"]}
    again = bench.run()
    assert set(bench.what(again).values()) == {"reused", "skipped"}
    assert again.run == report.run
    assert bench.watcher.events == []
    assert len(list(bench.home.runs.iterdir())) == 1


def test_counts_reach_manifest_and_events(bench: Bench) -> None:
    report = bench.run()
    assert report.outcomes[0].manifest is not None
    assert report.outcomes[0].manifest.counts == {"task rejected": 2}
    counted = bench.watcher.named("count")
    assert counted[0].about == {"what": "task rejected", "amount": 2, "why": "as planned"}


@pytest.mark.parametrize(
    ("what", "kind", "code", "text"),
    [
        ("raise", "StageFailed", 1, "no gradient reached the weights"),
        ("crash", "StageFailed", 1, "ZeroDivisionError: a bug"),
        ("gate", "GateRefused", 4, "a leak is left"),
        ("kill", "StageFailed", 1, "killed by SIGKILL after step 1"),
        ("full", "MachineLacks", 69, "no space left"),
    ],
)
def test_a_failure_is_told_and_the_next_run_goes_on(
    bench: Bench, knobs: Knobs, what: str, kind: str, code: int, text: str
) -> None:
    knobs(at=what)
    report = bench.run()
    assert report.error is not None
    assert (type(report.error).__name__, report.error.exit_code) == (kind, code)
    assert text in report.error.message
    assert bench.what(report)["rl-mixed"] == "failed"
    assert bench.what(report)["audit"] == "left"
    assert bench.states()["rl-mixed"] == "resume"
    knobs()
    again = bench.run()
    assert again.error is None
    assert again.run == report.run
    rows = read_lines(bench.output("rl-mixed") / "_run" / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    pids = [(bench.output("rl-mixed") / f"step-{step}").read_text().split()[-1] for step in (1, 2, 3, 4)]
    assert pids[0] != pids[1]
    assert len(set(pids[1:])) == 1


def test_a_refused_output_is_published_and_stays_refused(bench: Bench, knobs: Knobs) -> None:
    knobs(refuse="9 of 200 rollouts are hacks")
    report = bench.run()
    knobs()
    again = bench.run()
    for seen, what in ((report, "ran"), (again, "reused")):
        assert bench.what(seen)["audit"] == what
        assert type(seen.error).__name__ == "GateRefused"
        assert seen.error is not None
        assert (seen.error.exit_code, seen.error.hint) == (4, "look at report.json")
        assert seen.error.message == "audit: 9 of 200 rollouts are hacks"
        assert seen.as_json()["stages"][-1]["refusal"]["message"] == "9 of 200 rollouts are hacks"
    assert (bench.output("audit") / "report.json").is_file()
    assert bench.run(only=("rl-mixed",)).error is None


def test_what_a_failed_stage_had_counted_is_in_the_report(bench: Bench, knobs: Knobs) -> None:
    knobs(at="raise", count="rollout masked")
    (failed,) = (item for item in bench.run().outcomes if item.what == "failed")
    assert failed.counted == {"rollout masked": 1}


def test_out_of_memory_is_hinted(bench: Bench, knobs: Knobs) -> None:
    knobs(at="kill")
    report = bench.run()
    assert report.error is not None
    assert "out of memory" in (report.error.hint or "")


def test_the_traceback_is_in_the_log(bench: Bench, knobs: Knobs) -> None:
    knobs(at="crash")
    bench.run()
    (log,) = bench.home.outputs("rl-mixed").glob("*.work/stage.log")
    assert "ZeroDivisionError: a bug" in log.read_text()


@pytest.mark.parametrize(("plan", "text"), [(0, "without planning any work"), (9, "committed 4 of 9 units")])
def test_less_than_planned_is_a_failure(bench: Bench, knobs: Knobs, plan: int, text: str) -> None:
    knobs(plan=plan)
    report = bench.run()
    assert report.error is not None
    assert text in report.error.message
    assert not list(bench.home.outputs("rl-mixed").glob("????????????????"))


@pytest.mark.parametrize(
    ("stage", "text"), [("Empty", "its output is empty"), ("Forgetful", "left no rejects.jsonl")]
)
def test_a_missing_output_is_a_failure(bench: Bench, stage: str, text: str) -> None:
    bench.order["prepare-env"] = f"tests.mimo.pipeline.demo:{stage}"
    report = bench.run()
    assert report.error is not None
    assert text in report.error.message


def test_a_result_that_another_run_makes_is_busy(bench: Bench) -> None:
    decision = bench.project().plan().decisions["prepare-env"]
    assert decision.work_key is not None
    with KernelLock(bench.home.stage_lock("prepare-env", decision.work_key), "it"):
        report = bench.run()
    assert report.error is not None
    assert report.error.exit_code == 75
    assert "another run makes this very result" in (report.error.hint or "")


def test_what_a_stage_leaves_is_killed_and_said(bench: Bench, knobs: Knobs) -> None:
    before = {item.pid for item in psutil.Process().children(recursive=True)}  # other tests' launchers
    knobs(at="orphan")
    report = bench.run()
    assert report.error is None
    (left,) = bench.watcher.named("leftovers-killed")
    assert len(left.about["processes"]) == 1  # type: ignore[arg-type]
    assert report.as_json()["warnings"] == ["rl-mixed: 1 process had to be killed after its end"]
    after = [item for item in psutil.Process().children(recursive=True) if item.pid not in before]
    assert not [item for item in after if item.status() != "zombie"]


def test_boxes_of_a_killed_stage_are_removed(
    bench: Bench, knobs: Knobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIMO_SANDBOX_STATE", str(tmp_path / "boxes"))
    knobs(at="box")
    report = bench.run()
    assert report.error is not None
    assert "killed by SIGKILL" in report.error.message
    assert left_over() == []
    assert not [item for item in psutil.process_iter(["cmdline"]) if item.info["cmdline"] == ["sleep", "500"]]


def test_a_number_that_is_not_finite_is_flagged(bench: Bench, knobs: Knobs) -> None:
    knobs(at="nan")
    report = bench.run()
    rows = read_lines(bench.output("rl-mixed") / "_run" / "metrics.jsonl")
    assert rows[1]["metrics"] == {"loss": 0.5, "grad_nonfinite": 1.0}
    assert report.outcomes[1].manifest is not None
    assert report.outcomes[1].manifest.counts == {"metric not finite": 1}


def test_scratch_is_gone_and_no_litter_is_left(bench: Bench) -> None:
    bench.run()
    names = [path.name for path in bench.home.root.rglob("*")]
    assert "scratch" not in names
    assert "junk" not in names
    assert not [name for name in names if name.endswith((".tmp", ".work"))]


def test_secrets_stay_out_of_every_file(bench: Bench, monkeypatch: pytest.MonkeyPatch, knobs: Knobs) -> None:
    monkeypatch.setenv("DEMO_SECRET", "hunter2-hunter2")
    key = "runtime.sampler.urls=['http://u:${env:DEMO_SECRET}@h:1']"
    knobs(at="leak")
    failed = bench.run(key)
    assert failed.error is not None
    assert failed.error.message == "rl-mixed: cannot reach http://u:${env:DEMO_SECRET}@h:1"
    knobs()
    assert bench.run(key).error is None
    files = [path for path in bench.home.root.rglob("*") if path.is_file()]
    assert not [path for path in files if b"hunter2-hunter2" in path.read_bytes()]
    log = (bench.output("rl-mixed") / "_run" / "stage.log").read_text()
    assert "the first line of the log ${env:DEMO_SECRET}" in log


def test_a_full_looking_disk_stops_before_a_stage(bench: Bench) -> None:
    report = bench.run("runtime.min_free_disk_gb=100000000")
    assert report.error is not None
    assert report.error.exit_code == 69
    assert "runtime.min_free_disk_gb" in report.error.message


def test_only_and_until_and_blocked(bench: Bench) -> None:
    with pytest.raises(RecipeError, match="rl-mixed cannot run: prepare-env is not done") as caught:
        bench.run(only=("rl-mixed",))
    assert "--until prepare-env" in (caught.value.hint or "")
    assert bench.what(bench.run(until="prepare-env")) == {
        "prepare-env": "ran",
        "rl-mixed": "left",
        "mopd2": "skipped",
        "audit": "left",
    }
    assert bench.what(bench.run(only=("rl-mixed",)))["rl-mixed"] == "ran"
    with pytest.raises(RecipeError, match="unknown stage 'rl-mixd' \\(did you mean 'rl-mixed'"):
        bench.run(start="rl-mixd")


def test_from_runs_again_and_equal_bytes_cut_off(bench: Bench) -> None:
    bench.run()
    report = bench.run(start="prepare-env")
    assert bench.what(report) == {
        "prepare-env": "ran",
        "rl-mixed": "reused",
        "mopd2": "skipped",
        "audit": "reused",
    }


def test_force_starts_over(bench: Bench, knobs: Knobs) -> None:
    bench.run()
    first = (bench.output("rl-mixed") / "step-1").read_text()
    report = bench.run(force=("rl-mixed",))
    assert bench.what(report)["rl-mixed"] == "ran"
    assert (bench.output("rl-mixed") / "step-1").read_text() != first


def test_the_command_that_goes_on_does_not_make_a_finished_stage_again(bench: Bench) -> None:
    bench.run()
    bench.order["audit"] = "tests.mimo.pipeline.demo:Halting"
    later = bench.run(start="rl-mixed")
    assert bench.what(later) == {**bench.what(later), "rl-mixed": "ran", "audit": "failed"}
    assert later.resume.endswith("--profile smoke")
    forced = bench.run(until="audit", force=("rl-mixed", "audit"))
    assert bench.what(forced) == {**bench.what(forced), "rl-mixed": "ran", "audit": "failed"}
    assert forced.resume.endswith("--profile smoke --until audit --force audit")
    assert bench.project(force=("rl-mixed",)).command().endswith("--force rl-mixed")


def test_a_hint_of_a_stage_names_a_command_that_works_however_it_was_started(bench: Bench) -> None:
    """`mimo audit RECIPE` and `--only` do not go with `--from`."""
    bench.run(until="rl-mixed")
    bench.order["audit"] = "tests.mimo.pipeline.demo:Halting"
    error = bench.run("audit.confidence=0.9", only=("audit",)).error
    assert error is not None
    named = f"{bench.recipe} --profile smoke --set audit.confidence=0.9 --from prepare-env`"
    assert (error.hint or "").startswith(f"or `MIMO_HOME={bench.home.root} ")
    assert (error.hint or "").endswith(named)


def test_the_command_that_goes_on_names_what_was_interrupted(bench: Bench, knobs: Knobs) -> None:
    bench.run()
    knobs(at="raise")
    assert bench.run(start="rl-mixed").resume.endswith("--from rl-mixed")
    knobs()
    assert bench.states(start="rl-mixed")["rl-mixed"] == "resume"


def texts(bench: Bench) -> list[str]:
    """What each step of the newest result wrote; the last word names the process."""
    return [(bench.output("rl-mixed") / f"step-{step}").read_text() for step in (1, 2)]


FORCE: dict[str, object] = {"force": ("rl-mixed",)}
FROM: dict[str, object] = {"start": "rl-mixed"}


@pytest.mark.parametrize(
    ("begun", "how", "then"),
    [(FORCE, "kill", FORCE), (FORCE, "raise", {}), (FROM, "kill", {}), (FORCE, "raise", FROM)],
)
def test_what_was_asked_for_again_goes_on_after_an_interruption(
    bench: Bench, knobs: Knobs, begun: dict[str, object], how: str, then: dict[str, object]
) -> None:
    bench.run()
    older = texts(bench)
    knobs(at=how)
    assert bench.what(bench.run(**begun))["rl-mixed"] == "failed"
    knobs()
    planned = bench.project(**then).plan().decisions["rl-mixed"]
    assert (str(planned.state), planned.committed) == ("resume", 1)
    assert "asked for by --force or --from" in planned.reason
    (begun_step,) = bench.home.store.glob("rl-mixed/*.work/out/step-1")
    kept = begun_step.read_text()
    assert bench.what(bench.run(**then))["rl-mixed"] == "ran"
    assert texts(bench)[0] == kept != older[0]
    assert bench.states()["rl-mixed"] == "cached"


def test_fresh_keeps_the_older_result_and_drops_what_was_forced(bench: Bench, knobs: Knobs) -> None:
    bench.run()
    older = texts(bench)
    knobs(at="raise")
    bench.run(force=("rl-mixed",))
    knobs()
    assert bench.states(force=("rl-mixed",), fresh=True)["rl-mixed"] == "forced"
    assert bench.what(bench.run(fresh=True))["rl-mixed"] == "reused"
    assert texts(bench) == older
    assert bench.states()["rl-mixed"] == "cached"
    assert not list(bench.home.store.glob("rl-mixed/*.work"))


def test_fresh_drops_what_was_forced_also_where_its_inputs_are_made_first(bench: Bench, knobs: Knobs) -> None:
    bench.run()
    older, other = texts(bench), "prepare_env.reruns=7"
    knobs(at="raise")
    bench.run(force=("rl-mixed",))
    knobs()
    assert bench.what(bench.run(other, fresh=True)) == {
        "prepare-env": "ran",
        "rl-mixed": "reused",
        "mopd2": "skipped",
        "audit": "reused",
    }
    assert bench.states(other)["rl-mixed"] == "cached"
    assert texts(bench) == older


def test_force_starts_over_from_work_that_nobody_forced(bench: Bench, knobs: Knobs) -> None:
    knobs(at="raise")
    bench.run()
    knobs()
    assert bench.states(force=("rl-mixed",))["rl-mixed"] == "forced"
    bench.run(force=("rl-mixed",))
    steps = [text.split()[-1] for text in texts(bench)]
    assert steps[0] == steps[1]


def test_fresh_leaves_unfinished_work_out(bench: Bench, knobs: Knobs) -> None:
    knobs(at="raise")
    bench.run()
    knobs()
    assert bench.states(fresh=True)["rl-mixed"] == "run"
    bench.run(fresh=True)
    steps = [(bench.output("rl-mixed") / f"step-{step}").read_text().split()[-1] for step in (1, 2)]
    assert steps[0] == steps[1]


def test_another_result_is_another_run(bench: Bench) -> None:
    first = bench.run()
    second = bench.run("seed=5")
    assert first.run != second.run


def test_a_dead_run_is_found_killed(bench: Bench, knobs: Knobs) -> None:
    knobs(at="raise")
    report = bench.run()
    run = bench.project().runs()[0]
    run.update_state(status="running", pid=os.getpid())
    knobs()
    again = bench.run()
    assert again.run == report.run
    assert [item.event for item in run.events() if item.event == "found-killed"]
    state = run.state()
    assert state is not None
    assert (state.status, state.starts) == ("done", 2)


def test_a_machine_that_cannot_run_the_profile_ends_with_69(bench: Bench) -> None:
    from mimo.errors import MachineLacks

    with pytest.raises(MachineLacks):
        bench.run("runtime.sampler.device=cuda", "runtime.sampler.tensor_parallel=64", tools=Tools())


def test_a_resume_keeps_its_profile_where_the_machine_cannot_run_it(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = os.environ["PATH"]
    card = tmp_path / "bin" / "nvidia-smi"
    card.parent.mkdir()
    card.write_text("#!/bin/sh\necho 0, GPU-1, 81920, 81000, a card\n")
    card.chmod(0o755)
    monkeypatch.setenv("PATH", f"{card.parent}:{path}")
    first = bench.call("run", str(bench.recipe), knobs={"at": "raise"})
    assert (first.returncode, "profile single (1 GPU)" in first.stderr) == (1, True)
    monkeypatch.setenv("PATH", path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    second = bench.call("run", str(bench.recipe))
    assert second.returncode == 69
    (run,) = bench.project().home.runs.iterdir()
    assert f"profile single (of run {run.name}; --profile names another)" in second.stderr
    assert "the sampler needs 1 GPU, there are none; the trainer needs 1 GPU" in second.stderr
    assert f"hint: run {run.name} was started under this profile" in second.stderr
    assert json.loads((run / "state.json").read_bytes())["starts"] == 1


def test_a_fall_back_to_an_earlier_step_doubles_nothing_and_is_told(bench: Bench, knobs: Knobs) -> None:
    args = ("run", str(bench.recipe), "--profile", "smoke")
    assert bench.call(*args, "--set", "rl_mixed.steps=3", knobs={"plan": 9}).returncode == 1
    knobs(back_to=1)
    report = bench.run("rl_mixed.steps=3")
    assert report.error is None
    (told,) = bench.watcher.named("rewound")
    assert told.about == {"before": 3, "step": 1}
    assert [item.about["step"] for item in bench.watcher.named("commit") if item.stage == "rl-mixed"] == [
        2,
        3,
    ]
    rows = read_lines(bench.output("rl-mixed") / "_run" / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert report.outcomes[1].manifest is not None
    assert report.outcomes[1].manifest.counts == {"checkpoint damaged, fell back to the one before": 1}


def test_a_kill_after_a_fall_back_goes_on_from_there(bench: Bench, knobs: Knobs) -> None:
    knobs(plan=9)
    bench.run("rl_mixed.steps=3")
    knobs(back_to=1, at="kill")
    bench.run("rl_mixed.steps=3")
    (work,) = bench.home.outputs("rl-mixed").glob("*.work")
    assert json.loads((work / "progress.json").read_bytes())["step"] == 1
    assert [row["step"] for row in read_lines(work / "metrics.jsonl")] == [1]
    knobs()
    assert bench.run("rl_mixed.steps=3").error is None
    rows = read_lines(bench.output("rl-mixed") / "_run" / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2, 3]
