"""The manifest of a finished attempt says what will be true once the output is published."""

from __future__ import annotations

from pathlib import Path

from mimo.pipeline.finish import make_manifest
from mimo.run_dir.attempt import Attempt, Work
from mimo.types import Json


def test_a_note_names_the_published_place(tmp_path: Path) -> None:
    work, published = Work(tmp_path / "store" / "audit" / "w1.work"), tmp_path / "store" / "audit" / "k1"
    attempt = Attempt(
        stage="audit", work_key="w1", key="k1", identity={}, horizon={}, codes=("c",), runs=("r",),
        attempts=1, started=0.0,
    )  # fmt: skip
    work.begin(attempt)
    (work.out / "report.html").write_text("<html>")
    notes = [f"report: {work.out}/report.html", "nothing else"]
    result: dict[str, Json] = {"headline": {}, "notes": list[Json](notes), "counts": {}, "planned": 1}
    manifest = make_manifest(work, attempt, result, "run", published=published)
    assert manifest.notes == (f"report: {published}/report.html", "nothing else")
