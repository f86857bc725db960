"""A folder's own logprobs, by transformers in this process: the canary's other side where no trainer runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal


class FolderScorer:
    """Scores token sequences under the weights of a servable folder; `model_dir` may be changed."""

    def __init__(self, model_dir: Path, dtype: Literal["float32", "bfloat16"]) -> None:
        self.model_dir = model_dir
        self._dtype = dtype

    def score(self, sequences: Sequence[Sequence[int]], *, temperature: float) -> list[tuple[float, ...]]:
        """Per sequence, the logprob of each token but the first given those before it."""
        import torch
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(
            self.model_dir, dtype=torch.float32, local_files_only=True
        ).eval()
        autocast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=self._dtype == "bfloat16")
        scores = []
        with torch.inference_mode(), autocast:
            for sequence in sequences:
                ids = torch.tensor([list(sequence)])
                logits = model(input_ids=ids).logits[0, :-1].float() / temperature
                picked = torch.log_softmax(logits, dim=-1).gather(1, ids[0, 1:, None])[:, 0]
                scores.append(tuple(picked.tolist()))
        return scores
