"""Outputs: digests, damage, publishing by one rename, copies that share no inode, litter."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mimo.run_dir import manifest as manifests
from mimo.run_dir import outputs
from mimo.run_dir.attempt import Attempt, Committed, Work
from mimo.run_dir.home import Home
from mimo.run_dir.manifest import Manifest

KEY, OLD_KEY = "a" * 64, "b" * 64


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").create()


def attempt(key: str = KEY) -> Attempt:
    return Attempt(
        stage="audit",
        work_key="c" * 64,
        key=key,
        identity={"stage": "audit"},
        horizon={},
        codes=("1",),
        runs=("r",),
        attempts=1,
        started=1.0,
    )


def make(home: Home, files: dict[str, bytes], key: str = KEY) -> Path:
    """Publish `files` under `key`."""
    work = Work(home.work("audit", "c" * 64))
    work.begin(attempt(key))
    for name, content in files.items():
        (work.out / name).parent.mkdir(parents=True, exist_ok=True)
        (work.out / name).write_bytes(content)
    work.commit(Committed(step=1, state={}, planned=1, counts={}), [{"step": 1, "metrics": {"x": 1.0}}], [])
    facts = manifests.list_files(work.out)
    made = Manifest(
        stage="audit",
        key=key,
        work_key="c" * 64,
        identity={"stage": "audit"},
        digest=manifests.output_digest(facts, key),
        files=tuple(facts),
        run="r",
        created=2.0,
        wall_s=1.0,
        planned=1,
        progress={"step": 1, "state": {}},
        codes=("1",),
        attempts=1,
        continued_from=None,
        headline={},
        notes=(),
        counts={},
    )
    work.finish()
    return outputs.publish(home, work.folder, made)


def test_publish_find_and_metrics_are_no_part_of_the_digest(home: Home) -> None:
    folder = make(home, {"report.json": b"{}", "deep/x.bin": b"abc"})
    found = outputs.find(home, "audit", KEY)
    assert found is not None
    assert found.folder == folder
    assert found.problems == ()
    assert [fact.name for fact in found.manifest.files] == ["deep/x.bin", "report.json"]
    assert (folder / "_run" / "metrics.jsonl").exists()
    assert not home.work("audit", "c" * 64).exists()
    assert [item.folder for item in outputs.every(home, "audit")] == [folder]


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda folder: (folder / "x.bin").unlink(), "x.bin is missing"),
        (lambda folder: (folder / "x.bin").write_bytes(b"abcd"), "x.bin has 4 bytes, expected 3"),
        (lambda folder: (folder / "x.bin").write_bytes(b"abd"), "x.bin has changed"),
    ],
)
def test_damage_is_seen(home: Home, damage: object, problem: str) -> None:
    folder = make(home, {"x.bin": b"abc"})
    assert callable(damage)
    damage(folder)
    found = outputs.find(home, "audit", KEY)
    assert found is not None
    assert found.problems == (problem,)


def test_a_torn_manifest_is_unreadable(home: Home) -> None:
    folder = make(home, {"x.bin": b"abc"})
    (folder / "manifest.json").write_bytes(b"{")
    assert outputs.find(home, "audit", KEY) is None
    assert outputs.unreadable(home, "audit", KEY)


def test_equal_bytes_give_an_equal_digest_under_another_key(home: Home) -> None:
    make(home, {"x.bin": b"abc"})
    make(home, {"x.bin": b"abc"}, OLD_KEY)
    one, two = (outputs.find(home, "audit", key) for key in (KEY, OLD_KEY))
    assert one is not None
    assert two is not None
    assert one.manifest.digest == two.manifest.digest


def test_big_files_are_sampled_and_never_cut_off_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifests, "WHOLE_BYTES", 2**20)
    big = tmp_path / "out" / "model.safetensors"
    big.parent.mkdir()
    content = bytearray(os.urandom(3 * 2**20))
    big.write_bytes(content)
    before = manifests.list_files(big.parent)
    content[-1] ^= 1
    big.write_bytes(content)
    after = manifests.list_files(big.parent)
    assert not before[0].whole
    assert before[0].sha256 != after[0].sha256
    assert manifests.output_digest(before, KEY) != manifests.output_digest(before, OLD_KEY)


def test_publishing_again_sets_the_old_folder_aside(home: Home) -> None:
    make(home, {"x.bin": b"old"})
    folder = make(home, {"x.bin": b"new"})
    assert (folder / "x.bin").read_bytes() == b"new"
    aside = [path for path in folder.parent.iterdir() if ".old-" in path.name]
    assert [(path / "x.bin").read_bytes() for path in aside] == [b"old"]


def test_copies_share_nothing_with_the_original(home: Home, tmp_path: Path) -> None:
    folder = make(home, {"x.bin": b"abc", "deep/y": b"d"})
    target = tmp_path / "copy"
    outputs.copy_tree(folder, target)
    with open(target / "x.bin", "ab") as file:
        file.write(b"more")
    assert (folder / "x.bin").read_bytes() == b"abc"
    assert sorted(str(path.relative_to(target)) for path in target.rglob("*")) == ["deep", "deep/y", "x.bin"]


@pytest.mark.parametrize("shares", [True, False])
def test_copies_keep_modes_on_disks_that_share_blocks_and_on_others(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shares: bool
) -> None:
    def clone(target: int, request: int, source: int) -> int:
        assert request == 0x40049409
        if not shares:
            raise OSError(errno.EOPNOTSUPP, "no reflinks")
        return os.write(target, os.pread(source, 1 << 20, 0))

    monkeypatch.setattr(outputs.fcntl, "ioctl", clone)
    folder = make(home, {"run.sh": b"#!/bin/sh\n", "x.bin": b"abc"})
    (folder / "run.sh").chmod(0o750)
    outputs.copy_tree(folder, tmp_path / "copy")
    assert (tmp_path / "copy" / "run.sh").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "copy" / "run.sh").read_bytes() == b"#!/bin/sh\n"
    assert (tmp_path / "copy" / "x.bin").stat().st_mode & 0o111 == 0


def test_links_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(ValueError, match="link is not a plain file"):
        manifests.list_files(tmp_path)


def test_begin_drops_what_a_kill_left(home: Home) -> None:
    work = Work(home.work("audit", "c" * 64))
    work.begin(attempt())
    work.commit(
        Committed(step=2, state={"a": 1}, planned=4, counts={}), [{"step": 1}, {"step": 2}], [{"step": 2}]
    )
    with open(work.metrics, "ab") as file:
        file.write(b'{"step":3}\n{"st')
    (work.out / ".state.json.123.tmp").write_bytes(b"")
    (work.out / "manifest.json").write_bytes(b"{}")
    (work.scratch / "junk").write_bytes(b"")
    work.begin(attempt())
    assert work.metrics.read_bytes() == b'{"step":1}\n{"step":2}\n'
    assert work.traces.read_bytes() == b'{"step":2}\n'
    assert list(work.out.iterdir()) == []
    assert list(work.scratch.iterdir()) == []
    committed = work.committed()
    assert committed is not None
    assert committed.state == {"a": 1}


def test_rows_without_their_commit_are_dropped(home: Home) -> None:
    work = Work(home.work("audit", "c" * 64))
    work.begin(attempt())
    work.metrics.write_bytes(b'{"step":0}\n')
    work.begin(attempt())
    assert work.metrics.read_bytes() == b""
