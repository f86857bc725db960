"""A sampled rollout as an MLflow trace: a span per turn and tool call, grades and verdicts as feedback.

Spans and trace are written straight to the store with ids made from the rollout's: no global tracing state,
no export threads (they lose errors and outlive a fork), and a trace that is there is not written again.
What a policy wrote is hostile: every text is cut, NULs and lone surrogates are replaced.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from mimo.tracking.connection import Connection
from mimo.tracking.feedback import feedback
from mimo.tracking.names import cut, tag_text
from mimo.types import Json

if TYPE_CHECKING:
    from mlflow.entities import Span
    from mlflow.tracing.client import TracingClient

TEXT_LIMIT = 20_000
"""Characters of one field."""
MAX_TURNS = 200
PREVIEW = 1_000
_ENDED_WELL = ("done", "truncated")


@dataclass(frozen=True, kw_only=True, slots=True)
class Where:
    """Which stage's run the trace belongs to, and when the rollout was reported (seconds)."""

    run: str
    stage: str
    step: int
    mlflow_id: str
    ts: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """One span to be: its kind, what went in and out, when (nanoseconds)."""

    name: str
    kind: str
    inputs: Json
    outputs: Json
    start: int
    end: int
    failed: bool = False


def shrink(value: Json) -> Json:
    """`value` with every text cut to the limit and long lists of turns shortened, safe to store anywhere."""
    if isinstance(value, str):
        return cut(value, TEXT_LIMIT)
    if isinstance(value, dict):
        return {cut(key, 200): shrink(item) for key, item in list(value.items())[:MAX_TURNS]}
    if isinstance(value, list):
        return [shrink(item) for item in value[:MAX_TURNS]]
    return value


def send(connection: Connection, where: Where, data: Mapping[str, Json]) -> int:
    """Write the trace unless MLflow has it; 1 if it was written, else 0."""
    from mlflow.tracing.client import TracingClient

    rollout = cast("Mapping[str, Any]", shrink(data["rollout"]))
    client = TracingClient(connection.location)
    number = _number(where.mlflow_id, str(where.step), str(rollout.get("rollout_id")))
    trace_id = f"tr-{number:032x}"
    if _complete(client, trace_id):
        return 0
    pieces = list(_pieces(rollout, where))
    client.log_spans(connection.experiment_id, _spans(number, trace_id, pieces))
    client.start_trace(_info(connection, trace_id, where, data, pieces[0], rollout))
    return 1


def _complete(client: TracingClient, trace_id: str) -> bool:
    """Whether the last thing written of a trace, its tags, is there."""
    from mlflow.exceptions import MlflowException

    try:
        return "mimo.stage" in client.get_trace_info(trace_id).tags
    except MlflowException as error:
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "NOT_FOUND"):
            return False
        raise


def _info(
    connection: Connection,
    trace_id: str,
    where: Where,
    data: Mapping[str, Json],
    root: Piece,
    rollout: Mapping[str, Any],
) -> Any:
    from mlflow.entities import TraceInfo, TraceLocation, TraceState

    used = {
        "input_tokens": int(rollout.get("prompt_tokens") or 0),
        "output_tokens": int(rollout.get("generated_tokens") or 0),
    }
    return TraceInfo(
        trace_id=trace_id,
        trace_location=TraceLocation.from_experiment_id(connection.experiment_id),
        request_time=root.start // 1_000_000,
        execution_duration=(root.end - root.start) // 1_000_000,
        state=TraceState.ERROR if root.failed else TraceState.OK,
        request_preview=_preview(root.inputs),
        response_preview=_preview(root.outputs),
        trace_metadata={
            "mlflow.sourceRun": where.mlflow_id,
            "mlflow.trace_schema.version": "3",
            "mlflow.trace.tokenUsage": json.dumps({**used, "total_tokens": sum(used.values())}),
        },
        tags=_tags(where, data, rollout),
        assessments=feedback(rollout),
    )


def _tags(where: Where, data: Mapping[str, Json], rollout: Mapping[str, Any]) -> dict[str, str]:
    own = ("rollout_id", "group_id", "task_id", "domain", "harness", "policy", "status")
    tags = {f"mimo.{key}": tag_text(rollout[key]) for key in own if rollout.get(key) is not None}
    extra = {
        f"mimo.{key}": tag_text(value)
        for key, value in data.items()
        if key != "rollout" and isinstance(value, str | int | float | bool)
    }
    place = {"mimo.run": where.run, "mimo.stage": where.stage, "mimo.step": str(where.step)}
    name = f"{rollout.get('domain', '')} {rollout.get('task_id', 'rollout')}".strip()
    return {**extra, **tags, **place, "mlflow.traceName": name[:200]}


def _pieces(rollout: Mapping[str, Any], where: Where) -> Iterator[Piece]:
    """The root first, then turns and tool calls in order, laid end to end where only durations are known."""
    end = int(where.ts * 1e9)
    turns = [
        (context.get("context_id", ""), turn)
        for context in rollout.get("contexts") or []
        for turn in context.get("turns") or []
    ][:MAX_TURNS]
    total = sum(_nanoseconds(turn) for _, turn in turns)
    yield Piece(
        name="rollout",
        kind="AGENT",
        inputs=_first_messages(turns),
        outputs={
            key: rollout.get(key) for key in ("status", "error", "reward", "advantage", "diff", "verdict")
        },
        start=end - total,
        end=end,
        failed=rollout.get("status") not in _ENDED_WELL,
    )
    clock = end - total
    asked: list[Json] = []
    calls: Sequence[Json] = []
    several = len(rollout.get("contexts") or []) > 1
    for index, (context, turn) in enumerate(turns):
        label = f"{context} turn {index}" if several else f"turn {index}"
        took = _nanoseconds(turn)
        if turn.get("role") == "assistant":
            calls = turn.get("tool_calls") or []
            yield _answer(label, turn, asked, clock, clock + took)
            asked = []
        else:
            asked.append({"role": turn.get("role"), "content": turn.get("text")})
            if turn.get("role") == "tool":
                yield _tool(label, turn, calls, clock, clock + took)
        clock += took


def _answer(label: str, turn: Mapping[str, Any], asked: list[Json], start: int, end: int) -> Piece:
    facts = ("finish_reason", "weight_version", "flags", "tool_calls", "span")
    said = {"role": "assistant", "content": turn.get("text"), **{key: turn.get(key) for key in facts}}
    return Piece(name=label, kind="LLM", inputs={"messages": asked}, outputs=said, start=start, end=end)


def _tool(label: str, turn: Mapping[str, Any], calls: Sequence[Json], start: int, end: int) -> Piece:
    result = turn.get("tool_result") or {}
    failed = result.get("exit_code") not in (None, 0)
    outputs = {"text": turn.get("text"), **result}
    name = ", ".join(str(call.get("name")) for call in calls if isinstance(call, dict)) or "tool"
    return Piece(
        name=f"{label}: {name}"[:200],
        kind="TOOL",
        inputs={"calls": list(calls)},
        outputs=outputs,
        start=start,
        end=end,
        failed=failed,
    )


def _first_messages(turns: Sequence[tuple[str, Mapping[str, Any]]]) -> Json:
    messages: list[Json] = []
    for _, turn in turns:
        if turn.get("role") == "assistant":
            break
        messages.append({"role": turn.get("role"), "content": turn.get("text")})
    return {"messages": messages}


def _spans(number: int, trace_id: str, pieces: Sequence[Piece]) -> list[Span]:
    from mlflow.entities import Span
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, TraceFlags
    from opentelemetry.trace.status import Status, StatusCode

    def context(index: int) -> SpanContext:
        return SpanContext(number, index + 1, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))

    return [
        Span(
            ReadableSpan(
                name=piece.name,
                context=context(index),
                parent=context(0) if index else None,
                attributes={
                    "mlflow.traceRequestId": json.dumps(trace_id),
                    "mlflow.spanType": json.dumps(piece.kind),
                    "mlflow.spanInputs": json.dumps(piece.inputs),
                    "mlflow.spanOutputs": json.dumps(piece.outputs),
                },
                start_time=piece.start,
                end_time=piece.end,
                status=Status(StatusCode.ERROR if piece.failed else StatusCode.OK),
            )
        )
        for index, piece in enumerate(pieces)
    ]


def _number(*parts: str) -> int:
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:16], "big")


def _nanoseconds(turn: Mapping[str, Any]) -> int:
    return int(float(turn.get("seconds") or 0.0) * 1e9)


def _preview(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)[:PREVIEW]
