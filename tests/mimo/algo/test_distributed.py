"""Weights, masses and token values are the same on 1, 2 and 4 data-parallel ranks (gloo), to 1e-6."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from mimo.algo.batch import Batch, Settings, methods_tensor
from mimo.algo.loss_weights import Aggregation
from mimo.algo.order import ordered_advantages
from mimo.algo.outcomes import BatchAdvantages
from tests.mimo.algo.batches import FORK, REFERENCE

GROUPS = 24
AGGREGATIONS: tuple[Aggregation, ...] = ("prompt-mean", "token-mean", "sequence-mean")


def whole_batch() -> Batch:
    """24 ragged groups with leaks, failures, flags and every method."""
    random = torch.Generator().manual_seed(11)
    sizes = torch.randint(2, 9, (GROUPS,), generator=random)
    count = int(sizes.sum())

    def unit() -> Tensor:
        return torch.rand(count, generator=random, dtype=torch.float64)

    tokens = torch.randint(0, 200, (count,), generator=random)
    starts = (unit() * tokens).long()
    spans = torch.stack([torch.arange(count), starts, starts + 15], dim=1)[unit() < 0.4]
    passed = unit() < 0.6
    return Batch(
        group=torch.repeat_interleave(sizes),
        valid=unit() < 0.95,
        passed=passed,
        leak=unit() < 0.05,
        reward=passed.double(),
        solution=unit(),
        behavior=unit(),
        quality=unit().clamp(min=0.05),
        length=1 + 1000 * unit(),
        tokens=tokens,
        spans=spans,
    )


def on_rank(batch: Batch, rank: int, ranks: int) -> Batch:
    """The groups of one rank: group numbers stay global, span rollouts become local."""
    mine = batch.group % ranks == rank
    local = mine.cumsum(0) - 1
    here = mine[batch.spans[:, 0]]
    spans = torch.cat([local[batch.spans[:, :1]], batch.spans[:, 1:]], dim=1)[here]
    fields = {name: getattr(batch, name)[mine] for name in batch._fields if name != "spans"}
    return Batch(spans=spans, **fields)


def summed(local: Tensor) -> Tensor:
    total = local.clone()
    dist.all_reduce(total)
    return total


def result_of(batch: Batch, aggregation: Aggregation, total: object) -> BatchAdvantages:
    methods = methods_tensor((["plain", "grs", "gar"] * GROUPS)[:GROUPS])  # type: ignore[arg-type]
    return ordered_advantages(
        batch,
        Settings(methods, 1.5, False, True, 0.1, REFERENCE),
        aggregation=aggregation,
        token_penalty=FORK,
        spread_epsilon=1e-9,
        length_position="reward",
        total=total,  # type: ignore[arg-type]
    )


def numbers(result: BatchAdvantages) -> Tensor:
    """[rollouts, 3] weight and the two token values, which hold the weights and all four masses."""
    return torch.stack([result.tokens.weight, result.tokens.clean, result.tokens.flagged], dim=1)


def worker(rank: int, ranks: int, folder: str) -> None:
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    dist.init_process_group(
        "gloo", init_method=store, rank=rank, world_size=ranks, timeout=timedelta(seconds=120)
    )
    batch = on_rank(whole_batch(), rank, ranks)
    found = [result_of(batch, aggregation, summed) for aggregation in AGGREGATIONS]
    balances = [torch.stack(list(one.tokens.balance or ())) for one in found]
    torch.save([[numbers(one) for one in found], balances], f"{folder}/rank{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_same_on_any_number_of_ranks(ranks: int, tmp_path: Path) -> None:
    torch.multiprocessing.spawn(worker, args=(ranks, str(tmp_path)), nprocs=ranks)
    batch = whole_batch()
    for number, aggregation in enumerate(AGGREGATIONS):
        alone = result_of(batch, aggregation, lambda local: local)
        expected = torch.stack(list(alone.tokens.balance or ()))
        assert expected.all()
        for rank in range(ranks):
            rows, balances = torch.load(tmp_path / f"rank{rank}.pt")
            mine = batch.group % ranks == rank
            assert torch.allclose(rows[number], numbers(alone)[mine], rtol=1e-6, atol=1e-12)
            assert torch.allclose(balances[number], expected, rtol=1e-6, atol=1e-12)
