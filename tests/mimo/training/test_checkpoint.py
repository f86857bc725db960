"""Checkpoints: whole or not there; damage is passed over loudly; retention never eats the last good one."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from mimo.errors import EngineFailed, MachineLacks
from mimo.run_dir import files
from mimo.run_dir.files import SMALL_FILE_BYTES, check_files, describe, file_sha256, write_json
from mimo.training.checkpoint import (
    checkpoint_folders,
    keep_newest,
    newest_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from mimo.training.state_files import STATE, check_state
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
    found = newest_checkpoint(root, contents="all", on_damaged=lambda folder, problem: pytest.fail(problem))
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
    assert read_checkpoint(folder, contents="all").step == 4


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
    found = newest_checkpoint(
        root, contents="all", on_damaged=lambda folder, problem: told.append((folder.name, problem))
    )
    assert found is not None
    assert found[0].name == "step-000002"
    assert [folder for folder, _ in told] == ["step-000003"]


class LargeState(FolderTrainer):
    """Saves a file above the limit of quick checks; sparse, so that it takes no disk."""

    def save(self, trainer_dir: Path) -> None:
        super().save(trainer_dir)
        with open(trainer_dir / "optimizer.safetensors", "wb") as file:
            file.truncate(SMALL_FILE_BYTES + 2**20)
        write_json(
            trainer_dir / STATE, {"files": [{**asdict(file)} for file in describe(trainer_dir)], "steps": 1}
        )


def flip_the_middle(path: Path) -> None:
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def test_one_bit_in_the_middle_of_a_large_file_is_found(tmp_path: Path) -> None:
    for step in (1, 2):
        folder = write_checkpoint(tmp_path, LargeState(random_weights()), record(step))
    check_state(folder / "trainer", quickly=False)
    flip_the_middle(folder / "trainer" / "optimizer.safetensors")
    told: list[str] = []
    found = newest_checkpoint(tmp_path, contents="all", on_damaged=lambda _, problem: told.append(problem))
    assert found is not None
    assert found[0].name == "step-000001"
    assert told == ["trainer/optimizer.safetensors has another content than was written"]
    with pytest.raises(EngineFailed, match="another content than was written"):
        check_state(folder / "trainer", quickly=False)
    # whoever wants the policy only, and retention, leave it alone
    assert read_checkpoint(folder, contents="model").step == 2
    check_state(folder / "trainer", quickly=True)
    assert keep_newest(tmp_path, 2) == []
    flip_the_middle(folder / "model" / "model.safetensors")
    with pytest.raises(ValueError, match=r"model/model\.safetensors has another content"):
        read_checkpoint(folder, contents="model")


def test_what_the_trainer_digested_is_not_read_again(tmp_path: Path) -> None:
    class Wrong(LargeState):
        def save(self, trainer_dir: Path) -> None:
            super().save(trainer_dir)
            text = (trainer_dir / STATE).read_text()
            digest = file_sha256(trainer_dir / "optimizer.safetensors")
            (trainer_dir / STATE).write_text(text.replace(digest, "0" * 64))

    folder = write_checkpoint(tmp_path, Wrong(random_weights()), record(1))
    with pytest.raises(ValueError, match=r"trainer/optimizer\.safetensors has another content"):
        read_checkpoint(folder, contents="all")


def test_above_the_limit_large_files_are_sampled_and_it_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "WHOLE_FOLDER_BYTES", SMALL_FILE_BYTES)
    with open(tmp_path / "large", "wb") as file:
        file.truncate(SMALL_FILE_BYTES + 1)
    (tmp_path / "small").write_bytes(b"x")
    large, small = facts = describe(tmp_path)
    assert (large.whole, small.whole) == (False, True)
    with open(tmp_path / "large", "r+b") as file:  # the end of the file is in the last chunk
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    with pytest.raises(ValueError, match="large has another content"):
        check_files(tmp_path, facts, read=lambda _: True)


def test_a_record_of_an_earlier_version_is_read(root: Path) -> None:
    """It had no digest of large files, and no `whole`."""
    place = root / "step-000003" / "checkpoint.json"
    data = json.loads(place.read_text())
    data["files"] = [{"name": row["name"], "size": row["size"], "sha256": None} for row in data["files"]]
    place.write_text(json.dumps(data))
    assert read_checkpoint(place.parent, contents="all").step == 3


def test_nothing_whole_is_none(root: Path, tmp_path: Path) -> None:
    told: list[Path] = []
    for folder in checkpoint_folders(root):
        (folder / "checkpoint.json").unlink()
    assert newest_checkpoint(root, contents="all", on_damaged=lambda folder, _: told.append(folder)) is None
    assert len(told) == 3
    assert newest_checkpoint(tmp_path / "none", contents="all", on_damaged=lambda *_: None) is None


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
    found = newest_checkpoint(root, contents="all", on_damaged=lambda folder, problem: pytest.fail(problem))
    assert found is not None
    assert found[0].name == "step-000003"
    write_checkpoint(root, FolderTrainer(random_weights(5)), record(4))
    assert read_checkpoint(root / "step-000004", contents="all").step == 4


def test_writing_a_step_again_replaces_it(root: Path) -> None:
    write_checkpoint(root, FolderTrainer(random_weights(5)), record(3))
    assert read_checkpoint(root / "step-000003", contents="all").step == 3
    assert len(checkpoint_folders(root)) == 3
