"""The engine's bench for tests of commands."""

from tests.mimo.pipeline.conftest import bench, knobs

__all__ = ["bench", "knobs"]
