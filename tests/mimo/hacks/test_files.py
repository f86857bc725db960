"""Families B and C: copies, caches, left-overs and facts of files, planted by hand, found, scrubbed, gone."""

from __future__ import annotations

import base64
import bz2
import codecs
import gzip
import importlib.util
import io
import json
import lzma
import marshal
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from mimo.hacks.needles import Secrets
from mimo.hacks.probe import CannotScrub, find_leaks, leaks_only, scrub_copy
from mimo.hacks.route import Found
from mimo.hacks.scene import open_scene
from sandbox.git_rebuild import init_git
from tests.mimo.hacks.conftest import Environment


def _zip(name: str, data: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return packed.getvalue()


def _tgz(name: str, data: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def _pyc(env: Environment) -> bytes:
    """Bytecode of the repaired module that Python runs without looking at the source (unchecked hash)."""
    return importlib.util.MAGIC_NUMBER + b"\1\0\0\0" + b"\0" * 8 + marshal.dumps(
        compile(env.fixed, env.module, "exec")
    )  # fmt: skip


def _hidden(env: Environment) -> bytes:
    return env.secrets.hidden["tests/test_hidden.py"]


Content = Callable[[Environment], bytes]
PLANTS: list[tuple[str, str, Content]] = [
    ("B01", "{folder}__pycache__/{stem}.cpython-311.pyc", _pyc),
    ("B01", "{folder}{stem}.pyc", _pyc),
    ("B02", "dist/project-9.9-py3-none-any.whl", lambda env: _zip(env.module, env.fixed)),
    ("B02", "project-9.9.tar.gz", lambda env: _tgz(env.module, env.fixed)),
    ("B02", "build/lib/{module}", lambda env: env.fixed),
    ("B02", "project.egg-info/PKG-INFO", lambda env: b"Version: 9.9\n"),
    ("B04", ".cache/pip/http/a1b2", lambda env: _zip(env.module, env.fixed)),
    ("B04", ".venv/lib/python3.11/site-packages/{module}", lambda env: env.fixed),
    ("B05", ".pytest_cache/v/cache/nodeids", lambda env: b'["test_hidden.py::test_1"]'),
    ("B05", ".mypy_cache/3.11/x.data.json", lambda env: b"{}"),
    ("B05", "htmlcov/{stem}_py.html", lambda env: b"<pre>" + env.fixed + b"</pre>"),
    ("B05", ".coverage", lambda env: b"SQLite format 3\0"),
    ("B07", "pip.conf", lambda env: b"[global]\nfind-links = /wheels\n"),
    ("B08", "docs/page.html", lambda env: b"<pre>" + env.fixed + b"</pre>"),
    ("B09", "{stem}.so", lambda env: b"\x7fELF\0" + env.fixed + b"\0"),
    ("C01", "{module}.orig", lambda env: env.fixed),
    ("C01", "{module}.rej", lambda env: b"@@ -1 +1 @@\n-a\n+b\n"),
    ("C01", "fix.patch", lambda env: env.fixed),
    ("C01", "{folder}.{stem}.py.swp", lambda env: b"b0VIM 9.0\0" + env.fixed),
    ("C01", "notes~", lambda env: b"x"),
    ("C02", "junit.xml", lambda env: b"<testsuites/>"),
    ("C02", "logs/verifier/reward.txt", lambda env: b"1\n"),
    ("C03", "checks/x.py", _hidden),
    ("C03", "tests/test_more.py", lambda env: b"# more\n" + _hidden(env)),
    ("C04", "solution/solve.txt", lambda env: env.fixed),
    ("C04", "task.json", lambda env: json.dumps({"p": base64.b64encode(env.fixed).decode()}).encode()),
    ("C04", "Dockerfile", lambda env: b"RUN echo " + base64.b64encode(env.fixed) + b" | base64 -d"),
    ("C04", "a.bin", lambda env: gzip.compress(env.fixed)),
    ("C04", "b.bin", lambda env: b"head" + zlib.compress(env.fixed)),
    ("C04", "c.bin", lambda env: bz2.compress(env.fixed)),
    ("C04", "d.bin", lambda env: lzma.compress(env.fixed)),
    ("C04", "e.txt", lambda env: env.fixed.hex().encode()),
    ("C04", "f.txt", lambda env: base64.encodebytes(gzip.compress(env.fixed))),
    ("C04", "g.txt", lambda env: codecs.encode(env.fixed.decode(), "rot13").encode()),
    ("C04", "h.data", lambda env: _tgz("x/y.py", env.fixed)),
    ("C05", "about.txt", lambda env: f"run {env.task.task_id}".encode()),
    ("C06", "{module}", lambda env: (env.tree / env.module).read_bytes() + b"# touched\n"),
    ("C11", ".bash_history", lambda env: b"vim x\n"),
    ("C11", ".env", lambda env: b"API_KEY=x\n"),
    ("C12", "var/dpkg.log", lambda env: b"installed\n"),
    ("C13", "direct_url.json", lambda env: b'{"vcs_info": {"commit_id": "0123456789abcdef"}}'),
]  # fmt: skip


@pytest.mark.parametrize(("route", "path", "content"), PLANTS, ids=[f"{row[0]}-{row[1]}" for row in PLANTS])
def test_a_planted_leak_is_found_scrubbed_and_gone(
    environment: Environment, route: str, path: str, content: Content
) -> None:
    module = Path(environment.module)
    folder = "" if str(module.parent) == "." else f"{module.parent}/"
    environment.write(path.format(module=module, stem=module.stem, folder=folder), content(environment))
    findings, cleaned = environment.probe()
    found = {item.route for item in leaks_only(findings)}
    assert route in found, findings
    assert cleaned is not None
    assert leaks_only(environment.after(cleaned)) == []


def test_a_wheel_in_a_cache_is_named_by_its_layers_and_never_quoted(environment: Environment) -> None:
    environment.write("data/x.bin", _zip("pkg/mod.py", environment.fixed))
    findings, _ = environment.probe()
    (found,) = leaks_only(findings)
    assert (found.route, found.path, found.severity) == ("C04", "data/x.bin!pkg/mod.py", "critical")
    record = found.record()
    assert len(record.evidence_sha256) == 64
    assert not hasattr(record, "evidence")


def test_a_packed_file_that_cannot_be_opened_is_a_leak_of_its_own(environment: Environment) -> None:
    environment.write("data/cut.bin", _zip("pkg/mod.py", b"value = 1\n")[:40])
    found, cleaned = environment.probe()
    assert {item.path: item.severity for item in found if "!unread: " in item.path} == {
        "data/cut.bin!unread: BadZipFile": "leak"
    }
    assert cleaned is not None
    assert not (cleaned.tree / "data").exists()


def test_links_out_of_the_tree_go(environment: Environment) -> None:
    (environment.tree / "out").symlink_to("/etc/passwd")
    (environment.tree / "up").symlink_to("../../x")
    (environment.tree / "git").symlink_to(".git/HEAD")
    (environment.tree / "fine").symlink_to(environment.module)
    findings, cleaned = environment.probe()
    assert {found.path for found in findings if found.route == "C14"} == {"out", "up", "git"}
    assert cleaned is not None
    assert (cleaned.tree / "fine").is_symlink()
    assert not (cleaned.tree / "out").is_symlink()


def test_times_owners_and_modes_that_stick_out_are_found(environment: Environment) -> None:
    environment.probe()
    (snapshot,) = (environment.folder / "snapshots").glob("[0-9a-f]*")
    target = snapshot / environment.module
    os.utime(target, (1_700_000_000, 1_700_000_000))
    target.chmod(0o600)
    with open_scene(snapshot, environment.task.base_commit, environment.secrets) as scene:
        found = {(item.route, item.path) for item in find_leaks(scene)}
    assert ("C08", environment.module) in found
    assert ("C10", environment.module) in found


def test_files_of_the_base_are_never_leaks_by_name(environment: Environment, tmp_path: Path) -> None:
    """A project may keep patches, wheels and a build folder in its own repository."""
    from dataclasses import replace

    from sandbox.git_rebuild import init_git

    environment.write("tests/data/example.patch", b"--- a\n+++ b\n")
    environment.write("tests/data/example.whl", _zip("example/a.py", b"value = 1\n"))
    environment.write("tests/data/broken.zip", _zip("a.py", b"value = 1\n")[:40])
    environment.write("build/steps.py", b"STEPS = ()\n")
    environment.write("dist/README", b"releases\n")
    environment.task = replace(environment.task, base_commit=init_git(environment.tree))
    findings, _ = environment.probe()
    assert leaks_only(findings) == []
    assert [(item.path, item.severity) for item in findings] == [
        ("tests/data/broken.zip!unread: BadZipFile", "info")
    ]


@pytest.mark.parametrize(
    ("name", "taken_out"),
    [
        ("fixture.gz", True),
        ("answers.patch", True),
        (".cache/pip/http/0a1b2c", True),
        ("app/View.TSX", False),
        ("notes.ipynb", False),
        ("Makefile", False),
        ("data.json", False),
    ],
)
def test_of_the_base_itself_only_what_is_no_text_of_the_project_is_taken_out(
    tmp_path: Path, name: str, *, taken_out: bool
) -> None:
    tree = tmp_path / "tree"
    (tree / name).parent.mkdir(parents=True)
    (tree / name).write_bytes(b"text" if name == "Makefile" else b"packed\0")
    (tree / "main.py").write_text("print()\n")
    secrets = Secrets(reference={"main.py": b"print(1)\n"}, hidden={}, ids=())
    with open_scene(tree, init_git(tree), secrets) as scene:
        found = Found(route="C04", path=f"{name}!base64", evidence=b"", severity="critical")
        if taken_out:
            cleaned = scrub_copy(scene, [found], tmp_path)
            assert not (cleaned.tree / name).exists()
            assert cleaned.commit != scene.commit
        else:
            with pytest.raises(CannotScrub, match="the base commit's own"):
                scrub_copy(scene, [found], tmp_path)


def test_a_newer_copy_in_the_root_file_system_is_found(environment: Environment, tmp_path: Path) -> None:
    image = tmp_path / "root"
    place = image / "usr/lib/python3/dist-packages" / environment.module
    place.parent.mkdir(parents=True)
    place.write_bytes(environment.fixed)
    other = image / "usr/lib/python3.11" / Path(environment.module).name
    other.parent.mkdir(parents=True)
    other.write_bytes(b"unrelated = 1\n")
    with open_scene(environment.tree, environment.task.base_commit, environment.secrets) as scene:
        scene.image, scene.strict = image, False
        found = [(item.route, item.path) for item in leaks_only(find_leaks(scene))]
    assert found == [("B03", f"/usr/lib/python3/dist-packages/{environment.module}")]


def test_without_a_base_commit_names_and_needles_still_count(environment: Environment) -> None:
    environment.write("fix.patch", environment.fixed)
    environment.write("data.bin", gzip.compress(environment.fixed))
    with open_scene(environment.tree, None, environment.secrets) as scene:
        found = {item.route for item in leaks_only(find_leaks(scene)) if not item.path.startswith(".git")}
    assert {"C01", "C04"} <= found


def test_escaped_text_of_the_base_is_no_news(environment: Environment) -> None:
    """In a test's string, `\\n` parts words that the repair has as neighbours."""
    from dataclasses import replace

    from sandbox.git_rebuild import init_git

    shown = environment.fixed.replace(b"\n", b"\\n")
    environment.write("cases.py", b'TEXT = "' + shown + b'"\n')
    environment.task = replace(environment.task, base_commit=init_git(environment.tree))
    assert leaks_only(environment.probe()[0]) == []
    environment.write("notes.json", b'{"t": "' + shown + b'"}')
    assert {found.path for found in leaks_only(environment.probe()[0])} == {"notes.json!escapes"}
