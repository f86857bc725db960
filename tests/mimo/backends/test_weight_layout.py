"""A folder that would half-fill an engine is refused, and every problem is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from mimo.backends.weight_layout import Tensor, check_layout, tensor_digests, tensor_layout
from mimo.errors import EngineFailed
from tests.mimo.backends.conftest import rewrite, set_config

Change = Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]
NORM = "model.norm.weight"


@pytest.fixture
def folder(make_policy: Callable[[int], Path], tmp_path: Path) -> Path:
    return shutil.copytree(make_policy(1), tmp_path / "new")


def test_the_layout_is_what_was_saved(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(2, 3)}, tmp_path / "model-1.safetensors", metadata={"format": "pt"})
    save_file({"b": torch.zeros(4, dtype=torch.bfloat16)}, tmp_path / "model-2.safetensors")
    assert tensor_layout(tmp_path) == {"a": Tensor("F32", (2, 3)), "b": Tensor("BF16", (4,))}


def test_a_fitting_folder_passes(make_policy: Callable[[int], Path], folder: Path) -> None:
    check_layout(folder, tensor_layout(make_policy(0)))


def without(tensors: dict[str, torch.Tensor], name: str) -> dict[str, torch.Tensor]:
    return {key: value for key, value in tensors.items() if key != name}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda tensors: without(tensors, NORM), f"{NORM}: missing"),
        (lambda tensors: tensors | {"model.more": torch.zeros(1)}, r"model\.more: not in the served model"),
        (lambda tensors: tensors | {NORM: torch.zeros(64)}, r"F32\[64\], expected F32\[128\]"),
        (lambda tensors: tensors | {NORM: torch.zeros(128).bfloat16()}, r"BF16\[128\], expected F32\[128\]"),
        (
            lambda tensors: without(tensors, NORM) | {"model.norm2.weight": tensors[NORM]},
            "norm2.*not in|norm.*miss",
        ),
    ],
)
def test_what_does_not_fit_is_named(
    make_policy: Callable[[int], Path], folder: Path, change: Change, named: str
) -> None:
    rewrite(folder, change)
    with pytest.raises(EngineFailed, match=named) as failure:
        check_layout(folder, tensor_layout(make_policy(0)))
    assert "not told anything" in str(failure.value.hint)


def test_many_problems_are_counted(make_policy: Callable[[int], Path], folder: Path) -> None:
    rewrite(folder, lambda tensors: {NORM: tensors[NORM]})
    expected = len(tensor_layout(make_policy(0)))
    with pytest.raises(EngineFailed, match=rf"1 tensors of {expected}.*and {expected - 1 - 5} more"):
        check_layout(folder, tensor_layout(make_policy(0)))


def test_tied_embeddings_are_refused(make_policy: Callable[[int], Path], folder: Path) -> None:
    set_config(folder, tie_word_embeddings=True)
    with pytest.raises(EngineFailed, match="tied") as failure:
        check_layout(folder, tensor_layout(make_policy(0)))
    assert "lm_head" in str(failure.value.hint)


@pytest.mark.parametrize("keep", [0, 5, 200, -1])
def test_a_cut_file_is_refused(folder: Path, keep: int) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(EngineFailed, match="not a whole safetensors file"):
        tensor_layout(folder)


def test_no_file_and_a_tensor_twice(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineFailed, match=r"no \*\.safetensors"):
        tensor_layout(tmp_path)
    shutil.copyfile(folder / "model.safetensors", folder / "more.safetensors")
    with pytest.raises(EngineFailed, match="which another file"):
        tensor_layout(folder)


def test_digests_follow_the_content(folder: Path) -> None:
    before = tensor_digests(folder)
    rewrite(folder, lambda tensors: tensors | {NORM: tensors[NORM] + 1})
    after = tensor_digests(folder)
    assert [name for name in before if before[name] != after[name]] == [NORM]
