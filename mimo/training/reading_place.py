"""Where teachers, and the student beside them, are read: which devices, in which dtype, how much a pass.

A GPU is taken when it has room for the largest of the policies (one is read at a time). All that have room
get a copy each and share the passes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mimo.errors import MachineLacks, StageFailed
from mimo.recipe.runtime import Device
from mimo.types import Json

Dtype = Literal["float32", "bfloat16"]
WORK_BYTES = 3 * 2**30
"""On each GPU besides weights and hidden states: logits of a chunk, workspaces, fragmentation."""
GIB = 2.0**30
_HIDDEN = ("hidden_size", "n_embd", "d_model")
"""The width of the residual stream, as families of policies call it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadingPlace:
    """Devices as torch names them, each for one copy of the policy that is being read."""

    devices: tuple[str, ...]
    dtype: Dtype
    batch_tokens: int | None
    """Most tokens of a pass, fill included; None = one context a pass."""
    fallback: str = ""
    """Why it is the CPU although a GPU was wanted; empty = it is where it was wanted."""

    @property
    def on_gpu(self) -> bool:
        """Whether the weights are in the memory of GPUs."""
        return self.devices != ("cpu",)


def cpu_place(dtype: Dtype) -> ReadingPlace:
    """The CPU: one context a pass, since filling up costs there and saves nothing."""
    return ReadingPlace(devices=("cpu",), dtype=dtype, batch_tokens=None)


def choose_place(
    asked: Device,
    trainer: Literal["cpu", "cuda"],
    *,
    dtype: Dtype,
    batch_tokens: int,
    free: Sequence[int],
    needed: int,
) -> ReadingPlace:
    """The place for `runtime.teachers.device: asked` beside a trainer on `trainer`.

    Args:
        free: bytes free on each GPU that this process sees.
        needed: bytes that one copy needs.

    Raises:
        MachineLacks: a GPU was asked for by name and none has room.
    """
    wanted = trainer if asked == "auto" else asked
    if wanted == "cpu":
        return cpu_place(dtype)
    roomy = tuple(f"cuda:{number}" for number, room in enumerate(free) if room >= needed)
    if roomy:
        return ReadingPlace(devices=roomy, dtype=dtype, batch_tokens=batch_tokens)
    most = f"{max(free) / GIB:.1f} GiB are free on the emptiest of {len(free)}" if free else "there is none"
    why = f"a GPU with {needed / GIB:.1f} GiB free is needed, {most}"
    if asked == "cuda":
        raise MachineLacks(
            f"runtime.teachers.device is cuda: {why}",
            hint="lower runtime.sampler.gpu_memory_utilization or runtime.trainer.micro_batch_tokens, "
            "or runtime.teachers.device: auto (the CPU then, which is slow)",
        )
    return ReadingPlace(devices=("cpu",), dtype=dtype, batch_tokens=None, fallback=why)


def needed_bytes(folders: Sequence[Path], *, longest: int, batch_tokens: int, dtype: Dtype) -> int:
    """Bytes of a GPU that reading the largest of `folders` needs, one policy at a time.

    Weights as they lie on disk (an export has the policy's dtype), another's head for the comparison over
    the vocabulary, one layer's activations of the longest pass, and `WORK_BYTES`.
    """
    most = 0
    for folder in folders:
        config = json.loads((folder / "config.json").read_bytes())
        text = config.get("text_config")
        sizes = text if isinstance(text, dict) else config
        weights = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
        row = max(longest, batch_tokens)
        most = max(most, weights + pass_bytes(sizes, row, dtype) + WORK_BYTES)
    return most


def pass_bytes(sizes: Mapping[str, Json], tokens: int, dtype: Dtype) -> int:
    """Bytes of one layer's activations for a pass of so many tokens, and of a head beside the policy's own.

    Args:
        sizes: a policy's `config.json`.
    """
    hidden, vocabulary = _size(sizes, *_HIDDEN), _size(sizes, "vocab_size")
    inner = int(str(sizes.get("intermediate_size") or 4 * hidden))
    number = 2 if dtype == "bfloat16" else 4
    return number * (tokens * (8 * hidden + 3 * inner) + vocabulary * hidden)


def _size(sizes: Mapping[str, Json], *names: str) -> int:
    for name in names:
        if sizes.get(name):
            return int(str(sizes[name]))
    raise StageFailed(
        f"a policy's config.json has none of {', '.join(names)}: what reading it takes is not known",
        hint="runtime.teachers.device: cpu needs no estimate",
    )
