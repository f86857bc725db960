"""A step's batch on disk: `batch.safetensors` (the per-token columns) and `batch.json`, written last.

Everything the optimiser step depends on is in the folder, so that a batch can be trained again, inspected
and replayed. The loss is `- sum_i loss_weight_i * sum_t (per-token term)` over the whole folder: weights are
global, so that the split into ranks and micro-batches changes nothing (METHOD 2, prompt-mean).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from mimo.backends.base import LossKind
from mimo.errors import StageFailed
from mimo.run_dir.files import load_json, write_atomic, write_json
from mimo.types import SCHEMA, Json

TENSORS, META = "batch.safetensors", "batch.json"
_COLUMNS: dict[str, type[np.generic]] = {
    "token_ids": np.int32,
    "loss_mask": np.bool_,
    "sampler_logprobs": np.float32,
    "advantages": np.float32,
}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TrainSequence:
    """One dialogue branch to train on. The per-token columns have one entry per token id: [tokens].

    `loss_mask` is True where the token was the policy's own (never at position 0: nothing predicts it);
    `sampler_logprobs` and `advantages` are read only there and are 0 elsewhere; for `sft` both may be 0.
    Sequences with the same `prefix_group` share their first `prefix_len` tokens exactly and carry no loss
    in them; the trainer computes that prefix once.
    """

    rollout_id: str
    token_ids: npt.NDArray[np.int32]
    loss_mask: npt.NDArray[np.bool_]
    sampler_logprobs: npt.NDArray[np.float32]
    advantages: npt.NDArray[np.float32]
    loss_weight: float
    prefix_group: str | None = None
    prefix_len: int = 0

    @property
    def trained_tokens(self) -> int:
        """Tokens that carry a loss."""
        return int(self.loss_mask.sum())


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """A batch read back from its folder."""

    kind: LossKind
    step: int
    sequences: tuple[TrainSequence, ...]
    digest: str
    """sha256 of the tensor file: equal digests and metadata are equal batches."""


def sft_sequence(
    rollout_id: str, token_ids: Sequence[int], loss_mask: Sequence[bool], *, loss_weight: float
) -> TrainSequence:
    """A demonstration: no sampler, no advantage; `loss_weight` scales its summed negative log-likelihood."""
    zeros = np.zeros(len(token_ids), dtype=np.float32)
    return TrainSequence(
        rollout_id=rollout_id,
        token_ids=np.asarray(token_ids, dtype=np.int32),
        loss_mask=np.asarray(loss_mask, dtype=np.bool_),
        sampler_logprobs=zeros,
        advantages=zeros,
        loss_weight=loss_weight,
    )


def write_batch(folder: Path, sequences: Sequence[TrainSequence], *, kind: LossKind, step: int) -> Batch:
    """Write `sequences` as the batch of `step`; the folder counts only once `batch.json` is there.

    Raises:
        StageFailed: no sequence, a wrong column, a non-finite number (the rollout is named), a prefix that
            is not shared.
    """
    if not sequences:
        raise StageFailed(f"{folder}: a batch needs at least one sequence", hint="every group was rejected")
    for sequence in sequences:
        _check_sequence(sequence, folder)
    _check_prefixes(sequences, folder)
    folder.mkdir(parents=True, exist_ok=True)
    data = save_tensors(
        {name: np.concatenate([getattr(item, name) for item in sequences]) for name in _COLUMNS}
    )
    digest = hashlib.sha256(data).hexdigest()
    (folder / META).unlink(missing_ok=True)
    write_atomic(folder / TENSORS, data)
    rows = [_row(item) for item in sequences]
    write_json(
        folder / META,
        {"schema": SCHEMA, "kind": kind, "step": step, "sha256": digest, "sequences": rows},
    )
    return Batch(kind=kind, step=step, sequences=tuple(sequences), digest=digest)


def read_batch(folder: Path) -> Batch:
    """The batch in `folder`, checked against its digest and its own rules.

    Raises:
        StageFailed: missing, damaged, of another schema, or breaking a rule of `write_batch`.
    """
    try:
        meta = load_json(folder / META)
        data = (folder / TENSORS).read_bytes()
        if meta["schema"] != SCHEMA:
            raise ValueError(f"schema is {meta['schema']!r}; this mimo reads {SCHEMA}")
        digest = hashlib.sha256(data).hexdigest()
        if digest != meta["sha256"]:
            raise ValueError(f"sha256 of {TENSORS} is {digest}, expected {meta['sha256']}")
        sequences = _split(load_tensors(data), cast("list[dict[str, Json]]", meta["sequences"]))
    except (OSError, ValueError, KeyError, TypeError, SafetensorError, json.JSONDecodeError) as error:
        raise StageFailed(
            f"{folder}: not a readable batch: {error}", hint="delete the folder; the step writes it again"
        ) from error
    for sequence in sequences:
        _check_sequence(sequence, folder)
    _check_prefixes(sequences, folder)
    return Batch(
        kind=cast(LossKind, meta["kind"]),
        step=int(cast(int, meta["step"])),
        sequences=tuple(sequences),
        digest=digest,
    )


def _row(item: TrainSequence) -> dict[str, Json]:
    return {
        "rollout_id": item.rollout_id,
        "tokens": len(item.token_ids),
        "trained_tokens": item.trained_tokens,
        "loss_weight": float(item.loss_weight),
        "prefix_group": item.prefix_group,
        "prefix_len": item.prefix_len,
    }


def _split(columns: dict[str, np.ndarray], rows: list[dict[str, Json]]) -> list[TrainSequence]:
    ends = np.cumsum([int(cast(int, row["tokens"])) for row in rows])
    lengths = {name: len(columns[name]) for name in _COLUMNS}
    if any(length != ends[-1] for length in lengths.values()):
        raise ValueError(f"columns have lengths {lengths}, the sequences add up to {ends[-1]}")
    parts = {name: np.split(columns[name], ends[:-1]) for name in _COLUMNS}
    return [
        TrainSequence(
            rollout_id=str(row["rollout_id"]),
            loss_weight=float(cast(float, row["loss_weight"])),
            prefix_group=cast("str | None", row["prefix_group"]),
            prefix_len=int(cast(int, row["prefix_len"])),
            token_ids=parts["token_ids"][i],
            loss_mask=parts["loss_mask"][i],
            sampler_logprobs=parts["sampler_logprobs"][i],
            advantages=parts["advantages"][i],
        )
        for i, row in enumerate(rows)
    ]


def _check_sequence(item: TrainSequence, folder: Path) -> None:
    def refuse(problem: str) -> StageFailed:
        return StageFailed(f"{folder}: rollout {item.rollout_id}: {problem}")

    tokens = len(item.token_ids)
    for name, kind in _COLUMNS.items():
        column = getattr(item, name)
        if column.dtype != kind or column.shape != (tokens,):
            raise refuse(
                f"{name} is {column.dtype} {column.shape}, expected {np.dtype(kind).name} ({tokens},)"
            )
    if tokens < 2 or item.loss_mask[0]:
        raise refuse("needs at least 2 tokens and no loss on the first, which nothing predicts")
    if item.token_ids.min() < 0:
        raise refuse(f"token id {item.token_ids.min()} is negative")
    if not 0 <= item.prefix_len < tokens or (item.prefix_len and item.prefix_group is None):
        raise refuse(f"prefix_len {item.prefix_len} of {tokens} tokens in group {item.prefix_group}")
    if item.loss_mask[: item.prefix_len].any():
        raise refuse("tokens of the shared prefix carry a loss")
    for name in ("sampler_logprobs", "advantages"):
        if not np.isfinite(getattr(item, name)[item.loss_mask]).all():
            raise refuse(f"{name} is not finite on a trained token")
    if not np.isfinite(item.loss_weight):
        raise refuse(f"loss_weight is {item.loss_weight}")


def _check_prefixes(sequences: Sequence[TrainSequence], folder: Path) -> None:
    first: dict[str, TrainSequence] = {}
    for item in sequences:
        if item.prefix_group is None or item.prefix_len == 0:
            continue
        head = first.setdefault(item.prefix_group, item)
        shared = head.token_ids[: head.prefix_len]
        if head.prefix_len != item.prefix_len or not np.array_equal(
            shared, item.token_ids[: item.prefix_len]
        ):
            raise StageFailed(
                f"{folder}: rollouts {head.rollout_id} and {item.rollout_id} of prefix group "
                f"{item.prefix_group} do not share their first {head.prefix_len} tokens"
            )
