"""Mistakes of the scripted expert, and how it corrects one: named first, then put right by the specification.

The mistake's effect on the files is worked out with the harness's own reader and editor, so that the
correction also holds for a faulty turn that some policy wrote: whatever it broke is restored.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from mimo.domains.base import Fault, NotCorrectable, TaskStore
from mimo.domains.coding.expert import one_line_edit, refuse_foreign
from mimo.domains.coding.generated.mutate import bugs
from mimo.domains.coding.reference import reference_files
from mimo.harnesses.base import ExpertTurn
from mimo.harnesses.edit_lines import MAX_FILE_BYTES, TOOLS, edited
from mimo.harnesses.markup import parse_actions
from mimo.types import Task, ToolCall

HARNESS = "edit-lines"
TEST, SUBMIT = "<test/>", "<submit/>"


def possible_faults(task: Task, store: TaskStore, *, harness: str, seed: int) -> list[Fault]:
    """A wrong line edited, a malformed call, a wrong repair of the right line; each where the task has room.

    Submitting too early is none of them: this harness ends the rollout there, so nothing could follow.
    """
    refuse_foreign(task, harness)
    if harness != HARNESS:
        return []
    path, line, code = one_line_edit(store.snapshot(task), store.private(task))
    rng = random.Random(f"fault/{task.task_id}/{seed}")
    text = (store.snapshot(task) / path).read_text()
    made = [
        *_wrong_line(path, text, line, code, rng),
        _malformed_call(path, line, code, rng),
        *_wrong_repair(path, text, line, code, rng),
    ]
    rng.shuffle(made)
    return made


def corrected(
    task: Task, store: TaskStore, *, harness: str, fault: Fault, max_turns: int
) -> Sequence[ExpertTurn]:
    """A look where the file is not shown, the faulty turns, tests, the correction, tests, submit.

    Raises:
        NotCorrectable: the faulty turns end the rollout or leave nothing to correct, or the note cannot be
            said beside an action.
    """
    refuse_foreign(task, harness)
    if harness != HARNESS:
        raise NotCorrectable(f"mistakes are written in the words of {HARNESS}, not of {harness}")
    base, wanted = store.snapshot(task), _wanted(store.private(task))
    state = _after(fault.turns, base)
    repairs = [
        turn
        for path in sorted({*state, *wanted})
        for turn in _repairs(path, _known(state, base, path), _known(wanted, base, path))
    ]
    if not repairs:
        raise NotCorrectable("the faulty turn leaves nothing to correct")
    repairs[0] = _named(fault.note, repairs[0])
    before = [] if task.verifier.expect.get("shown") else [_turn(_look(min(wanted)), "look")]
    before += [ExpertTurn(text=text, facts={"action": "fault"}, faulty=True) for text in fault.turns]
    after = [*(_turn(text, "edit") for text in repairs), _turn(SUBMIT, "submit")]
    spare = max_turns - len(before) - len(after)
    if fault.tests == "yes" or (fault.tests == "if-room" and spare > 0):
        before.append(ExpertTurn(text=TEST, facts={"action": "test", "shows_fault": True}))
        spare -= 1
    if spare > 0:
        after.insert(-1, _turn(TEST, "test"))
    return [*before, *after]


def _wrong_line(path: str, text: str, line: int, code: str, rng: random.Random) -> Iterator[Fault]:
    """The repair, written over a neighbour of the line that needs it."""
    lines = text.split("\n")
    function = _function_at(text, line)
    if function is None:
        return
    first, last = function.lineno + 1, function.end_lineno or line
    near = [n for n in (line - 1, line + 1) if first <= n <= last and lines[n - 1].strip()]
    near = [n for n in near if lines[n - 1].strip() != code]
    if near:
        wrong = rng.choice(near)
        note = f"line {wrong} was right; line {line} is not what the docstring says."
        yield Fault(kind="wrong-line", note=note, turns=(_edit(path, wrong, wrong, code),))


def _malformed_call(path: str, line: int, code: str, rng: random.Random) -> Fault:
    said = [
        (f'<edit path="{path}" line="{line}">{code}', "the edit was not closed."),
        (f'<edit path="{path}" line={line}>{code}</edit>', "the line number had no quotes."),
        (f'<edit path="{path}">{code}</edit>', "the edit named no line."),
        (f'<replace path="{path}" line="{line}">{code}</replace>', "there is no tool replace."),
    ]
    text, note = rng.choice([row for row in said if parse_actions(row[0], TOOLS).call is None])
    return Fault(kind="malformed-call", note=note, turns=(text,))


def _wrong_repair(path: str, text: str, line: int, code: str, rng: random.Random) -> Iterator[Fault]:
    """Another mutation of the right line than the one that the task has; the visible tests have to fail."""
    lines = text.split("\n")
    broken = lines[line - 1]
    lines[line - 1] = broken[: len(broken) - len(broken.lstrip())] + code
    function = _function_at("\n".join(lines), line)
    if function is None:
        return
    source = "\n".join(lines[function.lineno - 1 : function.end_lineno])
    found = [bug.broken.strip() for bug in bugs(source) if bug.line == line - function.lineno + 1]
    others = [other for other in found if other != broken.strip()]
    if others:
        note = f"the tests fail: line {line} is still not what the docstring says."
        turns = (_edit(path, line, line, rng.choice(others)),)
        yield Fault(kind="edit-fails-tests", note=note, turns=turns, tests="yes")


def _function_at(text: str, line: int) -> ast.FunctionDef | None:
    """The top-level function that holds the line."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0):
            return node
    return None


def _wanted(private: Path) -> dict[str, str]:
    return {path: (data or b"").decode() for path, data in reference_files(private).items()}


def _after(turns: Sequence[str], base: Path) -> dict[str, str]:
    """The texts of the files that the faulty turns change."""
    state: dict[str, str] = {}
    for turn in turns:
        call = parse_actions(turn, TOOLS).call
        if call is not None and call.name == "submit":
            raise NotCorrectable("the faulty turn ends the rollout")
        if call is not None and call.name == "edit":
            path = str(call.arguments["path"])
            text = state[path] if path in state else _text(base, path)
            made = None if text is None else edited(path, text, call)
            if made is not None and not isinstance(made, str):
                state[path] = made.text
    return state


def _known(texts: dict[str, str], base: Path, path: str) -> str:
    """The text in `texts`, else as the base has it."""
    text = texts.get(path)
    if text is None:
        text = _text(base, path)
    if text is None:
        raise NotCorrectable("a file that is no text in the base has to be restored")
    return text


def _text(base: Path, path: str) -> str | None:
    """A file's text as the harness reads it; None where the harness refuses to edit."""
    file = base / path
    if not file.is_file() or file.is_symlink() or file.stat().st_size > MAX_FILE_BYTES:
        return None
    try:
        return file.read_bytes().decode()
    except UnicodeDecodeError:
        return None


def _repairs(path: str, now: str, wanted: str) -> list[str]:
    """No edit, or the one that makes `wanted` of `now`: from the first line that differs to the last."""
    if now == wanted:
        return []
    old, new = now.split("\n"), wanted.split("\n")
    tail = _common(old[::-1], new[::-1])  # first, so that the text's end, which is no line, stays out
    head = min(_common(old, new), len(old) - tail, len(new) - tail)
    for first in range(head, -1, -1):  # further up where the harness would give a bare line an indentation
        last = len(old) - tail
        if last > first:
            body = new[first : len(new) - tail]
            for text in _spelt(path, first + 1, last, body):
                call = parse_actions(text, TOOLS).call
                made = edited(path, now, call) if call is not None else ""
                if not isinstance(made, str) and made.text == wanted:
                    return [text]
    raise NotCorrectable("no single edit of a file restores it")


def _spelt(path: str, first: int, last: int, body: list[str]) -> Iterator[str]:
    """One line the short way if that is enough, else as it has to stand in the file."""
    if len(body) == 1:
        yield _edit(path, first, last, body[0].strip())
    yield _edit(path, first, last, "\n".join(body))
    yield _edit(path, first, last, "\n" + "\n".join(body) + "\n")


def _common(left: Sequence[str], right: Sequence[str]) -> int:
    pairs = zip(left, right, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))


def _named(note: str, action: str) -> str:
    """The turn that names the mistake and carries out `action`, which must be all that the harness reads."""
    text = f"Mistake: {note} Correction:\n{action}"
    said, alone = parse_actions(text, TOOLS), parse_actions(action, TOOLS)
    if said.call != alone.call or said.malformed or not isinstance(said.call, ToolCall):
        raise NotCorrectable("the note of the mistake holds markup")
    return text


def _edit(path: str, first: int, last: int, code: str) -> str:
    lines = f"{first}" if first == last else f"{first}-{last}"
    return f'<edit path="{path}" line="{lines}">{code}</edit>'


def _look(path: str) -> str:
    return f'<look path="{path}"/>'


def _turn(text: str, action: str) -> ExpertTurn:
    return ExpertTurn(text=text, facts={"action": action})
