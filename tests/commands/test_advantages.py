"""`mimo advantages`: the JSON contract, defaults, problems with their paths, the table of a terminal."""

from __future__ import annotations

import json
import math
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from commands.advantages import advantages
from mimo.errors import RecipeError
from mimo.rollouts.advantage_file import read_input
from mimo.rollouts.advantage_report import advantage_report

FIVE = {"passed": [True, True, True, False, False]}
GAR = {**FIVE, "method": "gar", "quality": [1, 0.6, 0.3, 0.5, 0.5]}
KEYS = {
    "reward",
    "advantage",
    "scale",
    "scale_applied",
    "capped",
    "length_reference",
    "length_penalty",
    "passed_after_reset",
    "dropped",
    "reason",
    "fallback",
}


def answer(data: object, *arguments: str) -> Any:
    result = CliRunner().invoke(advantages, ["-", *arguments], input=json.dumps(data))
    assert result.exit_code == 0, (result.output, result.exception)

    def refuse(name: str) -> float:
        raise AssertionError(f"{name} in the answer")

    return json.loads(result.output, parse_constant=refuse)


def problems(text: str) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        read_input(text)
    assert caught.value.exit_code == 2
    return caught.value.message.splitlines()


def test_one_group_in_one_object_out() -> None:
    """Defaults: plain, so A = R - mean (METHOD 4.4: N = 5, k = 3)."""
    got = answer(FIVE)
    assert set(got) == KEYS
    assert got["reward"] == [1, 1, 1, 0, 0]
    assert got["advantage"] == pytest.approx([0.4, 0.4, 0.4, -0.6, -0.6])
    assert (got["scale"], got["scale_applied"], got["capped"]) == (None, None, False)
    assert (got["length_reference"], got["length_penalty"]) == (None, [0] * 5)
    assert got["passed_after_reset"] == FIVE["passed"]
    assert (got["dropped"], got["reason"], got["fallback"]) == (False, None, None)


def test_gar_is_capped_at_1_5_and_recentred_unless_told_otherwise() -> None:
    """METHOD 4.5."""
    capped = answer(GAR)
    assert capped["advantage"] == pytest.approx([0.612, 0.372, 0.192, -0.588, -0.588])
    assert capped["scale"] == pytest.approx(30 / 19)
    assert (capped["scale_applied"], capped["capped"]) == (1.5, True)
    free = answer({**GAR, "cap": None})
    assert free["advantage"] == pytest.approx([0.631579, 0.378947, 0.189474, -0.6, -0.6], abs=5e-7)
    bare = answer({**GAR, "recentre": False})
    assert sum(bare["advantage"]) == pytest.approx(-0.06)


def test_leak_and_invalid() -> None:
    """METHOD 4.5, third row; an invalid rollout leaves the group before any statistic."""
    got = answer({**GAR, "leak": [False, False, True, False, False], "cap": None})
    assert got["advantage"] == pytest.approx([0.75, 0.45, -0.4, -0.4, -0.4])
    assert got["passed_after_reset"] == [True, True, False, False, False]
    more = {key: [*value, value[0]] for key, value in GAR.items() if isinstance(value, list)}
    invalid = answer({**GAR, **more, "invalid": [False] * 5 + [True]})
    assert invalid["advantage"] == pytest.approx([*answer(GAR)["advantage"], 0])
    assert invalid["reward"][5] is None


def test_grs_with_floor_and_length() -> None:
    """METHOD 3.2 and 5.3: R (1 - penalty)."""
    group = {
        "passed": [True, True, False],
        "method": "grs",
        "solution": [0.9, 0.5, 1],
        "behavior": [0.8, 0.5, 1],
    }
    assert answer(group)["reward"] == pytest.approx([0.72, 0.25, 0])
    assert answer({**group, "solution": [0.9, 0, 1], "floor": 0.1})["reward"] == pytest.approx(
        [0.72, 0.05, 0]
    )
    long = answer({**group, "length": [100, 400, 1], "length_penalty": {}})
    assert long["length_reference"] == pytest.approx(190)
    assert long["reward"] == pytest.approx([0.72, 0.25 * 0.8, 0])
    ungraded = answer({**group, "solution": [0.9, None, 1]})
    assert ungraded["advantage"] == pytest.approx([0.36, 0, -0.36])
    assert ungraded["reward"][1] is None


def test_a_partial_length_penalty_takes_the_reference_constants() -> None:
    """METHOD 5.2, reference profile; the general profile spelled out."""
    group = {"passed": [True] * 4 + [False], "length": [100, 120, 150, 250, 400]}
    got = answer({**group, "length_penalty": {"max": 0.2}})
    assert got["length_reference"] == pytest.approx(118)
    assert got["length_penalty"] == pytest.approx([0, 0.000441, 0.028244, 0.2, 0], abs=5e-7)
    assert got["advantage"] == pytest.approx([0.245737, 0.245296, 0.217493, 0.045737, -0.754263], abs=5e-7)
    general = {"max": 0.1, "deadzone": 0.3, "saturation": 1, "exponent": 1.5, "percentile": 50, "gate": 0.5}
    assert answer({**group, "length_penalty": general})["length_penalty"][3] == pytest.approx(
        0.069998, abs=5e-7
    )


def test_below_mean_zero_is_the_default() -> None:
    """METHOD 5.4, N = 16."""
    group = {
        "passed": [True] * 15 + [False],
        "method": "gar",
        "quality": [1, *[0.9] * 9, 0.85, 0.85, 0.625, 0.4, 0.4, 1],
        "length": [*[100] * 10, 110, 120, 150, 180, 400, 100],
        "length_penalty": {},
    }
    assert answer(group)["advantage"][13:] == pytest.approx([-0.01021, -0.01021, -0.920333], abs=5e-6)
    kept = answer({**group, "below_mean": "keep"})["advantage"]
    assert kept[13:] == pytest.approx([-0.053231, -0.110123, -0.910123], abs=5e-7)


@pytest.mark.parametrize("factor", [None, 0, -1, 2, math.nan, math.inf, "missing"])
def test_a_bad_factor_on_a_pass_is_a_fallback(factor: object) -> None:
    group = {**GAR, "quality": [1, factor, 0.3, 1, 1]}
    if factor == "missing":
        del group["quality"]
    got = answer(group)
    assert got["advantage"] == pytest.approx([0.4, 0.4, 0.4, -0.6, -0.6])
    assert got["fallback"] == "a passing rollout has no quality in (0, 1]"
    assert (got["scale"], got["dropped"]) == (None, False)


def test_uniform_low_factors_are_damped_by_the_cap_for_one_pass_too() -> None:
    """The formula holds for one pass and for equal factors: factors are used as given."""
    one = answer({"passed": [True, False, False], "method": "gar", "quality": [0.3, 1, 1]})
    assert (one["scale"], one["scale_applied"]) == (pytest.approx(1 / 0.3), 1.5)
    assert one["advantage"][0] < 2 / 3
    assert answer({**FIVE, "method": "gar", "quality": [0.3] * 5})["advantage"] == pytest.approx(
        [0.312, 0.312, 0.312, -0.468, -0.468]
    )


def test_dropped_groups_keep_their_place_and_exit_0() -> None:
    groups = [{"passed": []}, {"passed": [True, True]}, FIVE, {"passed": [False, False]}]
    got = answer({"groups": groups})
    assert set(got) == {"groups", "token_penalty"}
    assert got["token_penalty"] is None
    assert [one["dropped"] for one in got["groups"]] == [True, True, False, True]
    assert [one["reason"] for one in got["groups"]] == [
        "fewer than two valid rollouts",
        "every rollout passes",
        None,
        "no rollout passes",
    ]
    assert got["groups"][1]["advantage"] == [0, 0]
    assert answer({"groups": []}) == {"groups": [], "token_penalty": None}


def test_token_penalty_over_the_batch() -> None:
    """METHOD 6.3, first row under token-mean: alpha 1.25, beta .75, masses kept."""
    flags = [[1, 1] + [0] * 8] * 2
    group = {"passed": [True, False], "flags": flags}
    got = answer({"groups": [group], "token_penalty": {}, "aggregation": "token-mean"})
    assert set(got["token_penalty"]) == {
        "alpha",
        "beta",
        "pos_before",
        "pos_after",
        "neg_before",
        "neg_after",
    }
    assert got["token_penalty"]["alpha"] == pytest.approx(1.25)
    assert got["token_penalty"]["beta"] == pytest.approx(0.75)
    assert got["token_penalty"]["pos_after"] == pytest.approx(got["token_penalty"]["pos_before"])
    assert got["token_penalty"]["neg_after"] == pytest.approx(got["token_penalty"]["neg_before"])
    assert got["token_penalty"]["pos_before"] == pytest.approx(0.25)
    assert got["token_penalty"]["neg_before"] == pytest.approx(-0.25)
    assert got["groups"][0]["token_advantage"][0] == pytest.approx([0, 0, *[0.625] * 8])
    assert got["groups"][0]["token_advantage"][1] == pytest.approx([-1, -1, *[-0.375] * 8])
    plain = answer(group)
    assert plain["token_advantage"] == [[0.5] * 10, [-0.5] * 10]


def test_aggregation_changes_the_masses() -> None:
    """METHOD 6.3, rows 4 and 5: the weights are those of the loss. Rewards are chosen to centre to A."""
    one = {"passed": [True, False], "reward": [0.6, -0.4], "flags": [[0, 0, 0, 1], [0, 0, 0, 1, 1, 0]]}
    two = {"passed": [True, False], "flags": [[0, 0], [0, 0]]}
    rows = {}
    for kind in ("prompt-mean", "token-mean", "sequence-mean"):
        rows[kind] = answer({"groups": [one, two], "token_penalty": {}, "aggregation": kind})["token_penalty"]
    assert answer({"groups": [one, two], "token_penalty": {}})["token_penalty"] == rows["prompt-mean"]
    # A = (.5, -.5) in both groups, w = (1/20, 1/8): alpha = 1 + .025 / (.075 + .125)
    assert rows["prompt-mean"]["alpha"] == pytest.approx(1.125)
    assert rows["token-mean"]["alpha"] == pytest.approx(1.2)
    assert rows["sequence-mean"]["alpha"] == pytest.approx(1 + (1 / 4) / (3 / 4 + 1))
    assert len({row["beta"] for row in rows.values()}) == 3


def test_skip_if_no_absorber_and_clamps() -> None:
    """METHOD 6.3, rows 2 and 3."""
    seven = {"passed": [True, False], "flags": [[1] * 7 + [0] * 3] * 2}
    clamped = answer({"groups": [seven], "token_penalty": {}})["token_penalty"]
    assert (clamped["alpha"], clamped["beta"]) == (2, 0.5)
    assert clamped["neg_after"] / clamped["neg_before"] == pytest.approx(7.75 / 5)
    ten = {"passed": [True, False], "flags": [[1] * 10] * 2}
    for skip, ratio in ((False, 2), (True, 1)):
        got = answer({"groups": [ten], "token_penalty": {"skip_if_no_absorber": skip}})["token_penalty"]
        assert got["neg_after"] / got["neg_before"] == pytest.approx(ratio)
        assert got["pos_after"] == 0


def test_invalid_and_dropped_rollouts_have_zero_tokens_advantages() -> None:
    group = {"passed": [True, False, True], "invalid": [False, False, True], "flags": [[1], [0, 0], [1, 1]]}
    got = answer({"groups": [group, {"passed": [True], "flags": [[0, 1]]}], "token_penalty": {}})
    assert got["groups"][0]["token_advantage"][2] == [0, 0]
    assert got["groups"][1]["token_advantage"] == [[0, 0]]


def test_problems_are_listed_one_a_line_with_their_paths() -> None:
    text = """{"groups": [
      {"passed": [1, true], "quality": ["a"], "foo": 2, "flags": [[2], [0]], "cap": NaN,
       "length": [1.5, 1e400]},
      {}, {"passed": [], "method": "grs"}, 3,
      {"passed": [true], "length_penalty": {"deadzone": 2, "x": 1}, "method": "gra"}],
      "token_penalty": {"beta_min": 0}, "aggregation": "mean"}"""
    lines = problems(text)
    paths = [line.split(":")[0] for line in lines]
    assert sorted(paths) == sorted(
        [
            "$.groups[0].passed[0]",
            "$.groups[0].quality[0]",
            "$.groups[0].quality",
            "$.groups[0].foo",
            "$.groups[0].flags[0][0]",
            "$.groups[0].cap",
            "$.groups[0].length[0]",
            "$.groups[0].length[1]",
            "$.groups[1].passed",
            "$.groups[2].solution",
            "$.groups[2].behavior",
            "$.groups[3]",
            "$.groups[4].length",
            "$.groups[4].length_penalty.saturation",
            "$.groups[4].length_penalty.x",
            "$.groups[4].method",
            "$.token_penalty.beta_min",
            "$.aggregation",
        ]
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "$: not JSON"),
        ("{", "$: not JSON"),
        ("[1]", "$: got list, expected a group or an object with groups"),
        ("3", "$: got int"),
        ("[" * 100_000, "$: not JSON"),
        ('{"passed": [], "passed": []}', "$: not JSON: key 'passed' appears twice"),
        ('{"passed": [true], "reward": [NaN]}', "$.reward[0]: input should be a finite number"),
        ('{"passed": [true], "reward": [1' + "0" * 400 + "]}", "$.reward[0]: "),
        ('{"passed": "yes"}', "$.passed: "),
        ('{"passed": [true], "solution": [1.5]}', "$.solution[0]: "),
        ('{"passed": [true], "leak": [null]}', "$.leak[0]: "),
        ('{"passed": [], "\\u001b[31m": 1}', '$["\\u001b[31m"]: unknown key'),
        ('{"groups": 3}', "$.groups: "),
    ],
)
def test_each_problem(text: str, line: str) -> None:
    found = problems(text)
    assert len(found) == 1
    assert found[0].startswith(line)
    assert "\x1b" not in found[0]


def test_exit_code_and_streams(tmp_path: Path) -> None:
    """Standard input, a file, a missing file, bad input: what a script sees."""

    def run(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "mimo", "advantages", *arguments]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False)

    file = tmp_path / "group.json"
    file.write_text(json.dumps(FIVE))
    good = run(str(file))
    assert (good.returncode, good.stderr) == (0, "")
    assert json.loads(good.stdout)["advantage"][0] == pytest.approx(0.4)
    bad = run("-", text='{"passed": [1, 2]}')
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.splitlines()[0].startswith("error: $.passed[0]: ")
    assert bad.stderr.splitlines()[1].startswith("$.passed[1]: ")
    missing = run(str(tmp_path / "none.json"))
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "none.json: No such file" in missing.stderr


def in_terminal(*arguments: str) -> str:
    """What the command prints when its standard output is a terminal."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "mimo", "advantages", *arguments],
        stdout=slave,
        env={**os.environ, "COLUMNS": "100", "TERM": "dumb"},
    ) as process:
        os.close(slave)
        seen = b""
        while chunk := _read(master):
            seen += chunk
        assert process.wait(60) == 0
    os.close(master)
    return seen.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other end of a terminal is closed
        return b""


def test_a_terminal_gets_tables_and_json_on_demand(tmp_path: Path) -> None:
    file = tmp_path / "batch.json"
    dropped = {"passed": [True, True]}
    flagged = {**GAR, "flags": [[0, 1], [0], [0], [0], [1, 0]]}
    file.write_text(json.dumps({"groups": [flagged, dropped], "token_penalty": {}}))
    shown = in_terminal(str(file))
    assert "+0.612000" in shown
    assert "common factor 1.578947, capped to 1.500000" in shown
    assert "dropped: every rollout passes" in shown
    assert "token penalty: alpha" in shown
    assert json.loads(in_terminal(str(file), "--json"))["groups"][1]["dropped"]


NUMBERS = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), st.integers(-2, 3))


@given(
    st.lists(
        st.tuples(st.booleans(), st.booleans(), st.booleans(), NUMBERS, st.integers(0, 5000)), max_size=9
    ),
    st.sampled_from(["plain", "gar"]),
    st.sampled_from([None, 0.5, 1.5]),
    st.sampled_from(["zero", "keep"]),
)
def test_whatever_the_grader_says_the_answer_is_finite_and_sums_to_zero(
    rows: list[tuple[bool, bool, bool, Any, int]], method: str, cap: float | None, below: str
) -> None:
    """Any quality (NaN, infinite, tiny, null): no NaN, zero sum, one entry per rollout."""
    columns = list(zip(*rows, strict=True)) or [()] * 5
    group = dict(zip(("passed", "leak", "invalid", "quality", "length"), map(list, columns), strict=True))
    settings = {"method": method, "cap": cap, "below_mean": below, "length_penalty": {"max": 0.5}}
    got: Any = advantage_report(read_input(json.dumps({**group, **settings})))
    json.dumps(got, allow_nan=False)
    assert len(got["advantage"]) == len(rows)
    assert sum(got["advantage"]) == pytest.approx(0, abs=1e-9)
