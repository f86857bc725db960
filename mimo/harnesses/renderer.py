"""Messages to token ids by the tokenizer's own chat template, append-only.

    ids = renderer.opening_ids(messages)            # system and user messages, generation prompt
    ids += sampled                                  # exactly as the engine made them
    ids += renderer.observation_ids(text, after_stop=renderer.ends_turn(sampled))

The template is used by difference: it is rendered with marks in place of contents, once with and once
without an answered observation, and must only ever append. Sampled ids are never decoded and encoded again.
Content is encoded apart from the template's own text, and no special token can come out of it: a tool output
that holds the text of an end-of-turn token stays text.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from pathlib import Path

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from mimo.errors import RecipeError
from mimo.harnesses.base import Message

_MARK = "\ue000{}\ue001"
_ANSWER = _MARK.format("answer")


class Renderer:
    """One tokenizer and its chat template. Thread-safe after construction."""

    def __init__(self, tokenizer_dir: Path) -> None:
        """Read `tokenizer.json` and the chat template.

        Raises:
            RecipeError: files missing, no chat template, or a template that rewrites what came before.
        """
        self._where = tokenizer_dir
        self._tokenizer = _load_tokenizer(tokenizer_dir)
        self._config = _load_config(tokenizer_dir)
        self._template = _Template(_load_template(tokenizer_dir, self._config), self._config, tokenizer_dir)
        self._added = {
            token_id: token.content for token_id, token in self._tokenizer.get_added_tokens_decoder().items()
        }
        self.observation_role, between, after = self._observation_frame()
        self._between = self._template_ids(between)
        self._after = self._template_ids(after)
        if not self._between or self._between[0] not in self._added:
            raise self._refused("a model's turn does not end with a special token")
        self.end_of_turn_id = self._between[0]
        self.stop_token_ids = self._stops()

    def opening_ids(self, messages: Sequence[Message]) -> list[int]:
        """The messages and the generation prompt: what a rollout's first turn is sampled from."""
        marks = [_MARK.format(number) for number in range(len(messages))]
        rows = [
            {"role": message.role, "content": mark} for message, mark in zip(messages, marks, strict=True)
        ]
        rest, ids = self._template.render(rows), []
        for message, mark in zip(messages, marks, strict=True):
            frame, found, rest = rest.partition(mark)
            if not found:
                raise self._refused(f"the {message.role} message does not appear in it")
            ids += self._template_ids(frame) + self.content_ids(message.text)
        return ids + self._template_ids(rest)

    def observation_ids(self, text: str, *, after_stop: bool) -> list[int]:
        """What follows a model's turn: its end (unless it was sampled), the observation, a new prompt."""
        head = self._between[1:] if after_stop else self._between
        return head + self.content_ids(text) + self._after

    def assistant_ids(self, text: str) -> list[int]:
        """A turn written by us (a demonstration), end of turn included."""
        return [*self.content_ids(text), self.end_of_turn_id]

    def content_ids(self, text: str) -> list[int]:
        """Ids of text that is nobody's template: never a special or otherwise added token."""
        ids = list(self._tokenizer.encode(text, add_special_tokens=False).ids) if text else []
        if not self._added.keys() & set(ids):
            return ids
        return [token for piece in _cut(text, list(self._added.values())) for token in self._plain(piece)]

    def ends_turn(self, ids: Sequence[int]) -> bool:
        """Whether the sampled ids end with the template's own end of turn."""
        return bool(ids) and ids[-1] == self.end_of_turn_id

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids, special tokens as their names."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def turn_text(self, ids: Sequence[int]) -> str:
        """The text of a sampled turn without the stop token that ended it."""
        ended = bool(ids) and ids[-1] in self.stop_token_ids
        return self.decode(ids[:-1] if ended else ids)

    def token_span(self, ids: Sequence[int], chars: tuple[int, int]) -> tuple[int, int]:
        """The smallest [start, end) of tokens whose text covers characters [start, end) of `decode(ids)`.

        At least one token of a turn that has any: an empty range still names where the fault is.
        """
        if not ids:
            return (0, 0)
        lengths = _PrefixLengths(self, ids)
        places = range(len(ids) + 1)
        start = min(bisect_right(places, chars[0], key=lengths.__getitem__) - 1, len(ids) - 1)
        end = bisect_left(places, chars[1], key=lengths.__getitem__)
        return (start, min(max(end, start + 1), len(ids)))

    def _plain(self, piece: str) -> list[int]:
        ids = list(self._tokenizer.encode(piece, add_special_tokens=False).ids)
        if self._added.keys() & set(ids):
            raise self._refused(f"text {piece[:40]!r} always becomes an added token")
        return ids

    def _template_ids(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids) if text else []

    def _observation_frame(self) -> tuple[str, str, str]:
        """The role of an observation, the text between a turn and it, and the text after it."""
        reasons = []
        for role in ("tool", "user"):
            try:
                return role, *self._difference(role)
            except RecipeError as error:
                reasons.append(f"as {role}: {error.message}")
        raise self._refused("; ".join(reasons))

    def _difference(self, role: str) -> tuple[str, str]:
        opening = [{"role": "system", "content": "s"}, {"role": "user", "content": _MARK.format("user")}]
        answer = {"role": "assistant", "content": _ANSWER}
        rows, before = list(opening), self._template.render(opening)
        frames = []
        for number in range(2):
            mark = _MARK.format(f"observation{number}")
            rows += [answer, {"role": role, "content": mark}]
            now = self._template.render(rows)
            if not now.startswith(before + _ANSWER):
                raise self._refused("it rewrites what came before a new message (it must only append)")
            between, found, after = now[len(before + _ANSWER) :].partition(mark)
            if not found:
                raise self._refused(f"a {role} message does not appear in it")
            frames.append((between, after))
            before = now
        if frames[0] != frames[1]:
            raise self._refused("it writes the second observation in another way than the first")
        return frames[0]

    def _stops(self) -> tuple[int, ...]:
        eos = self._config.get("eos_token")
        name = eos.get("content") if isinstance(eos, dict) else eos
        eos_id = self._tokenizer.token_to_id(name) if isinstance(name, str) else None
        return tuple(dict.fromkeys(token for token in (self.end_of_turn_id, eos_id) if token is not None))

    def _refused(self, why: str) -> RecipeError:
        return RecipeError(
            f"{self._where}: the chat template cannot be used: {why}",
            hint="put a template that only appends (such as ChatML) into the tokenizer's folder",
        )


class _Template:
    """A chat template as transformers runs it."""

    def __init__(self, source: str, config: dict[str, object], where: Path) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals["raise_exception"] = _raise
        self._where = where
        names = ("bos_token", "eos_token", "pad_token", "unk_token")
        tokens = {name: config.get(name) for name in names}
        self._tokens = {
            name: value.get("content") if isinstance(value, dict) else value or ""
            for name, value in tokens.items()
        }
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise RecipeError(f"{where}: the chat template does not parse: {error}") from error

    def render(self, rows: Sequence[dict[str, str]]) -> str:
        """The text of the messages with a generation prompt."""
        try:
            return self._template.render(
                messages=rows, add_generation_prompt=True, tools=None, **self._tokens
            )
        except TemplateError as error:
            raise RecipeError(f"{self._where}: the chat template refuses: {error}") from error


class _PrefixLengths:
    """`lengths[n]` = number of characters of the first n tokens."""

    def __init__(self, renderer: Renderer, ids: Sequence[int]) -> None:
        self._renderer, self._ids = renderer, ids

    def __getitem__(self, count: int) -> int:
        return len(self._renderer.decode(self._ids[:count]))


def _raise(message: str) -> None:
    raise TemplateError(message)


def _cut(text: str, tokens: Sequence[str]) -> list[str]:
    """The text in pieces, none of which holds a whole added token."""
    for token in sorted(tokens, key=len, reverse=True):
        at = text.find(token)
        if at >= 0 and len(token) > 1:
            return [*_cut(text[: at + 1], tokens), *_cut(text[at + 1 :], tokens)]
    return [text] if text else []


def _load_tokenizer(folder: Path) -> Tokenizer:
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise RecipeError(
            f"{folder}: no tokenizer.json",
            hint="save it there with transformers: AutoTokenizer.from_pretrained(...).save_pretrained(...)",
        )
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _load_config(folder: Path) -> dict[str, object]:
    path = folder / "tokenizer_config.json"
    data = json.loads(path.read_text()) if path.is_file() else {}
    return data if isinstance(data, dict) else {}


def _load_template(folder: Path, config: dict[str, object]) -> str:
    path = folder / "chat_template.jinja"
    template = path.read_text() if path.is_file() else config.get("chat_template")
    if not isinstance(template, str):
        raise RecipeError(f"{folder}: the tokenizer has no chat template", hint="add chat_template.jinja")
    return template
