"""SWE-bench records (JSON or JSON lines) as task folders; SWE-Gym, SWE-rebench and SWE-bench Pro look alike.

The work tree is the base commit without the test patch. Hidden tests are the repository's own tests with the
test patch, the reference is the gold patch. Hints never reach the policy.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import cast

from mimo.domains.coding.importer import HISTORY, MAX_TREE_BYTES
from mimo.domains.coding.imports.importing import CannotImport, Draft, Outcome, Wanted, folder_name
from mimo.domains.coding.imports.repository import Base, Repositories, Tree
from mimo.errors import RecipeError
from mimo.types import Json

_NEEDED = ("instance_id", "repo", "base_commit", "patch", "test_patch", "problem_statement")
_TEST_FOLDERS = frozenset({"tests", "test", "testing"})
_TEST_FILES = ("test_*.py", "*_test.py", "conftest.py")
_PYTEST_ID = re.compile(r"^[^:\s][^:]*\.py(::.+)?$")
_TIMEOUT_S = 300.0
_IN_PLACE = """\
#!/bin/bash
# The hidden tests take the place of the repository's: they import each other as parts of its packages.
cp -R /tests/files/. . || exit 1
export PYTHONPATH="$PYTHONPATH:$PWD:$PWD/src:$PWD/lib"
python3 -m pytest -q --tb=no -p no:cacheprovider @/tests/ids.txt
"""


def read_records(file: Path) -> list[Mapping[str, Json]]:
    """The records of a JSON list or of JSON lines.

    Raises:
        RecipeError: the file cannot be read, or a record is no object; the message has the line.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{file}: {error}", hint="a SWE-bench file is JSON or JSON lines") from error
    rows: list[Json] = []
    if text.lstrip().startswith("["):
        rows = _json(text, str(file))  # type: ignore[assignment]
    else:
        lines = enumerate(text.splitlines(), 1)
        rows = [_json(line, f"{file}, line {number}") for number, line in lines if line.strip()]
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise RecipeError(f"{file}, record {number}: got {type(row).__name__}, expected an object")
    if not rows:
        raise RecipeError(f"{file} holds no record")
    return cast("list[Mapping[str, Json]]", rows)


def swebench_tasks(file: Path, repositories: Repositories) -> Iterator[Wanted | Outcome]:
    """What the records of a file ask for, in their order."""
    for number, row in enumerate(read_records(file), 1):
        name = row.get("instance_id")
        if not isinstance(name, str) or not name:
            yield Outcome(name=f"record {number}", what="left out", reason="instance_id is missing")
            continue
        digest = hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()
        yield Wanted(
            name=folder_name(name),
            sha256=digest,
            draft=lambda row=row: _draft(row, repositories),  # type: ignore[misc]
        )


def _json(text: str, where: str) -> Json:
    try:
        return cast(Json, json.loads(text))
    except ValueError as error:
        raise RecipeError(f"{where}: not JSON: {error}") from error


def _draft(row: Mapping[str, Json], repositories: Repositories) -> Draft:
    text = _texts(row)
    named = {key: _names(row, key) for key in ("FAIL_TO_PASS", "PASS_TO_PASS")}
    if not named["FAIL_TO_PASS"]:
        raise CannotImport("no tests: FAIL_TO_PASS is empty")
    if _images(row.get("image_assets")):
        raise CannotImport("multimodal: its images (image_assets) cannot be shown to a policy here")
    tests = [*named["FAIL_TO_PASS"], *named["PASS_TO_PASS"]]
    odd = next((name for name in tests if not _PYTEST_ID.match(name)), None)
    if odd is not None:
        raise CannotImport(f"{odd!r} is no test of pytest (path.py::name); only pytest's are known here")
    with Base(repositories.find(text["repo"]), text["base_commit"]) as base:
        before = base.tree(f"{base.commit}^{{tree}}")
        touched = base.changed(base.patched([("test_patch", text["test_patch"])]))
        both = base.tree(base.patched([("test_patch", text["test_patch"]), ("patch", text["patch"])]))
        gold = base.patched([("patch", text["patch"])])
        reference, repaired = base.changed(gold), base.tree(gold)
        draft = _folder(text, named, before, both, frozenset(touched), (reference, repaired))
        _history(draft, base)
    return draft


def _history(draft: Draft, base: Base) -> None:
    """What the base commit reaches, so that prepare-env can make its history; too large: one commit."""
    pack = base.history()
    if len(pack) > MAX_TREE_BYTES:
        draft.notes.append(f"history of {len(pack) // 1_000_000} MB left out: the task has one commit")
        return
    draft.files[HISTORY] = pack
    draft.facts["base_commit"] = base.commit


def _folder(
    text: Mapping[str, str],
    named: Mapping[str, list[str]],
    before: Tree,
    both: Tree,
    touched: frozenset[str],
    gold: tuple[list[str], Tree],
) -> Draft:
    files = {test.partition("::")[0] for tests in named.values() for test in tests}
    missing = sorted(files - both.files.keys())
    if missing:
        raise CannotImport(f"no tests: {missing[0]} is not in the repository with its test patch")
    hidden = {
        path: data
        for path, data in both.files.items()
        if path in files or ((_is_test(path) or path in touched) and not _holds_tests(path))
    }
    draft = Draft(config=_config())
    _reference(draft, gold, hidden)
    draft.files |= {f"environment/repo/{path}": data for path, data in before.files.items()}
    draft.files["instruction.md"] = _instruction(text).encode()
    draft.files["environment/Dockerfile"] = b"FROM python:3.11-slim\nWORKDIR /work\nCOPY repo/ /work/\n"
    draft.files["solution/solve.sh"] = b"#!/bin/bash\ncp -R /solution/files/. .\n"
    draft.facts = {
        "schema": 1,
        "domain": "coding",
        "family": text["repo"].rpartition("/")[2],
        "kind": "swe-bench",
        "name": text["instance_id"],
        "version": text["base_commit"],
        "visible": list[Json](sorted(path for path in files if path in before.files)),
    }
    if _inside_package(files, both, hidden):
        _as_script(draft, named, hidden)
    else:
        _as_pytest(draft, named, hidden)
    for what, number in (("symbolic links", len(before.links)), ("submodules", before.modules)):
        if number:
            draft.notes.append(f"{number} {what} of the work tree left out")
    return draft


def _reference(draft: Draft, gold: tuple[list[str], Tree], hidden: Mapping[str, bytes]) -> None:
    changed, repaired = gold
    own = [path for path in changed if path not in hidden and not _is_test(path)]
    if not own:
        raise CannotImport("patch changes nothing but tests: there is no reference solution")
    if len(own) < len(changed):
        draft.notes.append(f"{len(changed) - len(own)} test files of patch left out of the reference")
    draft.files |= {f"solution/files/{path}": repaired.files[path] for path in own if path in repaired.files}
    if gone := [path for path in own if path not in repaired.files]:
        draft.files["solution/deleted.txt"] = "".join(f"{path}\n" for path in gone).encode()


def _as_pytest(draft: Draft, named: Mapping[str, list[str]], hidden: Mapping[str, bytes]) -> None:
    """Hidden tests beside the work tree, by our own runner: signed, with canaries."""
    draft.files |= {f"tests/{path}": data for path, data in hidden.items()}
    draft.facts |= {
        "runner": "pytest",
        "fail_to_pass": [f"tests/{test}" for test in named["FAIL_TO_PASS"]],
        "pass_to_pass": [f"tests/{test}" for test in named["PASS_TO_PASS"]],
    }


def _as_script(draft: Draft, named: Mapping[str, list[str]], hidden: Mapping[str, bytes]) -> None:
    """Hidden tests in the place of the repository's: the weaker runner."""
    ids = [*named["FAIL_TO_PASS"], *named["PASS_TO_PASS"]]
    draft.files |= {f"tests/files/{path}": data for path, data in hidden.items()}
    draft.files |= {
        "tests/test.sh": _IN_PLACE.encode(),
        "tests/ids.txt": "".join(f"{i}\n" for i in ids).encode(),
    }
    draft.facts["runner"] = "script"
    draft.notes.append(
        "tests inside packages: run in place by tests/test.sh, the weaker runner (no canaries)"
    )


def _inside_package(files: set[str], tree: Tree, hidden: Mapping[str, bytes]) -> bool:
    """Whether a test file is part of a package that is not among the hidden files."""
    for path in files:
        folder = PurePosixPath(path).parent
        while folder.parts and (init := f"{folder}/__init__.py") in tree.files:
            if init not in hidden:
                return True
            folder = folder.parent
    return False


def _is_test(path: str) -> bool:
    pure = PurePosixPath(path)
    return bool(_TEST_FOLDERS & set(pure.parts[:-1])) or any(
        fnmatchcase(pure.name, glob) for glob in _TEST_FILES
    )


def _holds_tests(path: str) -> bool:
    """A file that pytest would collect; those that no listed test is in are left out, as one that cannot be
    collected would end the whole run."""
    return any(fnmatchcase(PurePosixPath(path).name, glob) for glob in _TEST_FILES[:2])


def _instruction(text: Mapping[str, str]) -> str:
    """The problem; of SWE-bench Pro also what it requires. Never the hints."""
    parts = [text["problem_statement"].strip()]
    parts += [
        f"{title}:\n{text[key].strip()}"
        for title, key in (("Requirements", "requirements"), ("Interface", "interface"))
        if text.get(key)
    ]
    return "\n\n".join(parts) + "\n"


def _config() -> str:
    return (
        'version = "1.0"\n\n[agent]\ntimeout_sec = 1800.0\n\n'
        f'[verifier]\ntimeout_sec = {_TIMEOUT_S}\n\n[environment]\nnetwork_mode = "no-network"\n'
    )


def _texts(row: Mapping[str, Json]) -> dict[str, str]:
    wrong = [key for key in _NEEDED if not isinstance(row.get(key), str)]
    wrong += [key for key in ("repo", "base_commit", "problem_statement") if row.get(key) == ""]
    if wrong:
        raise CannotImport(f"{', '.join(wrong)}: missing, empty or no text")
    return {key: value for key, value in row.items() if isinstance(value, str)}


def _names(row: Mapping[str, Json], key: str) -> list[str]:
    """A list of test ids, or the same as a JSON string."""
    value = row.get(key, [])
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else []
        except ValueError as error:
            raise CannotImport(f"{key} is neither a list nor a JSON list as text") from error
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise CannotImport(f"{key} is no list of texts")
    return list(dict.fromkeys(cast("list[str]", value)))


def _images(value: Json) -> bool:
    """Whether `image_assets` (a JSON object, or the same as text) names any image."""
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else None
        except ValueError:
            return True
    return any(value.values()) if isinstance(value, dict) else bool(value)
