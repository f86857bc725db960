"""The real trainer: DeepSpeed in its own processes, on the tiny model."""

from __future__ import annotations

import itertools
import math
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from mimo.backends.base import LossSpec, TrainerConfig
from mimo.errors import EngineFailed, RecipeError, StageFailed
from mimo.training.batch import write_batch
from mimo.training.manifest import changed_tensors, check_export, read_manifest
from mimo.training.trainer import DeepSpeedTrainer, start_trainer
from tests.mimo.training.conftest import OPTIMIZER, make_sequences, trainer_config

pytestmark = pytest.mark.engine
RL, SFT = LossSpec(kind="rl", temperature=0.7), LossSpec(kind="sft")
WIDE = replace(RL, positive_low=0, positive_high=1e9, negative_low=0, negative_high=1e9)


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`rl-0` … `rl-3` and `sft`."""
    root = tmp_path_factory.mktemp("batches")
    for step in range(4):
        write_batch(root / f"rl-{step}", make_sequences(seed=step), kind="rl", step=step)
    write_batch(root / "sft", make_sequences(seed=9), kind="sft", step=0)
    return root


@pytest.fixture(scope="module")
def trainer(tied_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeepSpeedTrainer]:
    log_file = tmp_path_factory.mktemp("log") / "trainer.log"
    with start_trainer(trainer_config(tied_model, log_file)) as running:
        yield running


def workers_of(trainer: DeepSpeedTrainer) -> list[psutil.Process]:
    """The training processes of this trainer, without the launcher's."""
    top = psutil.Process(trainer.pid)
    return [
        item
        for item in (top, *top.children(recursive=True))
        if "mimo.training.worker" in item.cmdline() and "--module" not in item.cmdline()
    ]


def test_score_is_the_models_own(trainer: DeepSpeedTrainer, tied_model: Path, tmp_path: Path) -> None:
    trainer.export(tmp_path / "now")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "now", dtype=torch.float32)
    sequences = [[5, 6, 7, 8], [9, 10], list(range(3, 120))]
    found = trainer.score(sequences, temperature=0.6)
    for ids, values in zip(sequences, found, strict=True):
        with torch.no_grad():
            logprobs = torch.log_softmax(model(torch.tensor([ids])).logits[0, :-1] / 0.6, dim=-1)
        wanted = logprobs.gather(-1, torch.tensor(ids[1:])[:, None])[:, 0]
        assert len(values) == len(ids) - 1
        assert np.allclose(values, wanted, atol=2e-6)


def test_sft_learns_its_batch(trainer: DeepSpeedTrainer, batches: Path) -> None:
    losses = [trainer.train_step(batches / "sft", SFT, learning_rate=3e-3).metrics["loss"] for _ in range(6)]
    assert losses[-1] < 0.8 * losses[0]
    assert all(later < earlier for earlier, later in itertools.pairwise(losses))


def test_an_rl_step_reports_what_it_did(trainer: DeepSpeedTrainer, batches: Path) -> None:
    report = trainer.train_step(batches / "rl-0", RL, learning_rate=1e-3)
    sequences = make_sequences(seed=0)
    trained = sum(item.trained_tokens for item in sequences)
    assert report.trained_tokens == trained
    metrics = report.metrics
    assert metrics["step/trained"] == 1
    assert metrics["tokens/computed"] < sum(len(item.token_ids) for item in sequences)
    assert metrics["tokens/positive"] + metrics["tokens/negative"] == trained
    assert 0 < metrics["entropy/mean"] < math.log(512)
    assert metrics["logprob_gap/mean"] < metrics["logprob_gap/p95"] <= metrics["logprob_gap/max"]
    assert metrics["grad_norm"] > 0
    assert {"time/forward_s", "time/backward_s", "time/optimizer_s"} <= metrics.keys()


def test_masked_tokens_are_counted_by_side(trainer: DeepSpeedTrainer, batches: Path) -> None:
    tight = replace(RL, positive_low=0.9, positive_high=1.1, negative_low=0.95, negative_high=1.05)
    metrics = trainer.train_step(batches / "rl-1", tight, learning_rate=0.0).metrics
    shares = [metrics[f"mask/{side}_{end}"] for side in ("positive", "negative") for end in ("low", "high")]
    assert all(0 < share < 1 for share in shares)
    kept = metrics["tokens/positive"] * (1 - shares[0] - shares[1])
    kept += metrics["tokens/negative"] * (1 - shares[2] - shares[3])
    assert kept == pytest.approx(metrics["tokens/signal"])


def test_a_step_without_signal_changes_nothing_and_says_so(trainer: DeepSpeedTrainer, tmp_path: Path) -> None:
    before = trainer.export(tmp_path / "before")
    flat = [replace(item, advantages=np.zeros_like(item.advantages)) for item in make_sequences()]
    write_batch(tmp_path / "flat", flat, kind="rl", step=1)
    metrics = trainer.train_step(tmp_path / "flat", RL, learning_rate=1e-2).metrics
    assert (metrics["step/trained"], metrics["grad_norm"], metrics["tokens/signal"]) == (0, 0, 0)
    assert changed_tensors(before, trainer.export(tmp_path / "after")) == []


def test_the_export_is_untied_servable_and_ties_again(
    trainer: DeepSpeedTrainer, tied_model: Path, batches: Path, tmp_path: Path
) -> None:
    first = trainer.export(tmp_path / "first")
    trainer.train_step(batches / "rl-2", RL, learning_rate=1e-3)
    second = trainer.export(tmp_path / "second")
    assert read_manifest(tmp_path / "second") == second == check_export(tmp_path / "second", first)
    assert set(changed_tensors(first, second)) == set(second["tensors"])  # type: ignore[arg-type]
    tensors = load_file(tmp_path / "second" / "model.safetensors")
    assert torch.equal(tensors["lm_head.weight"], tensors["model.embed_tokens.weight"])
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "second")
    assert model.config.tie_word_embeddings is False
    assert model.lm_head.weight is not model.model.embed_tokens.weight
    assert (tmp_path / "second" / "tokenizer.json").is_file()
    assert not list(tmp_path.glob(".*"))


def test_resume_is_bit_equal(tied_model: Path, batches: Path, tmp_path: Path) -> None:
    config = trainer_config(tied_model, tmp_path / "log")
    with start_trainer(config) as straight:
        for step in range(2):
            straight.train_step(batches / f"rl-{step}", RL, learning_rate=1e-3)
        straight.save(tmp_path / "trainer")
        straight.export(tmp_path / "model")
        for step in (2, 3):
            straight.train_step(batches / f"rl-{step}", RL, learning_rate=1e-3)
        wanted = straight.export(tmp_path / "straight")
    with start_trainer(replace(config, model_dir=tmp_path / "model")) as resumed:
        resumed.load(tmp_path / "trainer")
        for step in (2, 3):
            resumed.train_step(batches / f"rl-{step}", RL, learning_rate=1e-3)
        found = resumed.export(tmp_path / "resumed")
        with pytest.raises(EngineFailed, match="no whole trainer state"):
            resumed.load(tmp_path / "nothing")
        weights = tmp_path / "trainer" / "weights.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1])
        with pytest.raises(EngineFailed, match=r"weights\.safetensors has \d+ bytes"):
            resumed.load(tmp_path / "trainer")
    assert found["digest"] == wanted["digest"]


Step = tuple[dict[str, torch.Tensor], dict[str, float]]


def one_step(config: TrainerConfig, batch: Path, out: Path) -> Step:
    """Weights after one step that moves them in proportion to the gradient, and the step's metrics."""
    proportional = {**OPTIMIZER, "eps": 1.0, "weight_decay": 0.0}
    with start_trainer(replace(config, optimizer=proportional)) as trainer:
        report = trainer.train_step(batch, WIDE, learning_rate=1.0)
        trainer.export(out)
        assert len(trainer.score([[3, 4, 5]], temperature=1.0)[0]) == 2
    return load_file(out / "model.safetensors"), dict(report.metrics)


@pytest.fixture(scope="module")
def reference(tied_model: Path, batches: Path, tmp_path_factory: pytest.TempPathFactory) -> Step:
    folder = tmp_path_factory.mktemp("reference")
    config = trainer_config(tied_model, folder / "log", micro_batch_tokens=4096)
    return one_step(config, batches / "rl-0", folder / "out")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "zero_stage", "budget"), [(1, 0, 50), (2, 0, 64), (2, 1, 96), (2, 2, 96), (2, 3, 200)]
)
def test_any_split_gives_the_same_update(
    tied_model: Path, batches: Path, tmp_path: Path, reference: Step, ranks: int, zero_stage: int, budget: int
) -> None:
    config = replace(
        trainer_config(tied_model, tmp_path / "log"),
        num_processes=ranks,
        zero_stage=zero_stage,
        micro_batch_tokens=budget,
    )
    found, metrics = one_step(config, batches / "rl-0", tmp_path / "out")
    start = AutoModelForCausalLM.from_pretrained(tied_model).state_dict()
    wanted, wanted_metrics = reference
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        moved = value - start[name]
        assert moved.norm() > 1e-3, name
        assert (found[name] - value).norm() / moved.norm() < 1e-4, name
    for name, value in wanted_metrics.items():
        if not name.startswith(("time/", "rows", "tokens/computed", "tokens/per_s")):
            assert metrics[name] == pytest.approx(value, rel=1e-4, abs=1e-7), name
    assert not list(Path("/dev/shm").glob("*deepspeed*"))


@pytest.mark.slow
@pytest.mark.parametrize(("zero_stage", "ranks"), [(0, 1), (2, 2)])
def test_bfloat16_keeps_float32_masters(
    tied_model: Path, batches: Path, tmp_path: Path, zero_stage: int, ranks: int
) -> None:
    config = replace(
        trainer_config(tied_model, tmp_path / "log", zero_stage=zero_stage, num_processes=ranks),
        compute_dtype="bfloat16",
    )
    with start_trainer(config) as trainer:
        first = trainer.export(tmp_path / "first")
        for _ in range(4):
            loss = trainer.train_step(batches / "sft", SFT, learning_rate=1e-6).metrics["loss"]
        assert math.isfinite(loss)
        tiny = trainer.export(tmp_path / "tiny")
        losses = [trainer.train_step(batches / "sft", SFT, learning_rate=3e-3).metrics["loss"] for _ in "123"]
        trainer.save(tmp_path / "trainer")
        last = trainer.export(tmp_path / "last")
        scores = trainer.score([[5, 6, 7]], temperature=1.0)
    assert losses[-1] < losses[0]
    assert load_file(tmp_path / "last" / "model.safetensors")["model.norm.weight"].dtype == torch.bfloat16
    # A step of 1e-6 is below bfloat16's resolution for most weights: the masters keep it, the export rounds.
    assert len(changed_tensors(first, tiny)) < len(first["tensors"])  # type: ignore[arg-type]
    with start_trainer(replace(config, model_dir=tmp_path / "last")) as resumed:
        resumed.load(tmp_path / "trainer")
        assert resumed.export(tmp_path / "again")["digest"] == last["digest"]
        assert resumed.score([[5, 6, 7]], temperature=1.0) == scores


def test_muon_trains_and_resumes(tied_model: Path, batches: Path, tmp_path: Path) -> None:
    config = replace(trainer_config(tied_model, tmp_path / "log"), optimizer={**OPTIMIZER, "name": "muon"})
    with start_trainer(config) as trainer:
        losses = [trainer.train_step(batches / "sft", SFT, learning_rate=3e-3).metrics["loss"] for _ in "12"]
        trainer.save(tmp_path / "trainer")
        trainer.export(tmp_path / "model")
        losses += [trainer.train_step(batches / "sft", SFT, learning_rate=3e-3).metrics["loss"] for _ in "12"]
    assert losses == sorted(losses, reverse=True)
    with start_trainer(replace(config, model_dir=tmp_path / "model")) as resumed:
        resumed.load(tmp_path / "trainer")
        again = [resumed.train_step(batches / "sft", SFT, learning_rate=3e-3).metrics["loss"] for _ in "12"]
    assert again == losses[2:]


def test_a_loss_that_is_not_finite_names_the_rollout_and_updates_nothing(
    tied_model: Path, tmp_path: Path
) -> None:
    sequences = make_sequences()
    for place in (7, 3):
        sequences[place] = replace(sequences[place], loss_weight=3e38)
    write_batch(tmp_path / "batch", sequences, kind="rl", step=1)
    trainer = start_trainer(trainer_config(tied_model, tmp_path / "log", micro_batch_tokens=4096))
    with pytest.raises(EngineFailed, match=r"rollout g0-r3 is not finite; nothing was updated"):
        trainer.train_step(tmp_path / "batch", WIDE, learning_rate=1e-3)
    with pytest.raises(EngineFailed, match="after it was closed"):
        trainer.export(tmp_path / "export")


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("sft", {}, "is for sft, the loss is rl"),
        ("rl", {"token_ids": np.array([1, 2, 512], dtype=np.int32)}, "token id 512 with a vocabulary of 512"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused(
    tied_model: Path, tmp_path: Path, kind: str, change: dict[str, object], message: str
) -> None:
    item = make_sequences(groups=0, alone=1)[0]
    if change:
        kept = {name: getattr(item, name)[-3:] for name in ("loss_mask", "sampler_logprobs", "advantages")}
        kept["loss_mask"] = np.array([False, True, True])
        item = replace(item, **kept, **change)  # type: ignore[arg-type]
    write_batch(tmp_path / "batch", [item], kind=kind, step=1)  # type: ignore[arg-type]
    with (
        start_trainer(trainer_config(tied_model, tmp_path / "log")) as trainer,
        pytest.raises(StageFailed, match=message),
    ):
        trainer.train_step(tmp_path / "batch", RL, learning_rate=1e-3)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_killed_worker_is_an_error_with_the_end_of_its_log(
    tied_model: Path, batches: Path, tmp_path: Path, ranks: int
) -> None:
    trainer = start_trainer(trainer_config(tied_model, tmp_path / "log", num_processes=ranks))
    workers = workers_of(trainer)
    assert len(workers) == ranks
    workers[-1].send_signal(signal.SIGKILL)
    began = time.monotonic()
    with pytest.raises(EngineFailed, match=r"(died|failed) in train_step"):
        trainer.train_step(batches / "rl-0", RL, learning_rate=1e-3)
    assert time.monotonic() - began < 30
    trainer.close()
    assert not any(item.is_running() for item in workers)
    assert not list(Path("/dev/shm").glob("*deepspeed*"))


def test_a_worker_that_hangs_is_given_up(tied_model: Path, batches: Path, tmp_path: Path) -> None:
    trainer = start_trainer(trainer_config(tied_model, tmp_path / "log"), stall_s=2.0)
    worker = workers_of(trainer)[0]
    worker.suspend()
    with pytest.raises(EngineFailed, match="no progress for 2 s"):
        trainer.train_step(batches / "rl-0", RL, learning_rate=1e-3)
    assert not worker.is_running()


def test_a_model_that_cannot_be_trained_is_named_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(EngineFailed, match="cannot be loaded for training"):
        start_trainer(trainer_config(tmp_path / "model", tmp_path / "log"))


def test_configurations_that_cannot_work_start_nothing(tied_model: Path, tmp_path: Path) -> None:
    config = trainer_config(tied_model, tmp_path / "log", deepspeed={"gradient_cliping": 1.0})
    with pytest.raises(RecipeError, match=r"gradient_cliping.*did you mean gradient_clipping"):
        start_trainer(config)
    assert not (tmp_path / "log").exists()
