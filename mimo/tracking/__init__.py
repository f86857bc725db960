"""The MLflow mirror of runs: files are the truth, MLflow can be rebuilt from them (`mimo track sync`)."""

from mimo.tracking.base import Info, MetricRow, NullTracker, Status, Tracker
from mimo.tracking.environment import clean_environment

__all__ = ["Info", "MetricRow", "NullTracker", "Status", "Tracker", "clean_environment"]
