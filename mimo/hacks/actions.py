"""Commands of a rollout as plain actions: wrappers, pipes into shells, encodings and inline code
unwrapped.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from mimo.hacks.python_code import PythonFacts, other_code, read_python
from mimo.hacks.shell_words import Command, Variables, parse, unescape
from mimo.hacks.tables import words

_MAX_DEPTH = 6
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh", "rbash"})
_PREFIXES = frozenset(
    {"command", "exec", "nohup", "setsid", "builtin", "busybox", "sudo", "doas", "unbuffer", "stdbuf"}
)
_WITH_NUMBER = frozenset({"timeout", "nice", "ionice", "chrt", "taskset"})
_OTHER_CODE = frozenset({"perl", "ruby", "node", "awk", "gawk", "php", "lua", "mawk"})
_PATTERN_FIRST = frozenset({"grep", "egrep", "fgrep", "rg", "sed", "awk", "gawk"})
_READERS = frozenset(
    words(
        """
    cat less more head tail tac nl strings xxd od hexdump grep egrep fgrep rg sed awk gawk cut sort diff
    cmp cp mv zcat base64 vim vi nano look open view bat patch python unzip tar ln rev paste comm source
    .
    """
    )
)
_LISTERS = frozenset(
    {"ls", "find", "stat", "du", "tree", "wc", "file", "test", "[", "realpath", "dirname", "basename"}
)
_KNOWN = words(
    """
    git curl wget pip python python3 unzip tar cat strings find bash sh nc hg svn gh uncompyle6
    """
)
_FUNCTION = re.compile(r"(\w+)\s*\(\)\s*\{\s*([^\s;}]+)[^}]*\$[@*1]")
_ALIAS = re.compile(r"(\w+)=(.*)", re.S)
_TR_ROT13 = (("a-z", "n-za-m"), ("a-za-z", "n-za-mn-za-m"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """One program run: `program` without folder and version, `argv` with it first, `paths` it names
    (also read
    from or written by redirects and opened by inline Python), `calls` of inline Python as dotted names."""

    program: str
    argv: tuple[str, ...]
    paths: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()

    @property
    def reads_text(self) -> bool:
        """Whether it shows or copies the content of its paths."""
        return self.program in _READERS or any(
            call == "open" or call.endswith("read_text") for call in self.calls
        )

    @property
    def only_lists(self) -> bool:
        """Whether it looks at names and facts only."""
        return self.program in _LISTERS


@dataclass(slots=True)
class _State:
    scripts: Mapping[str, str]
    found: list[Action] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    variables: Variables = field(default_factory=Variables)


def actions_of(command: str, scripts: Mapping[str, str] | None = None) -> list[Action]:
    """The actions of a shell command, nested ones included.

    Args:
        scripts: content of files that the policy wrote before, by the path it used; running one unwraps it.
    """
    state = _State(scripts=scripts or {})
    _unwrap(command, state, 0)
    return state.found


def _unwrap(text: str, state: _State, depth: int) -> str | None:
    """Add the actions of `text`; what its last pipeline prints, where that can be told."""
    if depth > _MAX_DEPTH:
        return None
    state.aliases.update(_FUNCTION.findall(text))
    state.variables.substitute = lambda inner: _unwrap(inner, state, depth + 1)
    printed: str | None = None
    for command in parse(text, state.variables):
        given = printed if command.piped else None
        printed = _run(command, given if command.stdin is None else command.stdin, state, depth)
        if printed is not None and command.writes:
            state.scripts = {**state.scripts, **dict.fromkeys(command.writes, printed)}
        state.variables.substitute = lambda inner: _unwrap(inner, state, depth + 1)
    return printed


def _run(command: Command, given: str | None, state: _State, depth: int) -> str | None:
    words = _without_wrappers(command.words, state)
    if not words:
        return given
    program = _program(words[0])
    if program == "alias":
        state.aliases.update(match.groups() for word in words[1:] if (match := _ALIAS.fullmatch(word)))  # type: ignore[misc]
        return None
    if program == "xargs":
        inner = [word for word in words[1:] if not word.startswith("-")]
        return (
            _run(Command(words=inner + (given or "").split()), None, state, depth + 1)
            if depth < _MAX_DEPTH
            else None
        )
    if program == "eval":
        return _unwrap(" ".join(words[1:]), state, depth + 1)
    if program in _SHELLS or program in ("source", "."):
        return _shell(words, given, state, depth)
    if program.startswith("python") or program == "pypy":
        state.found.append(_python(words, given, command, state, depth))
        return None
    state.found.append(_plain(program, words, command))
    if program in _OTHER_CODE:
        _strings_run(other_code(" ".join(words[1:])), state, depth)
    if program == "find":
        _find_exec(words, state, depth)
    return _printed(program, words, given, state)


def _without_wrappers(words: list[str], state: _State) -> list[str]:
    """The words without `env X=1`, `timeout 5`, `command`, ... and with aliases resolved."""
    resolved: set[str] = set()
    for _ in range(12):
        if not words:
            return words
        head = words[0].rpartition("/")[2]
        if head in state.aliases and head not in resolved:
            resolved.add(head)
            words = [*state.aliases[head].split(), *words[1:]]
        elif head == "env" and len(words) > 1:
            words = words[1:]
            while words and (words[0].startswith("-") or re.fullmatch(r"\w+=.*", words[0], re.S)):
                words = words[1:]
        elif head in _PREFIXES and len(words) > 1:
            words = words[1:]
            while words and words[0].startswith("-"):
                words = words[1:]
        elif head in _WITH_NUMBER and len(words) > 1:
            words = words[1:]
            while words and (words[0].startswith("-") or re.fullmatch(r"[\d.]+[smhd]?", words[0])):
                words = words[1:]
        else:
            return words
    return words


def _program(word: str) -> str:
    """The program's name: no folder, globs resolved to the tools we know, `python3.11` as `python3`."""
    name = word.rpartition("/")[2]
    if any(char in name for char in "?*["):
        name = next((known for known in _KNOWN if fnmatchcase(known, name)), name)
    return re.sub(r"^(python3?|pip3?)[\d.]*$", r"\1", name)


def _plain(program: str, words: list[str], command: Command) -> Action:
    operands = [word for word in words[1:] if not word.startswith("-")]
    if program in _PATTERN_FIRST and operands:
        operands = operands[1:]
    values = [word.partition("=")[2] for word in words[1:] if word.startswith("--") and "=" in word]
    paths = () if program in ("echo", "printf") else (*operands, *values)
    return Action(
        program=program,
        argv=tuple(words),
        paths=(*paths, *command.reads),
        writes=tuple(command.writes),
    )


def _shell(words: list[str], given: str | None, state: _State, depth: int) -> str | None:
    rest = words[1:]
    while rest and rest[0].startswith("-"):
        flag = rest.pop(0)
        if flag.lstrip("-").endswith("c") and rest:
            return _unwrap(rest[0], state, depth + 1)
    if rest:
        script = _script(rest[0], state)
        state.found.append(Action(program=_program(words[0]), argv=tuple(words), paths=tuple(rest)))
        return _unwrap(script, state, depth + 1) if script is not None else None
    return _unwrap(given, state, depth + 1) if given is not None else None


def _script(path: str, state: _State) -> str | None:
    name = path.removeprefix("./")
    return next((text for key, text in state.scripts.items() if key.removeprefix("./").endswith(name)), None)


def _python(words: list[str], given: str | None, command: Command, state: _State, depth: int) -> Action:
    """A Python program as an action; what it runs becomes further ones."""
    code, rest = given, words[1:]
    for number, word in enumerate(rest):
        if word == "-c" or (word.startswith("-") and not word.startswith("--") and word.endswith("c")):
            code = rest[number + 1] if number + 1 < len(rest) else None
            break
        if word == "-m":
            inner = rest[number + 1 :]
            return _plain(_program(inner[0]) if inner else "python", inner or words, command)
        if not word.startswith("-"):
            code = _script(word, state)
            break
    facts = read_python(code) if code else PythonFacts()
    _strings_run(facts, state, depth)
    paths = (
        *(word for word in rest if not word.startswith("-") and word != code),
        *facts.paths,
        *command.reads,
    )
    argv = (*words[:1], *(word for word in rest if word != code))
    return Action(
        program="python", argv=argv, paths=paths, calls=tuple(facts.calls), writes=tuple(command.writes)
    )


def _strings_run(facts: PythonFacts, state: _State, depth: int) -> None:
    if depth >= _MAX_DEPTH:
        return
    for command in facts.commands:
        if isinstance(command, str):
            _unwrap(command, state, depth + 1)
        elif command:
            _run(Command(words=list(command)), None, state, depth + 1)
    for code in facts.nested:
        inner = read_python(code)
        state.found.append(
            Action(program="python", argv=("python",), paths=tuple(inner.paths), calls=tuple(inner.calls))
        )
        _strings_run(inner, state, depth + 1)


def _find_exec(words: list[str], state: _State, depth: int) -> None:
    for number, word in enumerate(words):
        if word in ("-exec", "-execdir", "-ok") and depth < _MAX_DEPTH:
            inner = [w for w in words[number + 1 :] if w not in ("{}", ";", "+")]
            _run(Command(words=inner), None, state, depth + 1)


def _printed(program: str, words: list[str], given: str | None, state: _State) -> str | None:
    """What a few harmless programs print: enough to follow an encoding."""
    rest = words[1:]
    if program == "echo":
        text = " ".join(word for word in rest if word not in ("-n", "-e", "-ne", "-en"))
        return unescape(text) if "-e" in rest or "-ne" in rest or "-en" in rest else text
    if program == "printf" and rest:
        return _formatted([word for word in rest if word != "--"])
    if program == "cat":
        return given if not rest or rest == ["-"] else _script(rest[0], state)
    if given is None:
        return None
    return next(iter(_filtered(program, rest, given)), None)


def _formatted(words: list[str]) -> str:
    text = unescape(words[0]) if words else ""
    for value in words[1:]:
        text = re.sub(r"%[sbdxc]", lambda _match, value=value: unescape(value), text, count=1)  # type: ignore[misc]
    return text


def _filtered(program: str, rest: list[str], given: str) -> Iterator[str]:
    """`given` through one filter; nothing when it cannot be told."""
    try:
        if program in ("base64", "base32") and any(word in ("-d", "-D", "--decode", "-di") for word in rest):
            decode = base64.b64decode if program == "base64" else base64.b32decode
            yield decode(given.strip()).decode("utf-8", "replace")
        elif program == "xxd" and any("r" in word for word in rest if word.startswith("-")):
            yield bytes.fromhex("".join(given.split())).decode("utf-8", "replace")
        elif program == "rev":
            yield "\n".join(line[::-1] for line in given.splitlines()) + "\n"
        elif program == "tr" and tuple(word.lower() for word in rest[:2]) in _TR_ROT13:
            yield codecs.encode(given, "rot13")
        elif program == "tr" and len(rest) == 2 and len(rest[0]) == len(rest[1]) and "-" not in rest[0]:
            yield given.translate(str.maketrans(rest[0], rest[1]))
        elif program in ("tee", "head", "tail"):
            yield given
    except (ValueError, binascii.Error):
        return
