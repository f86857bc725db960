"""A judge over any OpenAI-compatible endpoint: one question, one JSON object that fits a schema, or None.

Decoding is constrained by the schema where the server can; the answer is checked strictly in any case. No
answer, a malformed one, or one that its reader refuses, after the allowed tries, is None: never a number.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import resources
from typing import TypeVar, cast

import httpx

from mimo.types import Json

_T = TypeVar("_T")
_MAX_ANSWER_BYTES = 400_000


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeConfig:
    """Where and how a judge is asked; `api_key` is already resolved and never logged."""

    url: str
    """Base of the API, up to and with `/v1`."""
    model: str
    api_key: str | None
    timeout_s: float
    retries: int
    """Further tries after the first."""
    max_tokens: int
    concurrency: int


class Refused(ValueError):
    """An answer that does not say what was asked; the message goes back to the judge in the next try."""


@dataclass(slots=True)
class Judge:
    """Asks; `failures` counts what went wrong by kind, `seconds`, `asked` and `tokens` what it cost.

    `tokens` are those the endpoint says it used; one that says nothing leaves it at 0.
    """

    config: JudgeConfig
    failures: Counter[str] = field(default_factory=Counter)
    asked: int = 0
    seconds: float = 0.0
    tokens: int = 0
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = httpx.Client(
            timeout=self.config.timeout_s, verify=self.config.url.startswith("https"), follow_redirects=False
        )

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def ask(self, question: str, schema: dict[str, Json], read: Callable[[dict[str, Json]], _T]) -> _T | None:
        """What `read` makes of the answer; it raises Refused for one that cannot be used."""
        note = ""
        for _ in range(self.config.retries + 1):
            started = time.monotonic()
            self.asked += 1
            try:
                return read(self._object(question + note, schema))
            except Refused as error:
                self.failures["malformed"] += 1
                note = f"\n\nYour last answer was refused: {str(error)[:300]}. Answer again."
            except httpx.TimeoutException:
                self.failures["timeout"] += 1
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                self.failures[type(error).__name__] += 1
            finally:
                self.seconds += time.monotonic() - started
        self.failures["no answer"] += 1
        return None

    def ask_all(
        self,
        questions: list[str],
        schema: dict[str, Json],
        reads: list[Callable[[dict[str, Json]], _T]],
    ) -> list[_T | None]:
        """The answers to independent questions, in their order, asked side by side."""
        with ThreadPoolExecutor(max_workers=self.config.concurrency, thread_name_prefix="judge") as pool:
            return list(
                pool.map(lambda pair: self.ask(pair[0], schema, pair[1]), zip(questions, reads, strict=True))
            )

    def _object(self, question: str, schema: dict[str, Json]) -> dict[str, Json]:
        config = self.config
        headers = {} if config.api_key is None else {"Authorization": f"Bearer {config.api_key}"}
        body = {
            "model": config.model,
            "messages": [{"role": "user", "content": question}],
            "temperature": 0.0,
            "max_tokens": config.max_tokens,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "strict": True, "schema": schema},
            },
        }
        response = self.client.post(f"{config.url.rstrip('/')}/chat/completions", json=body, headers=headers)
        response.raise_for_status()
        if len(response.content) > _MAX_ANSWER_BYTES:
            raise Refused("the answer is too long")
        self.tokens += _tokens_used(response.content)
        return _answer(response.content)


def _tokens_used(content: bytes) -> int:
    """The endpoint's own count of prompt and answer; 0 where it gives none that can be read."""
    try:
        total = json.loads(content)["usage"]["total_tokens"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0
    return total if isinstance(total, int) and not isinstance(total, bool) and total > 0 else 0


def _answer(content: bytes) -> dict[str, Json]:
    try:
        text = json.loads(content)["choices"][0]["message"]["content"]
        data = json.loads(text)
    except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise Refused("it is no JSON object") from error
    if not isinstance(data, dict):
        raise Refused("it is no JSON object")
    return cast("dict[str, Json]", data)


def prompt(name: str, **parts: str) -> str:
    """The prompt `prompts/<name>.md` with `{{part}}` replaced, once: what is put in is never expanded."""
    text = resources.files("mimo.graders").joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")
    pieces = text.split("{{")
    rows = [pieces[0]]
    for piece in pieces[1:]:
        key, _, rest = piece.partition("}}")
        rows += [parts[key], rest]
    return "".join(rows)
