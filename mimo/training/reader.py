"""A servable folder's policy, read by transformers in this process, on the CPU or with one copy on each GPU.

Two policies may only be compared over the same passes: rounding depends on the shape of a product. So the
micro-batches depend on the contexts and the budget alone, never on the policy or the number of GPUs, and
equal weights give equal logprobs to the last bit.
"""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from mimo.errors import EngineFailed
from mimo.training.policy import CHUNK_BYTES, check_logits
from mimo.training.reading_place import ReadingPlace

_T = TypeVar("_T")


class Context(NamedTuple):
    """A dialogue and the tokens of it that are asked about: [n] int32, [n] bool, never the first."""

    token_ids: NDArray[np.int32]
    mask: NDArray[np.bool_]


class Copy(NamedTuple):
    """The policy on one device."""

    model: Any
    device: torch.device
    autocast: bool
    """Products in bfloat16 over float32 weights (on a CPU, as its trainer computes)."""

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Without gradients, in the dtype of the place; both hold for one thread only."""
        cast = torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.autocast)
        with torch.inference_mode(), cast:
            yield

    def states(self, contexts: Sequence[Context]) -> list[torch.Tensor]:
        """Per context [asked, hidden], from which the head predicts the tokens asked about.

        Shorter contexts are filled up at their end, which no token of theirs sees.
        """
        ids = torch.zeros(len(contexts), max(len(item.token_ids) for item in contexts), dtype=torch.int64)
        for row, item in zip(ids, contexts, strict=True):
            row[: len(item.token_ids)] = torch.from_numpy(np.asarray(item.token_ids, dtype=np.int64))
        hidden = self.model.base_model(input_ids=ids.to(self.device), use_cache=False).last_hidden_state
        return [
            row[torch.from_numpy(np.flatnonzero(item.mask) - 1).to(self.device)]
            for row, item in zip(hidden, contexts, strict=True)
        ]

    def chunk(self) -> int:
        """Positions whose logits are computed at once."""
        vocabulary = self.model.config.get_text_config().vocab_size
        return int(max(CHUNK_BYTES // (4 * vocabulary), 16))


Work = Callable[[Copy, Sequence[int]], Sequence[_T]]
"""What one pass over the contexts of these numbers gives for each of them."""


class Reader:
    """A policy in memory; made by `reading`."""

    def __init__(self, copies: Sequence[Copy], batch_tokens: int | None) -> None:
        self._copies = copies
        self._batch_tokens = batch_tokens

    def logprobs(self, contexts: Sequence[Context], *, temperature: float) -> list[NDArray[np.float32]]:
        """Per context, [asked] float32: the logprob of each token asked about given those before it."""

        def work(policy: Copy, chosen: Sequence[int]) -> list[NDArray[np.float32]]:
            head, found = policy.model.get_output_embeddings(), []
            for place, states in zip(chosen, policy.states([contexts[i] for i in chosen]), strict=True):
                ids, mask = contexts[place]
                targets = torch.from_numpy(np.asarray(ids, dtype=np.int64)[mask]).to(policy.device)
                parts = [
                    torch.log_softmax(head(some).float() / temperature, -1).gather(1, wanted[:, None])[:, 0]
                    for some, wanted in _chunks(policy, states, targets)
                ]
                found.append(np.concatenate([part.cpu().numpy() for part in parts]) if parts else _NONE)
            return found

        return self.each(contexts, work)

    def states(self, contexts: Sequence[Context]) -> list[torch.Tensor]:
        """Per context [asked, hidden] in main memory."""
        return self.each(
            contexts,
            lambda policy, chosen: [row.cpu() for row in policy.states([contexts[i] for i in chosen])],
        )

    def head(self) -> Any:
        """A copy of the output head in main memory."""
        return copy.deepcopy(self._copies[0].model.get_output_embeddings()).to("cpu")

    def each(self, contexts: Sequence[Context], work: Work[_T]) -> list[_T]:
        """What `work` gives for each context, in their order; the copies take turns at the passes.

        Raises:
            EngineFailed: a GPU ran out of memory.
        """
        batches = micro_batches([len(item.token_ids) for item in contexts], self._batch_tokens)
        free: SimpleQueue[Copy] = SimpleQueue()
        for policy in self._copies:
            free.put(policy)

        def one(chosen: Sequence[int]) -> Sequence[_T]:
            policy = free.get()
            try:
                with policy.computing():
                    return work(policy, chosen)
            finally:
                free.put(policy)

        with _memory_is_clear():
            if len(self._copies) == 1:
                results = [one(chosen) for chosen in batches]
            else:
                with ThreadPoolExecutor(len(self._copies), thread_name_prefix="teacher") as pool:
                    results = list(pool.map(one, batches))
        found = {
            place: value
            for chosen, values in zip(batches, results, strict=True)
            for place, value in zip(chosen, values, strict=True)
        }
        return [found[place] for place in range(len(contexts))]


_NONE = np.zeros(0, dtype=np.float32)


@contextmanager
def reading(folder: Path, place: ReadingPlace) -> Iterator[Reader]:
    """The policy in `folder` at `place` as long as the block lasts; its memory is free again after it.

    On a CPU the weights are float32 and bfloat16 is computed by autocast; GPUs hold them in the dtype itself.

    Raises:
        EngineFailed: a GPU ran out of memory, or the policy alters its logits.
    """
    copies = _load(folder, place)
    try:
        yield Reader(copies, place.batch_tokens)
    finally:
        copies.clear()
        gc.collect()  # modules refer to one another
        if place.on_gpu:
            torch.cuda.empty_cache()


def micro_batches(lengths: Sequence[int], budget: int | None) -> list[list[int]]:
    """Places of contexts by pass: those of like length together, no more than `budget` tokens with the fill.

    A longer context stands alone; without a budget every one does, in their order.
    """
    if budget is None:
        return [[place] for place in range(len(lengths))]
    batches: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if batches and lengths[batches[-1][0]] * (len(batches[-1]) + 1) <= budget:
            batches[-1].append(place)
        else:
            batches.append([place])
    return batches


def _load(folder: Path, place: ReadingPlace) -> list[Copy]:
    from transformers import AutoModelForCausalLM

    half = place.dtype == "bfloat16"
    kept = torch.bfloat16 if half and place.on_gpu else torch.float32
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=kept, local_files_only=True).eval()
    check_logits(model)
    devices = [torch.device(name) for name in place.devices]
    with _memory_is_clear():
        models = [copy.deepcopy(model).to(device) for device in devices[:-1]] + [model.to(devices[-1])]
    return [
        Copy(each, device, autocast=half and not place.on_gpu)
        for each, device in zip(models, devices, strict=True)
    ]


def _chunks(
    policy: Copy, states: torch.Tensor, targets: torch.Tensor
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    size = policy.chunk()
    if len(states):
        yield from zip(torch.split(states, size), torch.split(targets, size), strict=True)


@contextmanager
def _memory_is_clear() -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise EngineFailed(
            f"a GPU has no room to read a policy: {error}",
            hint="lower runtime.trainer.micro_batch_tokens or runtime.sampler.gpu_memory_utilization, "
            "or set runtime.teachers.device: cpu (slow)",
        ) from error
