"""The kill matrix: `kill -9` at random moments, several per stage, then the same command again.

    python benchmarks/kill_matrix.py [--kills 3] [--seed 1] [--home DIR]

For each stage of the smoke recipe the orchestrator is killed at `--kills` random moments, going on each
time, and in rl-mixed once at each of these: a model folder just exported (weight update in flight), a
checkpoint half written, a manifest written but not yet published. After every kill no process, mount,
shared-memory segment or temporary folder of the run may be left, and no committed step may be committed
again. At the end: no (key, step) twice in MLflow, every metric of a step once in metrics.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.smoke.driver import RECIPE, Driver, shared_memory

STAGES = ("prepare-env", "probe-hacks", "cold-start", "synthesize-rubrics", "rl-mixed", "mopd2", "audit")
MARKS = {
    "weight update": "out/published/step-*/manifest.json",
    "half a checkpoint": "out/checkpoints/.step-*.part",
    "before publishing": "out/manifest.json",
}
TRIES = 3
"""For a mark: the moment before publishing is a few milliseconds long, and may be missed."""
MISSED = "had ended"


class Matrix:
    """One state folder that is killed again and again."""

    def __init__(self, home: Path, kills: int, seed: int) -> None:
        self.driver = Driver(home)
        self.kills = kills
        self.draw = random.Random(seed)
        self.shared = shared_memory()
        self.temporary = set(Path(tempfile.gettempdir()).iterdir())
        self.rows: list[tuple[str, str, str]] = []
        self.failed = 0
        self.committed = -1

    def run(self) -> None:
        """Every cell of the matrix, then the checks at the end."""
        lengths = self._lengths()
        for stage, seconds in lengths.items():
            for number in range(self.kills):
                wait = self.draw.uniform(0.0, seconds / self.kills)
                self._cell(stage, f"{wait:.1f} s in", lambda stop, w=wait: stop.wait(w), fresh=number == 0)  # type: ignore[misc]
        for name, pattern in MARKS.items():
            for _ in range(TRIES):
                self._cell("rl-mixed", name, lambda stop, p=pattern: self._seen(p, stop), fresh=True)  # type: ignore[misc]
                if self.rows[-1][2] != MISSED:
                    break
        self._finish()

    def _lengths(self) -> dict[str, float]:
        """Wall seconds of each stage in an undisturbed run (in another state folder)."""
        quiet = Driver(self.driver.home.with_name("quiet"))
        done = quiet.run("run", RECIPE, "--profile", "smoke")
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        found = {}
        for stage in STAGES:
            if (quiet.home / "store" / stage).is_dir():
                found[stage] = json.loads((quiet.output(stage) / "manifest.json").read_text())["wall_s"]
        return found

    def _cell(
        self, stage: str, moment: str, wait: Callable[[threading.Event], object], *, fresh: bool
    ) -> None:
        """Start, wait for the stage to start, wait for the moment, kill, look."""
        force = ("--force", stage) if fresh else ()
        if fresh:
            self.committed = -1
        process = self.driver.start("run", RECIPE, "--profile", "smoke", *force, "--json")
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "start" and event["stage"] == stage:
                break
        ended = threading.Event()
        repeated: list[int] = []
        reader = threading.Thread(
            target=self._follow, args=(process.stdout, stage, repeated, ended), daemon=True
        )
        reader.start()
        wait(ended)
        alive = process.poll() is None and not ended.is_set()
        if alive:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        reader.join()
        left = self._left() + [f"step {step} committed again" for step in repeated]
        self.failed += bool(left)
        self.rows.append((stage, moment, ("clean" if not left else f"LEFT {left}") if alive else MISSED))
        print("  ".join(self.rows[-1]), flush=True)

    def _follow(self, lines: Iterable[str], stage: str, repeated: list[int], ended: threading.Event) -> None:
        for line in lines:
            event = json.loads(line)
            if event.get("stage") != stage or event["event"] not in ("commit", "done"):
                continue
            if event["event"] == "done":
                ended.set()
                continue
            step = int(event["about"]["step"])
            if step <= self.committed:
                repeated.append(step)
            self.committed = max(self.committed, step)
        ended.set()

    def _seen(self, pattern: str, ended: threading.Event) -> None:
        """Wait for a file of the stage's work folder; without a wildcard at every moment (it is short)."""
        while not (found := [*(self.driver.home / "store" / "rl-mixed").glob("*.work")]):
            time.sleep(0.01)
        work, spin = found[0], "*" not in pattern
        while not ended.is_set() and not (
            os.path.exists(work / pattern) if spin else any(work.glob(pattern))  # noqa: PTH110 the quicker one
        ):
            time.sleep(0 if spin else 0.002)

    def _left(self) -> list[str]:
        left = self.driver.left_behind()
        left += sorted(shared_memory() - self.shared)
        fresh = set(Path(tempfile.gettempdir()).iterdir()) - self.temporary
        self.temporary |= fresh
        other = _of_other_runs(self.driver.home)
        ours = {path for path in fresh if "mimo" in path.name and "sandbox" not in path.name}
        return left + sorted(str(path) for path in ours if str(path) not in other)

    def _finish(self) -> None:
        done = self.driver.run("run", RECIPE, "--profile", "smoke")
        with sqlite3.connect(self.driver.home / "mlflow.db") as database:
            worst = database.execute(
                "select max(n) from (select count(*) n from metrics where key not like 'system/%' "
                "group by run_uuid, key, step)"
            ).fetchone()[0]
        doubled = [stage for stage in STAGES if self._doubled(stage)]
        print(f"last start: exit {done.returncode}; points per (run, key, step) in MLflow: at most {worst}")
        print(f"stages with a metric of a step twice in metrics.jsonl: {doubled or 'none'}")
        print(f"{len(self.rows)} kills, {self.failed} left something")
        sys.exit(1 if self.failed or done.returncode or worst != 1 or doubled else 0)

    def _doubled(self, stage: str) -> bool:
        found = (self.driver.home / "store" / stage).is_dir()
        metrics = self.driver.output(stage) / "_run" / "metrics.jsonl" if found else None
        if metrics is None or not metrics.exists():
            return False  # a stage that logs no step
        rows = [json.loads(line) for line in metrics.read_text().splitlines()]
        points = Counter((row["step"], key) for row in rows for key in row["metrics"])
        return max(points.values(), default=0) > 1


def _of_other_runs(home: Path) -> set[str]:
    """Temporary folders in which living programs of another state folder work."""
    found = set[str]()
    for process in psutil.process_iter():
        try:
            names = process.environ()
        except psutil.Error:
            continue
        if names.get("MIMO_HOME") not in (None, str(home)):
            found.add(names.get("TMPDIR", ""))
    return found


def main() -> None:
    """Parse the options and run the matrix."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=3)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--home", type=Path, default=Path(tempfile.gettempdir()) / "kill-matrix" / "home")
    args = options.parse_args()
    Matrix(args.home, args.kills, args.seed).run()


if __name__ == "__main__":
    main()
