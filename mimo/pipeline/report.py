"""What one start of a run came to: an outcome per stage, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from mimo.errors import MimoError
from mimo.run_dir.manifest import Manifest
from mimo.types import Json

What = Literal["ran", "reused", "skipped", "left", "stopped", "failed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """One stage: `ran`, `reused` a published result, `skipped` (not in the recipe or not built), `left` (not
    selected or not reached), `stopped`, `failed`. `seconds` of this start only. `counts` of a stage that did
    not end: what it had counted at its last commit."""

    stage: str
    what: What
    why: str
    seconds: float = 0.0
    manifest: Manifest | None = None
    counts: Mapping[str, Json] = field(default_factory=dict)

    @property
    def counted(self) -> Mapping[str, Json]:
        """What must not pass silently, of the whole stage or of what it had committed."""
        return self.counts if self.manifest is None else self.manifest.counts


@dataclass(kw_only=True, slots=True)
class Report:
    """The outcomes in order; `error` is what ended the run early; `run` None when nothing was to do."""

    profile: str
    run: str | None = None
    outcomes: list[Outcome] = field(default_factory=list)
    seconds: float = 0.0
    tracking: str = ""
    warnings: list[str] = field(default_factory=list)
    """What the run as a whole met (MLflow out of reach, processes left), in the order it came."""
    error: MimoError | None = None
    resume: str = ""

    @property
    def headline(self) -> dict[str, float]:
        """Every stage's headline as `stage/name`."""
        return {
            f"{item.stage}/{name}": value
            for item in self.outcomes
            if item.manifest is not None
            for name, value in item.manifest.headline.items()
        }

    def as_json(self) -> dict[str, Json]:
        """The report as data for `--json`."""
        error: Json = None
        if self.error is not None:
            error = {
                "type": type(self.error).__name__,
                "message": self.error.message,
                "hint": self.error.hint,
            }
        return {
            "schema": 1,
            "run": self.run,
            "profile": self.profile,
            "seconds": round(self.seconds, 3),
            "tracking": self.tracking,
            "warnings": list(self.warnings),
            "resume": self.resume,
            "headline": dict(self.headline),
            "stages": [_row(item) for item in self.outcomes],
            "error": error,
        }


def _row(item: Outcome) -> Json:
    manifest = item.manifest
    return {
        "stage": item.stage,
        "what": item.what,
        "why": item.why,
        "seconds": round(item.seconds, 3),
        "wall_s": manifest.wall_s if manifest else None,
        "counts": dict(item.counted) if manifest or item.counts else None,
        "headline": dict(manifest.headline) if manifest else None,
        "notes": list(manifest.notes) if manifest else None,
        "refusal": dict(manifest.refusal) if manifest and manifest.refusal else None,
    }
