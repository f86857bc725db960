"""A batch on disk: what is written comes back, and nothing wrong gets in or out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mimo.errors import StageFailed
from mimo.training.batch import TrainSequence, read_batch, sft_sequence, write_batch
from tests.mimo.training.conftest import make_sequences


def test_round_trip(tmp_path: Path) -> None:
    sequences = make_sequences()
    written = write_batch(tmp_path / "b", sequences, kind="rl", step=7)
    batch = read_batch(tmp_path / "b")
    assert (batch.kind, batch.step, batch.digest) == ("rl", 7, written.digest)
    for before, after in zip(sequences, batch.sequences, strict=True):
        for name in ("rollout_id", "loss_weight", "prefix_group", "prefix_len"):
            assert getattr(before, name) == getattr(after, name)
        for name in ("token_ids", "loss_mask", "sampler_logprobs", "advantages"):
            kept, column = getattr(before, name), getattr(after, name)
            assert kept.dtype == column.dtype
            assert np.array_equal(kept, column)


def test_equal_content_has_an_equal_digest(tmp_path: Path) -> None:
    one = write_batch(tmp_path / "a", make_sequences(), kind="rl", step=1)
    other = write_batch(tmp_path / "b", make_sequences(), kind="rl", step=1)
    third = write_batch(tmp_path / "c", make_sequences(seed=1), kind="rl", step=1)
    assert one.digest == other.digest != third.digest


def test_a_folder_without_its_json_or_with_a_changed_byte_is_no_batch(tmp_path: Path) -> None:
    write_batch(tmp_path, make_sequences(), kind="rl", step=1)
    tensors = tmp_path / "batch.safetensors"
    data = bytearray(tensors.read_bytes())
    data[-1] ^= 1
    tensors.write_bytes(data)
    with pytest.raises(StageFailed, match="sha256"):
        read_batch(tmp_path)
    (tmp_path / "batch.json").unlink()
    with pytest.raises(StageFailed, match="not a readable batch"):
        read_batch(tmp_path)


def nan_at_last(values: np.ndarray) -> np.ndarray:
    changed = values.copy()
    changed[-1] = np.nan
    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: replace(s, advantages=nan_at_last(s.advantages)), "advantages is not finite"),
        (lambda s: replace(s, sampler_logprobs=nan_at_last(s.sampler_logprobs)), "sampler_logprobs is not"),
        (lambda s: replace(s, loss_weight=float("inf")), "loss_weight is inf"),
        (lambda s: replace(s, loss_mask=np.ones_like(s.loss_mask)), "no loss on the first"),
        (lambda s: replace(s, token_ids=s.token_ids[:-1]), "expected"),
        (lambda s: replace(s, token_ids=s.token_ids.astype(np.int64)), "expected int32"),
        (lambda s: replace(s, token_ids=-s.token_ids), "negative"),
        (lambda s: replace(s, prefix_len=len(s.token_ids)), "prefix_len"),
        (lambda s: replace(s, prefix_group=None), "prefix_len"),
        (lambda s: replace(s, prefix_len=s.prefix_len + 1), "carry a loss"),
    ],
)
def test_a_wrong_sequence_is_refused_by_name(tmp_path: Path, change: object, message: str) -> None:
    sequences = make_sequences()
    sequences[2] = change(sequences[2])  # type: ignore[operator]
    with pytest.raises(StageFailed, match=message) as caught:
        write_batch(tmp_path, sequences, kind="rl", step=1)
    assert "g0-r2" in caught.value.message
    assert not (tmp_path / "batch.json").exists()


def test_a_prefix_that_is_not_shared_is_refused(tmp_path: Path) -> None:
    sequences = make_sequences()
    ids = sequences[1].token_ids.copy()
    ids[5] += 1
    sequences[1] = replace(sequences[1], token_ids=ids)
    with pytest.raises(StageFailed, match="g0-r0 and g0-r1 of prefix group g0 do not share their first 20"):
        write_batch(tmp_path, sequences, kind="rl", step=1)


def test_an_empty_batch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StageFailed, match="at least one sequence"):
        write_batch(tmp_path, [], kind="sft", step=1)


def test_sft_sequence() -> None:
    item: TrainSequence = sft_sequence("demo", [5, 6, 7], [False, True, True], loss_weight=0.5)
    assert item.trained_tokens == 2
    assert item.advantages.tolist() == [0, 0, 0]
