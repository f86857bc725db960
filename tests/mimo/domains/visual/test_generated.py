"""Every family and level: the gates, the expert in every harness, and what is kept from a policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import resvg_py

from mimo.domains.base import share_kind
from mimo.domains.visual.compare import decoded, similarity
from mimo.domains.visual.domain import Visual
from mimo.domains.visual.draw import Draw, draw, families_for, framed
from mimo.domains.visual.drawing import clean_drawing
from mimo.domains.visual.families import FAMILIES
from mimo.domains.visual.family import SIZE
from mimo.domains.visual.renderer import browser
from mimo.domains.visual.source import GeneratedPictures
from mimo.domains.visual.write import MIN_PIXELS, MIN_STRUCTURE, instruction
from mimo.errors import RecipeError
from mimo.harnesses import HARNESSES, load_harness, supported
from mimo.harnesses.renderer import Renderer
from mimo.pipeline.code import CodeReader
from tests.mimo.domains.lab import NOTHING, Lab
from tests.mimo.rollouts.conftest import TOKENIZER

if TYPE_CHECKING:
    from mimo.domains.visual.compare import Pixels

HARNESSES_HERE = supported(HARNESSES.names(), "visual")
TRAIN = [name for name, entry in FAMILIES.items() if entry.split == "train"]
DRAWINGS = [name for name, entry in FAMILIES.items() if entry.renderer == "resvg"]
PLACES = [(name, level) for name in DRAWINGS for level in (1, 2)]
needs_browser = pytest.mark.skipif(browser() is None, reason="no Chromium: pages cannot be rendered")


def test_eleven_families_to_train_on_and_three_held_out() -> None:
    assert len(TRAIN) == 11
    assert len(FAMILIES) - len(TRAIN) == 3
    assert [name for name, entry in FAMILIES.items() if entry.renderer == "chromium"] == ["page-columns"]
    assert [name for name, entry in FAMILIES.items() if entry.seen] == ["seen-shapes"]


def gate(lab: Lab, family: str, level: int) -> None:
    task = lab.task(family, level)
    good = lab.verdict(task, lab.domain.reference(task, lab.store))
    assert good.passed, good.detail
    assert good.detail["similarity"] == {"pixels": 1.0, "structure": 1.0}
    assert good.detail["tests"] == {"picture": "passed"}
    idle = lab.verdict(task, NOTHING)
    assert not idle.passed
    assert not idle.tampered
    assert idle.detail["tests"] == {"picture": "failed"}
    assert "pixels are right" in str(idle.detail["reason"])


@pytest.mark.parametrize(("family", "level"), PLACES)
def test_the_reference_passes_and_doing_nothing_does_not(lab: Lab, family: str, level: int) -> None:
    gate(lab, family, level)


@needs_browser
def test_a_page_is_rendered_by_the_machines_browser(lab: Lab) -> None:
    gate(lab, "page-columns", 1)


@pytest.mark.parametrize(("place", "family"), [(n, name) for n, name in enumerate(TRAIN) if name in DRAWINGS])
def test_the_expert_brings_every_training_task_about(lab: Lab, place: int, family: str) -> None:
    """At both levels, each time in another harness, so that every harness meets several families."""
    for level in (1, 2):
        harness = HARNESSES_HERE[(place + 3 * level) % len(HARNESSES_HERE)]
        task = lab.task(family, level)
        verdict = lab.verdict(task, lab.replayed(task, harness, seed=place))
        assert verdict.passed, (harness, verdict.detail)
        assert verdict.detail["refused"] == {}


def test_the_expert_speaks_every_harness_and_varies_its_way(lab: Lab) -> None:
    assert len(HARNESSES_HERE) == 8
    wanted = lab.domain.reference(lab.task("rings", 1), lab.store).files
    for level, harnesses in ((1, HARNESSES_HERE), (2, HARNESSES_HERE[:3])):
        task = lab.task("rings", level)
        for number, harness in enumerate(harnesses):
            changes = lab.replayed(task, harness, seed=number)
            assert [change.path for change in changes.files] == ["picture.svg"], harness
            assert level == 2 or changes.files[0].data == wanted[0].data, harness
    ways = {
        tuple(str(turn.facts["action"]) for turn in turns)
        for seed in range(40)
        for turns in [lab.domain.demonstrate(lab.task("rings", 1), lab.store, harness="xml-files", seed=seed)]
    }
    assert ways == {
        ("shell", "submit"), ("write", "submit"), ("read", "shell", "submit"), ("read", "write", "submit"),
    }  # fmt: skip


def test_no_heldout_task_is_demonstrated(lab: Lab) -> None:
    for name in set(FAMILIES) - set(TRAIN):
        task = lab.task(name, 1)
        assert not lab.domain.demonstrates(task)
        with pytest.raises(RecipeError, match="no demonstration"):
            lab.domain.demonstrate(task, lab.store, harness="edit-lines", seed=0)
    with pytest.raises(RecipeError, match="not for the visual domain"):
        lab.domain.demonstrate(lab.task("rings", 1), lab.store, harness="write-input", seed=0)


def test_a_level_one_task_fits_a_short_context_and_a_short_turn(lab: Lab) -> None:
    """With the small tokenizer: the opening and the whole demonstration within the smoke profile's 512."""
    renderer = Renderer(TOKENIZER)
    for family in TRAIN:
        if family == "page-columns":
            continue
        task = lab.task(family, 1)
        for harness in ("edit-lines", "bash-terse", "json-terse"):
            acting = load_harness(harness, max_turns=3)
            used = len(renderer.opening_ids(acting.opening(task)))
            turns = lab.domain.demonstrate(task, lab.store, harness=harness, seed=2)
            sizes = [len(renderer.assistant_ids(turn.text)) for turn in turns]
            assert used < 400, (family, harness, used)
            if not any(turn.facts["action"] == "write" for turn in turns):  # one line is put right
                assert max(sizes) <= (64 if harness == "edit-lines" else 96), (family, harness, sizes)
                assert used + sum(sizes) + 60 < 512, (family, harness, used, sizes)


def pixels(lines: tuple[str, ...]) -> Pixels:
    """Of our own lines, rendered here: no policy is near."""
    text = clean_drawing("\n".join(lines).encode(), width=SIZE, height=SIZE)
    picture = resvg_py.svg_to_bytes(svg_string=text, background="white", skip_system_fonts=True)
    return decoded(picture, width=SIZE, height=SIZE)


def passes(one: Pixels, other: Pixels) -> bool:
    alike = similarity(one, other)
    return alike.pixels >= MIN_PIXELS and alike.structure >= MIN_STRUCTURE


@pytest.mark.parametrize("family", DRAWINGS)
def test_many_draws_of_a_family_are_tasks(family: str) -> None:
    """What is wrong can be seen in every draw, no shape can be left out, and instructions are short."""
    said = set()
    for index in range(12):
        made: Draw = draw(index, FAMILIES[family].split, 0, (FAMILIES[family],), 1 + index % 2)
        right = pixels(made.right())
        assert not passes(pixels(made.start), right), made.start
        lines = [shape.line() for shape in made.case.shapes]
        for place in range(len(lines)):
            rest = framed(made.family, lines[:place] + lines[place + 1 :])
            assert not passes(pixels(rest), right), (lines, place)
        assert len(instruction(made)) < 560
        assert sum(one != two for one, two in zip(made.start, made.right(), strict=False)) >= 1
        said.add((made.case.words, made.right()))
    assert len(said) >= 10


def test_the_same_arguments_give_the_same_bytes(tmp_path: Path) -> None:
    source = GeneratedPictures(seed=4, train=20, heldout=6, families=None, level=None)
    for task_id in source.task_ids():
        one, two = (source.build(task_id, tmp_path / name) for name in "ab")
        files = {path.relative_to(one): path.read_bytes() for path in one.rglob("*") if path.is_file()}
        assert files == {
            path.relative_to(two): path.read_bytes() for path in two.rglob("*") if path.is_file()
        }


def test_the_reference_is_not_in_the_workspace(lab: Lab) -> None:
    task = lab.task("rings", 2)
    found = {path.name for path in lab.store.snapshot(task).rglob("*") if ".git" not in path.parts}
    assert "picture.svg" in found
    assert not found & {"reference.png", "picture.json", "images"}
    assert (lab.store.private(task) / "tests/reference.png").read_bytes().startswith(b"\x89PNG")


def test_only_a_task_that_needs_sight_shows_an_image_and_it_is_the_reference(lab: Lab) -> None:
    assert lab.task("rings", 1).images == ()
    task = lab.task("seen-shapes", 2)
    (image,) = task.images
    reference = (lab.store.private(task) / "tests/reference.png").read_bytes()
    assert (lab.store.root / image).read_bytes() == reference
    assert "red" not in task.instruction.replace("rendered", "")


def test_a_task_that_needs_sight_has_to_be_asked_for_by_name() -> None:
    assert "seen-shapes" not in {entry.name for entry in families_for("train", None, None)}
    assert [entry.name for entry in families_for("train", ["seen-shapes"], None)] == ["seen-shapes"]


def test_they_count_under_the_share_visual(lab: Lab) -> None:
    assert share_kind(lab.task("rings", 1)) == "visual"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"families": ["ring"]}, "unknown task families ring of the visual domain"),
        ({"families": ["clock"]}, "no task family of the visual domain is left for the train split"),
        ({"level": 3}, "level is 3"),
        ({"kind": "folder"}, "no task source 'folder'"),
    ],
)
def test_a_wrong_source_is_a_clear_error(source: dict[str, object], message: str) -> None:
    entry: dict[str, object] = {"kind": "generated", "domain": "visual", "seed": 1, "train": 1, "heldout": 0}
    with pytest.raises(RecipeError, match=message):
        Visual().list_sources({**entry, **source})  # type: ignore[dict-item]


def test_a_stages_code_digest_holds_the_renderer_and_its_version() -> None:
    facts = CodeReader().facts("mimo.stages.prepare_env")
    assert "mimo.domains.visual.boxed.render_svg" in set(facts.modules)
    assert {"resvg_py", "skimage"} <= set(facts.tools)
