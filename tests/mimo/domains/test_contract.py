"""Every domain keeps the contract: the same calls with the same arguments."""

from __future__ import annotations

import inspect

import pytest

from mimo.domains import DOMAINS, load_domain
from mimo.domains.base import Domain

METHODS = [name for name, _ in inspect.getmembers(Domain, inspect.isfunction) if not name.startswith("_")]


@pytest.mark.parametrize("name", DOMAINS.names())
@pytest.mark.parametrize("method", METHODS)
def test_a_domain_takes_what_the_contract_says(name: str, method: str) -> None:
    wanted = list(inspect.signature(getattr(Domain, method)).parameters.values())[1:]
    given = list(inspect.signature(getattr(load_domain(name), method)).parameters.values())
    assert [(item.name, item.kind) for item in given] == [(item.name, item.kind) for item in wanted]
