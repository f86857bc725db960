"""One rollout as a transcript that opens and closes: turns, tool calls, verdict, grades, diff."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from mimo.stages.markup import duration, number, text

_MAX_TURNS = 200
_WELL = ("done",)


def transcript(rollout: Mapping[str, Any], note: str) -> str:
    """The rollout (types.Rollout as JSON) as a closed `details` element; `note` says why it is shown."""
    contexts = rollout.get("contexts") or []
    turns = [turn for context in contexts for turn in context.get("turns") or []]
    body = "".join(_turn(turn) for turn in turns[:_MAX_TURNS])
    if len(turns) > _MAX_TURNS:
        body += f'<p class="soft">{len(turns) - _MAX_TURNS} more turns are not shown</p>'
    error = rollout.get("error")
    if error:
        what = f"{error.get('where')}: {error.get('type')}: {error.get('message')}"
        body += _block("error", what)
    if rollout.get("diff"):
        body += _block("diff", rollout["diff"])
    why = f'<br><span class="soft">{text(note)}</span>' if note else ""
    head = f"{text(rollout.get('task_id'))}{''.join(_tags(rollout))}{why}"
    return f"<details><summary>{head}</summary><div>{_facts(rollout)}{body}</div></details>"


def _block(label: str, body: str) -> str:
    return f'<div class="turn"><div class="who">{label}</div><pre>{text(body)}</pre></div>'


def _tags(rollout: Mapping[str, Any]) -> Iterator[str]:
    verdict = rollout.get("verdict")
    if verdict:
        passed = verdict.get("passed")
        yield _tag("passed" if passed else "failed", "good" if passed else "bad")
        if verdict.get("tampered"):
            yield _tag("tampered", "bad")
    status = str(rollout.get("status"))
    if status not in _WELL:
        yield _tag(status, "warn")
    hack = (rollout.get("hack") or {}).get("verdict")
    if hack in ("suspected", "confirmed"):
        yield _tag(f"hack {hack}", "bad")
    if rollout.get("policy"):
        yield _tag(str(rollout["policy"]), "")


def _tag(word: str, kind: str) -> str:
    return f'<span class="tag {kind}">{text(word)}</span>'


def _facts(rollout: Mapping[str, Any]) -> str:
    seconds = rollout.get("seconds") or {}
    grades = rollout.get("grades") or {}
    facts = {
        "rollout": text(rollout.get("rollout_id")),
        "step": text(rollout.get("step")),
        "reward": number(rollout.get("reward")),
        "advantage": number(rollout.get("advantage")),
        "solution grade": number(grades.get("solution")),
        "behavior grade": number(grades.get("behavior")),
        "tokens": f"{number(rollout.get('prompt_tokens'))} + {number(rollout.get('generated_tokens'))}",
        "sampling": duration(seconds.get("sample")),
        "tools": duration(seconds.get("tool")),
        "verifier": duration(seconds.get("verify")),
    }
    cells = "".join(f"<div><dt>{label}</dt><dd>{value}</dd></div>" for label, value in facts.items())
    hack = rollout.get("hack") or {}
    evidence = [*(hack.get("routes") or []), *(hack.get("evidence") or []), *(grades.get("evidence") or [])]
    said = _block("evidence", "\n".join(map(str, evidence))) if evidence else ""
    return f'<dl class="facts" style="margin:0 0 10px">{cells}</dl>{said}'


def _turn(turn: Mapping[str, Any]) -> str:
    role = str(turn.get("role"))
    known = role if role in ("system", "user", "assistant", "tool") else ""
    about = [role]
    result = turn.get("tool_result") or {}
    if result.get("exit_code") is not None:
        about.append(f"exit code {result['exit_code']}")
    if result.get("truncated"):
        about.append("output was cut")
    if turn.get("finish_reason"):
        about.append(f"ended by {turn['finish_reason']}")
    if turn.get("seconds") is not None:
        about.append(duration(turn["seconds"]))
    about.extend(f"flag {flag.get('rule')}" for flag in turn.get("flags") or [])
    calls = "".join(
        f"<pre>{text(call.get('name'))} {text(json.dumps(call.get('arguments'), ensure_ascii=False))}</pre>"
        for call in turn.get("tool_calls") or []
    )
    who = f'<div class="who">{text(" · ".join(about))}</div>'
    return f'<div class="turn {known}">{who}<pre>{text(turn.get("text"))}</pre>{calls}</div>'
