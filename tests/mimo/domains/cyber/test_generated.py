"""The generator: the same seed makes the same bytes, every family's code compiles, splits are strict."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mimo.domains.cyber.domain import Cyber
from mimo.domains.cyber.generated.draw import LEVELS, Draw, draw, families_for
from mimo.domains.cyber.generated.families import FAMILIES
from mimo.domains.cyber.generated.write import compiled, instruction
from mimo.domains.cyber.report import TYPES
from mimo.domains.cyber.toolchain import DRIVERS
from mimo.errors import RecipeError
from tests.mimo.domains.cyber.conftest import generated_source


def _drawn(name: str, level: int, seed: int = 3) -> Draw:
    entry = FAMILIES[name]
    return draw(seed, entry.split, 0, (entry,), level)


def test_there_are_enough_families_of_both_splits_and_languages() -> None:
    train, heldout = families_for("train", None, None), families_for("heldout", None, None)
    assert len(train) >= 10
    assert len(heldout) >= 3
    assert {entry.language for entry in train} == {entry.language for entry in heldout} == {"c", "c++"}
    assert {entry.reports for entry in FAMILIES.values()} <= set(TYPES)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_draw_is_repeatable_and_whole(name: str, level: int) -> None:
    first, again, other = _drawn(name, level), _drawn(name, level), _drawn(name, level, seed=4)
    assert first == again
    assert first.files != other.files
    assert first.trigger != first.benign
    assert "@guard" not in "".join(first.files.values())
    assert f"{first.function.split('::')[-1]}(" in first.files[first.planted_file]
    told = instruction(first)
    assert first.family.reports in told
    assert (first.function in told) == (level < 3)
    if level == 1:
        assert len(first.trigger) <= 24
        assert first.files.keys() == {first.planted_file}


def test_seeds_vary_names_and_numbers() -> None:
    texts = {_drawn("heap-write", 1, seed).files.popitem()[1] for seed in range(12)}
    assert len(texts) >= 10


@pytest.mark.parametrize("language", DRIVERS)
def test_the_code_of_every_family_is_right_without_a_warning(language: str, tmp_path: Path) -> None:
    """One run of the compiler a language, without code: level 3 holds gate, neighbours and decoy as well."""
    paths = []
    for name, entry in FAMILIES.items():
        if entry.language == language:
            drawn = _drawn(name, 3)
            for path, text in drawn.files.items():
                (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / name / path).write_text(text)
            paths += [str(tmp_path / name / path) for path in compiled(drawn)]
    driver = DRIVERS["c" if language == "c" else "c++"].split()
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-sign-compare", "-Wno-stringop-overflow"]
    done = subprocess.run(
        [*driver, "-fsyntax-only", *warnings, *paths], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[:2000]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"families": ["nope"], "train": 1}, "unknown task families nope of the cyber domain"),
        ({"level": 9, "train": 1}, "level is 9"),
        (
            {"families": ["bad-free"], "train": 1},
            "no task family of the cyber domain is left for the train split",
        ),
        ({"kind": "folder", "path": "x", "split": "train"}, "no task source 'folder'"),
    ],
)
def test_a_wrong_source_is_one_clear_error(source: dict[str, object], said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        Cyber().list_sources(generated_source(**source))  # type: ignore[arg-type]


def test_ids_are_opaque_and_differ(tmp_path: Path) -> None:
    source = generated_source(train=20, heldout=5)
    ids = Cyber().list_sources(source)
    assert len(set(ids)) == 25
    folder = Cyber().build(source, ids[0], tmp_path)
    again = Cyber().build(source, ids[0], tmp_path / "again")
    for path in folder.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (again / path.relative_to(folder)).read_bytes()
    with pytest.raises(RecipeError, match="makes no task"):
        Cyber().build(source, "y0", tmp_path)
