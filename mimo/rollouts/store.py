"""Rollouts on disk: `rollouts/STEP.jsonl.gz` (records) and `payload/STEP-0.safetensors` (tokens).

Both are written once, atomically, payload first: a step whose records exist is whole. Payload keys are
`ROLLOUT/CONTEXT/token_ids` and so on (DESIGN 13).
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save

from mimo.records import from_line, to_line
from mimo.rollouts.changes import write_changes
from mimo.rollouts.loop import Finished
from mimo.rollouts.token_log import Payload
from mimo.run_dir.files import write_atomic
from mimo.types import Rollout

_ARRAYS = ("token_ids", "loss_mask", "sampler_logprobs", "weight_version")
_TEACHER = "teacher_logprobs"
"""Only in contexts that a teacher scored."""


class RolloutStore:
    """The rollouts of one stage's output folder, by step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _records(self, step: int) -> Path:
        return self.folder / "rollouts" / f"{step:06d}.jsonl.gz"

    def _payload(self, step: int) -> Path:
        return self.folder / "payload" / f"{step:06d}-0.safetensors"

    def steps(self) -> list[int]:
        """The steps whose records are on disk, ascending."""
        return sorted(int(path.name.split(".")[0]) for path in self.folder.glob("rollouts/*.jsonl.gz"))

    def write(self, step: int, finished: Iterable[Finished]) -> None:
        """Write the step's payload, changes and records."""
        rows = list(finished)
        arrays: dict[str, NDArray[np.generic]] = {}
        lines = []
        for item in rows:
            record = item.rollout
            if item.changes is not None:
                write_changes(self.folder / "diffs", item.changes)
            for context, payload in enumerate(item.payloads):
                scored = payload.teacher_logprobs is not None
                for name in (*_ARRAYS, _TEACHER) if scored else _ARRAYS:
                    arrays[f"{record.rollout_id}/{context}/{name}"] = np.ascontiguousarray(
                        getattr(payload, name)
                    )
            lines.append(to_line(record))
        for path in (self._payload(step), self._records(step)):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(self._payload(step), save(arrays))
        write_atomic(self._records(step), gzip.compress(b"".join(lines), compresslevel=5, mtime=0))

    def rollouts(self, step: int) -> Iterator[Rollout]:
        """The step's records, in the order they were written."""
        with gzip.open(self._records(step), "rb") as lines:
            for line in lines:
                yield from_line(Rollout, line)

    def payloads(self, step: int) -> Mapping[str, Payload]:
        """rollout_id -> tokens of its first context."""
        return {rollout_id: contexts[0] for rollout_id, contexts in self.contexts(step).items()}

    def contexts(self, step: int) -> Mapping[str, tuple[Payload, ...]]:
        """rollout_id -> tokens of every context, in the record's order."""
        found: dict[str, dict[int, Payload]] = {}
        with safe_open(self._payload(step), framework="numpy") as data:
            names = set(data.keys())
            for key in sorted({name.rsplit("/", 1)[0] for name in names}):
                scored = f"{key}/{_TEACHER}" in names
                stored = (*_ARRAYS, _TEACHER) if scored else _ARRAYS
                values = {name: data.get_tensor(f"{key}/{name}") for name in stored}
                rollout_id, _, context = key.rpartition("/")
                found.setdefault(rollout_id, {})[int(context)] = Payload(**values)
        return {name: tuple(rows[number] for number in sorted(rows)) for name, rows in found.items()}
