"""Whether sampler and trainer fit on the same GPUs: the one awake beside what the other keeps."""

from __future__ import annotations

import re

import pytest

from mimo.pipeline.estimate import Problem, estimate, hardware_of
from mimo.recipe.loader import load_recipe
from mimo.recipe.machine import Gpu, Machine

H100 = Gpu(name="NVIDIA H100 80GB HBM3", memory_gib=79.6, free_gib=79.0)
MACHINE = Machine(gpus=(H100,) * 8, cores=96, memory_gib=1000.0)


def crowded(profile: str, *overrides: str) -> list[Problem]:
    recipe = load_recipe("pro", profile=profile, overrides=overrides).model
    found = estimate(recipe, hardware_of(recipe, MACHINE))
    return [item for item in found.problems if "between steps" in item.what or "the sleeping" in item.what]


@pytest.mark.parametrize("profile", ["node", "single"])
def test_the_shipped_profiles_fit_an_h100(profile: str) -> None:
    assert crowded(profile) == []


def test_the_advised_share_fits_and_a_little_more_does_not() -> None:
    (problem,) = crowded("node", "runtime.sampler.gpu_memory_utilization=0.9")
    assert problem.stops
    named = re.search(r"gpu_memory_utilization: ([0-9.]+) or less", problem.change)
    assert named is not None
    share = float(named[1])
    assert crowded("node", f"runtime.sampler.gpu_memory_utilization={share}") == []
    assert crowded("node", f"runtime.sampler.gpu_memory_utilization={share + 0.02}") != []


def test_servers_elsewhere_share_nothing() -> None:
    apart = ("runtime.sampler.gpu_memory_utilization=0.9", "runtime.sampler.urls=['http://elsewhere:1']")
    assert crowded("node", *apart) == []
