"""The command that runs a task's visible tests, and its output cut down to what a short context can hold."""

from __future__ import annotations

import re
import shlex

from mimo.harnesses.sanitizer_lines import telling_lines
from mimo.types import Task

# Runs plain `test_*` functions of the files named, without pytest: starting pytest costs ten times as much.
_RUNNER = """
import importlib.util, os, resource, signal, sys
def slow(*_):
    print("FAIL: too slow", flush=True)
    os._exit(1)
signal.signal(signal.SIGXCPU, slow)
resource.setrlimit(resource.RLIMIT_CPU, (3, 4))
sys.dont_write_bytecode = True
sys.path.insert(0, os.getcwd())
good = 0
for number, path in enumerate(sys.argv[1:]):
    try:
        spec = importlib.util.spec_from_file_location(f"visible_{number}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        lines = open(path).read().split("\\n")
    except BaseException as error:
        print(f"ERROR {path}: {type(error).__name__}: {str(error)[:80]}")
        continue
    for name, test in list(vars(module).items()):
        if name.startswith("test_") and callable(test):
            try:
                test()
                good += 1
            except BaseException as error:
                trace = error.__traceback__.tb_next
                line = lines[trace.tb_lineno - 1].strip() if trace else name
                word = "" if isinstance(error, AssertionError) else f" ({type(error).__name__})"
                print(f"FAIL {line}{word}")
print(f"{good} passed")
"""


def visible_command(task: Task) -> str:
    """The command behind `<test/>`: the small runner for generated tasks, else the verifier's command."""
    if task.verifier.expect.get("runner") == "functions":
        visible = task.verifier.expect.get("visible")
        paths = [str(path) for path in visible] if isinstance(visible, list) else []
        return " ".join(["python3", "-c", shlex.quote(_RUNNER), *map(shlex.quote, paths)])
    return task.verifier.command


def shortened(output: str, max_chars: int) -> str:
    """The output without terminal escapes; when too long, the lines that tell most (from the end)."""
    plain = re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|[\x00-\x08\x0b-\x1f\x7f]", "", output).strip()
    if len(plain) <= max_chars:
        return plain
    if report := telling_lines(plain, max_chars):
        return report
    telling = [
        line
        for line in plain.split("\n")
        if re.match(r"(E  |FAILED|ERROR|FAIL|=+ .*(passed|failed|error))", line)
    ]
    text = "\n".join(telling) or plain
    return text if len(text) <= max_chars else "…" + text[-max_chars + 1 :]
