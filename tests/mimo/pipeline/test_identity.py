"""Why a stage is made again, in words that fit a line."""

from __future__ import annotations

from mimo.pipeline.identity import differences


def test_a_long_value_is_told_by_its_size() -> None:
    sources = [{"kind": "generated", "domain": "coding", "seed": number} for number in range(4)]
    old = {"params": {"seed": 1, "text": "a" * 200, "tasks": {"sources": sources}}}
    new = {"params": {"seed": 2, "text": "b" * 10, "tasks": {"sources": sources[:1]}}}
    found = differences(old, new)  # type: ignore[arg-type]
    assert found[:1] == ["param seed: 1 -> 2"]
    assert f"param tasks.sources: a list of 4 -> {sources[:1]}" in found
    assert f"param text: {'a' * 59}… -> {'b' * 10}" in found
