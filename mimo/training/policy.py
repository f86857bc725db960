"""The policy as a module that returns the logprobs of chosen tokens: logits exist only where a loss is.

Hidden states come from the base model for the whole packed row; the head and the log-softmax (float32, at
the sampling temperature) run in chunks over the selected positions, recomputed in the backward pass when the
row has several chunks, so that a vocabulary of 150,000 costs memory for one chunk only.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from mimo.errors import EngineFailed

CHUNK_BYTES = 64 * 1024 * 1024
"""Float32 logits computed at once."""
RECOMPUTE_BYTES = 512 * 1024 * 1024
"""A row with more logits than this keeps none of them for its backward pass."""
_ALTERED_LOGITS = ("final_logit_softcapping", "logit_scale", "logits_scaling", "logits_soft_cap")


class Policy(nn.Module):
    """`model` (a transformers causal language model) behind the call that training and scoring need."""

    def __init__(self, model: Any, *, autocast: torch.dtype | None) -> None:
        super().__init__()
        check_logits(model)
        self.model = model
        self._autocast = autocast
        vocabulary = model.config.get_text_config().vocab_size
        self._chunk = max(CHUNK_BYTES // (4 * vocabulary), 16)
        self._keep = max(RECOMPUTE_BYTES // (4 * vocabulary), 16)

    def forward(
        self,
        token_ids: torch.Tensor,
        position_ids: torch.Tensor,
        select: torch.Tensor,
        targets: torch.Tensor,
        temperature: float,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(logprobs, entropies), both [selected] float32; entropies without gradient.

        Args:
            token_ids: [1, row]; what sees what is set by `mimo.training.attention.packed`.
            position_ids: [1, row].
            select: [selected] index into the row of the token that predicts `targets`.
        """
        with torch.autocast(
            token_ids.device.type, dtype=self._autocast or torch.bfloat16, enabled=self._autocast is not None
        ):
            hidden = self.model.base_model(
                input_ids=token_ids, position_ids=position_ids, use_cache=False
            ).last_hidden_state[0]
            recompute = len(select) > self._keep and torch.is_grad_enabled()
            parts = [
                self._chunk_logprobs(hidden[chosen], wanted, temperature, recompute=recompute)
                for chosen, wanted in zip(
                    torch.split(select, self._chunk), torch.split(targets, self._chunk), strict=True
                )
            ]
        return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])

    def _chunk_logprobs(
        self, hidden: torch.Tensor, targets: torch.Tensor, temperature: float, *, recompute: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        head = self.model.get_output_embeddings()
        if not recompute:
            return _head_logprobs(head, hidden, targets, temperature)
        result: tuple[torch.Tensor, torch.Tensor] = checkpoint(
            _head_logprobs, head, hidden, targets, temperature, use_reentrant=False
        )
        return result


def check_logits(model: Any) -> None:
    """Nothing, where the head's output is the logits themselves.

    Raises:
        EngineFailed: the policy scales or caps them.
    """
    altered = [name for name in _ALTERED_LOGITS if getattr(model.config, name, None) not in (None, 1, 1.0)]
    if altered:
        raise EngineFailed(
            f"{type(model).__name__}: logits altered by {', '.join(altered)} are not supported"
        )


def _head_logprobs(
    head: nn.Module, hidden: torch.Tensor, targets: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    logits = head(hidden).float()
    if temperature != 1.0:
        logits = logits / temperature
    logprobs = torch.log_softmax(logits, dim=-1)
    with torch.no_grad():
        entropy = -(logprobs.exp() * logprobs).sum(-1)
    return logprobs.gather(-1, targets[:, None]).squeeze(-1), entropy
