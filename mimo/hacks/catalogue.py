"""All routes, in the order they are probed, and the version that an attestation names."""

from __future__ import annotations

from mimo.hacks import (
    builds,
    bytecode,
    caches,
    file_facts,
    git_history,
    git_reading,
    git_store,
    leftovers,
    network,
    other_copies,
    other_repositories,
    runtime,
    solution_text,
    verifier_attacks,
)
from mimo.hacks.route import Route

PROBES_VERSION = 2
"""Raise it when a route is added or a probe sees more: attestations of older versions are stale."""

ROUTES: tuple[Route, ...] = (
    *git_store.ROUTES,
    *git_history.ROUTES,
    *git_reading.ROUTES,
    *other_repositories.ROUTES,
    *caches.ROUTES,
    *builds.ROUTES,
    *bytecode.ROUTES,
    *other_copies.ROUTES,
    *leftovers.ROUTES,
    *file_facts.ROUTES,
    *runtime.ROUTES,
    *network.ROUTES,
    *verifier_attacks.ROUTES,
    *solution_text.ROUTES,
)


def route_of(found_id: str) -> Route:
    """The route that reports or closes `found_id` (a probe may borrow an id of another's list)."""
    return next(route for route in ROUTES if found_id in route.ids)
