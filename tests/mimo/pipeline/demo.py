"""Small real stages for tests of the engine: they commit, stop, fail, die, ask for the sampler, litter.

They read knobs from the recipe's keys that fit (rl_mixed.steps as horizon, group_size as a parameter) and
from `KNOBS` in the environment (JSON), which is no part of any identity.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import ClassVar, Literal

from mimo.errors import GateRefused, StageFailed
from mimo.recipe.models import Recipe
from mimo.stages.base import Refusal, StageContext, StageResult
from mimo.types import Json

ORDER = {
    "prepare-env": "tests.mimo.pipeline.demo:First",
    "rl-mixed": "tests.mimo.pipeline.demo:Slow",
    "mopd2": "tests.mimo.pipeline.demo:Unbuilt",
    "audit": "tests.mimo.pipeline.demo:Last",
}


def knobs() -> dict[str, Json]:
    found: dict[str, Json] = json.loads(os.environ.get("KNOBS", "{}"))
    return found


class First:
    """Writes one file that depends on the seed."""

    name: ClassVar[str] = "prepare-env"
    summary: ClassVar[str] = "first"
    version: ClassVar[int] = 1
    cost: ClassVar[Literal["light", "heavy"]] = "light"
    reads: ClassVar[tuple[str, ...]] = ()
    built: ClassVar[bool] = True

    def params(self, recipe: Recipe) -> dict[str, Json]:
        return {"seed": recipe.seed, "reruns": recipe.prepare_env.reruns}

    def horizon(self, recipe: Recipe) -> dict[str, int]:
        return {}

    def run(self, ctx: StageContext) -> StageResult:
        ctx.plan(1)
        (ctx.out / "tasks.txt").write_text(f"seed {ctx.recipe.seed}\n")
        ctx.count("task rejected", 2, why="as planned")
        ctx.commit(1, {})
        return StageResult(headline={"tasks": 3.0}, notes=("three tasks",))


class Empty(First):
    """Says it is done and leaves nothing."""

    def run(self, ctx: StageContext) -> StageResult:
        ctx.plan(1)
        ctx.commit(1, {})
        return StageResult()


class Forgetful(First):
    """Declares a file that it does not write."""

    writes: ClassVar[tuple[str, ...]] = ("tasks.txt", "rejects.jsonl")


class Slow:
    """Appends a line a step; a step is durable only with its commit, as in a real stage."""

    name: ClassVar[str] = "rl-mixed"
    summary: ClassVar[str] = "slow"
    version: ClassVar[int] = 1
    cost: ClassVar[Literal["light", "heavy"]] = "heavy"
    reads: ClassVar[tuple[str, ...]] = ("prepare-env",)
    built: ClassVar[bool] = True

    def params(self, recipe: Recipe) -> dict[str, Json]:
        return {"group_size": recipe.rl_mixed.group_size}

    def horizon(self, recipe: Recipe) -> dict[str, int]:
        return {"steps": recipe.rl_mixed.steps}

    def run(self, ctx: StageContext) -> StageResult:
        steps, start = ctx.recipe.rl_mixed.steps, ctx.resume.step if ctx.resume else 0
        ctx.plan(int(str(knobs().get("plan", steps))))
        if ctx.resume and "back_to" in knobs():
            start = int(str(knobs()["back_to"]))
            ctx.count("checkpoint damaged, fell back to the one before", why=f"step {start} is whole")
            ctx.rewind(start, {"last": start})
        print("the first line of the log", os.environ.get("DEMO_SECRET", ""))
        assert (ctx.inputs["prepare-env"] / "tasks.txt").read_text()
        for step in range(start + 1, steps + 1):
            self._step(ctx, step)
            ctx.check_stop()
        return StageResult(headline={"pass_rate": 0.5}, notes=(f"from {start}",))

    def _step(self, ctx: StageContext, step: int) -> None:
        time.sleep(float(str(knobs().get("sleep", 0.0))))
        (ctx.out / f"step-{step}").write_text(f"{step} pid {os.getpid()}\n")
        (ctx.scratch / "junk").write_text("junk")
        if "count" in knobs():
            ctx.count(str(knobs()["count"]))
        ctx.log(step, {"loss": 1.0 / step})
        misbehave(str(knobs().get("at", "")), step, ctx)
        ctx.progress(step, ctx.recipe.rl_mixed.steps, "step")
        ctx.commit(step, {"last": step})


def misbehave(what: str, step: int, ctx: StageContext) -> None:
    """Do `what` at step 2: written as `what` in KNOBS."""
    if step != 2 or not what:
        return
    if what == "raise":
        raise StageFailed("no gradient reached the weights", hint="raise the group size")
    if what == "leak":
        ctx.event("told", {"url": os.environ["DEMO_SECRET"]})
        raise StageFailed(f"cannot reach http://u:{os.environ['DEMO_SECRET']}@h:1")
    if what == "crash":
        raise ZeroDivisionError("a bug")
    if what == "gate":
        raise GateRefused("a leak is left")
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "full":
        raise OSError(28, "No space left on device")
    if what == "orphan":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    if what == "sampler":
        handle = ctx.sampler(Path("/models/a"))
        ctx.sampler_holds(Path("/models/b"), handle.version + 5)
        (ctx.out / "sampler").write_text(f"{handle.url} {ctx.sampler(Path('/models/c')).version}")
    if what == "guarded":
        extras().start_guarded(ctx)
    if what == "box":
        extras().keep_a_box_and_die(ctx)
    if what == "nan":
        ctx.log(step, {"grad": float("nan")})


def extras() -> ModuleType:
    """What uses boxes and engines, loaded so that the walk over imports does not count it as code."""
    return importlib.import_module("tests.mimo.pipeline.demo_extras")


class Unbuilt:
    """Not built."""

    name: ClassVar[str] = "mopd2"
    summary: ClassVar[str] = "unbuilt"
    version: ClassVar[int] = 0
    cost: ClassVar[Literal["light", "heavy"]] = "light"
    reads: ClassVar[tuple[str, ...]] = ("rl-mixed",)
    built: ClassVar[bool] = False

    def params(self, recipe: Recipe) -> dict[str, Json]:
        return {}

    def horizon(self, recipe: Recipe) -> dict[str, int]:
        return {}

    def run(self, ctx: StageContext) -> StageResult:
        raise AssertionError("never run")


class Last:
    """Reads what the others wrote."""

    name: ClassVar[str] = "audit"
    summary: ClassVar[str] = "last"
    version: ClassVar[int] = 1
    cost: ClassVar[Literal["light", "heavy"]] = "light"
    reads: ClassVar[tuple[str, ...]] = ("prepare-env", "rl-mixed", "mopd2")
    built: ClassVar[bool] = True

    def params(self, recipe: Recipe) -> dict[str, Json]:
        return {"confidence": recipe.audit.confidence}

    def horizon(self, recipe: Recipe) -> dict[str, int]:
        return {}

    def run(self, ctx: StageContext) -> StageResult:
        ctx.plan(1)
        steps = ctx.inputs["rl-mixed"].glob("step-*") if "rl-mixed" in ctx.inputs else ()
        names = sorted(path.name for path in steps)
        (ctx.out / "report.json").write_text(json.dumps({"steps": names, "inputs": sorted(ctx.inputs)}))
        ctx.commit(1, {})
        said = knobs().get("refuse")
        refusal = Refusal(message=str(said), hint="look at report.json") if said else None
        return StageResult(headline={"hacks": 0.0}, refusal=refusal)


class Halting(Last):
    """Commits and fails."""

    def run(self, ctx: StageContext) -> StageResult:
        super().run(ctx)
        raise StageFailed("the judge is gone", hint="or the same command with `--from prepare-env`")
