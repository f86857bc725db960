"""Family A: leaks planted in `.git` by hand are found, scrubbed and gone; a rebuilt `.git` has none."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mimo.hacks.route import Found
from tests.mimo.hacks.conftest import Environment, Git


def _repair(env: Environment, git: Git) -> str:
    """A commit with the repair after the base, on no branch; the tree stays at the base."""
    git("checkout", "-q", "--detach")
    (env.tree / env.module).write_bytes(env.fixed)
    git("commit", "-qam", "repair")
    made = git("rev-parse", "HEAD")
    git("checkout", "-q", "main")
    return made


def _ids(findings: list[Found]) -> set[str]:
    return {found.route for found in findings if found.severity != "info"}


def _branch(env: Environment, git: Git) -> None:
    git("branch", "next", _repair(env, git))


def _tag(env: Environment, git: Git) -> None:
    git("tag", "v2", _repair(env, git))


def _annotated(env: Environment, git: Git) -> None:
    git("tag", "-a", "-m", "the release", "v2", _repair(env, git))


def _blob_tag(env: Environment, git: Git) -> None:
    git("tag", "x", git("hash-object", "-w", "--stdin", given=env.fixed))


def _remote(env: Environment, git: Git) -> None:
    git("update-ref", "refs/remotes/origin/main", _repair(env, git))


def _pull(env: Environment, git: Git) -> None:
    git("update-ref", "refs/pull/12/head", _repair(env, git))


def _notes(env: Environment, git: Git) -> None:
    git("notes", "add", "-m", env.fixed.decode(), "HEAD")


def _replace(env: Environment, git: Git) -> None:
    git("replace", git("rev-parse", "HEAD"), _repair(env, git))


def _stash(env: Environment, git: Git) -> None:
    (env.tree / env.module).write_bytes(env.fixed)
    git("stash", "-q")


def _reflog(env: Environment, git: Git) -> None:
    git("config", "core.logAllRefUpdates", "always")
    _repair(env, git)


def _orig_head(env: Environment, git: Git) -> None:
    env.write(".git/ORIG_HEAD", _repair(env, git).encode())


def _dangling(env: Environment, git: Git) -> None:
    git("hash-object", "-w", "--stdin", given=env.fixed)


def _packed(env: Environment, git: Git) -> None:
    made = _repair(env, git)
    listed = git("rev-list", "--objects", "--no-object-names", made)
    name = git("pack-objects", "-q", ".git/objects/pack/pack", given=listed.encode() + b"\n")
    env.write(f".git/objects/pack/pack-{name}.keep", b"")
    for folder in (env.tree / ".git/objects").glob("??"):
        shutil.rmtree(folder)


def _alternates(env: Environment, git: Git) -> None:
    other = env.folder / "other"
    git("init", "-q", "--bare", str(other))
    git(f"--git-dir={other}", "hash-object", "-w", "--stdin", given=env.fixed)
    env.write(".git/objects/info/alternates", f"{other}/objects\n".encode())


def _worktree(env: Environment, git: Git) -> None:
    git("worktree", "add", "-q", str(env.tree / "wt"), _repair(env, git))


def _staged(env: Environment, git: Git) -> None:
    blob = git("hash-object", "-w", "--stdin", given=env.fixed)
    git("update-index", "--add", "--cacheinfo", f"100644,{blob},hint.py")


def _submodule(env: Environment, git: Git) -> None:
    _bare(env, git, env.tree / ".git/modules/lib")


def _nested(env: Environment, git: Git) -> None:
    nested = env.tree / "vendor/lib"
    nested.mkdir(parents=True)
    git("init", "-q", cwd=nested)
    (nested / "a.py").write_bytes(env.fixed)
    git("add", "-A", cwd=nested)
    git("commit", "-qm", "x", cwd=nested)
    (nested / "a.py").unlink()


def _bare(env: Environment, git: Git, place: Path) -> None:
    git("init", "-q", "--bare", str(place))
    git(f"--git-dir={place}", "hash-object", "-w", "--stdin", given=env.fixed)


def _hidden_bare(env: Environment, git: Git) -> None:
    _bare(env, git, env.tree / "data/store")


def _bundle(env: Environment, git: Git) -> None:
    git("update-ref", "refs/heads/next", _repair(env, git))
    git("bundle", "create", "-q", "backup.bin", "next")


def _message(env: Environment, git: Git) -> None:
    env.write(".git/COMMIT_EDITMSG", b"see the change below\n" + env.fixed)


def _rerere(env: Environment, git: Git) -> None:
    env.write(".git/rr-cache/ab12/postimage", env.fixed)


def _hook(env: Environment, git: Git) -> None:
    env.write(".git/hooks/pre-commit", b"#!/bin/sh\n# " + env.fixed.replace(b"\n", b"\n# "))


def _url(env: Environment, git: Git) -> None:
    git("remote", "add", "origin", "https://example.com/project.git")


def _lfs(env: Environment, git: Git) -> None:
    env.write(".git/lfs/objects/ab/cd/abcd", env.fixed)


def _grafts(env: Environment, git: Git) -> None:
    env.write(".git/info/grafts", f"{git('rev-parse', 'HEAD')} {_repair(env, git)}\n".encode())


def _lock(env: Environment, git: Git) -> None:
    env.write(".git/HEAD.lock", _repair(env, git).encode())


def _temporary(env: Environment, git: Git) -> None:
    env.write(".git/objects/pack/tmp_pack_x1", env.fixed)


PLANTS: dict[Callable[[Environment, Git], None], str] = {
    _branch: "A01",
    _tag: "A02",
    _annotated: "A02",
    _blob_tag: "A02",
    _remote: "A03",
    _pull: "A03",
    _notes: "A03",
    _replace: "A03",
    _stash: "A09",
    _reflog: "A04",
    _orig_head: "A04",
    _dangling: "A05",
    _packed: "A06",
    _alternates: "A07",
    _worktree: "A08",
    _staged: "A09",
    _submodule: "A10",
    _nested: "A10",
    _hidden_bare: "A10",
    _bundle: "A11",
    _message: "A12",
    _rerere: "A12",
    _hook: "A13",
    _url: "A13",
    _lfs: "A14",
    _grafts: "A15",
    _lock: "A12",
    _temporary: "A06",
}


@pytest.mark.parametrize("plant", list(PLANTS), ids=lambda plant: plant.__name__)
def test_a_planted_leak_is_found_scrubbed_and_gone(
    environment: Environment, git: Git, plant: Callable[[Environment, Git], None]
) -> None:
    plant(environment, git)
    findings, cleaned = environment.probe()
    assert PLANTS[plant] in _ids(findings), findings
    assert cleaned is not None
    assert environment.after(cleaned) == []
    assert environment.fixed not in b"".join(p.read_bytes() for p in cleaned.tree.rglob("*") if p.is_file())


def test_the_repair_in_the_history_before_the_base_is_squashed(environment: Environment, git: Git) -> None:
    """A reverted commit: every object is reachable from the base, and holds the solution."""
    made = _repair(environment, git)
    git("merge", "-q", made)
    git("revert", "--no-edit", "HEAD")
    base = git("rev-parse", "HEAD")
    environment.task = _at(environment, base)
    for name in ("COMMIT_EDITMSG", "ORIG_HEAD"):
        (environment.tree / ".git" / name).unlink(missing_ok=True)
    shutil.rmtree(environment.tree / ".git/logs", ignore_errors=True)
    findings, cleaned = environment.probe()
    assert "A16" in _ids(findings)
    assert cleaned is not None
    assert cleaned.commit != base
    assert environment.after(cleaned) == []


def test_past_history_without_the_repair_stays(environment: Environment, git: Git) -> None:
    (environment.tree / "NOTES").write_text("one\n")
    git("add", "NOTES")
    git("commit", "-qm", "notes")
    base = git("rev-parse", "HEAD")
    environment.task = _at(environment, base)
    _branch(environment, git)
    _, cleaned = environment.probe()
    assert cleaned is not None
    assert cleaned.commit == base
    assert git("rev-list", "--count", base, cwd=cleaned.tree) == "2"


def test_a_repository_that_cannot_be_read_is_a_leak(environment: Environment) -> None:
    shutil.rmtree(environment.tree / ".git/objects")
    (environment.tree / ".git/objects").mkdir()
    from mimo.hacks.probe import CannotScrub

    with pytest.raises(CannotScrub):
        environment.probe()


def test_hostile_configuration_is_not_run(environment: Environment, git: Git, tmp_path: Path) -> None:
    """The inspected repository's filters, hooks and monitors are never started."""
    mark = tmp_path / "ran"
    script = tmp_path / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    script.chmod(0o755)
    with open(environment.tree / ".git/config", "a") as config:
        config.write(f"[core]\nfsmonitor = {script}\nsshCommand = {script}\n")
        config.write(f'[filter "x"]\nclean = {script}\nsmudge = {script}\n[diff]\nexternal = {script}\n')
    environment.write(".gitattributes", b"* filter=x\n")
    findings, cleaned = environment.probe()
    assert "A13" in _ids(findings)
    assert cleaned is not None
    assert not mark.exists()


def _at(environment: Environment, commit: str):  # type: ignore[no-untyped-def]
    from dataclasses import replace

    return replace(environment.task, base_commit=commit)
