"""Harnesses put together by name: `prompt+format+tools+context`, such as `terse+json+files+recent`.

prompt    terse | guided | plan             what the policy is told first
format    json | xml | bash                 how it writes an action, each with its own parser
tools     shell | files | lines             what it can do, and so which domains it is for
context   keep-all | recent                 which old observations it goes on without
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, cast

from mimo.errors import RecipeError
from mimo.harnesses import fenced_bash, json_calls, xml_tags
from mimo.harnesses.base import Message, Observation, ParsedTurn
from mimo.harnesses.context import CONTEXTS, ContextManager
from mimo.harnesses.markup import Tool
from mimo.harnesses.prompts import PROMPTS, system_text
from mimo.harnesses.toolsets import TOOLSETS, Toolset
from mimo.types import Domain, Task, ToolCall
from sandbox.base import Sandbox


class Format(Protocol):
    """How actions are written: a module with these three functions."""

    def parse(self, text: str, tools: Mapping[str, Tool]) -> ParsedTurn:
        """The first action and every fault."""
        ...

    def say(self, call: ToolCall, tools: Mapping[str, Tool]) -> str:
        """The call as `parse` reads it."""
        ...

    def explain(self, tools: Mapping[str, Tool]) -> str:
        """How to write each of the actions."""
        ...


FORMATS: dict[str, Format] = {
    module.NAME: cast(Format, module) for module in (json_calls, xml_tags, fenced_bash)
}
_PARTS: tuple[tuple[str, Mapping[str, object]], ...] = (
    ("prompt", PROMPTS),
    ("format", FORMATS),
    ("tools", TOOLSETS),
    ("context", CONTEXTS),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Composition:
    """A harness before it has a rollout; calling it makes one."""

    name: str
    prompt: str
    format: Format
    toolset: Toolset
    context: ContextManager

    @classmethod
    def of(cls, name: str, *, called: str | None = None) -> Composition:
        """The composition written as `prompt+format+tools+context`; `called` is a shorter name for it.

        Raises:
            RecipeError: a part that does not exist (the known ones are listed) or parts that do not fit.
        """
        words = name.split("+")
        if len(words) != len(_PARTS):
            raise RecipeError(
                f"harness {name!r} has {len(words)} parts, not {len(_PARTS)}",
                hint="write prompt+format+tools+context, such as terse+json+files+recent",
            )
        for word, (what, known) in zip(words, _PARTS, strict=True):
            if word not in known:
                near = difflib.get_close_matches(word, known, n=1)
                guess = f" (did you mean {near[0]!r}?)" if near else ""
                raise RecipeError(
                    f"harness {name!r}: no {what} {word!r}{guess}", hint=f"known: {', '.join(known)}"
                )
        prompt, form, tools, context = words
        FORMATS[form].explain(TOOLSETS[tools].tools)  # refuses parts that do not fit
        return cls(
            name=called or name,
            prompt=prompt,
            format=FORMATS[form],
            toolset=TOOLSETS[tools],
            context=CONTEXTS[context],
        )

    @property
    def domains(self) -> tuple[Domain, ...]:
        """Those of its tools."""
        return self.toolset.domains

    def __call__(self, max_turns: int) -> Composed:
        """A harness for one rollout."""
        return Composed(self, max_turns)


class Composed:
    """One rollout's harness: counts its turns, so that an observation can say how many are left."""

    needs_sight = False

    def __init__(self, parts: Composition, max_turns: int) -> None:
        self.name = parts.name
        self.domains = parts.domains
        self.context = parts.context
        self.max_turns = max_turns
        self._parts = parts
        self._turns = 0

    def opening(self, task: Task) -> list[Message]:
        """The rules, and the task's instruction."""
        actions = self._parts.format.explain(self._parts.toolset.tools)
        system = system_text(self._parts.prompt, task.domain, actions)
        told = Message(role="user", text=task.instruction.strip(), images=task.images)
        return [Message(role="system", text=system), told]

    def parse(self, text: str) -> ParsedTurn:
        """The first well-formed action and every fault of the turn."""
        return self._parts.format.parse(text, self._parts.toolset.tools)

    def say(self, call: ToolCall) -> str:
        """A turn that `parse` reads as this call, in the words this harness has for it.

        Raises:
            ValueError: it has none.
        """
        spoken = self._parts.toolset.spoken(call)
        plan = f"Next: {call.name}.\n" if self._parts.prompt == "plan" else ""
        return plan + self._parts.format.say(spoken, self._parts.toolset.tools)

    def act(self, call: ToolCall | None, box: Sandbox, task: Task) -> Observation:
        """Carry out the action in the box; `done` after a submit."""
        self._turns += 1
        if call is not None and call.name == "submit":
            return Observation(text="Submitted.", done=True)
        if call is None:
            known = ", ".join(self._parts.toolset.tools)
            seen = Observation(text=f"No action read. Use one of {known}.", done=False)
        else:
            seen = self._parts.toolset.act(call, box, task)
        left = self.max_turns - self._turns
        note = "" if left > 1 else "\nLast turn." if left == 1 else "\nNo turn left."
        return Observation(
            text=seen.text + note, done=False, exit_code=seen.exit_code, truncated=seen.truncated
        )
