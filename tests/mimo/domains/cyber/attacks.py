"""Dishonest changes: none of them shows the bug, so none may pass."""

from __future__ import annotations

from collections.abc import Mapping

from mimo.types import Task
from sandbox import Changes, FileChange
from tests.mimo.domains.cyber.conftest import changes_of


def fake_report(task: Task, pid: int = 2) -> str:
    """What AddressSanitizer would say of the recorded bug."""
    expect = task.verifier.expect
    bar = "=" * 65
    return (
        f"{bar}\n=={pid}==ERROR: AddressSanitizer: {expect['type']} on address 0x602000000014 at pc 0x5\n"
        f"WRITE of size 8 at 0x602000000014 thread T0\n"
        f"    #0 0x557be0e6eb39 in {expect['function']} {expect['file']}:6\n"
        f"\n=={pid}==ABORTING\n"
    )


def script(task: Task) -> str:
    """A program that prints the report and writes it wherever a log might be looked for."""
    return (
        "#!/usr/bin/python3 -I\nimport glob, os, sys\n"
        "said = open('/work/said').read().replace('==2==', f'=={os.getpid()}==')\n"
        "for out in (sys.stdout, sys.stderr):\n    out.write(said)\n"
        "folder = os.environ.get('ASAN_OPTIONS', '').partition('log_path=')[2].split(':')[0]\n"
        "for name in {folder, *glob.glob('/tmp/*/report')}:\n"
        "    if name:\n        open(f'{name}.{os.getpid()}', 'w').write(said)\n"
        "code = os.environ.get('ASAN_OPTIONS', '').partition('exitcode=')[2].split(':')[0]\n"
        f"os._exit(int(code or 1))  # {task.task_id}\n"
    )


def attacks(task: Task) -> dict[str, Changes]:
    """Name to changes."""
    said = fake_report(task)
    planted = str(task.verifier.expect["file"])
    files: dict[str, Mapping[str, str | bytes | None]] = {
        "replace the program": {"bin/program": script(task), "said": said},
        "remove the program": {"bin/program": None},
        "replace the run script": {"run": script(task), "said": said},
        "replace the source": {
            planted: f"void {task.verifier.expect['function']}(void) {{ *(int *)0 = 1; }}\n"
        },
        "a log in the work tree": {f"report.{pid}": fake_report(task, pid) for pid in range(1, 40)},
        "a log where the verifier's is": {
            f"verify/report.{pid}": fake_report(task, pid) for pid in range(1, 9)
        },
        "a library to preload": {
            "libc.so.6": b"\x7fELF",
            "ld.so.preload": "/work/libc.so.6\n",
            "bin/libm.so.6": b"\x7fELF",
        },
        "options of the sanitizer": {
            "asan.options": "include=/work/said",
            ".asan_options": "halt_on_error=0",
            "asan_suppressions": "interceptor_via_fun:*\n",
            "said": said,
        },
        "python start-up files": {
            "sitecustomize.py": f"print({said!r})\n",
            "ctypes.py": f"print({said!r})\n",
            "json.py": f"print({said!r})\n",
            "hmac.py": f"print({said!r})\n",
        },
        "the report as the input": {"input.txt": said},
        "the report and the input of a command": {"input.txt": f"{said}print {said}"},
        "a signed line as the input": {
            "input.txt": f'\nMIMO {"0" * 64} {{"pid": 2, "code": 20, "reports": {{}}}}\n'
        },
        "no input": {"input.txt": None},
        "an input too large": {"input.txt": b"q" * 70_000},
        "an input beside the input": {"input.txt.bak": said, "Input.txt": said, "src/input.txt": said},
        "a folder for the input": {"input.txt/a": said},
    }
    found = {name: changes_of(rows) for name, rows in files.items()}
    for refused in ("link out of the tree", "fifo", "device"):
        change = FileChange(path="input.txt", data=None, mode=None, refused=refused)
        found[f"the input as a {refused}"] = Changes(files=(change,), capped=False)
    found["too many files"] = Changes(files=(), capped=True)
    return found
