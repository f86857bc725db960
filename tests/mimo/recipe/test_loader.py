"""Files to recipes: YAML 1.2, extends, profiles, overrides, and the exact words of every refusal."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mimo.errors import RecipeError
from mimo.recipe.loader import load_recipe, recipe_profiles
from mimo.recipe.yaml_tree import dump_yaml, parse_yaml

Write = Callable[[str, str], Path]

SMALL = "schema: 1\nextends: pro\nname: small\n"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a file into the current folder; messages then show its bare name."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, text: str) -> Path:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write_file


def refusal(path: Path | str, **how: object) -> list[str]:
    """The lines of the error, without the count at its top."""
    with pytest.raises(RecipeError) as caught:
        load_recipe(path, **how)  # type: ignore[arg-type]
    assert caught.value.exit_code == 2
    lines = [line.strip() for line in caught.value.message.splitlines()]
    return lines[1:] if len(lines) > 1 else lines


def test_every_problem_at_once_each_at_its_place(write: Write) -> None:
    write(
        "pro2.yaml",
        SMALL
        + """nam: x
rl_mixed:
  group_szie: 4
  group_size: 1
  optimizer: {name: muonn, learning_rate: 1e-6}
  steps: "3"
  shares: {coding: 0.5}
group_size: 3
policy: {source: null, dtype: no}
tasks:
  sources:
    - {kind: generated, domain: coding, seed: 1, train: 0, heldout: -1, foo: 3}
    - {kind: pypi, domain: coding}
runtime: {tracking_uri: "http://u:secret@h", sampler: {port: "${env:PORT}"}}
sampling: {top_p: "${oc.env:X}", turn_tokens: [1]}
cold_start: {steps: 3, steps: 4}
profiles: {mine: {policy: {keep_layers: 0}}}
""",
    )
    assert refusal("pro2.yaml", profile="mine", overrides=["rl_mixed.maskk.low=3", "seed", "seed.x=1"]) == [
        "--set rl_mixed.maskk.low=3: rl_mixed.maskk: unknown key (did you mean 'mask'?)",
        "--set seed: write KEY=VALUE, for example rl_mixed.steps=4",
        "--set seed.x=1: seed.x: 20261 holds no keys",
        "pro2.yaml:4:1: nam: unknown key (did you mean 'name'?)",
        "pro2.yaml:6:3: rl_mixed.group_szie: unknown key (did you mean 'group_size'?)",
        "pro2.yaml:7:3: rl_mixed.group_size: should be greater than or equal to 2, got 1",
        "pro2.yaml:8:15: rl_mixed.optimizer.name: should be 'muon' or 'adamw', got 'muonn'"
        " (did you mean 'muon'?)",
        "pro2.yaml:9:3: rl_mixed.steps: should be a valid integer, got '3'",
        "pro2.yaml:10:3: rl_mixed.shares: shares sum to 0.82, not 1",
        "pro2.yaml:11:1: group_size: unknown key (did you mean 'rl_mixed.group_size'?)",
        "pro2.yaml:12:10: policy.source: must be set: should be a valid string, got null",
        "pro2.yaml:12:24: policy.dtype: should be 'bfloat16' or 'float32', got 'no'",
        "pro2.yaml:15:60: tasks.sources.0.heldout: should be greater than or equal to 0, got -1",
        "pro2.yaml:15:73: tasks.sources.0.foo: unknown key",
        "pro2.yaml:16:7: tasks.sources.1: kind should be one of 'generated', 'pypi-pair', 'folder',"
        " got 'pypi' (did you mean 'pypi-pair'?)",
        "pro2.yaml:17:11: runtime.tracking_uri: a password in plain text; write ${env:NAME} for it",
        "pro2.yaml:17:56: runtime.sampler.port: a reference can stand only where text can:"
        " should be a valid integer",
        "pro2.yaml:18:12: sampling.top_p: '${oc.env:X}' is no reference; only ${env:NAME} and"
        " ${env:NAME:-default} are",
        "pro2.yaml:18:12: sampling.top_p: a reference can stand only where text can:"
        " should be a valid number",
        "pro2.yaml:18:34: sampling.turn_tokens: should be a valid integer, got a list of 1",
        "pro2.yaml:19:24: cold_start.steps: duplicate key (first on line 19)",
        "pro2.yaml:20:28: policy.keep_layers: should be greater than or equal to 1, got 0",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "a: [1\nb: 2\n",
            "r.yaml:2:2: YAML: expected ',' or ']', but got ':'",
        ),
        ("a: 1\n\tb: 2\n", "r.yaml:2:1: YAML: "),
        ("--- {}\n--- {}\n", "r.yaml:2:1: YAML: but found another document"),
        ("", "r.yaml:1:1: is empty"),
        ("- 1\n", "r.yaml:1:1: a recipe is a mapping of keys"),
        ("extends: [base, 3]\n", "r.yaml:1:1: extends: is a file name or a list of file names"),
        ("extends: bse\n", "r.yaml:1:1: extends: 'bse' is no file beside r.yaml and no shipped recipe"),
        ("extends: r.yaml\n", "r.yaml:1:1: extends: cycle: r.yaml -> r.yaml"),
        (
            "extends: pro\nname: !!python/name:os.system x\n",
            "name: tag 'tag:yaml.org,2002:python/name:os.system'",
        ),
        ("extends: pro\na: &a {b: *a}\n", "r.yaml:2:8: a.b: an alias that contains itself"),
        ("extends: pro\n<<: {a: 1}\n", "r.yaml:2:1: <<: merge keys are not read; use extends"),
        ("extends: pro\n? [a]\n: 1\n", "r.yaml:2:3: a key must be plain text"),
        ("extends: pro\nprofiles: [a]\n", "r.yaml:2:1: profiles: is a mapping of profile names"),
        ("extends: pro\nprofiles: {a: 3}\n", "r.yaml:2:12: profiles.a: is a mapping of recipe keys"),
        ("extends: pro\nprofiles: {a: {extends: b}}\n", "r.yaml:2:16: profiles.a.extends: stands at the top"),
        ("extends: pro\nschema: 2\n", "r.yaml:2:1: schema: should be 1, got 2"),
        ("schema: 1\nextends: base\n", "policy.source: must be set"),
        ("extends: pro\ntasks: {sources: []}\n", "r.yaml:2:9: tasks.sources: should have at least one item"),
        ("extends: pro\nsampling: {top_p: '${policy.source}'}\n", "'${policy.source}' is no reference"),
    ],
)
def test_refusals(write: Write, text: str, said: str) -> None:
    path = write("r.yaml", text)
    lines = refusal(path)
    assert any(said in line for line in lines), lines


def test_a_missing_required_key_points_at_its_mapping(write: Write) -> None:
    write("r.yaml", "schema: 1\nname: alone\nvariant: x\npolicy:\n  source: hf:a/b\n")
    lines = refusal("r.yaml")
    told = "required and nowhere set (`extends: base` sets every key of the method)"
    assert f"r.yaml:1:1: rl_mixed: {told}" in lines
    assert f"r.yaml:4:1: policy.dtype: {told}" in lines


def test_no_such_recipe_names_the_shipped_ones(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe("fash")
    assert caught.value.message == "fash: no such recipe (did you mean 'flash'?)"
    assert caught.value.hint == "name a YAML file, or one of base, domains, flash, pro"
    with pytest.raises(RecipeError, match="is a folder, not a recipe"):
        load_recipe(tmp_path)


def test_an_unknown_profile_lists_the_known_ones() -> None:
    assert refusal("pro", profile="latpop") == [
        "--profile latpop: 'latpop' is unknown; known: cluster, node, single, laptop, smoke"
        " (did you mean 'laptop'?)"
    ]


def test_not_utf8_and_alias_bombs_are_refused(tmp_path: Path) -> None:
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"name: \xff\xfe\n")
    assert refusal(binary) == [f"{binary}: is not UTF-8 text"]
    bomb = tmp_path / "bomb.yaml"
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    bomb.write_text("\n".join(rows))
    assert refusal(bomb) == [f"{bomb}:1:1: too deep, or more than 100000 values"]
    deep = tmp_path / "deep.yaml"
    deep.write_text("a: " + "[" * 5000 + "]" * 5000)
    assert "too deep" in refusal(deep)[0]


def test_cycles_over_several_files(write: Write) -> None:
    write("a.yaml", "extends: sub/b.yaml\n")
    write("sub/b.yaml", "extends: [../a.yaml]\n")
    assert refusal("a.yaml") == ["sub/b.yaml:1:11: extends: cycle: a.yaml -> b.yaml -> a.yaml"]


def test_yaml_12_scalars(write: Write) -> None:
    write("r.yaml", SMALL + "rl_mixed: {optimizer: {learning_rate: 1e-6}}\ntracking: {experiment: no}\n")
    model = load_recipe("r.yaml").model
    assert model.rl_mixed.optimizer.learning_rate == 1e-6
    assert model.tracking.experiment == "no"


def test_merging_and_origins(write: Write) -> None:
    write(
        "parent.yaml",
        "extends: pro\nharness: {names: [a, b]}\nprofiles: {p: {seed: 5, harness: {max_turns: 7}}}\n",
    )
    write("sub/other.yaml", "canary: {tokens: 9}\n")
    write(
        "child.yaml",
        "schema: 1\nextends: [parent.yaml, sub/other.yaml]\nname: child\nharness: {names: [c]}\nseed: 4\n"
        "profiles: {p: {harness: {max_turns: 8}}}\n",
    )
    plain = load_recipe("child.yaml")
    assert plain.model.harness.names == ("c",)
    assert (plain.model.seed, plain.model.canary.tokens) == (4, 9)
    found = load_recipe("child.yaml", profile="p", overrides=["rl_mixed.steps=2", "tasks.sources.1.train=3"])
    assert (found.model.seed, found.model.harness.max_turns) == (5, 8)
    assert found.model.tasks.sources[1].kind == "generated"
    assert found.model.tasks.sources[1].train == 3
    where = {key: str(found.origins[key]) for key in ("seed", "harness.max_turns", "harness.names", "name")}
    assert where == {
        "seed": "parent.yaml:3:16",
        "harness.max_turns": "child.yaml:6:26",
        "harness.names": "child.yaml:4:11",
        "name": "child.yaml:3:1",
    }
    assert str(found.origins["canary.tokens"]) == "sub/other.yaml:1:10"
    assert str(found.origins["rl_mixed.steps"]) == "--set rl_mixed.steps=2"
    assert str(found.origins["tasks.sources.1.train"]) == "--set tasks.sources.1.train=3"
    assert re.search(r"recipes/base\.yaml:\d+:3$", str(found.origins["rl_mixed.group_size"]))
    assert [path.name for path in found.files] == [
        "base.yaml",
        "pro.yaml",
        "parent.yaml",
        "other.yaml",
        "child.yaml",
    ]
    assert found.profiles[-1] == "p"
    assert recipe_profiles("child.yaml") == found.profiles


def test_paths_are_relative_to_the_file_that_names_them(write: Write) -> None:
    source = "{kind: folder, domain: coding, path: tasks, split: train}"
    write(
        "sub/parent.yaml", f"extends: pro\npolicy: {{source: 'path:model'}}\ntasks: {{sources: [{source}]}}\n"
    )
    write(
        "r.yaml", SMALL.replace("pro", "sub/parent.yaml") + "cold_start: {corrections: '${env:X}/c.jsonl'}\n"
    )
    here = Path.cwd()
    model = load_recipe("r.yaml", overrides=["runtime.trainer.hostfile=hosts"]).model
    assert model.policy.source == f"path:{here}/sub/model"
    assert model.tasks.sources[0].kind == "folder"
    assert model.tasks.sources[0].path == f"{here}/sub/tasks"
    assert model.runtime.trainer.hostfile == f"{here}/hosts"
    assert model.cold_start is not None
    assert model.cold_start.corrections == "${env:X}/c.jsonl"


def test_null_unsets_a_mapping_and_a_mapping_replaces_null(write: Write) -> None:
    write("r.yaml", SMALL + "cold_start: null\nrl_mixed: {entropy: {low: 0.1, high: 0.5, step: 0.1}}\n")
    model = load_recipe("r.yaml").model
    assert model.cold_start is None
    assert model.rl_mixed.entropy is not None
    back = load_recipe("r.yaml", overrides=["rl_mixed.entropy=null"]).model
    assert back.rl_mixed.entropy is None


@pytest.mark.parametrize("text", ["seed=[", "rl_mixed.steps={a", "no_such_key=[1"])
def test_a_value_that_is_no_yaml_is_one_problem(text: str) -> None:
    (only,) = refusal("pro", profile="smoke", overrides=[text])
    assert only.startswith(f"--set {text}: YAML: ")


def test_overrides_are_yaml_and_the_last_one_wins() -> None:
    texts = [
        "seed=1",
        "seed=2",
        "harness.names=[x, y]",
        "rl_mixed.optimizer.learning_rate=2e-6",
        "tracking.experiment=a=b",
    ]
    model = load_recipe("pro", overrides=texts).model
    assert model.seed == 2
    assert model.harness.names == ("x", "y")
    assert model.rl_mixed.optimizer.learning_rate == 2e-6
    assert model.tracking.experiment == "a=b"


def test_a_password_on_the_command_line_is_refused_and_not_repeated() -> None:
    [line] = refusal("pro", overrides=["runtime.tracking_uri=http://me:hunter2@host"])
    assert "hunter2" not in line
    assert "a password in plain text" in line


@pytest.mark.parametrize("recipe", ["pro", "flash"])
def test_the_resolved_file_is_the_same_recipe(recipe: str, tmp_path: Path) -> None:
    for profile in recipe_profiles(recipe):
        resolved = load_recipe(recipe, profile=profile, overrides=["tracking.experiment='1e-6'"])
        copy = tmp_path / f"{profile}.yaml"
        copy.write_text(resolved.resolved_yaml())
        assert load_recipe(copy).model == resolved.model


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
trees = st.recursive(
    scalars, lambda below: st.lists(below) | st.dictionaries(st.text(), below), max_leaves=20
)


@settings(deadline=None)
@example({"\x85": "\u2028"})
@given(trees)
def test_what_is_written_is_read_back(data: object) -> None:
    value, problems = parse_yaml(dump_yaml(data), "x")  # type: ignore[arg-type]
    if not any("<<" in problem.key for problem in problems):
        assert (value.plain(), problems) == (data, [])
