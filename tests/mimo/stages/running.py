"""A stage run in this process with the pipeline's own context (without its subprocess and locks)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mimo.pipeline.channel import Channel, Message
from mimo.pipeline.context import RunningStage, StageSpec
from mimo.pipeline.counted_warnings import warnings_counted
from mimo.pipeline.inbox import Inbox
from mimo.recipe.models import Recipe
from mimo.run_dir.attempt import Work
from mimo.stages.base import Stage, StageResult


@dataclass
class Running:
    """One attempt's folder; `run` may be called again after a failure, as a resume."""

    stage: Stage
    recipe: Recipe
    folder: Path
    cache: Path
    inputs: Mapping[str, Path]
    heard: list[Message] = field(default_factory=list)

    @property
    def out(self) -> Path:
        """What the stage writes."""
        return Work(self.folder).out

    def run(self, *, stop: bool = False) -> StageResult:
        """Run (or go on with) the stage; `stop` asks it to stop from the start."""
        for path in (self.out, Work(self.folder).scratch):
            path.mkdir(parents=True, exist_ok=True)
        ours, theirs = Channel.pair()
        channel = Channel(theirs)
        ear = threading.Thread(target=lambda: self.heard.extend(ours.messages()), daemon=True)
        ear.start()
        spec = StageSpec(
            stage=self.stage.name, target="", recipe={}, work=str(self.folder), cache=str(self.cache),
            inputs={name: str(path) for name, path in self.inputs.items()}, label="test-stage",
        )  # fmt: skip
        inbox = Inbox(channel)
        inbox.stop_asked = stop
        ctx = RunningStage(spec, self.recipe, channel, inbox)
        try:
            with warnings_counted(ctx):
                return self.stage.run(ctx)
        finally:
            channel.close()
            ear.join(timeout=5)
            ours.close()

    def counted(self, what: str) -> int:
        """How often the stage counted `what`, over all attempts."""
        return sum(int(str(m["amount"])) for m in self.heard if m["kind"] == "count" and m["what"] == what)
