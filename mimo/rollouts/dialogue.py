"""The dialogue of one rollout as contexts: each an append-only token record, the last one being talked in.

A context manager that drops old observations starts a new context. Its tokens are copies of the old one's ids
with the dropped observations' ids replaced; nothing is encoded again, and nothing copied is trained on, as it
is trained where it was sampled. The record of such a context begins with one `user` turn that stands for the
whole copied history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mimo.harnesses.context import PLACEHOLDER, ContextManager
from mimo.harnesses.renderer import Renderer
from mimo.rollouts.token_log import Payload, TokenLog
from mimo.types import Context, Turn


@dataclass(frozen=True, slots=True)
class _Piece:
    """Tokens of one message; `after_stop` is set for an observation: how it has to be encoded."""

    ids: tuple[int, ...]
    after_stop: bool | None = None


@dataclass(kw_only=True, slots=True)
class _Branch:
    log: TokenLog
    turns: list[Turn]
    dropped: int = 0


@dataclass(kw_only=True, slots=True)
class Dialogue:
    """Grows by turns; `log` and `turns` are those of the context being talked in."""

    branches: list[_Branch] = field(default_factory=lambda: [_Branch(log=TokenLog(), turns=[])])
    sample_s: float = 0.0
    tool_s: float = 0.0
    verify_s: float = 0.0
    _pieces: list[_Piece] = field(default_factory=list)
    """The whole history in the order it came, nothing dropped."""

    @property
    def log(self) -> TokenLog:
        """The tokens of the context being talked in."""
        return self.branches[-1].log

    @property
    def turns(self) -> list[Turn]:
        """Its turns."""
        return self.branches[-1].turns

    def note(self, turn: Turn, *, after_stop: bool | None = None) -> None:
        """Add a turn whose tokens are in the log already."""
        self.turns.append(turn)
        self._pieces.append(_Piece(self.log.ids[turn.span[0] : turn.span[1]], after_stop))

    def manage(self, manager: ContextManager, renderer: Renderer, *, limit: int) -> None:
        """Go on in a new context if the manager drops more observations than are dropped now."""
        places = [number for number, piece in enumerate(self._pieces) if piece.after_stop is not None]
        now = self.branches[-1].dropped
        sizes = [len(self._pieces[place].ids) for place in places]
        count = manager.drops(sizes, used=len(self.log), limit=limit)
        if count > now:
            self._branch(set(places[:count]), count, renderer)

    def _branch(self, gone: set[int], count: int, renderer: Renderer) -> None:
        made = _Branch(log=TokenLog(), turns=[], dropped=count)
        for number, piece in enumerate(self._pieces):
            made.log.given(
                renderer.observation_ids(PLACEHOLDER, after_stop=bool(piece.after_stop))
                if number in gone
                else piece.ids
            )
        text = f"[goes on from context {len(self.branches) - 1}; its first {count} observations are dropped]"
        made.turns.append(Turn(role="user", text=text, span=(0, len(made.log))))
        self.branches.append(made)

    def contexts(self) -> tuple[Context, ...]:
        """The record: each context names the one it goes on from."""
        return tuple(
            Context(
                context_id=str(number), parent=str(number - 1) if number else None, turns=tuple(branch.turns)
            )
            for number, branch in enumerate(self.branches)
            if branch.turns
        )

    def payloads(self) -> tuple[Payload, ...]:
        """The tokens of every context, in the same order; empty before the first token."""
        return tuple(branch.log.payload() for branch in self.branches if len(branch.log))

    def assistant_turns(self) -> Sequence[Turn]:
        """Every turn the policy took, in order."""
        return [turn for branch in self.branches for turn in branch.turns if turn.role == "assistant"]

    def tokens(self) -> int:
        """Tokens of all contexts: what the engine was given and what it sampled."""
        return sum(len(branch.log) for branch in self.branches)
