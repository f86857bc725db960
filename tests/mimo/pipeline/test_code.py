"""Code facts: what counts as a change of a stage's code and what does not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mimo.pipeline.code import CodeReader, code_digest
from mimo.pipeline.order import STAGES

ROOT = Path(__file__).parents[3]
STAGE = '''"""A stage."""
from mimo.helper import work
from mimo.table import load
'''
HELPER = '''"""Helps."""


def work(x):
    """Doc."""
    # a comment
    return x + 1
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "mimo" / "prompts").mkdir(parents=True)
    for name, text in {
        "__init__": "",
        "stage": STAGE,
        "helper": HELPER,
        "table": 'MEMBERS = {"x": "mimo.member:Member"}\n\n\ndef load():\n    import torch\n',
        "member": "class Member:\n    size = 1\n",
        "unrelated": "x = 1\n",
        "errors": "class E(Exception): ...\n",
    }.items():
        (tmp_path / "mimo" / f"{name}.py").write_text(text)
    (tmp_path / "mimo" / "prompts" / "judge.md").write_text("Judge.\n")
    return tmp_path


def digest(root: Path) -> str:
    return code_digest(CodeReader(root=root).facts("mimo.stage"))


@pytest.mark.parametrize(
    ("file", "old", "new", "changes"),
    [
        ("helper.py", "x + 1", "x + 2", True),
        ("helper.py", "# a comment", "# another one", False),
        ("helper.py", '"""Doc."""', '"""Other words."""', False),
        ("helper.py", "return x + 1", "return (x  +  1)", False),
        ("member.py", "size = 1", "size = 2", True),
        ("unrelated.py", "x = 1", "x = 2", False),
        ("errors.py", "E(Exc", "F(Exc", False),
        ("prompts/judge.md", "Judge.", "Judge well.", True),
        ("__init__.py", "", "y = 1\n", True),
    ],
)
def test_what_counts(root: Path, file: str, old: str, new: str, changes: bool) -> None:
    before = digest(root)
    path = root / "mimo" / file
    text = path.read_text()
    path.write_text(text.replace(old, new) if old else new)
    assert (digest(root) != before) is changes


SENDER = """from importlib import resources
from pathlib import Path

from mimo import helper

SCRIPT = Path(__file__).with_name("script.py")
OTHER = SCRIPT.with_name(f"{helper.__name__}.part")


def programs():
    return [item.read_bytes() for item in resources.files("mimo.boxed").iterdir()]
"""


@pytest.mark.parametrize(
    ("file", "changes"),
    [("boxed/run.py", True), ("boxed/child.py", True), ("script.py", True), ("bystander.py", False)],
)
def test_programs_that_are_sent_and_never_imported_count(root: Path, file: str, changes: bool) -> None:
    mimo = root / "mimo"
    (mimo / "boxed").mkdir()
    for name in ("boxed/__init__.py", "boxed/run.py", "boxed/child.py", "script.py", "bystander.py"):
        (mimo / name).write_text("x = 1\n")
    (mimo / "helper.py").write_text(SENDER)
    before = digest(root)
    (mimo / file).write_text("x = 2\n")
    assert (digest(root) != before) is changes


def test_every_program_of_ours_that_boxes_run_is_in_the_stages_that_run_it() -> None:
    """Whatever lies in a `boxed` folder, and the two scripts that are started by their file."""
    sent = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in [
            *ROOT.glob("mimo/**/boxed/*.py"),
            ROOT / "mimo/hacks/inside.py",
            ROOT / "sandbox/launcher.py",
        ]
        if path.stem != "__init__"
    }
    assert len(sent) >= 12
    reader = CodeReader()
    for name in ("prepare-env", "probe-hacks", "rl-mixed", "audit"):
        found = set(reader.facts(STAGES[name].partition(":")[0]).modules)
        wanted = sent - ({"mimo.hacks.inside"} if name != "probe-hacks" else set())
        assert wanted <= found, (name, wanted - found)


def test_a_cache_of_an_older_reader_is_not_believed(root: Path, tmp_path: Path) -> None:
    cache = tmp_path / "code.json"
    first = CodeReader(cache, root)
    facts = first.facts("mimo.stage")
    first.save()
    kept = json.loads(cache.read_text())
    old = {path: [stamp.partition("-")[2], digest, []] for path, (stamp, digest, _) in kept.items()}
    cache.write_text(json.dumps(old))
    assert CodeReader(cache, root).facts("mimo.stage") == facts


def test_tools_are_those_the_code_imports(root: Path) -> None:
    assert list(CodeReader(root=root).facts("mimo.stage").tools) == ["torch"]
    assert CodeReader(root=root).facts("mimo.helper").tools == {}


def test_the_cache_gives_the_same_and_sees_changes(root: Path, tmp_path: Path) -> None:
    cache = tmp_path / "code.json"
    first = CodeReader(cache, root)
    facts = first.facts("mimo.stage")
    first.save()
    assert CodeReader(cache, root).facts("mimo.stage") == facts
    (root / "mimo" / "helper.py").write_text(HELPER.replace("x + 1", "x + 7"))
    assert CodeReader(cache, root).facts("mimo.stage") != facts


def test_a_module_of_the_users_own_counts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_stage.py").write_text("import mimo.algo.gar\nx = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    modules = CodeReader().facts("my_stage").modules
    assert "my_stage" in modules
    assert "mimo.algo.gar" in modules


def test_real_stages_reach_what_they_run() -> None:
    reader = CodeReader()
    facts = {name: reader.facts(target.partition(":")[0]) for name, target in STAGES.items()}
    assert "mimo.algo.gar" in facts["rl-mixed"].modules
    assert "mimo.stages.rl_mixed" not in facts["prepare-env"].modules
    assert "mimo.pipeline.run" not in facts["rl-mixed"].modules
    assert "torch" in facts["rl-mixed"].tools


def test_a_cache_that_cannot_be_written_is_done_without(root: Path, tmp_path: Path) -> None:
    cache = tmp_path / "code.json"
    (tmp_path / f".code.json.{os.getpid()}.tmp").mkdir()  # where the new content would be written first
    reader = CodeReader(cache, root=root)
    reader.facts("mimo.stage")
    reader.save()
    assert not cache.exists()
