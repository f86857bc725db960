"""Names and values that MLflow takes, and the environment it gets."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from mimo.tracking import clean_environment
from mimo.tracking.names import cut, finite_metrics, flatten, metric_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pass@1", "pass_at_1"),
        ("reward/mean", "reward/mean"),
        ("timing(s)/gen", "timing_s_/gen"),
        ("a=b%[c]", "a_b__c_"),
        ("/lead//double/../up", "lead/double/up"),
        ("größe", "größe"),
        ("", "_"),
        ("x" * 300, "x" * 250),
    ],
)
def test_metric_names(name: str, expected: str) -> None:
    assert metric_name(name) == expected


def test_values_that_are_not_finite_are_flagged_and_never_sent() -> None:
    sent = finite_metrics({"a": math.nan, "b@2": -math.inf, "c": 2, "n" * 250: math.inf})
    assert sent == {"a_nonfinite": 1.0, "b_at_2_nonfinite": 1.0, "c": 2.0, "n" * 240 + "_nonfinite": 1.0}


def test_params_are_flattened_lists_as_json_long_ones_cut_with_a_notice() -> None:
    flat = flatten({"a": {"b": [1, {"c": None}], "d": {}}, "e": None, "f": "x" * 7000, "g": True})
    assert (flat["a.b"], flat["a.d"], flat["e"], flat["g"]) == ('[1, {"c": null}]', "{}", "null", "true")
    assert len(flat["f"]) == 6000
    assert flat["f"].endswith("[cut: 7000 characters in all]")


def test_cut_replaces_what_databases_refuse() -> None:
    assert cut("a\0b\ud800", 100) == "a\ufffdb?"


def test_a_child_gets_no_mlflow_setting_and_no_telemetry() -> None:
    env = {
        "PATH": "/bin",
        "MLFLOW_RUN_ID": "1",
        "MLFLOW_TRACKING_URI": "x",
        "MLFLOW_TRACKING_TOKEN": "secret",
    }
    assert clean_environment(env) == {
        "PATH": "/bin",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
    }


def test_importing_and_opening_a_tracker_loads_no_mlflow() -> None:
    code = (
        "import sys, pathlib, mimo.tracking as t;"
        "t.open_tracker(pathlib.Path('/nonexistent'), uri=None, experiment='x').close();"
        "sys.exit('mlflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
