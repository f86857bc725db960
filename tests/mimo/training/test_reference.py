"""What a folder says by itself: logprobs, and the reverse KL between two folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mimo.backends.policies import materialise_policy
from mimo.training.reader import Context, reading
from mimo.training.reading_place import ReadingPlace, cpu_place
from mimo.training.reference import reverse_kl

IDS = np.array([5, 9, 300, 41, 7, 1200, 8], dtype=np.int32)
MASK = np.array([False, False, True, True, False, True, False])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    sizes = {"hidden_size": 16, "layers": 1, "heads": 2, "kv_heads": 1, "mlp_size": 32}
    made = []
    for seed in (1, 2):
        folder = tmp_path_factory.mktemp("policies") / str(seed)
        materialise_policy(
            "init:tiny",
            folder,
            tokenizer="builtin:small-2048",
            init={**sizes, "seed": seed},
            keep_layers=None,
            dtype="float32",
        )
        made.append(folder)
    return made[0], made[1]


def test_equal_folders_are_exactly_0_apart(folders: tuple[Path, Path]) -> None:
    assert reverse_kl(folders[0], folders[0], [Context(IDS, MASK)], cpu_place("float32")) == [0.0]


def test_it_is_the_expected_gap_of_what_the_student_would_sample(folders: tuple[Path, Path]) -> None:
    """E_{y ~ student}[log student - log teacher] at each masked place, summed over the whole vocabulary."""
    vocabulary, many = 2048, ReadingPlace(devices=("cpu",), dtype="float32", batch_tokens=4096)
    expected = []
    for place in np.flatnonzero(MASK):
        last = np.arange(place + 1) == place
        asked = [
            Context(np.array([*IDS[:place], token], dtype=np.int32), last) for token in range(vocabulary)
        ]
        rows = []
        for folder in folders:
            with reading(folder, many) as policy:
                rows.append(np.concatenate(policy.logprobs(asked, temperature=1.0)))
        ours, theirs = rows
        expected.append(float((np.exp(ours) * (ours - theirs)).sum()))
    found = reverse_kl(*folders, [Context(IDS, MASK)], cpu_place("float32"))[0]
    assert found == pytest.approx(np.mean(expected), rel=1e-3)
    assert found > 0.0
