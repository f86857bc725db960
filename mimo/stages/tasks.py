"""The prepared task set as later stages read it, and the boxes its tasks run in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from mimo.domains.base import OpenSpec, TaskStore
from mimo.errors import StageFailed
from mimo.recipe.models import Recipe
from mimo.records import from_line
from mimo.rollouts.house import OpenBox
from mimo.stages.base import StageContext
from mimo.types import Split, Task
from sandbox import open_sandbox
from sandbox.base import BoxLimits, BoxSpec, Sandbox
from sandbox.rootfs import ensure_rootfs

TEST_TOOLS = "/opt/test-tools"
"""Where a box has pytest and what it needs; `PYTHONPATH` of the tests' command names it."""


def read_tasks(folder: Path) -> list[Task]:
    """Every task of a prepared set, in its order."""
    with open(folder / "tasks.jsonl", "rb") as lines:
        return [from_line(Task, line) for line in lines]


def tasks_of(ctx: StageContext, split: Split) -> list[Task]:
    """The tasks of `split` from the newest stage that wrote the set: routed, else cleaned, else prepared."""
    folder = ctx.inputs.get("synthesize-rubrics", task_folder(ctx))
    tasks = [task for task in read_tasks(folder) if task.split == split]
    if not tasks:
        raise StageFailed(
            f"the prepared task set has no {split} task", hint="see tasks.sources and rejects.jsonl"
        )
    return tasks


def task_folder(ctx: StageContext) -> Path:
    """The output folder that holds the cleaned `tasks.jsonl`, snapshots and private files."""
    return ctx.inputs.get("probe-hacks", ctx.inputs["prepare-env"])


def task_store(ctx: StageContext) -> TaskStore:
    """The store of the prepared task set."""
    return TaskStore(task_folder(ctx))


def box_opener(ctx: StageContext) -> OpenBox:
    """Opens boxes of the recipe's back end with a task's limits and this stage's label."""
    tools = (task_folder(ctx) if ctx.inputs else ctx.out) / "tools"
    return partial(_open, spec_opener(ctx.recipe), ensure_rootfs(ctx.cache), ctx.label, tools)


def spec_opener(recipe: Recipe) -> OpenSpec:
    """Opens boxes where the recipe says: back end, image, container runtime, hosts."""
    runtime = recipe.runtime.sandbox
    place = {"image": recipe.sandbox.image, "runtime": runtime.runtime, "hosts": tuple(runtime.hosts)}
    return lambda spec: open_sandbox(recipe.sandbox.backend, replace(spec, **place))  # type: ignore[arg-type]


def box_root(ctx: StageContext) -> Path:
    """The files of the boxes' root as a folder of this machine, for probes that read them."""
    image = ctx.recipe.sandbox.image
    if image is None:
        return ensure_rootfs(ctx.cache)
    from sandbox.docker_images import export_root  # here: only where there are such boxes

    return export_root(ctx.recipe.runtime.sandbox.hosts, image, ctx.cache / "images")


def visible_tools(task: Task, tools: Path) -> dict[str, Path]:
    """What a policy needs to run visible tests with pytest: the test tools, read-only."""
    with_pytest = task.verifier.kind == "tests" and task.verifier.expect.get("runner") != "functions"
    return {TEST_TOOLS: tools} if with_pytest else {}


def _open(
    open_spec: OpenSpec,
    rootfs: Path,
    label: str,
    tools: Path,
    task: Task,
    snapshot: Path,
    readonly: Mapping[str, Path],
) -> Sandbox:
    limits = task.environment.limits
    spec = BoxSpec(
        rootfs=rootfs,
        snapshot=snapshot,
        workdir=task.environment.workdir,
        env=task.environment.env,
        limits=BoxLimits(
            wall_s=limits.wall_s,
            command_s=limits.command_s,
            memory_mb=limits.memory_mb,
            processes=limits.processes,
            disk_mb=limits.disk_mb,
            output_bytes=limits.output_bytes,
        ),
        readonly=readonly or visible_tools(task, tools),
        label=label,
    )
    return open_spec(spec)
