"""Rollouts: one attempt, groups of attempts, the token log, what is kept on disk."""
