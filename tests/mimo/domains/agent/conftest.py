"""The lab of the agent domain; made once."""

from __future__ import annotations

import pytest

from mimo.domains.agent.domain import Agent
from mimo.domains.agent.families import FAMILIES
from tests.mimo.domains.lab import Lab, open_lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    splits = {family: entry.split for family, entry in FAMILIES.items()}
    return open_lab(Agent(), splits, tmp_path_factory.mktemp("agent"), max_turns=4)
