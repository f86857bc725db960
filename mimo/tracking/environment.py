"""What MLflow reads from the environment: nothing of a user's shell, and no telemetry."""

from __future__ import annotations

import os
from collections.abc import Mapping

QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
_OURS = {
    **QUIET,
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false",
    "MLFLOW_ASYNC_TRACE_LOGGING_MAX_WORKERS": "1",
    "MLFLOW_ASYNC_TRACE_LOGGING_MAX_SPAN_BATCH_SIZE": "512",
}
_CREDENTIALS = (
    "MLFLOW_TRACKING_USERNAME",
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_TRACKING_TOKEN",
    "MLFLOW_TRACKING_INSECURE_TLS",
    "MLFLOW_TRACKING_SERVER_CERT_PATH",
    "MLFLOW_TRACKING_CLIENT_CERT_PATH",
    "MLFLOW_S3_ENDPOINT_URL",
)
"""How to reach a server; kept for this process, never handed to a child."""


def clean_environment(env: Mapping[str, str]) -> dict[str, str]:
    """`env` for a child process: no `MLFLOW_*` (a run id or URI there redirects MLflow), telemetry off."""
    return {**{name: value for name, value in env.items() if not name.startswith("MLFLOW_")}, **QUIET}


def prepare_environment() -> None:
    """Set up this process before the first `import mlflow`: short retries, no telemetry, no inherited run."""
    for name in [name for name in os.environ if name.startswith("MLFLOW_") and name not in _CREDENTIALS]:
        del os.environ[name]
    os.environ.update(_OURS)
