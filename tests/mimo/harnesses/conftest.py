"""One root file system for the folder's boxes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.rootfs import ensure_rootfs


@pytest.fixture(scope="session")
def rootfs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure_rootfs(tmp_path_factory.mktemp("cache"))
