"""The device asked for, or the one that is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from mimo.backends.devices import pick_device


@pytest.mark.parametrize(("listed", "expected"), [("GPU 0: NVIDIA H200", "cuda"), ("", "cpu"), (None, "cpu")])
def test_auto_is_what_the_driver_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: str | None, expected: str
) -> None:
    if listed is not None:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\necho '{listed}'\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pick_device("auto") == expected
    assert pick_device("cuda") == "cuda"
    assert pick_device("cpu") == "cpu"


def test_a_driver_that_fails_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU 0'; exit 9\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pick_device("auto") == "cpu"
