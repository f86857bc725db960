"""A tiny OpenAI-compatible server on this machine that gives scripted answers, for tests of the judge."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from mimo.graders.judge import Judge, JudgeConfig

Script = Callable[[str, int], object]
"""`(prompt, number of the request) -> answer`: data (sent as JSON), a text sent as it is, a status code, or
`SLOW` for no answer in time."""
SLOW = object()


class Endpoint:
    """The server's address and the requests it got."""

    def __init__(self, script: Script) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        endpoint = self

        class Answers(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.requests.append(body)
                endpoint.headers.append(dict(self.headers))
                answer = script(body["messages"][0]["content"], len(endpoint.requests))
                if answer is SLOW:
                    time.sleep(1.0)
                    answer = 500
                if isinstance(answer, int):
                    self.send_response(answer)
                    self.end_headers()
                    return
                text = answer if isinstance(answer, str) else json.dumps(answer)
                data = json.dumps({"choices": [{"message": {"content": text}}]}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: object) -> None:
                """Nothing: the test output stays clean."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"


@contextmanager
def endpoint(script: Script) -> Iterator[Endpoint]:
    """The server, running until the end of the block."""
    made = Endpoint(script)
    thread = threading.Thread(target=made.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
        thread.join()


def judge_at(url: str, *, retries: int = 1, timeout_s: float = 10.0, api_key: str | None = None) -> Judge:
    """A judge that asks the endpoint, one question at a time."""
    return Judge(
        JudgeConfig(
            url=url,
            model="m",
            api_key=api_key,
            timeout_s=timeout_s,
            retries=retries,
            max_tokens=64,
            concurrency=1,
        )
    )
