"""`mimo accept`: a finished result of older code stands for the code as it is now."""

from __future__ import annotations

from mimo.errors import RecipeError
from mimo.pipeline.decide import State
from mimo.pipeline.project import Project
from mimo.run_dir import outputs
from mimo.run_dir.locks import KernelLock
from mimo.run_dir.outputs import Published


def accept(project: Project, stage: str) -> Published:
    """Record that the stage's older result stands; the result.

    Raises:
        RecipeError: no such stage, or there is no result that only code keeps from being used.
        Busy: the recipe is running.
    """
    project.order.load(stage)
    with KernelLock(project.lock, f"recipe {project.resolved.path.name}"):
        decision = project.plan().decisions[stage]
        if decision.state is not State.STALE_CODE or decision.output is None or decision.key is None:
            raise RecipeError(
                f"nothing to accept: {stage} is {decision.state} ({decision.reason})",
                hint="only a finished result that differs in nothing but code can be accepted",
            )
        outputs.accept(project.home, stage, decision.key, decision.output.manifest.key, decision.reason)
        return decision.output
