"""The smoke recipe over several seeds: pass rate after the cold start and after RL, with the curve.

    python benchmarks/smoke_seeds.py [--profile smoke] [--seeds 1 2 3] [--home DIR]

Runs `mimo run recipes/pro.yaml --set seed=N` once a seed in one state folder (environments are made once) and
reads the audits' reports: training families only; the interval is of the gain over seeds (Student, n - 1).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECIPE = str(ROOT / "recipes" / "pro.yaml")
ROLLOUTS = 4
"""Of each training task and policy, in the audit: twice smoke's own: the gain is small."""
T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}


def main() -> None:
    """Run every seed, print a row each and the mean gain."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--profile", default="smoke")
    options.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    options.add_argument("--home", type=Path, default=Path("/tmp/mimo-seeds"))
    args = options.parse_args()
    gains = []
    for seed in args.seeds:
        _run(args.home, args.profile, seed)
        gains.append(_show(args.home, seed))
    mean = statistics.fmean(gains)
    half = math.nan
    if len(gains) > 1:
        half = T_95[len(gains) - 1] * statistics.stdev(gains) / math.sqrt(len(gains))
    print(
        f"mean gain over {len(gains)} seeds: {mean:+.3f}, "
        f"95 % interval {mean - half:+.3f} to {mean + half:+.3f}"
    )


def _run(home: Path, profile: str, seed: int) -> None:
    command = [sys.executable, "-m", "mimo", "run", RECIPE, "--profile", profile, "--set", f"seed={seed}"]
    command += ["--set", f"audit.train_rollouts_per_task={ROLLOUTS}"]
    log = home / f"seed-{seed}.log"
    home.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as sink:
        done = subprocess.run(
            command,
            env={**os.environ, "MIMO_HOME": str(home)},
            cwd=ROOT,
            stdout=sink,
            stderr=sink,
            check=False,
        )
    if done.returncode:
        sys.exit(f"seed {seed}: mimo run ended with {done.returncode}; see {log}")


def _show(home: Path, seed: int) -> float:
    report = _newest(home, "audit") / "report.json"
    rows = {row["name"]: row for row in json.loads(report.read_text())["policies"]}
    parts = []
    for name, row in rows.items():
        rate = row["train"]
        parts.append(f"{name} {rate['rate']:.3f} [{rate['low']:.3f}, {rate['high']:.3f}]")
    curve = [f"{value:.2f}" for value in _curve(_newest(home, "rl-mixed"))]
    print(f"seed {seed}: {'; '.join(parts)}; rl-mixed by step: {' '.join(curve)}", flush=True)
    return float(rows["rl-mixed"]["train"]["rate"] - rows["cold-start"]["train"]["rate"])


def _curve(output: Path) -> list[float]:
    lines = (output / "_run" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["metrics"]["rollouts/pass_rate_all"] for line in lines]


def _newest(home: Path, stage: str) -> Path:
    found = (home / "store" / stage).glob("*/manifest.json")
    return max(found, key=lambda path: path.stat().st_mtime).parent


if __name__ == "__main__":
    main()
