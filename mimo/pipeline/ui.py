"""MLflow's own pages over a run's tracking store, on this machine only, as long as the caller lives."""

from __future__ import annotations

import os
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from mimo.backends.guardian import Guarded
from mimo.errors import EngineFailed, RecipeError
from mimo.pipeline.compare import find_run
from mimo.pipeline.compared_run import ComparedRun, mlflow_place
from mimo.recipe.environment import resolve_env
from mimo.run_dir.home import Home, find_home
from mimo.tracking.connection import without_password
from mimo.tracking.environment import clean_environment

HOST = "127.0.0.1"
USUAL_PORT = 5000
"""MLflow's own; another free one is taken when it is not to be had."""
LOG = "mlflow-ui.log"
_READY_S = 180.0
_POLL_S = 0.2
_LOG_LINES = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Pages:
    """Where MLflow's pages are. `page` is that of the run; `guarded` None: a server that is not ours."""

    url: str
    page: str
    store: str
    """The tracking store without a password."""
    log_file: Path | None = None
    guarded: Guarded | None = None

    def wait(self) -> None:
        """Return never while the server lives.

        Raises:
            EngineFailed: it ended by itself; the message has the end of its log.
        """
        assert self.guarded is not None
        while self.guarded.poll() is None:
            time.sleep(_POLL_S)
        raise _died(self.log_file)

    def close(self) -> None:
        """End the server's whole tree. Idempotent."""
        if self.guarded is not None:
            self.guarded.close()

    def __enter__(self) -> Pages:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_pages(
    name: str | None = None, profile: str | None = None, *, starting: Callable[[], None] = lambda: None
) -> Pages:
    """MLflow's pages over the store of the run `name` means, or of the state folder here; they answer.

    `starting` is called before a server starts, which takes a while.

    However this process ends, the server's tree ends with it (a guardian holds a pipe).

    Raises:
        RecipeError: no such run, a run that is not tracked, or a state folder in which nothing was tracked.
        EngineFailed: the server ended or did not answer in time.
    """
    if name is None:
        return _served(find_home(Path.cwd() / "recipe.yaml"), None, "/", starting)
    side = find_run(name, profile)
    place = mlflow_place(side)
    if not place:
        raise RecipeError(
            f"run {side.run.run_id} was not tracked (runtime.tracking_uri: none)",
            hint="`mimo show` reads its files",
        )
    page = "/"
    if place["experiment_id"] and place["run_id"]:
        page = f"/#/experiments/{place['experiment_id']}/runs/{place['run_id']}"
    uri = _uri(side)
    if uri is not None and uri.startswith(("http://", "https://")):
        url = without_password(uri).rstrip("/")
        return Pages(url=url, page=f"{url}{page}", store=url)
    return _served(side.home, uri, page, starting)


def _uri(side: ComparedRun) -> str | None:
    """The tracking URI of the run's recipe with its secrets; None: sqlite in the state folder."""
    runtime = side.record.recipe.get("runtime")
    uri = runtime.get("tracking_uri") if isinstance(runtime, dict) else None
    return None if uri is None else resolve_env(str(uri))


def _served(home: Home, uri: str | None, page: str, starting: Callable[[], None]) -> Pages:
    database = home.root / "mlflow.db"
    if uri is None and not database.is_file():
        raise RecipeError(
            f"nothing was tracked in {home.root} yet: there is no {database.name}",
            hint="`mimo run` tracks; `mimo track sync` rebuilds MLflow from the files of runs",
        )
    store = uri or f"sqlite:///{database}"
    starting()
    port = _free_port()
    url = f"http://{HOST}:{port}"
    log_file = home.root / LOG
    log_file.unlink(missing_ok=True)
    guarded = Guarded.start(_command(port, home), env=_environment(store), log_file=log_file, cwd=home.root)
    try:
        _wait_ready(guarded, url, log_file)
    except BaseException:
        guarded.close()
        raise
    return Pages(
        url=url, page=f"{url}{page}", store=without_password(store), log_file=log_file, guarded=guarded
    )


def _command(port: int, home: Home) -> list[str]:
    """One worker is enough for one person; the store's URI goes by environment, as `ps` shows arguments."""
    return [
        sys.executable,
        *("-m", "mlflow", "server", "--host", HOST, "--port", str(port), "--workers", "1"),
        *("--artifacts-destination", str(home.root / "mlartifacts")),
    ]


def _environment(store: str) -> dict[str, str]:
    return {
        **clean_environment(os.environ),
        "MLFLOW_BACKEND_STORE_URI": store,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }


def _free_port() -> int:
    for wanted in (USUAL_PORT, 0):
        with socket.socket() as probe:
            try:
                probe.bind((HOST, wanted))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise EngineFailed("no free port on this machine")


def _wait_ready(guarded: Guarded, url: str, log_file: Path) -> None:
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        if guarded.poll() is not None:
            raise _died(log_file)
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(_POLL_S)
    raise EngineFailed(f"MLflow's server did not answer within {_READY_S:.0f} s", hint=f"see {log_file}")


def _died(log_file: Path | None) -> EngineFailed:
    lines = log_file.read_text(errors="replace").splitlines()[-_LOG_LINES:] if log_file else []
    return EngineFailed("\n  ".join(["MLflow's server ended", *lines]), hint=f"the whole log: {log_file}")
