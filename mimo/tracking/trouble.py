"""What a failed call to MLflow means: wait and replay, or leave this one out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mimo.tracking.connection import ExperimentDeleted, without_password


@dataclass(frozen=True, kw_only=True, slots=True)
class Trouble:
    """`kind` is warned about once; `passing` False: the call itself is refused and never sent again."""

    kind: str
    message: str
    passing: bool = True


_KINDS = (
    ("database locked", r"database is locked|database table is locked|database schema is locked"),
    ("disk full", r"No space left|disk is full|Disk quota exceeded|Errno 28"),
    ("run deleted", r"must be in the 'active' state|Run with id=\S+ not found|Run '\S+' not found"),
    ("database read-only", r"readonly database|unable to open database|Permission denied|Read-only file"),
    ("old database schema", r"out-of-date database schema|Can't locate revision"),
    ("server unreachable", r"Max retries exceeded|Connection refused|Connection aborted|timed out|Name or"),
    ("server refuses", r"\b(401|403|Unauthorized|Forbidden|Invalid Host header)\b"),
    ("server error", r"\b(429|500|502|503|504)\b"),
    ("database error", r"OperationalError|TEMPORARILY_UNAVAILABLE"),
)
_HELP = {
    "run deleted": "the run was deleted in MLflow; it is restored, or a new one is made and filled from the "
    "files",
    "old database schema": "the database was made by another MLflow version; "
    "stop all runs and do `mlflow db upgrade {location}`",
    "server refuses": "check MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_TOKEN, the server's --allowed-hosts",
}


def diagnose(error: Exception, shown: str) -> Trouble:
    """The kind of trouble behind `error`, with MLflow at `shown`; what nobody foresaw is not repeated."""
    if isinstance(error, ExperimentDeleted):
        return Trouble(kind="experiment deleted", message=f"{error.message}. {error.hint}")
    text = without_password(" ".join(str(error).split()))
    for kind, pattern in _KINDS:
        if re.search(pattern, text):
            reason = _HELP.get(kind, "").format(location=shown) or text[:200]
            return Trouble(kind=kind, message=f"{kind}: {reason}")
    name = type(error).__name__
    outside = isinstance(error, OSError) or type(error).__module__.startswith(("sqlalchemy", "sqlite3"))
    passing = outside and not isinstance(error, FileNotFoundError)
    return Trouble(kind=name, message=f"{name}: {text[:200]}", passing=passing)
