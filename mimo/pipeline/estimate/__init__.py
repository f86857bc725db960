"""`mimo plan`: what a recipe will need, from the recipe and the hardware alone; nothing runs.

`estimate(recipe, hardware)` is pure but for reading a policy's config and the free disk. Each value that is
not in the recipe is an `Assumption` and comes back with the result. docs/plan.md has formulas and errors.
"""

from mimo.pipeline.estimate.estimate import Estimate, StageEstimate, estimate
from mimo.pipeline.estimate.hardware import Hardware, hardware_of
from mimo.pipeline.estimate.problem import Problem

__all__ = ["Estimate", "Hardware", "Problem", "StageEstimate", "estimate", "hardware_of"]
