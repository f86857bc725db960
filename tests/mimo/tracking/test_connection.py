"""The first database: whole or not there, whenever the process that makes it is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from mimo.tracking.connection import Place, connect

MAKE = """
import sys
from pathlib import Path
from mimo.tracking.connection import Place, connect
print("go", flush=True)
connect(Place(home=Path(sys.argv[1]), uri=None, experiment="mimo"))
"""


def test_what_a_killed_maker_left_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db.new").write_bytes(b"torn")
    connection = connect(Place(home=tmp_path, uri=None, experiment="mimo"))
    run = connection.client.create_run(connection.experiment_id)
    assert connection.client.get_run(run.info.run_id).info.status == "RUNNING"
    assert not (tmp_path / "mlflow.db.new").exists()


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.8])
def test_a_kill_in_the_middle_leaves_none_or_a_whole_one(tmp_path: Path, share: float) -> None:
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", MAKE, str(tmp_path / "whole")], check=True, capture_output=True)
    seconds = (time.monotonic() - began) * share
    home = tmp_path / "killed"
    with subprocess.Popen([sys.executable, "-c", MAKE, str(home)], stdout=subprocess.PIPE) as process:
        time.sleep(seconds)
        process.kill()
    connection = connect(Place(home=home, uri=None, experiment="mimo"))
    assert connection.client.get_experiment(connection.experiment_id).name == "mimo"
