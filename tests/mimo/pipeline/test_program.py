"""The printed command works in the shell it is printed in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mimo.pipeline.program import called_as


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`.venv/bin/mimo`, with no other `mimo` on the path."""
    monkeypatch.setenv("PATH", str(tmp_path / "usr"))
    path = tmp_path / ".venv" / "bin" / "mimo"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_by_its_path_where_the_environment_is_not_active(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert called_as(".venv/bin/mimo") == [".venv/bin/mimo"]
    other = tmp_path / "usr" / "mimo"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    assert called_as(str(script)) == [str(script)]


def test_by_its_name_where_the_shell_finds_it(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(script.parent))
    assert called_as(str(script)) == ["mimo"]


def test_as_a_module(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert called_as("/x/mimo/__main__.py") == [sys.executable, "-m", "mimo"]
    monkeypatch.setenv("PATH", str(script.parent))
    monkeypatch.setattr(sys, "executable", str(script.with_name("python")))
    assert called_as("/x/mimo/__main__.py") == ["mimo"]
