"""Built programs: references pass, anything less does not; the expert's way ends in a pass."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mimo.domains.cyber import toolchain
from mimo.domains.cyber.toolchain import build_program
from mimo.errors import MachineLacks, RecipeError
from mimo.harnesses import load_harness
from mimo.types import Task
from tests.mimo.domains.cyber.conftest import NOTHING, Lab, changes_of, generated_source

PROGRAMS = (
    ("heap-write", 1, "train"),
    ("divide-by-zero", 2, "train"),
    ("double-free", 3, "train"),
    ("stale-reference", 2, "heldout"),
)
Built = Callable[..., Task]


@pytest.mark.parametrize(("family", "level", "split"), PROGRAMS)
def test_the_reference_passes_and_less_does_not(
    lab: Lab, built: Built, family: str, level: int, split: str
) -> None:
    task = built(family, level=level, split=split)
    good = lab.verdict(task, lab.domain.reference(task, lab.store))
    assert (good.passed, good.tampered) == (True, False), good.detail
    assert set(good.detail["tests"].values()) == {"passed"}  # type: ignore[union-attr]
    for changes in (NOTHING, changes_of({"input.txt": ""}), changes_of({"input.txt": "hello\n"})):
        idle = lab.verdict(task, changes)
        assert (idle.passed, idle.tampered, idle.detail["reason"]) == (False, False, "no report")


@pytest.mark.parametrize(
    ("family", "level", "harness"),
    [
        ("heap-write", 1, "write-input"),
        ("divide-by-zero", 2, "json-files-recent"),
        ("double-free", 3, "write-input"),
        ("double-free", 3, "bash-terse"),
    ],
)
def test_the_expert_shows_the_bug_in_a_box(
    lab: Lab, built: Built, family: str, level: int, harness: str
) -> None:
    task = built(family, level=level)
    ways = {
        tuple(turn.text for turn in lab.domain.demonstrate(task, lab.store, harness=harness, seed=seed))
        for seed in range(8)
    }
    assert len(ways) >= 2
    longest = max(ways, key=len)
    acting = load_harness(harness, max_turns=len(longest))
    seen = []
    with lab.open(task) as box:
        for text in longest:
            parsed = acting.parse(text)
            assert parsed.malformed == ()
            seen.append(acting.act(parsed.call, box, task))
        box.freeze()
        changes = box.changes()
    assert seen[-1].done
    assert str(task.verifier.expect["function"]) in seen[-2].text
    assert [change.path for change in changes.files] == ["input.txt"]
    assert lab.verdict(task, changes).passed


def test_a_held_out_family_is_never_demonstrated(lab: Lab, built: Built) -> None:
    task = built("stale-reference", level=2, split="heldout")
    assert not lab.domain.demonstrates(task)
    with pytest.raises(RecipeError, match="no demonstration"):
        lab.domain.demonstrate(task, lab.store, harness="write-input", seed=1)
    with pytest.raises(RecipeError, match="is not for the cyber domain"):
        lab.domain.demonstrate(built("heap-write", level=1), lab.store, harness="edit-lines", seed=1)


def test_a_policy_gets_sources_program_and_benign_input_only(lab: Lab, built: Built) -> None:
    task = built("double-free", level=3)
    snapshot = lab.store.snapshot(task)
    names = {path.relative_to(snapshot).as_posix() for path in snapshot.rglob("*") if path.is_file()}
    assert {name for name in names if not name.startswith((".git/", "src/"))} == {
        "bin/program",
        "input.txt",
        "run",
    }
    assert lab.trigger(task) not in {path.read_bytes() for path in snapshot.rglob("*") if path.is_file()}
    with lab.open(task) as box:
        assert box.exec("./run").exit_code == 0
        assert box.exec("command -v gcc cc g++ as ld").exit_code != 0
        box.write("/work/input.txt", lab.trigger(task))
        shown = box.exec("./run")
    assert "attempting double-free" in shown.output
    assert str(task.verifier.expect["function"]) in shown.output


def test_a_build_is_repeatable_and_says_what_does_not_compile(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    tmp_path.chmod(0o755)
    first = build_program(tmp_path, ["a.c"], "c", lab.cache)
    assert first == build_program(tmp_path, ["a.c"], "c", lab.cache)
    assert first[:4] == b"\x7fELF"
    assert not (tmp_path / "bin").exists()
    (tmp_path / "b.c").write_text('#include "/etc/hostname"\nint main(void) { return x; }\n')
    with pytest.raises(RecipeError, match=r"does not build.*hostname"):
        build_program(tmp_path, ["b.c"], "c", lab.cache)


@pytest.mark.parametrize(
    ("lost", "package"), [("libasan.a", "libgcc-12-dev"), ("libstdc++.a", "libstdc++-12-dev"), ("g++", "g++")]
)
def test_a_machine_without_a_part_is_told_the_package(
    lab: Lab, lost: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"-dumpversion": "12", "-dumpfullversion": "12.2.0", f"-print-file-name={lost}": lost}
    monkeypatch.setattr(toolchain, "_asked", lambda question: answers.get(question, "/usr/lib/found"))
    monkeypatch.setattr(
        toolchain.shutil, "which", lambda name, path: None if name == lost else f"/usr/bin/{name}"
    )
    toolchain.require_toolchain.cache_clear()
    with pytest.raises(MachineLacks, match=re.escape(lost)) as told:
        lab.domain.list_sources(generated_source(train=1))
    assert told.value.exit_code == 69
    assert package in str(told.value.hint)


def test_a_folder_that_lacks_something_is_refused(lab: Lab, tmp_path: Path) -> None:
    source = generated_source(train=1, level=1, families=["shift"])
    folder = lab.domain.build(source, lab.domain.list_sources(source)[0], tmp_path)
    config = (folder / "task.toml").read_text()
    (folder / "task.toml").write_text(config.replace('function = "', 'other = "'))
    with pytest.raises(RecipeError, match="lacks function"):
        lab.imported(folder)
    (folder / "task.toml").write_text(config.replace('language = "c"', 'language = "ada"'))
    with pytest.raises(RecipeError, match="'ada'; c or c"):
        lab.imported(folder)
    (folder / "task.toml").write_text(config)
    (folder / "solution/files/input.txt").unlink()
    with pytest.raises(RecipeError, match=r"no solution/files/input\.txt"):
        lab.imported(folder)


def test_another_report_is_not_the_recorded_one(lab: Lab, built: Built) -> None:
    task = built("heap-write", level=1)
    reference = lab.domain.reference(task, lab.store)
    for key, value in (("type", "stack-buffer-overflow"), ("function", "main"), ("file", "other.c")):
        asked = replace(task, verifier=replace(task.verifier, expect={**task.verifier.expect, key: value}))
        verdict = lab.verdict(asked, reference)
        assert (verdict.passed, verdict.detail["reason"]) == (False, "another report than the one asked for")
        assert verdict.detail["report"]["type"] == "heap-buffer-overflow"  # type: ignore[index,call-overload]
