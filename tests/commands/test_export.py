"""`mimo export`: a policy that transformers loads, rollouts that come back; nothing is replaced."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from commands.cli import cli
from mimo.backends.policies import materialise_policy
from mimo.errors import RecipeError
from mimo.hacks.audit_file import audit_file
from mimo.records import from_line, to_json
from mimo.rollouts.store import RolloutStore
from mimo.run_dir.files import describe, write_json
from mimo.types import Checkpoint, Rollout
from tests.mimo.pipeline.conftest import Bench, made_bench
from tests.mimo.rollouts.made import made_rollout


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A run whose rl-mixed left two checkpoints of a tiny policy and a few rollouts."""
    bench = made_bench(tmp_path_factory.mktemp("export"))
    assert bench.run().error is None
    folder = bench.output("rl-mixed")
    for step in (1, 2):
        place = folder / "checkpoints" / f"step-{step:06d}"
        init: dict[str, Any] = {
            "hidden_size": 8,
            "layers": 1,
            "heads": 2,
            "kv_heads": 1,
            "mlp_size": 8,
            "seed": step,
        }
        materialise_policy("init:tiny", place / "model", tokenizer="builtin:small-2048", init=init,
                           keep_layers=None, dtype="float32")  # fmt: skip
        record = Checkpoint(
            kind="rl-mixed", step=step, parent=None, source="s", tokenizer_sha256="", files=describe(place)
        )
        write_json(place / "checkpoint.json", to_json(record))
    RolloutStore(folder).write(1, [made_rollout(0, True), made_rollout(1, False)])
    RolloutStore(folder).write(2, [replace(made_rollout(2, True), changes=None)])
    RolloutStore(folder / "demonstrations").write(0, [made_rollout(0, True, group="demo")])
    return bench


@pytest.fixture
def scene(finished: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("MIMO_HOME", str(finished.home.root))
    return finished


def call(*args: str) -> Result:
    return CliRunner().invoke(cli, ["export", *args])


def refused(*args: str) -> str:
    error = call(*args).exception
    assert isinstance(error, RecipeError)
    return error.message


@pytest.mark.slow
def test_a_policy_is_what_transformers_loads(scene: Bench, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    out = tmp_path / "policy"
    shown = call("model", str(scene.recipe), "rl-mixed", "--out", str(out))
    assert shown.exit_code == 0, shown.output
    assert "of rl-mixed, step 2 of run" in shown.output
    model = AutoModelForCausalLM.from_pretrained(out, local_files_only=True)
    ids = AutoTokenizer.from_pretrained(out, local_files_only=True)("def add", return_tensors="pt")[
        "input_ids"
    ]
    given = AutoModelForCausalLM.from_pretrained(
        scene.output("rl-mixed") / "checkpoints/step-000002/model", local_files_only=True
    )
    assert torch.equal(model(ids).logits, given(ids).logits)
    about = json.loads((out / "mimo.json").read_text())
    assert (about["stage"], about["step"], about["finished"]) == ("rl-mixed", 2, True)


def test_rollouts_come_back(scene: Bench, tmp_path: Path) -> None:
    out = tmp_path / "data"
    told = json.loads(call("data", "last", "rl-mixed", "--out", str(out), "--json").output)
    assert told["holds"] == {"demonstrations.jsonl": 1, "rollouts.jsonl": 3}
    rows = [from_line(Rollout, line) for line in (out / "rollouts.jsonl").read_bytes().splitlines()]
    assert [row.seed for row in rows] == [0, 1, 2]
    assert sum(audit_file(out / "rollouts.jsonl").verdicts.values()) == 3


def test_what_is_not_there_is_one_clear_error(scene: Bench, tmp_path: Path) -> None:
    out = str(tmp_path / "new")
    assert "has no stage 'rl'" in refused("model", "last", "rl", "--out", out)
    assert "prepare-env of run" in refused("model", "last", "prepare-env", "--out", out)
    assert "has no rollouts" in refused("data", "last", "prepare-env", "--out", out)
    assert "has no result of mopd2" in refused("data", "last", "mopd2", "--out", out)
    assert "is no run" in refused("data", "nonsense", "mopd2", "--out", out)
    assert f"{tmp_path} is there already" in refused("data", "last", "rl-mixed", "--out", str(tmp_path))
    damaged = scene.output("rl-mixed") / "checkpoints/step-000002/model/config.json"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole + b" ")
    assert "its newest checkpoint is damaged" in refused("model", "last", "rl-mixed", "--out", out)
    damaged.write_bytes(whole)
    assert list(tmp_path.iterdir()) == []
