"""The end of a stage: did it do what it planned, is its output there, and the manifest of it."""

from __future__ import annotations

import time
from pathlib import Path

from mimo.errors import StageFailed
from mimo.pipeline.channel import Message
from mimo.pipeline.identity import StageFacts
from mimo.run_dir import manifest as manifests
from mimo.run_dir.attempt import Attempt, Work
from mimo.run_dir.manifest import Manifest
from mimo.types import Json


def check_result(facts: StageFacts, work: Work, result: Message) -> None:
    """StageFailed unless a stage that says it is done has done it.

    It must have planned at least one unit, committed as many as planned, and left in its output files that
    are not all empty, among them each one (or folder) that it declares in `writes`.
    """
    stage = facts.name
    planned, step = int(str(result["planned"])), work.step()
    if planned < 1:
        raise StageFailed(f"{stage} ended without planning any work", hint=f"see {work.log}")
    if step < planned:
        raise StageFailed(
            f"{stage} ended as if done, but committed {max(step, 0)} of {planned} units",
            hint=f"see {work.log}",
        )
    if not _has_content(work.out):
        raise StageFailed(f"{stage} ended as if done, but its output is empty", hint=f"see {work.log}")
    missing = [name for name in facts.writes if not _has_content(work.out / name)]
    if missing:
        names = ", ".join(missing)
        raise StageFailed(f"{stage} ended as if done, but left no {names}", hint=f"see {work.log}")


def _has_content(path: Path) -> bool:
    """True for a file that is not empty, or a folder that holds one."""
    files = path.rglob("*") if path.is_dir() else [path]
    return any(item.is_file() and item.stat().st_size for item in files)


def make_manifest(work: Work, attempt: Attempt, result: Message, run_id: str, *, published: Path) -> Manifest:
    """The manifest of a finished attempt; reads (and hashes) every file of the output.

    A path of the output in a note becomes what it is once `published`.

    Raises:
        StageFailed: something in the output is no plain file.
    """
    try:
        files = manifests.list_files(work.out)
    except ValueError as error:
        raise StageFailed(
            f"{attempt.stage}: the output holds something that cannot be kept: {error}"
        ) from error
    committed = work.committed()
    headline, notes, counts = result["headline"], result["notes"], result["counts"]
    assert isinstance(headline, dict)
    assert isinstance(notes, list)
    assert isinstance(counts, dict)
    refusal = result.get("refusal")
    progress: dict[str, Json] = {"step": committed.step, "state": committed.state} if committed else {}
    return Manifest(
        stage=attempt.stage,
        key=attempt.key,
        work_key=attempt.work_key,
        identity=attempt.identity,
        digest=manifests.output_digest(files, attempt.key),
        files=tuple(files),
        run=run_id,
        created=time.time(),
        wall_s=round(attempt.seconds, 3),
        planned=int(str(result["planned"])),
        progress=progress,
        codes=attempt.codes,
        attempts=attempt.attempts,
        continued_from=attempt.continued_from,
        headline={name: float(str(value)) for name, value in headline.items()},
        notes=tuple(str(note).replace(str(work.out), str(published)) for note in notes),
        counts=counts,
        refusal={name: str(text) for name, text in refusal.items()} if isinstance(refusal, dict) else None,
    )
