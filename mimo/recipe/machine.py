"""Which profile a machine gets, and what it lacks for a recipe; asks nvidia-smi, never torch."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mimo.errors import MachineLacks, RecipeError
from mimo.recipe.cgroup_limits import core_limit, memory_limit
from mimo.recipe.loader import ResolvedRecipe, load_recipe, recipe_profiles
from mimo.recipe.models import Recipe

NODE_GPUS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """One visible CUDA device; memory in GiB."""

    name: str
    memory_gib: float
    free_gib: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """What a recipe asks of a machine; memory in GiB."""

    gpus: tuple[Gpu, ...]
    cores: int
    memory_gib: float


def this_machine() -> Machine:
    """The machine this runs on: the GPUs that CUDA_VISIBLE_DEVICES lets through, cores and memory we may use
    (of a container those it is allowed)."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    cores = float(len(os.sched_getaffinity(0)))
    allowed = min(memory, memory_limit() or memory)
    return Machine(
        gpus=_gpus(), cores=max(1, int(min(cores, core_limit() or cores))), memory_gib=allowed / 2**30
    )


def _gpus() -> tuple[Gpu, ...]:
    program = shutil.which("nvidia-smi")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if program is None or visible == "":
        return ()
    query = [program, "--query-gpu=index,uuid,memory.total,memory.free,name", "--format=csv,noheader,nounits"]
    try:
        listed = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    rows = [[cell.strip() for cell in line.split(",", 4)] for line in listed.splitlines()]
    return tuple(
        Gpu(name=name, memory_gib=_gib(total), free_gib=_gib(free))
        for index, uuid, total, free, name in (row for row in rows if len(row) == 5)
        if visible is None or _is_visible(index, uuid, visible)
    )


def _gib(mib: str) -> float:
    return float(mib) / 1024 if mib.replace(".", "", 1).isdecimal() else 0.0


def _is_visible(index: str, uuid: str, visible: str) -> bool:
    wanted = [name.strip() for name in visible.split(",")]
    return index in wanted or any(name.startswith("GPU-") and uuid.startswith(name) for name in wanted)


def decide_profile(machine: Machine) -> tuple[str, str]:
    """The profile for a machine, and why. Never `cluster`: its machines have to be named."""
    gpus = len(machine.gpus)
    if gpus >= NODE_GPUS:
        return "node", f"{gpus} GPUs"
    if gpus:
        few = "1 GPU" if gpus == 1 else f"{gpus} GPUs, and node needs {NODE_GPUS}"
        return "single", few
    return "laptop", "no GPU"


def load_for_machine(
    path: Path | str, *, profile: str | None, overrides: Sequence[str] = (), machine: Machine | None = None
) -> tuple[ResolvedRecipe, str | None]:
    """The recipe with the named profile, or else with the one this machine decides; then also why.

    A recipe without any profile is taken as it is.

    Raises:
        RecipeError: as `load_recipe`; or the recipe lacks the profile that the machine decides.
    """
    if profile is not None:
        return load_recipe(path, profile=profile, overrides=overrides), None
    known = recipe_profiles(path)
    if not known:
        return load_recipe(path, overrides=overrides), "the recipe has no profiles"
    decided, reason = decide_profile(machine or this_machine())
    if decided not in known:
        raise RecipeError(
            f"{path}: has no profile {decided!r}, which this machine would take ({reason})",
            hint=f"name one with --profile: {', '.join(known)}",
        )
    return load_recipe(path, profile=decided, overrides=overrides), reason


def check_machine(recipe: Recipe, profile: str | None, machine: Machine | None = None) -> None:
    """Nothing, if this machine can run the recipe under that profile.

    Raises:
        MachineLacks: GPUs, named machines of a cluster, the policy's package or a Docker daemon: all that is
            missing is named.
    """
    lacks = machine_lacks(recipe, profile, machine or this_machine())
    if lacks:
        where = f"the profile {profile!r}" if profile else "this recipe"
        hint = "without a GPU, --profile laptop or --profile smoke runs; `mimo doctor` says what is here"
        if lacks == _boxes_lack(recipe):
            hint = "sandbox.backend: local needs no daemon; `mimo doctor` says what is here"
        raise MachineLacks(f"this machine cannot run {where}: {'; '.join(lacks)}", hint=hint)


def machine_lacks(recipe: Recipe, profile: str | None, machine: Machine) -> list[str]:
    """Everything a machine lacks for a recipe, one text each; empty = it can run."""
    sampler, trainer = recipe.runtime.sampler, recipe.runtime.trainer
    lacks = []
    gpus = len(machine.gpus)
    sampler_gpus = sampler.tensor_parallel * sampler.data_parallel
    if sampler.device == "cuda" and not sampler.urls and gpus < sampler_gpus:
        lacks.append(f"the sampler needs {_count(sampler_gpus)}, there {_are(gpus)}")
    if trainer.device == "cuda" and trainer.hostfile is None and gpus < trainer.num_processes:
        lacks.append(f"the trainer needs {_count(trainer.num_processes)}, there {_are(gpus)}")
    if recipe.runtime.teachers.device == "cuda" and "mopd2" in recipe.stages and not gpus:
        lacks.append("runtime.teachers.device is cuda and there is no GPU")
    if profile == "cluster":
        if trainer.hostfile is None and trainer.launcher != "slurm":
            lacks.append("a cluster needs runtime.trainer.hostfile or launcher: slurm")
        if not sampler.urls:
            lacks.append("a cluster needs its servers in runtime.sampler.urls")
    lacks += _boxes_lack(recipe)
    module = recipe.policy.source.removeprefix("package:")
    if module != recipe.policy.source and importlib.util.find_spec(module.partition(".")[0]) is None:
        lacks.append(f"the policy's package {module} is not installed")
    return lacks


def _boxes_lack(recipe: Recipe) -> list[str]:
    """What keeps boxes of the recipe's Docker daemons from being opened; the local back end is seen by its
    first box."""
    if recipe.sandbox.backend != "docker":
        return []
    from sandbox.docker_host import require_hosts  # here: it loads an HTTP client
    from sandbox.errors import SandboxUnavailable

    try:
        require_hosts(recipe.runtime.sandbox.hosts, recipe.runtime.sandbox.runtime)
    except SandboxUnavailable as error:
        return [f"sandbox.backend is docker and {error} ({error.hint})"]
    return []


def _count(gpus: int) -> str:
    return "1 GPU" if gpus == 1 else f"{gpus} GPUs"


def _are(gpus: int) -> str:
    return "is 1" if gpus == 1 else f"are {gpus or 'none'}"
