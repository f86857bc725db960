"""The run's sampler: started once, handed on, started again when it died, ended with the run."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mimo.backends.base import SamplerConfig
from mimo.errors import MachineLacks
from mimo.pipeline.engines import Engines, Progress
from mimo.pipeline.run import Tools
from mimo.recipe.loader import load_recipe
from mimo.recipe.models import Recipe
from tests.mimo.pipeline.conftest import Bench, Watcher


@dataclass
class LittleServer:
    """A real HTTP server that knows one route; `version` as vLLM's `/weight_info` says it."""

    version: str = "default"
    closed: int = 0
    http: ThreadingHTTPServer = field(init=False)

    def __post_init__(self) -> None:
        outer = self

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps({"weight_version": outer.version}).encode())

            def log_message(self, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}"

    def alive(self) -> bool:
        return not self.closed

    def close(self) -> None:
        self.closed += 1
        self.http.shutdown()
        self.http.server_close()


@dataclass
class Starter:
    """What stands in for `start_server`: little servers, counted."""

    servers: list[LittleServer] = field(default_factory=list)
    configs: list[SamplerConfig] = field(default_factory=list)

    def __call__(self, config: SamplerConfig, *, progress: Progress | None = None) -> LittleServer:
        self.configs.append(config)
        self.servers.append(LittleServer())
        return self.servers[-1]


@pytest.fixture
def starter() -> Iterator[Starter]:
    made = Starter()
    yield made
    for server in made.servers:
        if not server.closed:
            server.close()


@pytest.fixture
def recipe() -> Recipe:
    return load_recipe("pro", profile="smoke").model


def test_a_stage_gets_the_runs_server_and_the_run_ends_it(
    bench: Bench, knobs: Callable[..., None], starter: Starter
) -> None:
    knobs(at="sampler")
    watcher = Watcher()
    report = bench.run(tools=Tools(observer=watcher, start_server=starter))
    assert report.error is None
    (server,) = starter.servers
    assert server.closed == 1
    told = (bench.output("rl-mixed") / "sampler").read_text()
    assert told == f"{server.url} 5"
    assert starter.configs[0].model_dir == Path("/models/a")
    assert starter.configs[0].dtype == "float32"


def test_started_once_and_again_after_its_death(recipe: Recipe, tmp_path: Path, starter: Starter) -> None:
    engines = Engines(recipe, tmp_path, starter)
    first = engines.ask(Path("/m"))
    assert engines.ask(Path("/other")) == first
    engines.holds(Path("/m2"), 7)
    assert (engines.ask(Path("/m"))["model_dir"], engines.ask(Path("/m"))["version"]) == ("/m2", 7)
    starter.servers[0].close()
    again = engines.ask(Path("/m"))
    assert (again["model_dir"], again["version"], again["restarted"]) == ("/m", 0, True)
    assert [first["restarted"], engines.ask(Path("/m"))["restarted"]] == [False, False]
    assert len(starter.servers) == 2
    engines.close()
    engines.close()
    assert starter.servers[1].closed == 1


def test_the_servers_own_word_on_its_version_counts(recipe: Recipe, tmp_path: Path, starter: Starter) -> None:
    engines = Engines(recipe, tmp_path, starter)
    engines.ask(Path("/m"))
    starter.servers[0].version = "12"
    assert engines.ask(Path("/m"))["version"] == 12
    engines.close()


def test_a_server_that_cannot_start_is_an_answer_with_a_hint(recipe: Recipe, tmp_path: Path) -> None:
    def refuse(config: SamplerConfig, *, progress: Progress | None = None) -> LittleServer:
        raise MachineLacks("port 8000 is taken", hint="name another")

    assert Engines(recipe, tmp_path, refuse).ask(Path("/m")) == {
        "error": "port 8000 is taken",
        "hint": "name another",
        "type": "MachineLacks",
    }


def test_a_stage_that_gets_no_server_fails_clearly(bench: Bench, knobs: Callable[..., None]) -> None:
    def refuse(config: SamplerConfig, *, progress: Progress | None = None) -> LittleServer:
        raise MachineLacks("port 8000 is taken", hint="name another")

    knobs(at="sampler")
    report = bench.run(tools=Tools(start_server=refuse))
    assert report.error is not None
    assert (report.error.message, report.error.hint) == ("rl-mixed: port 8000 is taken", "name another")
    assert report.error.exit_code == 69


def test_closing_ends_a_start_in_flight(recipe: Recipe, tmp_path: Path) -> None:
    seen = threading.Event()

    def slow(config: SamplerConfig, *, progress: Progress | None = None) -> LittleServer:
        for second in range(600):
            seen.set()
            if progress is not None:
                progress(second, "loading")
            time.sleep(0.02)
        raise AssertionError("the start went on")

    engines = Engines(recipe, tmp_path, slow)
    answers: list[dict[str, object]] = []
    thread = threading.Thread(target=lambda: answers.append(dict(engines.ask(Path("/m")))))
    thread.start()
    assert seen.wait(5)
    engines.close()
    thread.join(5)
    assert "the run ended while" in str(answers[0]["error"])
