"""Repairs between releases: archives made here (the real one needs the network), and hostile archives."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from mimo.domains.coding import sdist
from mimo.domains.coding.pypi_pair import PypiPair
from mimo.errors import FetchFailed, RecipeError, WrongSource
from tests.mimo.domains.coding.conftest import NOTHING, Lab

OLD = {
    "PKG-INFO": "Name: adder\nVersion: 1.0\nClassifier: License :: OSI Approved :: MIT License\n",
    "README.rst": "Adder\n",
    "adder.py": '__version__ = "1.0"\n\n\ndef add(a, b):\n    return a - b\n',
    "adder.egg-info/PKG-INFO": "Version: 1.0\n",
    ".github/workflows/ci.yml": "on: push\n",
    "tests/test_adder.py": "from adder import add\n\n\ndef test_zero():\n    assert add(0, 0) == 0\n",
}
NEW = OLD | {
    "PKG-INFO": OLD["PKG-INFO"].replace("1.0", "1.1"),
    "README.rst": "Adder\n- 1.1 Negative results are gone (thanks @somebody)\n",
    ".github/workflows/ci.yml": "on: [push]\n",
    ".idea/workspace.xml": "<project/>\n",
    "Makefile": "test:\n\tpytest\n",
    "adder.py": OLD["adder.py"].replace("1.0", "1.1").replace("a - b", "a + b"),
    "tests/test_adder.py": OLD["tests/test_adder.py"]
    + "\n\ndef test_adds_up():\n    assert add(2, 3) == 5\n",
}


def archive(path: Path, files: Mapping[str, str], *members: tarfile.TarInfo) -> str:
    """A source archive at `path`; returns its sha256."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(f"adder/{name}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
        for member in members:
            tar.addfile(member)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(buffer.getvalue(), mtime=0))
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def pair(tmp_path: Path) -> PypiPair:
    """A pair whose archives are already in the cache under their hashes."""
    digests = []
    for name, files in (("old", OLD), ("new", NEW)):
        digest = archive(tmp_path / "sdists" / name, files)
        (tmp_path / "sdists" / name).rename(tmp_path / "sdists" / f"{digest}.tar.gz")
        digests.append(digest)
    return PypiPair.of(
        {"package": "adder", "old": "1.0", "new": "1.1", "sha256_old": digests[0], "sha256_new": digests[1]}
    )


def test_a_pair_becomes_a_task_that_tells(pair: PypiPair, lab: Lab, tmp_path: Path) -> None:
    (task_id,) = pair.task_ids()
    folder = pair.build(task_id, tmp_path / "tasks")
    text = (folder / "instruction.md").read_text()
    assert "Negative results are gone" in text
    assert "thanks" not in text
    assert "test_adds_up" in text
    assert "a + b" not in text
    assert "Source files: adder.py\n" in text, "editors' and services' settings are no part of a repair"
    assert not (folder / "environment/repo/PKG-INFO").exists()
    assert '__version__ = "1.0"' in (folder / "solution/files/adder.py").read_text()
    task = lab.imported(folder)
    assert task.verifier.fail_to_pass == ("tests/test_adder.py::test_adds_up",)
    assert task.verifier.pass_to_pass == ("tests/test_adder.py::test_zero",)
    assert (task.source.license, task.split) == ("MIT License", "heldout")
    assert lab.verdict(task, lab.domain.reference(task, lab.store)).passed
    assert not lab.verdict(task, NOTHING).passed
    assert not lab.domain.demonstrates(task)


def test_visible_tests_of_the_tree_are_protected(pair: PypiPair, lab: Lab, tmp_path: Path) -> None:
    task = lab.imported(pair.build(pair.task_ids()[0], tmp_path / "tasks"))
    assert "tests/test_adder.py" in task.verifier.protected


def test_wrong_hash_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = tmp_path / "index" / "adder"
    archive(index / "adder-1.0.tar.gz", OLD)
    (index / "index.html").write_text('<a href="adder-1.0.tar.gz">adder-1.0.tar.gz</a>')
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "index").as_uri())
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    with pytest.raises(WrongSource, match=r"has sha256 [0-9a-f]{64}, the recipe says 0000"):
        sdist.fetch("adder", "1.0", "0" * 64, tmp_path / "cache")
    assert list((tmp_path / "cache").rglob("*.tar.gz")) == []


def test_fetch_takes_the_release_from_the_users_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index" / "adder"
    digest = archive(index / "adder-1.0.tar.gz", OLD)
    (index / "index.html").write_text('<a href="adder-1.0.tar.gz">adder-1.0.tar.gz</a>')
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "index").as_uri())
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    path = sdist.fetch("adder", "1.0", digest, tmp_path / "cache")
    assert sdist.unpack(path)["adder.py"].decode() == OLD["adder.py"]
    with pytest.raises(WrongSource, match="adder 9: no source archive"):
        sdist.fetch("adder", "9", digest[::-1], tmp_path / "cache")


def test_an_index_that_does_not_answer_is_no_missing_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("RETRIES", "0"), ("CONFIG_FILE", "/dev/null"), ("FIND_LINKS", "")):
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(FetchFailed, match=r"adder 1.0: cannot be fetched: .*refused"):
        sdist.fetch("adder", "1.0", "0" * 64, tmp_path / "cache")


def test_a_pip_without_its_finder_downloads_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    digest = archive(tmp_path / "adder-1.0.tar.gz", OLD)
    other = tmp_path / "other-pip" / "pip"
    other.mkdir(parents=True)
    (other / "__init__.py").touch()
    copy = f"import shutil, sys; shutil.copy({str(tmp_path / 'adder-1.0.tar.gz')!r}, sys.argv[-1])\n"
    (other / "__main__.py").write_text(copy)
    monkeypatch.setenv("PYTHONPATH", str(other.parent))
    path = sdist.fetch("adder", "1.0", digest, tmp_path / "cache")
    assert path.name == f"{digest}.tar.gz"
    assert "pip download ran instead" in caplog.text
    assert "No module named 'pip._internal'" in caplog.text


def _member(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize(
    "member",
    [
        _member("adder/link", tarfile.SYMTYPE, "/etc/passwd"),
        _member("adder/hard", tarfile.LNKTYPE, "adder/adder.py"),
        _member("adder/fifo", tarfile.FIFOTYPE),
        _member("adder/../../up.py", tarfile.REGTYPE),
        _member("/abs.py", tarfile.REGTYPE),
    ],
    ids=lambda member: member.name,
)
def test_hostile_archives_are_refused(tmp_path: Path, member: tarfile.TarInfo) -> None:
    archive(tmp_path / "a.tar.gz", OLD, member)
    with pytest.raises(RecipeError, match=r"leaves the archive|neither a file nor a folder"):
        sdist.unpack(tmp_path / "a.tar.gz")


def test_caps_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(tmp_path / "a.tar.gz", OLD)
    monkeypatch.setattr(sdist, "MAX_BYTES", 10)
    with pytest.raises(RecipeError, match="more than"):
        sdist.unpack(tmp_path / "a.tar.gz")
    (tmp_path / "b.tar.gz").write_bytes(b"no gzip")
    with pytest.raises(RecipeError, match="cannot be unpacked"):
        sdist.unpack(tmp_path / "b.tar.gz")
