"""A folder's own logprobs, by transformers in this process: the canary's other side where no trainer runs,
and a teacher's word on what a student sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mimo.training.reading_place import Dtype, ReadingPlace, cpu_place

if TYPE_CHECKING:
    import torch

    from mimo.training.reader import Context, Copy


class FolderScorer:
    """Scores token sequences under the weights of a servable folder; `model_dir` may be changed.

    Always on the CPU: it scores a canary's few sequences while a sampler holds the GPUs.
    """

    def __init__(self, model_dir: Path, dtype: Dtype) -> None:
        self.model_dir = model_dir
        self._dtype = dtype

    def score(self, sequences: Sequence[Sequence[int]], *, temperature: float) -> list[tuple[float, ...]]:
        """Per sequence, the logprob of each token but the first given those before it."""
        from mimo.training.reader import Context, reading

        contexts = [
            Context(np.asarray(sequence, dtype=np.int32), np.arange(len(sequence)) > 0)
            for sequence in sequences
        ]
        with reading(self.model_dir, cpu_place(self._dtype)) as policy:
            return [tuple(row.tolist()) for row in policy.logprobs(contexts, temperature=temperature)]


def reverse_kl(
    student_dir: Path, teacher_dir: Path, contexts: Sequence[Context], place: ReadingPlace
) -> list[float]:
    """Per context, the mean KL(student || teacher) in nats over its masked tokens, over the whole vocabulary.

    Nothing is sampled: equal folders give exactly 0, and two students can be compared on the same contexts.
    One policy is in memory at a time: of the student its head stays, and the hidden states ([asked, hidden]
    of every context, in main memory).
    """
    from mimo.training.reader import reading

    with reading(student_dir, place) as student:
        states, head = student.states(contexts), student.head()
    with reading(teacher_dir, place) as teacher:

        def work(policy: Copy, chosen: Sequence[int]) -> list[float]:
            own = _on(policy, head)
            theirs = policy.states([contexts[number] for number in chosen])
            return [
                _divergence(policy, own, states[number].to(policy.device), row)
                for number, row in zip(chosen, theirs, strict=True)
            ]

        return teacher.each(contexts, work)


def _on(policy: Copy, head: Any) -> Any:
    """The student's head beside a copy of the teacher; made anew for a pass, as copies take any of them."""
    import copy

    return head if policy.device.type == "cpu" else copy.deepcopy(head).to(policy.device)


def _divergence(policy: Copy, head: Any, ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """Mean over the rows of [asked, hidden]; logits of a chunk at a time."""
    import torch

    other = policy.model.get_output_embeddings()
    total = torch.zeros((), dtype=torch.float64)
    for mine, his in zip(torch.split(ours, policy.chunk()), torch.split(theirs, policy.chunk()), strict=True):
        student = torch.log_softmax(head(mine).float(), -1)
        teacher = torch.log_softmax(other(his).float(), -1)
        total += (student.exp() * (student - teacher)).sum(-1).double().sum().cpu()
    return float(total / len(ours))
