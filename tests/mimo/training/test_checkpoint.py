"""Checkpoints: whole or not there; damage is passed over loudly; retention never eats the last good one."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mimo.errors import MachineLacks
from mimo.training.checkpoint import (
    checkpoint_folders,
    keep_newest,
    newest_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from mimo.types import Checkpoint
from tests.mimo.training.folder_model import FolderTrainer, random_weights


def record(step: int) -> Checkpoint:
    return Checkpoint(
        kind="rl-mixed",
        step=step,
        parent=None,
        source="init:tiny",
        tokenizer_sha256="",
        files=(),
        rng={"seed": 1},
        data_cursor={"next": step * 4},
        queue=("g1",),
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Checkpoints of steps 1 to 3."""
    trainer = FolderTrainer(random_weights())
    for step in (1, 2, 3):
        write_checkpoint(tmp_path / "checkpoints", trainer, record(step))
        trainer.train_step(tmp_path, None, learning_rate=0.1)  # type: ignore[arg-type]
    return tmp_path / "checkpoints"


def test_what_is_written_comes_back(root: Path) -> None:
    found = newest_checkpoint(root, on_damaged=lambda folder, problem: pytest.fail(problem))
    assert found is not None
    folder, read = found
    assert folder.name == "step-000003"
    assert (read.step, read.data_cursor, read.queue) == (3, {"next": 12}, ("g1",))
    assert {file.name for file in read.files} == {
        "model/config.json",
        "model/manifest.json",
        "model/model.safetensors",
        "model/tokenizer.json",
        "trainer/weights.safetensors",
    }
    assert all(file.sha256 for file in read.files)
    assert len(read.tokenizer_sha256) == 64
    assert not list(root.glob(".*"))


def test_a_published_model_is_linked(root: Path, tmp_path: Path) -> None:
    trainer = FolderTrainer(random_weights())
    trainer.export(tmp_path / "published")
    folder = write_checkpoint(root, trainer, record(4), published=tmp_path / "published")
    kept = folder / "model" / "model.safetensors"
    assert kept.samefile(tmp_path / "published" / "model.safetensors")
    assert read_checkpoint(folder).step == 4


FILES = (
    "checkpoint.json",
    "model/config.json",
    "model/manifest.json",
    "model/model.safetensors",
    "model/tokenizer.json",
    "trainer/weights.safetensors",
)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["delete", "truncate", "flip"])
def test_any_damage_falls_back_loudly(root: Path, name: str, how: str) -> None:
    path = root / "step-000003" / name
    data = path.read_bytes()
    if how == "delete":
        path.unlink()
    elif how == "truncate":
        path.write_bytes(data[: len(data) // 2])
    else:
        path.write_bytes(bytes([data[0] ^ 0x40]) + data[1:])
    told: list[tuple[str, str]] = []
    found = newest_checkpoint(root, on_damaged=lambda folder, problem: told.append((folder.name, problem)))
    assert found is not None
    assert found[0].name == "step-000002"
    assert [folder for folder, _ in told] == ["step-000003"]


def test_nothing_whole_is_none(root: Path, tmp_path: Path) -> None:
    told: list[Path] = []
    for folder in checkpoint_folders(root):
        (folder / "checkpoint.json").unlink()
    assert newest_checkpoint(root, on_damaged=lambda folder, _: told.append(folder)) is None
    assert len(told) == 3
    assert newest_checkpoint(tmp_path / "none", on_damaged=lambda *_: None) is None


def test_retention_counts_whole_ones_only(root: Path) -> None:
    (root / "step-000003" / "checkpoint.json").unlink()
    (root / ".step-000009.123.part").mkdir()
    assert [folder.name for folder in keep_newest(root, 1)] == ["step-000001"]
    assert [folder.name for folder in checkpoint_folders(root)] == ["step-000002", "step-000003"]
    assert not list(root.glob(".*"))
    assert keep_newest(root, 1) == []


class FullDisk(FolderTrainer):
    """Its save meets a full disk half-way."""

    def save(self, trainer_dir: Path) -> None:
        super().save(trainer_dir)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(trainer_dir))


def test_a_full_disk_keeps_the_checkpoints_before_and_leaves_nothing_half_written(root: Path) -> None:
    (root / ".step-000004.123.part").mkdir()
    with pytest.raises(MachineLacks, match="no space left") as full:
        write_checkpoint(root, FullDisk(random_weights(5)), record(4))
    assert full.value.exit_code == 69
    assert not list(root.glob(".*"))
    found = newest_checkpoint(root, on_damaged=lambda folder, problem: pytest.fail(problem))
    assert found is not None
    assert found[0].name == "step-000003"
    write_checkpoint(root, FolderTrainer(random_weights(5)), record(4))
    assert read_checkpoint(root / "step-000004").step == 4


def test_writing_a_step_again_replaces_it(root: Path) -> None:
    write_checkpoint(root, FolderTrainer(random_weights(5)), record(3))
    assert read_checkpoint(root / "step-000003").step == 3
    assert len(checkpoint_folders(root)) == 3
