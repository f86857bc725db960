"""The records that travel between stages; frozen, no torch, no I/O (to and from JSON lines: `mimo.records`).

`None` means «not yet» or «does not apply», never 0. A change is `dataclasses.replace`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeVar, dataclass_transform

from typing_extensions import TypeAliasType

SCHEMA = 1

Json = TypeAliasType("Json", "bool | int | float | str | list[Json] | dict[str, Json] | None")
_T = TypeVar("_T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def record(cls: type[_T]) -> type[_T]:
    """Make `cls` a frozen, keyword-only, slotted dataclass whose JSON form refuses unknown fields."""
    setattr(cls, "__pydantic_config__", {"extra": "forbid", "strict": True})  # noqa: B010 - read by pydantic
    return dataclass(frozen=True, kw_only=True, slots=True)(cls)


Domain = Literal["coding", "agent", "visual", "cyber"]
Split = Literal["train", "heldout"]
Routing = Literal["plain", "grs", "gar"]
Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "abort", "tool"]


class RolloutStatus(StrEnum):
    """How a rollout ended; only `done` and `truncated` carry a verdict."""

    DONE = "done"
    TRUNCATED = "truncated"
    TIMEOUT = "timeout"
    LIMIT = "limit"
    ERROR = "error"
    CANCELLED = "cancelled"


class HackVerdict(StrEnum):
    """What an audit says of a rollout; `unaudited` is counted and never becomes a number."""

    CLEAN = "clean"
    SUSPECTED = "suspected"
    CONFIRMED = "confirmed"
    UNAUDITED = "unaudited"


@record
class Source:
    """Where a task comes from; `sha256` is of the archive or folder it was made from."""

    kind: str
    name: str
    version: str
    sha256: str
    license: str


@record
class Limits:
    """What a policy's box may use; seconds, MiB, counts, bytes."""

    wall_s: float
    turn_s: float
    command_s: float
    memory_mb: int
    processes: int
    disk_mb: int
    output_bytes: int


@record
class Environment:
    """The box of a task: `image` names the root file system, `snapshot` the sha256 of the work tree."""

    image: str
    snapshot: str
    workdir: str
    env: dict[str, str]
    limits: Limits


@record
class Verifier:
    """How a rollout is judged. `protected` are globs restored from the base; `expect` is kind-specific."""

    kind: Literal["tests", "checks", "render", "sanitizer"]
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    protected: tuple[str, ...]
    command: str
    timeout_s: float
    expect: dict[str, Json] = field(default_factory=dict)


@record
class Attestation:
    """Proof that probes found a snapshot clean; filled by probe-hacks."""

    snapshot: str
    probes_version: int
    clean_rounds: int
    verdict: Literal["clean", "quarantined"]


@record
class Task:
    """One task. `private` is a key into a store that is never mounted into a policy's box."""

    task_id: str
    domain: Domain
    family: str
    split: Split
    source: Source
    instruction: str
    images: tuple[str, ...] = ()
    base_commit: str | None = None
    environment: Environment
    verifier: Verifier
    private: str
    attestation: Attestation | None = None
    pass_rate: float | None = None
    routing: Routing = "plain"


@record
class ToolCall:
    """One action the harness's parser read from a turn."""

    name: str
    arguments: dict[str, Json]


@record
class ToolResult:
    """What the tool gave back; the text is the turn's `text`."""

    exit_code: int | None
    truncated: bool


@record
class Flag:
    """A rule of the harness's parser that hit; `span` is [start, end) into the context's payload."""

    rule: str
    span: tuple[int, int]


@record
class Turn:
    """One message. `span` is [start, end) into the payload; assistant turns carry what the engine said."""

    role: Role
    text: str
    span: tuple[int, int]
    images: tuple[str, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_result: ToolResult | None = None
    weight_version: int | None = None
    finish_reason: FinishReason | None = None
    flags: tuple[Flag, ...] = ()
    seconds: float | None = None


@record
class Context:
    """One dialogue branch of a rollout; `parent` is the context it was branched from."""

    context_id: str
    parent: str | None
    turns: tuple[Turn, ...]


@record
class RolloutError:
    """Why a rollout failed: the boundary crossed, the exception's type, its message."""

    where: str
    type: str
    message: str


@record
class Verdict:
    """What the verifier says; `tampered` is a canary or sentinel that did not hold."""

    passed: bool
    tampered: bool
    detail: dict[str, Json] = field(default_factory=dict)


@record
class Grades:
    """How good a passing rollout is; each in [0, 1] or None where that grader did not run."""

    solution: float | None = None
    behavior: float | None = None
    quality: float | None = None
    tier: str | None = None
    evidence: tuple[str, ...] = ()
    grader: str


@record
class HackFinding:
    """The audit of one rollout: verdict, routes used, evidence."""

    verdict: HackVerdict
    routes: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()


@record
class Seconds:
    """Wall seconds of a rollout by part."""

    sample: float = 0.0
    tool: float = 0.0
    verify: float = 0.0
    grade: float = 0.0


@record
class Rollout:
    """One attempt at a task. The loop fills it up to `verdict`; audit, graders and rl-mixed fill the rest."""

    rollout_id: str
    group_id: str
    task_id: str
    domain: Domain
    harness: str
    policy: str
    step: int
    seed: int
    status: RolloutStatus
    error: RolloutError | None = None
    contexts: tuple[Context, ...] = ()
    diff: str | None = None
    verdict: Verdict | None = None
    grades: Grades | None = None
    hack: HackFinding | None = None
    reward: float | None = None
    advantage: float | None = None
    num_turns: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    seconds: Seconds = field(default_factory=Seconds)
    cost_usd: float | None = None


@record
class Group:
    """The rollouts of one task in one step, accepted or rejected whole."""

    group_id: str
    task_id: str
    step: int
    rollout_ids: tuple[str, ...]
    method: Routing
    accepted: bool
    reason: str | None
    statistics: dict[str, Json] = field(default_factory=dict)


@record
class Criterion:
    """One atomic rubric item: a yes/no question with an anchor for yes and the evidence it needs."""

    id: str
    set: Literal["solution", "behavior"]
    tier: Literal["critical", "important"]
    weight: float
    method: Literal["llm", "rule"]
    question: str
    pass_anchor: str
    evidence: str


@record
class Rubric:
    """The criteria of one task, the attempts they were contrasted on, and how far they separate them."""

    task_id: str
    criteria: tuple[Criterion, ...]
    attempts: tuple[str, ...]
    separation: float | None


@record
class LeakFinding:
    """An open route in an environment; the evidence is named by digest, never quoted."""

    route: str
    path: str
    evidence_sha256: str
    severity: Literal["info", "leak", "critical"]


@record
class LeakReport:
    """One probe round over one task; `controls` says whether the planted leaks were found."""

    task_id: str
    round: int
    findings: tuple[LeakFinding, ...]
    fixes: tuple[str, ...]
    controls: dict[str, bool]


@record
class CheckpointFile:
    """A file of a checkpoint."""

    name: str
    size: int
    sha256: str | None = None
    """None in records of earlier versions, which left large files out."""
    whole: bool = True
    """False where it covers size, head and 64 spread chunks only, as in a folder above 1 TiB."""


@record
class Checkpoint:
    """`checkpoint.json`, written last: only a folder that has it counts."""

    kind: str
    step: int
    parent: str | None
    source: str
    tokenizer_sha256: str
    files: tuple[CheckpointFile, ...]
    rng: dict[str, Json] = field(default_factory=dict)
    data_cursor: dict[str, Json] = field(default_factory=dict)
    mixer: dict[str, Json] = field(default_factory=dict)
    queue: tuple[str, ...] = ()


@record
class Event:
    """One line of `events.jsonl`; `about` holds what the event is about."""

    ts: float
    run: str
    stage: str | None
    event: str
    about: dict[str, Json] = field(default_factory=dict)
