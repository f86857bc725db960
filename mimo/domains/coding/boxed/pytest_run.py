"""Runs pytest over the verifier's own tests and prints one signed result line; policy code runs in here too.

The work tree comes last on the path, so that it cannot stand in for pytest or the standard library. The plan
(key, paths) comes on standard input.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import sys
from typing import Any

_ORDER = ("passed", "skipped", "failed", "error")


def main() -> None:
    """Read the plan, run pytest in this process, print the signed result."""
    plan = json.loads(sys.stdin.buffer.read())
    key = plan.pop("key").encode()
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    sys.path[:0] = [plan["tools"], plan["support"]]
    sys.path += plan["paths"]
    import pytest

    outcomes: dict[str, str] = {}
    arguments = [
        "-q", "--no-header", "--tb=no", "-c", os.devnull, f"--rootdir={plan['rootdir']}",
        "-p", "no:cacheprovider", "-p", "no:faulthandler", *plan["tests"],
    ]  # fmt: skip
    code = pytest.main(arguments, plugins=[_Results(outcomes)])
    body = json.dumps({**outcomes, "exit": str(int(code))})
    out.write(f"\nMIMO {hmac.new(key, body.encode(), hashlib.sha256).hexdigest()} {body}\n")
    out.flush()


class _Results:
    """Keeps the worst outcome of each test's three phases."""

    def __init__(self, outcomes: dict[str, str]) -> None:
        self._outcomes = outcomes

    def pytest_runtest_logreport(self, report: Any) -> None:
        """One phase of one test."""
        outcome = report.outcome
        if getattr(report, "wasxfail", None) is not None:
            outcome = "skipped"
        elif outcome == "failed" and report.when != "call":
            outcome = "error"
        elif outcome == "passed" and report.when != "call":
            return
        before = self._outcomes.get(report.nodeid, outcome)
        self._outcomes[report.nodeid] = max(before, outcome, key=_ORDER.index)

    def pytest_collectreport(self, report: Any) -> None:
        """A file that could not be collected."""
        if report.outcome == "failed":
            self._outcomes[report.nodeid] = "error"


if __name__ == "__main__":
    main()
