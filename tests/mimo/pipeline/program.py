"""`python -m tests.mimo.pipeline.program ARGS`: the real `mimo` program over the small stages of `demo`."""

from __future__ import annotations

from commands.cli import main
from mimo.pipeline.order import STAGES
from tests.mimo.pipeline.demo import ORDER


def use_demo_stages() -> None:
    """Replace the stages of this process by the demo's."""
    STAGES.clear()
    STAGES.update(ORDER)


if __name__ == "__main__":
    use_demo_stages()
    main()
