"""A batch of 1,568 groups x 16 rollouts x 10,000 tokens: under 2 s of CPU and 3 GB, every token written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "advantages.py"


@pytest.mark.slow
def test_the_papers_batch_is_cheap() -> None:
    """CPU seconds, not wall seconds, so that a busy machine does not fail it."""
    command = [sys.executable, str(BENCHMARK), "--case", "mimo", "--groups", "1568", "--threads", "1"]
    done = subprocess.run([*command, "--repeats", "2"], capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout)
    assert measured["cpu_s"] < 2
    assert measured["peak_mb"] < 3000
