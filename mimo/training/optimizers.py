"""The optimisers of a recipe: AdamW, or Muon on hidden matrices with AdamW for the rest.

Muon's update is scaled to AdamW's root mean square (`match_rms_adamw`), so that one learning rate serves
both. Weight decay reaches matrices only, not norms and biases. A frozen router (mixture of experts) is in
neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import torch
from torch import nn

from mimo.types import Json


class MuonWithAdamW(torch.optim.Optimizer):
    """Muon on `matrices`, AdamW on the other groups, as one optimiser with shared parameter groups."""

    def __init__(
        self, matrices: list[nn.Parameter], others: list[dict[str, Any]], settings: Mapping[str, Json]
    ) -> None:
        self.parts: tuple[torch.optim.Optimizer, ...] = (
            torch.optim.Muon(
                matrices,
                weight_decay=_number(settings, "weight_decay"),
                momentum=_number(settings, "momentum"),
                nesterov=bool(settings["nesterov"]),
                adjust_lr_fn="match_rms_adamw",
            ),
            _adamw(others, settings),
        )
        super().__init__([group for part in self.parts for group in part.param_groups], {})

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of every parameter; `closure` is not supported by this pair and must be None."""
        assert closure is None
        for part in self.parts:
            part.step()


def build_optimizer(model: nn.Module, settings: Mapping[str, Json]) -> torch.optim.Optimizer:
    """The optimiser `settings["name"]` over the trainable parameters of the causal language model `model`."""
    trainable = {name: item for name, item in model.named_parameters() if item.requires_grad}
    matrices = hidden_matrices(model) if settings["name"] == "muon" else []
    chosen = {id(item) for item in matrices}
    rest = [item for item in trainable.values() if id(item) not in chosen]
    groups: list[dict[str, Any]] = [
        {"params": [item for item in rest if item.ndim >= 2]},
        {"params": [item for item in rest if item.ndim < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    return MuonWithAdamW(matrices, groups, settings) if matrices else _adamw(groups, settings)


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Trainable 2-D weights of the body: no embedding, no head."""
    ends = (model.get_input_embeddings(), model.get_output_embeddings())  # type: ignore[operator]
    outside = {id(item) for end in ends if end is not None for item in end.parameters()}
    return [
        item
        for item in model.parameters()
        if item.requires_grad and item.ndim == 2 and id(item) not in outside
    ]


def state_of(optimizer: torch.optim.Optimizer, parameter: nn.Parameter) -> dict[str, torch.Tensor]:
    """The optimiser's tensors of one parameter, by name; empty before its first step."""
    for part in parts_of(optimizer):
        if parameter in part.state:
            return cast("dict[str, torch.Tensor]", part.state[parameter])
    return {}


def restore_state(
    optimizer: torch.optim.Optimizer, parameter: nn.Parameter, tensors: Mapping[str, torch.Tensor]
) -> None:
    """Put the tensors of `state_of` back into the part that owns `parameter`."""
    for part in parts_of(optimizer):
        if any(parameter is item for group in part.param_groups for item in group["params"]):
            part.state[parameter] = dict(tensors)
            return
    raise KeyError("the parameter belongs to no group of the optimiser")


def parts_of(optimizer: torch.optim.Optimizer) -> tuple[torch.optim.Optimizer, ...]:
    """The optimisers that really hold state."""
    return optimizer.parts if isinstance(optimizer, MuonWithAdamW) else (optimizer,)


def _adamw(groups: Iterable[dict[str, Any]], settings: Mapping[str, Json]) -> torch.optim.AdamW:
    first, second = cast("list[float]", settings["betas"])
    return torch.optim.AdamW(
        groups,
        betas=(float(first), float(second)),
        eps=_number(settings, "eps"),
        weight_decay=_number(settings, "weight_decay"),
        fused=True,  # one pass over memory: on a CPU a quarter of the loop's time
    )


def _number(settings: Mapping[str, Json], key: str) -> float:
    return float(cast(float, settings[key]))
