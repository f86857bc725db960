"""The server's command line and environment, and every way in which it does not start."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from mimo.backends.base import SamplerConfig
from mimo.backends.vllm_server import (
    NEEDED_ROUTES,
    command,
    environment,
    log_tail,
    start_server,
    thread_binding,
)
from mimo.errors import EngineFailed, MachineLacks

CPU = SamplerConfig(model_dir=Path("/m"), dtype="float32", max_model_len=512)
CUDA = SamplerConfig(
    model_dir=Path("/m"), dtype="bfloat16", max_model_len=65536, device="cuda", tensor_parallel=2
)


def flags(config: SamplerConfig) -> dict[str, str]:
    """Each flag of the command line and the word after it."""
    words = command(config, 8123)
    return dict(zip(words, [*words[1:], ""], strict=True))


def test_the_cpu_engine_never_chunks_a_prefill() -> None:
    found = flags(CPU)
    assert "--no-enable-chunked-prefill" in found
    assert int(found["--max-num-batched-tokens"]) >= 512
    assert (
        int(
            flags(SamplerConfig(model_dir=Path("/m"), dtype="float32", max_model_len=20000))[
                "--max-num-batched-tokens"
            ]
        )
        >= 20000
    )
    assert "--enforce-eager" in found
    assert found["--kv-cache-memory-bytes"] == str(2**30)
    assert "--gpu-memory-utilization" not in found


def test_what_every_server_is_told() -> None:
    for found in (flags(CPU), flags(CUDA)):
        assert found["--logprobs-mode"] == "processed_logprobs"
        assert found["--generation-config"] == "vllm"
        assert found["--host"] == "127.0.0.1"
        assert "--enable-scale-out" in found


def test_the_cuda_engine_is_sharded_and_sleeps() -> None:
    found = flags(CUDA)
    assert (found["--tensor-parallel-size"], found["--gpu-memory-utilization"]) == ("2", "0.85")
    assert "--enable-sleep-mode" in found
    assert not {"--enforce-eager", "--no-enable-chunked-prefill", "--kv-cache-memory-bytes"} & found.keys()


def test_extra_arguments_come_last() -> None:
    config = SamplerConfig(model_dir=Path("/m"), dtype="float32", max_model_len=8, extra_args=("--seed", "3"))
    assert command(config, 1)[-2:] == ["--seed", "3"]


def test_the_environment_is_offline_and_silent() -> None:
    env = environment(CPU, {"PATH": "/bin", "VLLM_RPC_BASE_PATH": "/elsewhere"})
    assert env["PATH"] == "/bin"
    assert (env["HF_HUB_OFFLINE"], env["VLLM_NO_USAGE_STATS"], env["VLLM_SERVER_DEV_MODE"]) == ("1", "1", "1")
    assert "VLLM_RPC_BASE_PATH" not in env
    assert (env["TORCHDYNAMO_DISABLE"], env["OMP_WAIT_POLICY"]) == ("1", "passive")
    assert environment(CPU, {"OMP_WAIT_POLICY": "active"})["OMP_WAIT_POLICY"] == "active"
    assert "glibc.malloc.hugetlb=1" in env["GLIBC_TUNABLES"]
    assert {"TORCHDYNAMO_DISABLE", "GLIBC_TUNABLES"}.isdisjoint(environment(CUDA, {}))


@pytest.mark.parametrize(
    ("threads", "ranks", "cores", "expected"),
    [
        (None, 1, [0, 1], "0,1"),
        (1, 1, [0, 1], "0"),
        (8, 1, [2, 5], "2,5"),
        (None, 2, [0, 1, 2, 3], "0,1|2,3"),
        (None, 2, [4], "4|4"),
    ],
)
def test_threads_are_bound_to_the_cores_we_may_use(
    threads: int | None, ranks: int, cores: list[int], expected: str
) -> None:
    config = SamplerConfig(
        model_dir=Path("/m"), dtype="float32", max_model_len=8, threads=threads, tensor_parallel=ranks
    )
    assert thread_binding(config, cores) == expected


def test_a_taken_port_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        config = SamplerConfig(model_dir=Path("/m"), dtype="float32", max_model_len=8, port=port)
        with pytest.raises(MachineLacks, match=f"port {port} for the sampler is taken"):
            start_server(config)


@contextmanager
def web_server(body: bytes, status: int = 200) -> Iterator[str]:
    """Something that answers every request with `body`."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Silence."""

    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def attach(url: str) -> None:
    start_server(SamplerConfig(model_dir=Path("/m"), dtype="float32", max_model_len=8, url=url))


def test_a_users_server_must_have_the_routes() -> None:
    with web_server(b'{"paths": {"/pause": {}}}') as url, pytest.raises(MachineLacks) as failure:
        attach(url)
    assert all(route in failure.value.message for route in NEEDED_ROUTES if route != "/pause")
    assert "VLLM_SERVER_DEV_MODE=1" in str(failure.value.hint)


def test_something_else_than_a_server_at_the_url() -> None:
    with web_server(b"<html>") as url, pytest.raises(MachineLacks, match="no vLLM server answers"):
        attach(url)
    with pytest.raises(MachineLacks, match="no vLLM server answers"):
        attach("http://127.0.0.1:9")


def test_the_end_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join(f"line {i} " + "x" * 500 for i in range(40)))
    assert [line[:8] for line in log_tail(log, 2).splitlines()] == ["line 38 ", "line 39 "]
    assert max(map(len, log_tail(log).splitlines())) == 300
    assert log_tail(None) == log_tail(tmp_path / "none") == "(no log was kept)"


@pytest.mark.engine
def test_a_server_that_dies_at_its_start_shows_its_log(tmp_path: Path) -> None:
    config = SamplerConfig(
        model_dir=tmp_path / "no-model", dtype="float32", max_model_len=8, log_file=tmp_path / "sampler.log"
    )
    with pytest.raises(EngineFailed, match="ended with code 1 at its start") as failure:
        start_server(config)
    assert "no-model" in failure.value.message.partition("log ends:")[2]
    assert str(tmp_path / "sampler.log") in str(failure.value.hint)
