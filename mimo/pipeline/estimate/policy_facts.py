"""The sizes of a policy: from its own config where that is on this machine, else from a small table, else
unknown; counted by one reader of transformers' config keys, so that table and folder cannot differ in kind.

Counted: embeddings and head, attention (grouped queries, other value widths, sliding windows), dense and
expert feed-forward layers. Not counted: norms, biases, routers, vision towers, extra prediction layers
(together under 2 % of the policies in the table).
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import cast

from mimo.backends.policies import layers_kept
from mimo.errors import RecipeError
from mimo.recipe.models import Recipe
from mimo.recipe.sections import Policy
from mimo.types import Json

BUILTIN_VOCABULARY = {"builtin:small-2048": 2048}


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyFacts:
    """A policy's sizes; `known_from` says where they were read. Counts are numbers of values, not bytes."""

    source: str
    known_from: str
    layers: int
    global_layers: int
    """Layers whose attention sees the whole context; the others see `window` tokens."""
    window: int
    hidden: int
    query: int
    """Width of all query heads together."""
    attended: int
    """Width of what one token costs in scores and values: heads x (key width + value width)."""
    kv: int
    """Key and value numbers that one token keeps in one layer."""
    feed_forward: float
    """Width of the feed-forward layers that a token passes, mean over layers (experts: those active)."""
    vocabulary: int
    tied: bool
    body: int
    """Parameters without embeddings and head."""
    active_body: int
    """Of them, those that one token uses."""

    @property
    def embeddings(self) -> int:
        """Parameters of embeddings and head; a tied policy has them once (in training)."""
        return self.vocabulary * self.hidden * (1 if self.tied else 2)

    @property
    def parameters(self) -> int:
        """All parameters that are trained."""
        return self.body + self.embeddings

    @property
    def exported(self) -> int:
        """Parameters in a served folder, whose head is always written."""
        return self.body + 2 * self.vocabulary * self.hidden

    @property
    def active(self) -> int:
        """Parameters a token uses: body and head."""
        return self.active_body + self.vocabulary * self.hidden

    @property
    def copies(self) -> int:
        """Query heads that share one head's keys and values."""
        return max(1, self.attended // self.kv)

    @property
    def sparse(self) -> bool:
        """True for a mixture of experts."""
        return self.active_body < self.body

    def kv_tokens(self, context: float) -> float:
        """Key and value numbers that a dialogue of so many tokens keeps, over all layers."""
        local = self.layers - self.global_layers
        return self.kv * (self.global_layers * context + local * min(context, self.window))

    def attention_flops(self, context: float) -> float:
        """Forward FLOPs of scores and values for one token that sees `context` tokens."""
        local = self.layers - self.global_layers
        return 2.0 * self.attended * (self.global_layers * context + local * min(context, self.window))


def policy_facts(recipe: Recipe) -> PolicyFacts | None:
    """The sizes of the recipe's policy; None where they are not known on this machine.

    Raises:
        RecipeError: `runtime.plan.policy_config` or the policy's own config cannot be read.
    """
    policy, given = recipe.policy, recipe.runtime.plan.policy_config
    if given is not None:
        config, origin = _read(Path(given)), given
    elif policy.init is not None:
        if policy.tokenizer not in BUILTIN_VOCABULARY:
            return None
        config, origin = _random(recipe), "policy.init"
    else:
        found = _found(policy.source)
        if found is None:
            return None
        config, origin = found
    facts = facts_of(config, source=policy.source, known_from=origin)
    return _shortened(facts, policy)


def facts_of(config: Mapping[str, Json], *, source: str, known_from: str) -> PolicyFacts:
    """The facts in a `config.json` of transformers.

    Raises:
        RecipeError: it lacks a size that is needed; the missing keys are named.
    """
    inner = config.get("text_config")
    config = inner if isinstance(inner, dict) else config
    needed = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
    if lacking := [key for key in needed if not isinstance(config.get(key), int)]:
        raise RecipeError(
            f"{known_from}: the sizes of {source} cannot be read, {', '.join(lacking)} missing",
            hint="name a complete config.json in runtime.plan.policy_config",
        )
    hidden, layers, heads, vocabulary = (_int(config, key) for key in needed)
    groups = _int(config, "num_key_value_heads", heads)
    key_width = _int(config, "head_dim", hidden // heads)
    value_width = _int(config, "v_head_dim", key_width)
    query = heads * key_width
    kv = groups * (key_width + value_width)
    attention = hidden * (query + kv + heads * value_width)
    dense, moe = _layer_kinds(config, layers)
    dense_width = _int(config, "intermediate_size", 4 * hidden)
    expert_width = _int(config, "moe_intermediate_size", dense_width)
    experts, used = _experts(config)
    return PolicyFacts(
        source=source,
        known_from=known_from,
        layers=layers,
        global_layers=_global_layers(config, layers),
        window=_int(config, "sliding_window", 0),
        hidden=hidden,
        query=query,
        attended=heads * (key_width + value_width),
        kv=kv,
        feed_forward=(dense * dense_width + moe * used * expert_width) / layers,
        vocabulary=vocabulary,
        tied=bool(config.get("tie_word_embeddings", False)),
        body=layers * attention + 3 * hidden * (dense * dense_width + moe * experts * expert_width),
        active_body=layers * attention + 3 * hidden * (dense * dense_width + moe * used * expert_width),
    )


@cache
def known_policies() -> Mapping[str, Mapping[str, Json]]:
    """The table: source -> {config, from}."""
    path = Path(__file__).with_name("known_policies.json")
    return cast("dict[str, dict[str, Json]]", json.loads(path.read_text(encoding="utf-8"))["policies"])


def _found(source: str) -> tuple[Mapping[str, Json], str] | None:
    """The config of a source and where it was, or None."""
    kind, _, name = source.partition(":")
    local = {"path": _in_folder, "hf": _in_hub_cache, "package": _in_package}[kind](name)
    if local is not None:
        return _read(local), str(local)
    if source in known_policies():
        entry = known_policies()[source]
        return cast("dict[str, Json]", entry["config"]), f"table: {entry['from']}"
    return None


def _in_folder(name: str) -> Path:
    return Path(name).expanduser() / "config.json"


def _in_hub_cache(name: str) -> Path | None:
    if importlib.util.find_spec("huggingface_hub") is None:
        return None
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(name, "config.json")
    return Path(found) if isinstance(found, str) else None


def _in_package(module: str) -> Path | None:
    spec = importlib.util.find_spec(module.partition(".")[0])
    folders = spec.submodule_search_locations if spec is not None else None
    paths = [Path(folder) / "config.json" for folder in folders or ()]
    return next((path for path in paths if path.is_file()), None)


def _read(path: Path) -> Mapping[str, Json]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecipeError(
            f"{path}: the policy's sizes cannot be read: {error}",
            hint="it is to be a transformers config.json",
        ) from error
    if not isinstance(data, dict):
        raise RecipeError(f"{path}: a config.json is a mapping, this is a {type(data).__name__}")
    return data


def _random(recipe: Recipe) -> Mapping[str, Json]:
    sizes = recipe.policy.init
    assert sizes is not None
    return {
        "hidden_size": sizes.hidden_size,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.kv_heads,
        "intermediate_size": sizes.mlp_size,
        "vocab_size": BUILTIN_VOCABULARY[str(recipe.policy.tokenizer)],
    }


def _shortened(facts: PolicyFacts, policy: Policy) -> PolicyFacts:
    """The facts with the layers that the recipe keeps (kinds of layers in the same proportion)."""
    if policy.keep_layers is None and policy.drop_layers is None:
        return facts
    keep = len(layers_kept(facts.layers, policy.keep_layers, policy.drop_layers or ()))
    share = keep / facts.layers
    return replace(
        facts,
        known_from=f"{facts.known_from}, {keep} of {facts.layers} layers",
        layers=keep,
        global_layers=round(facts.global_layers * share),
        body=round(facts.body * share),
        active_body=round(facts.active_body * share),
    )


def _layer_kinds(config: Mapping[str, Json], layers: int) -> tuple[int, int]:
    """Numbers of dense and of expert layers."""
    if _experts(config)[0] == 1:
        return layers, 0
    kinds = config.get("mlp_layer_types")
    if isinstance(kinds, list):
        dense = sum(kind == "dense" for kind in kinds)
        return dense, layers - dense
    dense = _int(config, "first_k_dense_replace", 0)
    return dense, layers - dense


def _experts(config: Mapping[str, Json]) -> tuple[int, int]:
    """Experts of a layer and those a token uses, shared ones in both; (1, 1) for a dense policy."""
    for key in ("n_routed_experts", "num_experts", "num_local_experts"):
        if isinstance(config.get(key), int):
            shared = _int(config, "n_shared_experts", 0)
            return _int(config, key) + shared, _int(config, "num_experts_per_tok", 1) + shared
    return 1, 1


def _global_layers(config: Mapping[str, Json], layers: int) -> int:
    kinds = config.get("layer_types")
    if isinstance(kinds, list):
        return sum(kind != "sliding_attention" for kind in kinds)
    return _int(config, "global_layers", layers)


def _int(config: Mapping[str, Json], key: str, otherwise: int | None = None) -> int:
    value = config.get(key)
    if isinstance(value, int):
        return value
    assert otherwise is not None
    return otherwise
