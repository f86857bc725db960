"""The trusted half of the functions runner: holds the hidden tests and compares, never runs policy code.

The plan (key, tests, canaries) comes on standard input, so no file in the box holds it. The modules under
test are stand-ins whose calls go to another process (`functions_child`). The one result line on standard
output is signed with the plan's key.
"""

from __future__ import annotations

import ast
import builtins
import ctypes
import hashlib
import hmac
import importlib.machinery
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

MAX_ANSWER = 1_000_000
_PR_SET_DUMPABLE = 4


class Ended(Exception):
    """The process under test died or took too long; no further test can run."""


class Child:
    """The process that runs the policy's code."""

    def __init__(self, program: str, workdir: str, deadline: float, cpu_s: int) -> None:
        ask_read, self._ask = os.pipe()
        self._answer, answer_write = os.pipe()
        self._deadline = deadline
        self._buffer = b""
        self._ended = False
        self._pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-B", program, workdir, str(cpu_s)],
            {"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "0", "LANG": "C.UTF-8"},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, ask_read, 0),
                (os.POSIX_SPAWN_DUP2, answer_write, 1),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
        )
        os.close(ask_read)
        os.close(answer_write)

    def call(self, module: str, function: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The value the policy's function returns, or the exception it raises."""
        request = {"module": module, "function": function, "arguments": [repr(args), repr(kwargs)]}
        try:
            os.write(self._ask, json.dumps(request).encode() + b"\n")
        except BrokenPipeError as error:
            raise Ended(self._why()) from error
        try:
            answer = json.loads(self._line())
            if "error" in answer:
                raise _exception(str(answer["error"]), str(answer.get("message", "")))
            return ast.literal_eval(answer["value"])
        except (SyntaxError, MemoryError, RecursionError, KeyError, TypeError) as error:
            raise AssertionError("the answer is no plain value") from error

    def _line(self) -> bytes:
        while b"\n" not in self._buffer:
            left = self._deadline - time.monotonic()
            if left <= 0 or not select.select([self._answer], [], [], left)[0]:
                raise Ended("too slow")
            piece = os.read(self._answer, 65536)
            if not piece:
                raise Ended(self._why())
            self._buffer += piece
            if len(self._buffer) > MAX_ANSWER:
                raise Ended("answer too large")
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _why(self) -> str:
        """How it ended, now that its pipe is closed."""
        os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        self._ended = True
        return "too slow" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU else "died"

    def end(self) -> None:
        """Kill and reap it. Idempotent."""
        if not self._ended:
            self._why()


class StandIn(ModuleType):
    """A module under test as the tests see it."""

    def __init__(self, name: str, child: Child) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self._child = child

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        module, child = self.__name__, self._child

        def remote(*args: Any, **kwargs: Any) -> Any:
            return child.call(module, name, args, kwargs)

        return remote


class Finder:
    """Finds stand-ins for the work tree's modules."""

    def __init__(self, names: Sequence[str], child: Child) -> None:
        self._names, self._child = set(names), child

    def find_spec(self, name: str, _path: object, _target: object = None) -> Any:
        """A spec for a module of the work tree, None for every other."""
        known = name.partition(".")[0] in self._names
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if known else None  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> ModuleType:
        """The stand-in."""
        return StandIn(spec.name, self._child)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing of the work tree runs here."""


def _exception(name: str, message: str) -> Exception:
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(message)
        except TypeError:
            return RuntimeError(f"{name}: {message}")
    return RuntimeError(f"{name}: {message}")


def run(plan: dict[str, Any], program: str) -> dict[str, str]:
    """Outcome per id: passed, failed or error; nothing for a test that was not reached."""
    child = Child(program, plan["workdir"], time.monotonic() + plan["timeout_s"], plan["cpu_s"])
    sys.meta_path.insert(0, Finder(plan["modules"], child))
    outcomes: dict[str, str] = {}
    try:
        for name, source in plan["files"]:
            space: dict[str, Any] = {"__name__": name}
            exec(compile(source, name, "exec"), space)
            for test, function in list(space.items()):
                if test.startswith("test_") and callable(function):
                    outcomes[f"{name}::{test}"] = _outcome(function)
    except Ended as error:
        outcomes["ended"] = str(error)
    finally:
        child.end()
    return outcomes


def _outcome(test: Callable[[], object]) -> str:
    try:
        test()
    except Ended:
        raise
    except AssertionError:
        return "failed"
    except Exception as error:  # noqa: BLE001 - any exception of a test is its outcome
        return f"error: {type(error).__name__}"
    return "passed"


def main() -> None:
    """Read the plan, run it, print the signed result."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # others of our user may not read our memory
    plan = json.loads(sys.stdin.buffer.read())
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "functions_child.py")  # noqa: PTH100, PTH118, PTH120
    body = json.dumps(run(plan, program))
    print(f"MIMO {hmac.new(plan['key'].encode(), body.encode(), hashlib.sha256).hexdigest()} {body}")


if __name__ == "__main__":
    main()
