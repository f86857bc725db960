"""Where MLflow keeps things, opened: a client, the experiment, the WAL database with absolute paths."""

from __future__ import annotations

import fcntl
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mimo.errors import MimoError
from mimo.tracking.environment import prepare_environment

if TYPE_CHECKING:
    from mlflow import MlflowClient


class ExperimentDeleted(MimoError):
    """The experiment was deleted in MLflow; its name stays taken, so that only a person can decide."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Which MLflow: `uri` None means sqlite in `home`.

    `written` is the URI as it may be stored: with `${env:NAME}` instead of a secret.
    """

    home: Path
    uri: str | None
    experiment: str
    written: str | None = None

    @property
    def location(self) -> str:
        """The tracking URI; never for people's eyes."""
        return self.uri or f"sqlite:///{self.home.absolute() / 'mlflow.db'}"

    @property
    def shown(self) -> str:
        """The tracking URI without a password."""
        return without_password(self.location)


def without_password(text: str) -> str:
    """`text` with `user:password@` in every URL replaced by `***@`."""
    return re.sub(r"://[^/@\s]+@", "://***@", text)


@dataclass(frozen=True, slots=True)
class Connection:
    """An open MLflow: every call goes through `client` with an explicit run id."""

    client: MlflowClient
    experiment_id: str
    location: str


def connect(place: Place) -> Connection:
    """The open store and experiment, made where they do not exist yet.

    Raises:
        ExperimentDeleted: with the two ways out.
        MlflowException, OSError, sqlite3.Error, sqlalchemy errors: no connection now.
    """
    prepare_environment()
    from mlflow import MlflowClient

    with _one_at_a_time(place):
        if place.uri is None:
            _create_whole(place.home / "mlflow.db")
            _write_ahead(place.home / "mlflow.db")
        client = MlflowClient(tracking_uri=place.location)
        return Connection(client, _experiment(client, place), place.location)


def check_experiment(connection: Connection, place: Place) -> None:
    """Raise ExperimentDeleted if the experiment is no longer active."""
    found = connection.client.get_experiment(connection.experiment_id)
    if found.lifecycle_stage == "deleted":
        raise _deleted(place, connection.experiment_id)


def _experiment(client: MlflowClient, place: Place) -> str:
    found = client.get_experiment_by_name(place.experiment)
    if found is None:
        artifacts = None if place.uri else (place.home.absolute() / "mlartifacts").as_uri()
        return str(client.create_experiment(place.experiment, artifact_location=artifacts))
    if found.lifecycle_stage == "deleted":
        raise _deleted(place, found.experiment_id)
    return str(found.experiment_id)


def _deleted(place: Place, experiment_id: str) -> ExperimentDeleted:
    return ExperimentDeleted(
        f"the MLflow experiment {place.experiment!r} was deleted; nothing can be logged to it",
        hint=f"restore it: MLFLOW_TRACKING_URI={place.shown} mlflow experiments restore "
        f"--experiment-id {experiment_id}; or set tracking.experiment to another name",
    )


def _create_whole(path: Path) -> None:
    """Make a new database under another name, then rename it: a kill leaves none or a whole one.

    MLflow never repairs a database whose first tables were made by a process that died on the way.
    """
    if path.exists():
        return
    from mlflow import MlflowClient

    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    for left in path.parent.glob(f"{new.name}*"):
        left.unlink()
    MlflowClient(tracking_uri=f"sqlite:///{new.absolute()}").search_experiments(max_results=1)
    new.rename(path)


def _write_ahead(path: Path) -> None:
    """Make the database write-ahead (once; the file remembers): a reader no longer blocks the writer."""
    if path.is_file() and _header(path)[18:20] == b"\x02\x02":
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, timeout=5.0)) as database:
        database.execute("PRAGMA journal_mode=WAL")


def _header(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(20)


@contextmanager
def _one_at_a_time(place: Place) -> Iterator[None]:
    """Two processes must not create or migrate one database together."""
    lock = place.home / "locks" / "mlflow.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lock, "ab") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
