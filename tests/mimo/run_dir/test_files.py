"""Durable writes: whole or not at all, torn lines left out, a full disk said clearly."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from safetensors import SafetensorError

from mimo.errors import MachineLacks
from mimo.run_dir import files


def test_write_replaces_and_leaves_no_temp(tmp_path: Path) -> None:
    target = tmp_path / "state.json"
    files.write_json(target, {"a": 1})
    files.write_json(target, {"a": 2})
    assert files.read_json(target) == {"a": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_failed_write_keeps_the_old_content(tmp_path: Path) -> None:
    target = tmp_path / "state.json"
    files.write_json(target, {"a": 1})
    with pytest.raises(TypeError):
        files.write_json(target, {"a": object()})
    assert files.read_json(target) == {"a": 1}
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff"])
def test_a_torn_or_foreign_file_reads_as_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    assert files.read_json(path) is None
    assert files.read_json(tmp_path / "absent") is None


def test_lines_append_and_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    files.append_lines(path, [{"step": 1}, {"step": 2}])
    files.append_lines(path, [])
    with open(path, "ab") as file:
        file.write(b'{"step": 3')
    assert files.read_lines(path) == [{"step": 1}, {"step": 2}]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_is_a_clear_error(tmp_path: Path, code: int) -> None:
    with pytest.raises(MachineLacks, match="no space left") as caught, files.disk_full_is_clear(tmp_path):
        raise OSError(code, os.strerror(code))
    assert caught.value.exit_code == 69
    assert "mimo gc" in (caught.value.hint or "")


def test_a_really_full_disk_loses_nothing(tmp_path: Path) -> None:
    target = Path("/dev/full")
    if not target.exists():
        pytest.fail("Linux has /dev/full")
    with pytest.raises(MachineLacks):
        files.append_lines(target, [{"x": "y" * 100_000}], durable=False)


def test_other_errors_pass(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), files.disk_full_is_clear(tmp_path):
        raise PermissionError(errno.EACCES, "no")


def test_a_full_disk_met_by_safetensors_is_the_same_error(tmp_path: Path) -> None:
    """Its error's text as it is on a full disk (a test cannot fill one without mounting)."""
    full = SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
    with pytest.raises(MachineLacks, match="no space left"), files.disk_full_is_clear(tmp_path):
        raise full
    other = SafetensorError("Error while serializing: I/O error: Permission denied (os error 13)")
    with pytest.raises(SafetensorError), files.disk_full_is_clear(tmp_path):
        raise other
