"""Reading a folder's policy: micro-batches, copies on several devices, memory given back, where it is read.

Two "devices" that are both the CPU take the road of GPUs: weights in the policy's dtype, one copy each.
"""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mimo.errors import EngineFailed, MachineLacks, StageFailed
from mimo.training import reader
from mimo.training.reader import Context, Copy, micro_batches, reading
from mimo.training.reading_place import WORK_BYTES, Dtype, ReadingPlace, choose_place, cpu_place, needed_bytes
from mimo.training.reference import FolderScorer, reverse_kl
from tests.mimo.training.conftest import VOCABULARY, write_model

GIB = 2**30


def contexts(number: int = 9) -> list[Context]:
    draw = np.random.default_rng(3)
    made = []
    for _ in range(number):
        length = int(draw.integers(3, 60))
        mask = draw.random(length) < 0.5
        mask[0] = False
        made.append(Context(draw.integers(3, VOCABULARY, length).astype(np.int32), mask))
    return [*made, Context(made[0].token_ids, np.zeros(len(made[0].token_ids), dtype=bool))]


def as_on_gpus(dtype: Dtype, *, copies: int = 2, budget: int = 128) -> ReadingPlace:
    return ReadingPlace(devices=("cpu",) * copies, dtype=dtype, batch_tokens=budget)


def plain(folder: Path, asked: Sequence[Context], temperature: float) -> list[np.ndarray]:
    """The whole model on one sequence after the other, all logits at once."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    found = []
    for ids, mask in asked:
        with torch.inference_mode():
            logits = model(input_ids=torch.from_numpy(ids.astype(np.int64))[None]).logits[0, :-1]
        rows = torch.log_softmax(logits / temperature, -1).numpy()
        found.append(rows[np.arange(len(ids) - 1), ids[1:]][mask[1:]])
    return found


@pytest.mark.parametrize("budget", [None, 1, 100, 4096])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_every_micro_batch_says_what_the_model_says(
    tied_model: Path, monkeypatch: pytest.MonkeyPatch, budget: int | None, temperature: float
) -> None:
    monkeypatch.setattr(reader, "CHUNK_BYTES", 4 * VOCABULARY * 17)
    asked = contexts()
    place = ReadingPlace(devices=("cpu",), dtype="float32", batch_tokens=budget)
    with reading(tied_model, place) as policy:
        found = policy.logprobs(asked, temperature=temperature)
    for row, expected, item in zip(found, plain(tied_model, asked, temperature), asked, strict=True):
        assert len(row) == item.mask.sum()
        np.testing.assert_allclose(row, expected, atol=1e-6, rtol=1e-6)


def test_copies_share_the_passes_and_equal_weights_agree_exactly(tied_model: Path, tmp_path: Path) -> None:
    """In bfloat16 too, where a pass of another shape would round differently."""
    asked, other = contexts(), write_model(tmp_path / "other", tied=True)
    rows = []
    for folder, copies in ((tied_model, 1), (tied_model, 3), (other, 2)):
        place = as_on_gpus("bfloat16", copies=copies)
        if copies == 1:
            place = ReadingPlace(devices=("cpu:0",), dtype="bfloat16", batch_tokens=128)
        with reading(folder, place) as policy:
            assert len(policy._copies) == copies
            assert {copy.model.dtype for copy in policy._copies} == {torch.bfloat16}
            rows.append(policy.logprobs(asked, temperature=1.0))
    for one, three, same in zip(*rows, strict=True):
        assert np.array_equal(one, three)
        assert np.array_equal(one, same)  # write_model draws the same weights each time


def test_micro_batches_keep_to_the_budget_with_their_fill() -> None:
    lengths = [5, 40, 9, 10, 100, 8, 8]
    batches = micro_batches(lengths, 40)
    assert sorted(place for batch in batches for place in batch) == list(range(7))
    assert batches[0] == [4]  # longer than the budget: alone
    assert all(len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= 40 for batch in batches)
    assert [len(batch) for batch in batches] == [1, 1, 4, 1]
    assert micro_batches(lengths, None) == [[place] for place in range(7)]


@pytest.mark.parametrize("place", [cpu_place("float32"), as_on_gpus("float32")])
def test_the_divergence_has_one_policy_in_memory_at_a_time(
    tied_model: Path, untied_model: Path, monkeypatch: pytest.MonkeyPatch, place: ReadingPlace
) -> None:
    alive: list[weakref.ref[Any]] = []
    seen = []
    load = reader._load

    def watched(folder: Path, where: ReadingPlace) -> list[Copy]:
        gc.collect()
        seen.append(sum(known() is not None for known in alive))
        copies = load(folder, where)
        alive.extend(weakref.ref(copy.model) for copy in copies)
        return copies

    monkeypatch.setattr(reader, "_load", watched)
    asked = [item for item in contexts() if item.mask.any()]
    expected = reverse_kl(tied_model, untied_model, asked, cpu_place("float32"))
    found = reverse_kl(tied_model, untied_model, asked, place)
    np.testing.assert_allclose(found, expected, atol=1e-6, rtol=1e-6)
    assert min(found) > 0.0
    assert reverse_kl(tied_model, tied_model, asked, place) == [0.0] * len(asked)
    assert seen == [0] * 6
    gc.collect()
    assert all(known() is None for known in alive)


def test_memory_is_given_back_after_an_error_too(tied_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    emptied = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(gc.isenabled()))
    monkeypatch.setattr(Copy, "states", full)
    with reading(tied_model, as_on_gpus("bfloat16")) as policy:
        known = weakref.ref(policy._copies[0].model)
        with pytest.raises(EngineFailed, match="no room to read a policy"):
            policy.logprobs(contexts(), temperature=1.0)
    assert emptied
    del policy
    gc.collect()
    assert known() is None


def chosen(asked: Any, trainer: Any, free: Sequence[int]) -> ReadingPlace:
    rooms = [room * GIB for room in free]
    return choose_place(asked, trainer, dtype="bfloat16", batch_tokens=4096, free=rooms, needed=20 * GIB)


def test_the_place_follows_the_recipe_and_the_room() -> None:
    assert chosen("auto", "cpu", []) == chosen("cpu", "cuda", [80]) == cpu_place("bfloat16")
    both = chosen("auto", "cuda", [80, 19, 20])
    assert (both.devices, both.batch_tokens, both.fallback) == (("cuda:0", "cuda:2"), 4096, "")
    assert chosen("cuda", "cpu", [20]).devices == ("cuda:0",)


def test_a_gpu_without_room_is_said_never_silent() -> None:
    full = chosen("auto", "cuda", [3, 7])
    assert full.devices == ("cpu",)
    assert full.fallback == "a GPU with 20.0 GiB free is needed, 7.0 GiB are free on the emptiest of 2"
    assert "there is none" in chosen("auto", "cuda", []).fallback
    with pytest.raises(MachineLacks, match=r"runtime\.teachers\.device is cuda: a GPU with 20\.0 GiB"):
        chosen("cuda", "cuda", [3])


def test_room_is_asked_for_the_largest_policy_and_the_longest_pass(tied_model: Path, tmp_path: Path) -> None:
    large = write_model(tmp_path / "large", tied=False, layers=6)

    def room(*folders: Path, longest: int = 10, batch_tokens: int = 100) -> int:
        return needed_bytes(folders, longest=longest, batch_tokens=batch_tokens, dtype="bfloat16")

    assert room(tied_model, large) == room(large) > room(tied_model)
    assert room(large, longest=500) > room(large, longest=101) > room(large) == room(large, longest=100)


def test_the_canarys_scorer_reads_every_token_but_the_first(tied_model: Path) -> None:
    ids = contexts()[1].token_ids
    (found,) = FolderScorer(tied_model, "float32").score([ids.tolist()], temperature=1.0)
    everything = Context(ids, np.arange(len(ids)) > 0)
    np.testing.assert_allclose(found, plain(tied_model, [everything], 1.0)[0], atol=1e-6)


def test_a_width_by_another_name_is_read_and_none_is_an_error(tmp_path: Path) -> None:
    asked = {"batch_tokens": 10, "longest": 20}
    for config in ({"hidden_size": 64, "vocab_size": 100}, {"n_embd": 64, "vocab_size": 100}):
        (tmp_path / "config.json").write_text(json.dumps(config))
        found = needed_bytes([tmp_path], dtype="float32", **asked)
        assert found == needed_bytes([tmp_path], dtype="bfloat16", **asked) * 2 - WORK_BYTES
    (tmp_path / "config.json").write_text('{"vocab_size": 100}')
    with pytest.raises(StageFailed, match="none of hidden_size, n_embd"):
        needed_bytes([tmp_path], dtype="float32", **asked)
