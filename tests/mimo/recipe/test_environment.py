"""References to the environment stay references in every file and are resolved only when used."""

from __future__ import annotations

import pytest

from mimo.errors import RecipeError
from mimo.recipe.environment import malformed, redact, references, resolve_env, with_environment
from mimo.recipe.loader import load_recipe
from mimo.recipe.problems import hide_passwords

URI = "http://${env:USER_X}:${env:PASSWORD_X}@${env:HOST_X:-localhost}:5000"
VALUES = {"USER_X": "me", "PASSWORD_X": "hunter22"}


def test_resolving() -> None:
    assert resolve_env(URI, VALUES) == "http://me:hunter22@localhost:5000"
    assert resolve_env("${env:EMPTY_X:-}", {}) == ""
    assert references(URI) == ("USER_X", "PASSWORD_X", "HOST_X")
    with pytest.raises(RecipeError, match="USER_X is unset or empty"):
        resolve_env(URI, {"PASSWORD_X": "x"})


@pytest.mark.parametrize("text", ["${policy.source}", "${env:}", "${env:1X}", "${env:NAME", "${NAME}"])
def test_other_references_are_malformed(text: str) -> None:
    assert malformed(f"a {text} b") is not None
    assert malformed(URI) is None


def test_a_secret_is_in_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VALUES.items():
        monkeypatch.setenv(name, value)
    resolved = load_recipe("pro", profile="smoke", overrides=[f"runtime.tracking_uri={URI}"])
    assert resolved.model.runtime.tracking_uri == URI
    for text in (resolved.resolved_yaml(), resolved.model.model_dump_json(), repr(resolved)):
        assert "hunter22" not in text
    assert with_environment(resolved.model.runtime).tracking_uri == "http://me:hunter22@localhost:5000"


def test_redaction_is_by_value() -> None:
    data = load_recipe("pro", profile="smoke", overrides=[f"runtime.tracking_uri={URI}"]).model.data()
    said = redact("cannot reach http://me:hunter22@localhost: refused", data, VALUES)
    assert said == "cannot reach http://me:${env:PASSWORD_X}@localhost: refused"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://me:hunter2@host", "http://me:***@host"),
        ("http://:hunter2@host", "http://:***@host"),
        ("http://${env:USER_X}:hunter2@host", "http://${env:USER_X}:***@host"),
        ("http://me:${env:PASSWORD_X:-hunter2}@host", "http://me:***@host"),
        (URI, URI),
        ("http://host:5000/a@b", "http://host:5000/a@b"),
        ("hf:org/name", "hf:org/name"),
    ],
)
def test_passwords_in_urls_are_never_shown(text: str, shown: str) -> None:
    assert hide_passwords(text) == shown
