"""One migrated MLflow database for the session, copied for each test (migrating takes seconds)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mimo.tracking import Tracker, open_tracker
from mimo.tracking.environment import prepare_environment


@pytest.fixture(autouse=True)
def _same_environment() -> Iterator[None]:
    """The tracker sets up its process's environment; a test leaves it as it was."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="session")
def migrated_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    before = dict(os.environ)
    prepare_environment()
    from mlflow import MlflowClient

    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    os.environ.clear()
    os.environ.update(before)
    return path


@pytest.fixture
def home(tmp_path: Path, migrated_database: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    shutil.copyfile(migrated_database, folder / "mlflow.db")
    return folder


@pytest.fixture
def said() -> list[str]:
    """What trackers of this test warned of."""
    return []


@pytest.fixture
def tracker(home: Path, said: list[str]) -> Iterator[Callable[..., Tracker]]:
    """Makes trackers on `home`, each closed at the end of the test."""
    made: list[Tracker] = []

    def make(**settings: object) -> Tracker:
        options = {"uri": None, "experiment": "test", "warn": said.append, **settings}
        made.append(open_tracker(home, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.close(timeout=0.5)
