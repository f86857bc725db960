"""Task folders in Harbor's layout as other tools make them, as folders that pass our gates.

The work tree comes from `environment/repo` or from what the Dockerfile copies; the image itself is never
built. `solution/solve.sh` is run once, in a box without a network, to find the files it changes.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from mimo.domains.coding.importer import BASE_ENV
from mimo.domains.coding.imports.dockerfile import read_dockerfile
from mimo.domains.coding.imports.importing import CannotImport, Draft, Outcome, Wanted, folder_name
from mimo.errors import RecipeError
from mimo.types import Json
from sandbox import open_sandbox
from sandbox.base import BoxLimits, BoxSpec, Changes
from sandbox.rootfs import build_test_tools, ensure_rootfs
from sandbox.scratch import temporary_parent
from sandbox.snapshot import snapshot_tree

_NETWORK = re.compile(
    r"(?m)^[^#\n]*?(?<![\w./-])(curl|wget|apt-get|apt|pip3?|uvx?|npm|npx|conda|git\s+clone)(?=\s)"
)
_TEST_FILES = ("test_*.py", "*_test.py")
_LIMITS = BoxLimits(
    wall_s=600.0, command_s=300.0, memory_mb=2048, processes=128, disk_mb=512, output_bytes=16384
)
_OWN_SCRIPT = """\
#!/bin/bash
# In place of a test.sh that needs a network; the original is test.sh.original.
python3 -m pytest -q --tb=no -p no:cacheprovider /tests
"""


def harbor_tasks(folder: Path, cache: Path) -> Iterator[Wanted | Outcome]:
    """What lies in `folder`: itself, or every folder below it with a task.toml.

    Raises:
        RecipeError: no such folder, or no task in it.
    """
    if not folder.is_dir():
        raise RecipeError(f"no folder {folder}", hint="name a Harbor task, or a folder of them")
    places = sorted(path.parent for path in folder.rglob("task.toml"))
    if (folder / "task.toml").is_file():
        places = [folder]
    if not places:
        raise RecipeError(f"{folder} holds no task.toml", hint="a Harbor task is a folder with one")
    for place in places:
        name = folder_name(place.absolute().name)
        try:
            digest = _digest(place)
        except CannotImport as error:
            yield Outcome(name=name, what="left out", reason=str(error))
            continue
        yield Wanted(name=name, sha256=digest, draft=lambda place=place: _draft(place, cache))  # type: ignore[misc]


def _digest(place: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(place.rglob("*")):
        if path.is_symlink():
            raise CannotImport(f"{path}: a task folder holds only regular files and folders")
        if path.is_file():
            digest.update(f"{path.relative_to(place).as_posix()}\0".encode(errors="surrogateescape"))
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _draft(place: Path, cache: Path) -> Draft:
    config, text = _config(place / "task.toml")
    _refuse(place, config)
    draft = Draft(files=_below(place, ("instruction.md", "tests", "solution", "environment")))
    metadata = config.get("metadata")
    given = metadata.get("mimo") if isinstance(metadata, dict) else None
    if isinstance(given, dict):
        draft.config, draft.facts = _without_ours(place, text), dict(given)
    else:
        draft.config = text
        draft.facts = {"schema": 1, "domain": "coding", "kind": "harbor", "family": _family(place, config)}
        draft.facts["name"] = _family(place, config)
    _work_tree(draft, place)
    _tests(draft)
    _reference(draft, cache)
    if _networked(config):
        draft.notes.append("it asks for a network; boxes have none")
    return draft


def _config(path: Path) -> tuple[dict[str, Json], str]:
    text = path.read_text(errors="replace")
    try:
        return tomllib.loads(text), text
    except tomllib.TOMLDecodeError as error:
        raise CannotImport(f"task.toml: {error}") from error


def _refuse(place: Path, config: dict[str, Json]) -> None:
    """What cannot be a task here at all."""
    environment = config.get("environment")
    asked = environment if isinstance(environment, dict) else {}
    if config.get("steps"):
        raise CannotImport("several steps ([[steps]]); a task here has one")
    if any((place / "environment" / name).exists() for name in ("docker-compose.yaml", "docker-compose.yml")):
        raise CannotImport("needs several containers (docker-compose)")
    if asked.get("gpus"):
        raise CannotImport("needs a GPU in the box")
    if asked.get("os") not in (None, "linux"):
        raise CannotImport(f"needs {asked['os']}")
    if (
        not (place / "instruction.md").is_file()
        or not (place / "instruction.md").read_text(errors="replace").strip()
    ):
        raise CannotImport("no instruction.md")
    if not any(path.is_file() for path in (place / "tests").rglob("*")):
        raise CannotImport("no tests")


def _work_tree(draft: Draft, place: Path) -> None:
    environment = place / "environment"
    if (environment / "repo").is_dir():
        return
    if not (environment / "Dockerfile").is_file():
        raise CannotImport("its work tree lies in an image (no environment/repo, no Dockerfile)")
    built = read_dockerfile(environment)
    draft.files = {
        path: data
        for path, data in draft.files.items()
        if not path.startswith("environment/") or path == "environment/Dockerfile"
    }
    draft.files |= {f"environment/repo/{path}": data for path, data in built.files.items()}
    draft.facts["workdir"] = built.workdir
    draft.notes += built.notes
    if not built.files:
        draft.notes.append("the work tree is empty")


def _tests(draft: Draft) -> None:
    script = draft.files.get("tests/test.sh")
    if script is None or not _NETWORK.search(script.decode(errors="replace")):
        return
    names = [path for path in draft.files if path.startswith("tests/")]
    if not any(Path(path).match(glob) for path in names for glob in _TEST_FILES):
        raise CannotImport("tests/test.sh needs a network, and there are no test files to run without it")
    draft.files["tests/test.sh.original"] = script
    draft.files["tests/test.sh"] = _OWN_SCRIPT.encode()
    draft.notes.append("tests/test.sh needs a network; pytest on the test files in its place")


def _reference(draft: Draft, cache: Path) -> None:
    if any(path.startswith("solution/files/") or path == "solution/deleted.txt" for path in draft.files):
        return
    script = draft.files.get("solution/solve.sh")
    if script is None:
        raise CannotImport("no solution: neither solution/files nor solution/solve.sh")
    changes = _solved(draft, cache)
    for change in changes.files:
        if change.data is not None and change.refused is None:
            draft.files[f"solution/files/{change.path}"] = change.data
    if gone := [change.path for change in changes.files if change.data is None and change.refused is None]:
        draft.files["solution/deleted.txt"] = "".join(f"{path}\n" for path in gone).encode()
    if changes.outside:
        draft.notes.append(f"solve.sh also writes outside the work tree: {', '.join(changes.outside[:3])}")


def _solved(draft: Draft, cache: Path) -> Changes:
    """What solution/solve.sh changes in the work tree."""
    workdir = str(draft.facts.get("workdir", "/work"))
    with tempfile.TemporaryDirectory(prefix="mimo-import-", dir=temporary_parent()) as name:
        folder = Path(name)
        for top, target in (("environment/repo/", "tree"), ("solution/", "solution"), ("tests/", "tests")):
            (folder / target).mkdir()
            for path, data in draft.files.items():
                if path.startswith(top):
                    place = folder / target / path.removeprefix(top)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(data)
        for item in (folder, *folder.rglob("*")):
            item.chmod(0o755 if item.is_dir() or item.read_bytes()[:2] == b"#!" else 0o644)
        snapshot = snapshot_tree(folder / "tree", folder / "snapshots")
        tools = cache / "import-tools"
        build_test_tools(tools)
        spec = BoxSpec(
            rootfs=ensure_rootfs(cache),
            snapshot=folder / "snapshots" / snapshot,
            workdir=workdir,
            env=dict(BASE_ENV),
            limits=_LIMITS,
            readonly={"/solution": folder / "solution", "/opt/test-tools": tools},
        )
        with open_sandbox("local", spec) as box:
            done = box.exec("bash /solution/solve.sh", timeout_s=_LIMITS.command_s)
            if done.exit_code != 0:
                raise CannotImport(
                    f"solution/solve.sh fails in a box without a network: {done.output[-200:].strip()}"
                )
            box.freeze()
            changes = box.changes()
    if changes.capped or not changes.files:
        what = "changes too much" if changes.capped else "changes nothing in the work tree"
        raise CannotImport(f"solution/solve.sh {what}: there is no reference solution")
    return changes


def _without_ours(place: Path, text: str) -> str:
    """The text of task.toml without its own [metadata.mimo] table (which is written anew)."""
    kept = re.sub(r"(?ms)^\s*\[metadata\.mimo\].*?(?=^\s*\[|\Z)", "", text)
    if "mimo" in (tomllib.loads(kept).get("metadata") or {}):
        raise CannotImport(f"{place / 'task.toml'}: write [metadata.mimo] as a table of its own")
    return kept


def _networked(config: dict[str, Json]) -> bool:
    environment = config.get("environment")
    asked = environment if isinstance(environment, dict) else {}
    mode = asked.get("network_mode")
    return bool(asked.get("allow_internet")) or mode in ("public", "allowlist")


def _family(place: Path, config: dict[str, Json]) -> str:
    task = config.get("task")
    named = task.get("name") if isinstance(task, dict) else None
    return named if isinstance(named, str) else place.absolute().name


def _below(place: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in names:
        top = place / name
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.is_file():
                found[path.relative_to(place).as_posix()] = path.read_bytes()
    return found
