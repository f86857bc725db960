"""A folder's own logprobs, by transformers in this process: the canary's other side where no trainer runs,
and a teacher's word on what a student sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

Dtype = Literal["float32", "bfloat16"]


class FolderScorer:
    """Scores token sequences under the weights of a servable folder; `model_dir` may be changed."""

    def __init__(self, model_dir: Path, dtype: Dtype) -> None:
        self.model_dir = model_dir
        self._dtype = dtype

    def score(self, sequences: Sequence[Sequence[int]], *, temperature: float) -> list[tuple[float, ...]]:
        """Per sequence, the logprob of each token but the first given those before it."""
        import torch

        model = _loaded(self.model_dir)
        scores = []
        with torch.inference_mode(), _autocast(self._dtype):
            for sequence in sequences:
                logprobs = _vocabulary_logprobs(model, sequence, temperature)
                picked = logprobs.gather(1, torch.tensor(sequence)[1:, None])[:, 0]
                scores.append(tuple(picked.tolist()))
        return scores


def reverse_kl(
    student_dir: Path,
    teacher_dir: Path,
    contexts: Sequence[tuple[NDArray[np.int32], NDArray[np.bool_]]],
    dtype: Dtype,
) -> list[float]:
    """Per context, the mean KL(student || teacher) in nats over its masked tokens, over the whole vocabulary.

    Nothing is sampled: equal folders give exactly 0, and two students can be compared on the same contexts.

    Args:
        contexts: (token ids [n], mask [n] bool); what counts is where each masked token was drawn from.
    """
    import torch

    student, teacher = _loaded(student_dir), _loaded(teacher_dir)
    found = []
    with torch.inference_mode(), _autocast(dtype):
        for ids, mask in contexts:
            chosen = torch.from_numpy(np.flatnonzero(mask) - 1)
            ours, theirs = (
                _vocabulary_logprobs(model, ids.tolist(), 1.0)[chosen] for model in (student, teacher)
            )
            found.append(float((ours.exp() * (ours - theirs)).sum(-1).double().mean()))
    return found


def _loaded(model_dir: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32, local_files_only=True)
    return model.eval()


def _autocast(dtype: Dtype) -> torch.autocast:
    import torch

    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bfloat16")


def _vocabulary_logprobs(model: Any, sequence: Sequence[int], temperature: float) -> torch.Tensor:
    """[n - 1, vocabulary] float32: row t is the distribution of token t + 1."""
    import torch

    logits = model(input_ids=torch.tensor([list(sequence)])).logits[0, :-1].float() / temperature
    return torch.log_softmax(logits, dim=-1)
