"""Rows: every token once, within the budget, and gradients equal to those of one sequence at a time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM

from mimo.training import attention
from mimo.training.attention import Segment, packed
from mimo.training.batch import TrainSequence
from mimo.training.engine import load_model
from mimo.training.packing import Row, plan_rows
from mimo.training.policy import Policy
from tests.mimo.training.conftest import make_sequences


def all_rows(sequences: Sequence[TrainSequence], **changes: object) -> list[Row]:
    options: dict[str, object] = {"budget": 128, "ranks": 1, "share_prefix": True} | changes
    planned = plan_rows(sequences, **options)  # type: ignore[arg-type]
    assert len({len(rank) for rank in planned}) == 1
    return [row for rank in planned for row in rank if row is not None]


@settings(max_examples=40, deadline=None)
@given(
    groups=st.integers(0, 4),
    size=st.integers(1, 6),
    alone=st.integers(1, 5),
    seed=st.integers(0, 99),
    budget=st.sampled_from([8, 40, 64, 200, 4096]),
    ranks=st.integers(1, 4),
    share=st.booleans(),
)
def test_every_trained_token_is_in_exactly_one_row(
    groups: int, size: int, alone: int, seed: int, budget: int, ranks: int, share: bool
) -> None:
    sequences = make_sequences(groups=groups, size=size, alone=alone, seed=seed)
    rows = all_rows(sequences, budget=budget, ranks=ranks, share_prefix=share)
    found = sorted((int(i), int(t)) for row in rows for i, t in zip(row.owner, row.columns, strict=True))
    wanted = [(i, int(t)) for i, item in enumerate(sequences) for t in np.flatnonzero(item.loss_mask)]
    assert found == wanted
    longest = max(len(item.token_ids) for item in sequences)
    assert all(len(row.token_ids) <= max(budget, longest) for row in rows)
    for row in rows:
        ends = [segment[1] for segment in row.segments]
        assert [segment[0] for segment in row.segments] == [0, *ends[:-1]]
        assert ends[-1] == len(row.token_ids) == len(row.position_ids)
        for at, (i, t) in enumerate(zip(row.owner, row.columns, strict=True)):
            item = sequences[i]
            assert row.targets[at] == item.token_ids[t]
            assert row.token_ids[row.select[at]] == item.token_ids[t - 1]
            assert row.position_ids[row.select[at]] == t - 1


def test_a_shared_prefix_is_computed_once_and_plans_repeat() -> None:
    sequences = make_sequences(groups=1, size=4, alone=0, prefix=20)
    suffixes = sum(len(item.token_ids) - 20 for item in sequences)
    shared = all_rows(sequences, budget=4096)
    assert [len(row.token_ids) for row in shared] == [20 + suffixes]
    assert [len(row.token_ids) for row in all_rows(sequences, budget=4096, share_prefix=False)] == [
        4 * 20 + suffixes
    ]
    again = all_rows(sequences, budget=4096)
    assert all(np.array_equal(a.token_ids, b.token_ids) for a, b in zip(shared, again, strict=True))


def loss_terms(logprobs: torch.Tensor, row: Row, sequences: Sequence[TrainSequence]) -> torch.Tensor:
    scale = [
        sequences[i].loss_weight * float(sequences[i].advantages[t])
        for i, t in zip(row.owner, row.columns, strict=True)
    ]
    return -(logprobs * torch.tensor(scale)).sum()


def packed_gradients(
    model_dir: Path, sequences: Sequence[TrainSequence], **plan: object
) -> dict[str, torch.Tensor]:
    policy = Policy(load_model(model_dir), autocast=None)
    for row in all_rows(sequences, **plan):
        with packed([Segment(*span) for span in row.segments]):
            logprobs, _ = policy(
                torch.from_numpy(row.token_ids)[None],
                torch.from_numpy(row.position_ids)[None],
                torch.from_numpy(row.select),
                torch.from_numpy(row.targets),
                0.7,
            )
            loss_terms(logprobs, row, sequences).backward()
    return {name: item.grad for name, item in policy.model.named_parameters() if item.grad is not None}


def plain_gradients(model_dir: Path, sequences: Sequence[TrainSequence]) -> dict[str, torch.Tensor]:
    """One sequence at a time through transformers' own attention."""
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32, attn_implementation="eager")
    for item in sequences:
        ids = torch.from_numpy(item.token_ids.astype(np.int64))[None]
        logprobs = torch.log_softmax(model(ids).logits[0, :-1] / 0.7, dim=-1)
        chosen = logprobs.gather(-1, ids[0, 1:, None])[:, 0]
        scale = item.loss_weight * torch.from_numpy(item.advantages[1:] * item.loss_mask[1:])
        (-(chosen * scale).sum()).backward()
    return {name: item.grad for name, item in model.named_parameters() if item.grad is not None}


@pytest.mark.parametrize("share_prefix", [True, False])
@pytest.mark.parametrize("budget", [40, 4096])
def test_gradients_equal_one_sequence_at_a_time(untied_model: Path, share_prefix: bool, budget: int) -> None:
    sequences = make_sequences()
    wanted = plain_gradients(untied_model, sequences)
    found = packed_gradients(untied_model, sequences, budget=budget, share_prefix=share_prefix)
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        relative = (found[name] - gradient).norm() / gradient.norm()
        assert relative < 1e-5, name


def test_sliding_windows_reach_back_over_the_prefix(tmp_path: Path) -> None:
    """Every second layer sees 8 tokens back; a suffix's window begins inside its prefix."""
    torch.manual_seed(1)
    config = Qwen2Config(
        vocab_size=512,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        use_sliding_window=True,
        sliding_window=8,
        layer_types=["sliding_attention", "full_attention"],
        initializer_range=0.2,
    )
    Qwen2ForCausalLM(config).save_pretrained(tmp_path)
    sequences = make_sequences(groups=2, size=3)
    wanted = plain_gradients(tmp_path, sequences)
    found = packed_gradients(tmp_path, sequences, budget=4096)
    for name, gradient in wanted.items():
        assert (found[name] - gradient).norm() / gradient.norm() < 1e-5, name


def test_long_segments_keep_no_mask_and_have_the_same_gradient(
    untied_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sequences = make_sequences()
    wanted = packed_gradients(untied_model, sequences, budget=4096)
    monkeypatch.setattr(attention, "FOLDED_MASK", 0)
    monkeypatch.setattr(attention.PackedRow, "mask", None)
    found = packed_gradients(untied_model, sequences, budget=4096)
    for name, gradient in wanted.items():
        assert (found[name] - gradient).norm() / gradient.norm() < 1e-5, name


def test_recomputed_layers_give_the_same_gradient(untied_model: Path) -> None:
    """The backward pass may run in a thread of its own, as it does on CUDA."""
    sequences = make_sequences()
    wanted = packed_gradients(untied_model, sequences, budget=4096)
    policy = Policy(load_model(untied_model, recompute=True), autocast=None)
    assert policy.model.is_gradient_checkpointing
    (row,) = all_rows(sequences, budget=4096)
    with packed([Segment(*span) for span in row.segments]):
        columns = (torch.from_numpy(item) for item in (row.select, row.targets))
        ids, positions = torch.from_numpy(row.token_ids)[None], torch.from_numpy(row.position_ids)[None]
        logprobs, _ = policy(ids, positions, *columns, 0.7)
        loss = loss_terms(logprobs, row, sequences)
        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join()
    for name, parameter in policy.model.named_parameters():
        if name in wanted:
            assert parameter.grad is not None
            assert (parameter.grad - wanted[name]).norm() / wanted[name].norm() < 1e-5, name


def test_large_vocabularies_are_recomputed_with_the_same_gradient(
    untied_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sequences = make_sequences()
    wanted = packed_gradients(untied_model, sequences, budget=4096)
    monkeypatch.setattr("mimo.training.policy.CHUNK_BYTES", 1)
    monkeypatch.setattr("mimo.training.policy.RECOMPUTE_BYTES", 1)
    found = packed_gradients(untied_model, sequences, budget=4096)
    for name, gradient in wanted.items():
        assert (found[name] - gradient).norm() / gradient.norm() < 1e-5, name
