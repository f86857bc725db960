"""What Python text calls, opens and runs, by its syntax tree with constants folded; nothing is ever run."""

from __future__ import annotations

import ast
import base64
import binascii
import re
from dataclasses import dataclass, field

from mimo.hacks.tables import words

_RUNS = frozenset(
    words(
        """
    os.system os.popen subprocess.run subprocess.call subprocess.check_call subprocess.check_output
    subprocess.Popen subprocess.getoutput subprocess.getstatusoutput pty.spawn os.execvp os.execv
    os.execlp os.execl os.spawnvp os.posix_spawn asyncio.create_subprocess_shell commands.getoutput
    asyncio.create_subprocess_exec os.execve
    """
    )
)
_STRING = re.compile(r"""(['"`])((?:\\.|(?!\1).)*)\1""", re.S)
_PATH = re.compile(r"^[\w.~*?\[\]/@+-]*(/|\.\w+$)[\w.~*?\[\]/@+-]*$")
_MOST_CHARS = 200_000


@dataclass(slots=True)
class PythonFacts:
    """Dotted names called, commands run (text or words), strings that look like paths, code run by exec."""

    calls: list[str] = field(default_factory=list)
    commands: list[str | list[str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    nested: list[str] = field(default_factory=list)


def read_python(code: str) -> PythonFacts:
    """The facts of the code; of text that does not parse, the strings that look like commands or paths."""
    try:
        tree = ast.parse(code[:_MOST_CHARS])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return other_code(code)
    reader = _Reader()
    try:
        reader.visit(tree)
    except RecursionError:
        return other_code(code)
    return reader.facts


def other_code(code: str) -> PythonFacts:
    """Of any language: every string literal as a possible command, those with a slash or ending as paths."""
    strings = [match[2] for match in _STRING.finditer(code[:_MOST_CHARS])]
    return PythonFacts(commands=list(strings), paths=[text for text in strings if _PATH.match(text)])


class _Reader(ast.NodeVisitor):
    def __init__(self) -> None:
        self.facts = PythonFacts()
        self.names: dict[str, object] = {}
        self.modules: dict[str, str] = {}

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.modules[alias.asname or alias.name.split(".")[0]] = (
                alias.name if alias.asname else alias.name.split(".")[0]
            )
            self.facts.calls.append(f"import {alias.name}")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self.modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            self.facts.calls.append(f"import {node.module}.{alias.name}")

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        value = self.fold(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                if value is not None:
                    self.names[target.id] = value
                elif dotted := self.dotted(node.value):
                    self.modules[target.id] = dotted

    def visit_Constant(self, node: ast.Constant) -> None:
        text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
        if isinstance(text, str) and len(text) < 4096 and _PATH.match(text):
            self.facts.paths.append(text)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        whole = self.fold(node)
        if isinstance(whole, str) and _PATH.match(whole):
            self.facts.paths.append(whole)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = self.dotted(node.func) or ""
        if name:
            self.facts.calls.append(name)
        arguments = [self.fold(argument) for argument in node.args]
        if name in _RUNS and arguments:
            self._runs(name, arguments)
        if (
            name in ("exec", "eval", "builtins.exec", "compile")
            and arguments
            and isinstance(arguments[0], str | bytes)
        ):
            code = arguments[0]
            self.facts.nested.append(code if isinstance(code, str) else code.decode("utf-8", "replace"))
        self.generic_visit(node)

    def _runs(self, name: str, arguments: list[object]) -> None:
        first = arguments[0]
        if name.startswith(("os.exec", "os.spawn", "asyncio.create_subprocess_exec")) and isinstance(
            first, str
        ):
            rest = arguments[1] if len(arguments) > 1 and isinstance(arguments[1], list) else arguments[1:]
            first = [str(word) for word in rest if word is not None] or [first]
        if isinstance(first, str):
            self.facts.commands.append(first)
        elif isinstance(first, list):
            self.facts.commands.append([word if isinstance(word, str) else "" for word in first])

    def dotted(self, node: ast.expr) -> str | None:
        """The name a call goes to, through import names, `__import__` and `getattr`."""
        if isinstance(node, ast.Name):
            return self.modules.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            inner = self.dotted(node.value)
            return f"{inner}.{node.attr}" if inner else node.attr
        if isinstance(node, ast.Call):
            name, args = self.dotted(node.func), node.args
            if name in ("__import__", "importlib.import_module") and args:
                module = self.fold(args[0])
                return module if isinstance(module, str) else None
            if name == "getattr" and len(args) >= 2:
                inner, attribute = self.dotted(args[0]), self.fold(args[1])
                return f"{inner}.{attribute}" if inner and isinstance(attribute, str) else None
            return name
        return None

    def fold(self, node: ast.expr) -> object:
        """The constant an expression is, or None."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str | bytes | int) else None
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.List | ast.Tuple):
            return [self.fold(item) for item in node.elts]
        if isinstance(node, ast.JoinedStr):
            parts = [self.fold(v.value if isinstance(v, ast.FormattedValue) else v) for v in node.values]
            return "".join(map(str, parts)) if None not in parts else None
        if isinstance(node, ast.BinOp):
            return _operated(node.op, self.fold(node.left), self.fold(node.right))
        if isinstance(node, ast.Subscript):
            return _sliced(self.fold(node.value), node.slice)
        return self._called(node) if isinstance(node, ast.Call) else None

    def _called(self, node: ast.Call) -> object:
        arguments = [self.fold(argument) for argument in node.args]
        name = self.dotted(node.func) or ""
        try:
            if isinstance(node.func, ast.Attribute):
                owner = self.fold(node.func.value)
                if owner is not None:
                    return _method(owner, node.func.attr, arguments)
            return _function(name, arguments)
        except (ValueError, TypeError, binascii.Error, AttributeError, OverflowError):
            return None


def _operated(operator: ast.operator, left: object, right: object) -> object:
    try:
        if isinstance(operator, ast.Add):
            return left + right  # type: ignore[operator]
        if isinstance(operator, ast.Mod) and isinstance(left, str):
            return left % (tuple(right) if isinstance(right, list) else right)
    except (TypeError, ValueError):
        return None
    return None


def _sliced(value: object, cut: ast.expr) -> object:
    """Reversed text; other slices are not worth it."""
    if isinstance(value, str | bytes) and isinstance(cut, ast.Slice) and isinstance(cut.step, ast.UnaryOp):
        return value[::-1]
    return None


def _method(owner: object, name: str, arguments: list[object]) -> object:
    if name == "join" and isinstance(owner, str) and arguments and isinstance(arguments[0], list):
        return owner.join(arguments[0])
    allowed = (
        "decode",
        "encode",
        "replace",
        "lower",
        "upper",
        "strip",
        "split",
        "format",
        "swapcase",
        "removeprefix",
    )
    return getattr(owner, name)(*arguments) if name in allowed and isinstance(owner, str | bytes) else None


def _function(name: str, arguments: list[object]) -> object:
    first = arguments[0] if arguments else None
    if name == "chr" and isinstance(first, int):
        return chr(first)
    if name in ("base64.b64decode", "b64decode", "base64.standard_b64decode") and isinstance(
        first, str | bytes
    ):
        return base64.b64decode(first)
    if name in ("bytes.fromhex", "binascii.unhexlify", "fromhex") and isinstance(first, str | bytes):
        return bytes.fromhex(first if isinstance(first, str) else first.decode())
    if name in ("bytes", "bytearray") and isinstance(first, list):
        return bytes(first)
    if name in ("str", "shlex.quote") and isinstance(first, str):
        return first
    return first.split() if name == "shlex.split" and isinstance(first, str) else None
