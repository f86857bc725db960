"""The states of a stage: what a change of code, parameters, horizon, runtime or output leads to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mimo.errors import RecipeError
from mimo.pipeline.accept import accept
from mimo.pipeline.explain import explain
from mimo.run_dir.files import read_lines
from mimo.run_dir.outputs import every
from tests.mimo.pipeline.conftest import Bench

Knobs = Callable[..., None]
MODULE = "from tests.mimo.pipeline.demo import Slow\n\n\nclass Changing(Slow):\n    {body}\n"


class Code:
    """A stage module whose code the test edits."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "changing_stage.py"
        self.write("one = 1")

    def write(self, body: str) -> None:
        self.path.write_text(MODULE.format(body=body))


@pytest.fixture
def code(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Code:
    folder = tmp_path / "code"
    folder.mkdir()
    made = Code(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.delitem(__import__("sys").modules, "changing_stage", raising=False)
    bench.order["rl-mixed"] = "changing_stage:Changing"
    return made


def test_code_change_of_a_finished_heavy_stage_asks(bench: Bench, code: Code) -> None:
    bench.run()
    code.write("one = 2")
    assert bench.states() == {
        "prepare-env": "cached",
        "rl-mixed": "stale-code",
        "mopd2": "not-built",
        "audit": "blocked",
    }
    with pytest.raises(RecipeError, match="only code changed: code changing_stage changed") as caught:
        bench.run()
    assert caught.value.exit_code == 2
    assert "mimo accept rl-mixed" in (caught.value.hint or "")
    assert "--from rl-mixed" in (caught.value.hint or "")


@pytest.mark.parametrize("named", [{"start": "rl-mixed"}, {"only": ("rl-mixed",)}, {"force": ("rl-mixed",)}])
def test_naming_the_stage_runs_it(bench: Bench, code: Code, named: dict[str, object]) -> None:
    bench.run()
    code.write("one = 2")
    report = bench.run(**named)
    assert bench.what(report)["prepare-env"] in ("reused", "left")
    assert bench.what(report)["rl-mixed"] == "ran"


def test_accept_keeps_the_result_for_this_code(bench: Bench, code: Code) -> None:
    bench.run()
    code.write("one = 2")
    kept = accept(bench.project(), "rl-mixed")
    assert bench.states()["rl-mixed"] == "cached"
    assert bench.states()["audit"] == "cached"
    assert kept.folder == bench.output("rl-mixed")
    code.write("one = 3")
    assert bench.states()["rl-mixed"] == "stale-code"
    code.write("one = 1")
    with pytest.raises(RecipeError, match="nothing to accept: rl-mixed is cached"):
        accept(bench.project(), "rl-mixed")


def test_code_change_of_an_interrupted_heavy_stage_is_adopted(bench: Bench, code: Code, knobs: Knobs) -> None:
    knobs(at="raise")
    bench.run()
    knobs()
    code.write("one = 2")
    assert bench.states()["rl-mixed"] == "adopt"
    report = bench.run()
    manifest = report.outcomes[1].manifest
    assert manifest is not None
    assert len(manifest.codes) == 2
    assert manifest.notes == ("from 1",)


def test_comment_only_change_is_nothing(bench: Bench, code: Code) -> None:
    bench.run()
    code.write('"""Words."""\n    one = 1  # the first')
    assert set(bench.states().values()) == {"cached", "not-built"}


def test_code_change_of_a_light_stage_runs_it_again(bench: Bench, code: Code) -> None:
    code.write('cost = "light"')
    bench.run()
    code.write('cost = "light"; one = 2')
    assert bench.states()["rl-mixed"] == "run"


def test_param_change_is_fresh_and_touches_only_what_reads_it(bench: Bench, knobs: Knobs) -> None:
    knobs(at="raise")
    bench.run()
    assert bench.states("rl_mixed.group_size=4")["rl-mixed"] == "run"
    knobs()
    bench.run()
    states = bench.states("rl_mixed.group_size=4")
    assert states == {"prepare-env": "cached", "rl-mixed": "run", "mopd2": "not-built", "audit": "run"}
    assert bench.states("audit.confidence=0.9")["rl-mixed"] == "cached"


@pytest.mark.parametrize(
    "change",
    [
        "runtime.heartbeat_s=7",
        "runtime.sampler.max_num_seqs=3",
        "runtime.trainer.zero_stage=2",
        "tracking.experiment=x",
    ],
)
def test_runtime_keys_change_no_key(bench: Bench, change: str) -> None:
    plain, changed = bench.project().plan(), bench.project(change).plan()
    for name, facts in plan_facts(plain).items():
        assert facts == plan_facts(changed)[name]


def plan_facts(plan: object) -> dict[str, object]:
    from mimo.pipeline.plan import Plan

    assert isinstance(plan, Plan)
    return {name: facts.identity({}) for name, facts in plan.facts.items()}


def test_raising_the_horizon_goes_on_from_the_result(bench: Bench) -> None:
    bench.run()
    before = {path.name: path.read_text() for path in bench.output("rl-mixed").glob("step-*")}
    project = bench.project("rl_mixed.steps=6")
    assert project.plan().decisions["rl-mixed"].state == "resume"
    report = bench.run("rl_mixed.steps=6")
    assert report.outcomes[1].manifest is not None
    assert report.outcomes[1].manifest.notes == ("from 4",)
    new = bench.output("rl-mixed")
    assert {path.name: path.read_text() for path in new.glob("step-[1-4]")} == before
    assert [row["step"] for row in read_lines(new / "_run" / "metrics.jsonl")] == [1, 2, 3, 4, 5, 6]
    assert len(every(bench.home, "rl-mixed")) == 2
    assert set(bench.states().values()) == {"cached", "not-built"}


def test_lowering_the_horizon_never_cuts_a_longer_result(bench: Bench) -> None:
    bench.run()
    decision = bench.project("rl_mixed.steps=3").plan().decisions["rl-mixed"]
    assert decision.state == "run"
    assert "horizon steps: 4 -> 3" in decision.reason


def test_an_interrupted_longer_attempt_beyond_the_new_horizon_starts_over(bench: Bench, knobs: Knobs) -> None:
    process = bench.start(
        "run", str(bench.recipe), "--profile", "smoke", "--set", "rl_mixed.steps=50", knobs={"sleep": 0.05}
    )
    wait_for_step(bench, 3)
    process.kill()
    process.communicate()
    assert bench.states("rl_mixed.steps=60")["rl-mixed"] == "resume"
    decision = bench.project("rl_mixed.steps=2").plan().decisions["rl-mixed"]
    assert decision.state == "run"
    assert "cannot go back" in decision.reason
    bench.run("rl_mixed.steps=2")
    assert [path.name for path in bench.home.outputs("rl-mixed").glob("*.work.old-*")]


def wait_for_step(bench: Bench, step: int) -> None:
    import time

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for path in bench.home.outputs("rl-mixed").glob("*.work/progress.json"):
            if json.loads(path.read_bytes())["step"] >= step:
                return
        time.sleep(0.02)
    pytest.fail("the stage does not get on")


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda folder: (folder / "step-1").unlink(), "step-1 is missing"),
        (lambda folder: (folder / "step-1").write_text(""), "step-1 has 0 bytes"),
        (lambda folder: (folder / "manifest.json").unlink(), "no readable manifest"),
    ],
)
def test_a_damaged_output_is_made_anew(bench: Bench, damage: Callable[[Path], None], why: str) -> None:
    bench.run()
    damage(bench.output("rl-mixed"))
    decision = bench.project().plan().decisions["rl-mixed"]
    assert decision.state == "damaged"
    assert why in decision.reason
    report = bench.run()
    assert bench.what(report)["rl-mixed"] == "ran"
    assert set(bench.states().values()) == {"cached", "not-built"}


def test_stages_left_out(bench: Bench) -> None:
    states = bench.states("stages=[prepare-env, rl-mixed]")
    assert states == {"prepare-env": "run", "rl-mixed": "run", "mopd2": "skipped", "audit": "skipped"}


def test_explain_says_the_root_cause_first(bench: Bench) -> None:
    bench.run()
    causes = explain(bench.project("prepare_env.reruns=7"), "audit")
    assert [cause.stage for cause in causes] == ["prepare-env", "rl-mixed", "audit"]
    assert causes[0].lines == ("param reruns: 2 -> 7",)
    assert causes[1].lines == ("input prepare-env is to be made: param reruns: 2 -> 7",)
    assert causes[2].state == "run"
    nothing = explain(bench.project(), "audit")
    assert (nothing[0].state, nothing[0].lines) == ("cached", ())
    with pytest.raises(RecipeError, match="unknown stage"):
        explain(bench.project(), "audits")
