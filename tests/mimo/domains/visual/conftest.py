"""The lab of the visual domain; made once."""

from __future__ import annotations

import pytest

from mimo.domains.visual.domain import Visual
from mimo.domains.visual.families import FAMILIES
from tests.mimo.domains.lab import Lab, open_lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    splits = {family: entry.split for family, entry in FAMILIES.items()}
    return open_lab(Visual(), splits, tmp_path_factory.mktemp("visual"), max_turns=3)
