"""A small recipe of its own, a home of its own, the demo's stages; runs in this process or as a program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mimo.pipeline.order import Order
from mimo.pipeline.plan import Plan, Selection
from mimo.pipeline.project import Project, Request, open_project
from mimo.pipeline.report import Report
from mimo.pipeline.run import Tools, run_recipe
from mimo.run_dir.home import Home
from mimo.run_dir.outputs import every
from mimo.types import Event
from tests.mimo.pipeline.demo import ORDER

ROOT = Path(__file__).resolve().parents[3]


class Watcher:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.plans: list[Plan] = []
        self.told: list[tuple[str, int, int]] = []

    def planned(self, plan: Plan) -> None:
        self.plans.append(plan)

    def event(self, event: Event) -> None:
        self.events.append(event)

    def progress(self, stage: str, done: int, total: int, unit: str, note: str) -> None:
        self.told.append((stage, done, total))

    def tick(self) -> None:
        pass

    def named(self, event: str) -> list[Event]:
        return [item for item in self.events if item.event == event]


@dataclass
class Bench:
    """The recipe file, its home, and ways to run it."""

    recipe: Path
    home: Home
    order: dict[str, str] = field(default_factory=lambda: dict(ORDER))
    watcher: Watcher = field(default_factory=Watcher)

    def project(self, *sets: str, **selection: object) -> Project:
        request = Request(
            recipe=self.recipe,
            profile="smoke",
            overrides=sets,
            selection=Selection(**selection),  # type: ignore[arg-type]
        )
        return open_project(request, order=Order(self.order), environ={"MIMO_HOME": str(self.home.root)})

    def run(self, *sets: str, tools: Tools | None = None, **selection: object) -> Report:
        self.watcher = Watcher()
        return run_recipe(self.project(*sets, **selection), tools or Tools(observer=self.watcher))

    def states(self, *sets: str, **selection: object) -> dict[str, str]:
        return {
            name: str(item.state) for name, item in self.project(*sets, **selection).plan().decisions.items()
        }

    def what(self, report: Report) -> dict[str, str]:
        return {item.stage: item.what for item in report.outcomes}

    def output(self, stage: str) -> Path:
        """The newest output of a stage."""
        return every(self.home, stage)[0].folder

    def environment(self, knobs: Mapping[str, object] | None = None) -> dict[str, str]:
        """This process's, with the home and the knobs."""
        return {**os.environ, "MIMO_HOME": str(self.home.root), "KNOBS": json.dumps(dict(knobs or {}))}

    def program(self, *args: str) -> list[str]:
        """The words that start the real program."""
        return [sys.executable, "-m", "tests.mimo.pipeline.program", *args]

    def start(
        self, *args: str, knobs: Mapping[str, object] | None = None, before: tuple[str, ...] = ()
    ) -> subprocess.Popen[str]:
        """The real program in its own process, as a user's shell would start it, `before` in front."""
        return subprocess.Popen(
            [*before, *self.program(*args)],
            cwd=ROOT,
            env=self.environment(knobs),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def call(self, *args: str, knobs: Mapping[str, object] | None = None) -> subprocess.CompletedProcess[str]:
        """The same, waited for."""
        process = self.start(*args, knobs=knobs)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(args, process.returncode, out, err)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.delenv("KNOBS", raising=False)
    return made_bench(tmp_path)


def made_bench(tmp_path: Path) -> Bench:
    """A bench below `tmp_path`."""
    recipe = tmp_path / "demo.yaml"
    recipe.write_text(
        f"schema: 1\nextends: {ROOT / 'recipes' / 'pro.yaml'}\nname: demo\n"
        "runtime: {tracking_uri: none, min_free_disk_gb: 0, heartbeat_s: 0.3}\n"
        "profiles: {smoke: {rl_mixed: {steps: 4}}}\n"
    )
    return Bench(recipe, Home(tmp_path / "home"))


@pytest.fixture
def knobs(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Set what the demo's stages do wrong."""

    def put(**values: object) -> None:
        monkeypatch.setenv("KNOBS", json.dumps(values))

    return put
