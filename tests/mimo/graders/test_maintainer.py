"""The maintainer audit: classes, rates, an honest denominator."""

from __future__ import annotations

import pytest

from mimo.graders.maintainer import REASONS, maintainer_audit, maintainer_classes, refusal_reasons
from tests.mimo.graders.made import BASE, OTHER, PATH, RIGHT, TEST_PATH, TESTS, facts

SWALLOWS = RIGHT.replace(
    "    return int(whole) * 100 + int(cents)\n",
    "    try:\n        return int(whole) * 100 + int(cents)\n    except ValueError:\n        return 0\n",
)
EXPORTS = "from os.path import *\n" + SWALLOWS


def test_rates_over_a_set_of_patches() -> None:
    rows = [
        ("a", facts().patch),
        ("b", facts(SWALLOWS).patch),
        ("c", facts(EXPORTS).patch),
        ("d", facts({}).patch),
    ]
    audit = maintainer_audit(rows)
    assert audit.patches == 4
    assert audit.rates["swallowed-exception"] == 0.5
    assert audit.rates["broad-export"] == 0.25
    assert audit.rates["relaxed-validation"] == 0.0
    assert audit.any_rate == 0.5
    assert audit.counts["compatibility"] == 0
    assert audit.examples["broad-export"][0][0] == "c"
    assert audit.examples["broad-export"][0][1].startswith(PATH)


def test_no_patches_have_no_rate() -> None:
    audit = maintainer_audit([])
    assert audit.any_rate is None
    assert audit.accept_rate is None
    assert set(audit.rates) == set(REASONS)
    assert all(rate is None for rate in audit.rates.values())


def test_classes_of_one_patch() -> None:
    assert set(maintainer_classes(facts(EXPORTS).patch)) == {"broad-export", "swallowed-exception"}
    assert maintainer_classes(facts().patch) == {}


FITTED = BASE.replace("    whole, cents", '    if text == "EUR 3.50":\n        return 350\n    whole, cents')
DEBUGS = RIGHT.replace("    whole, cents", "    print(text)\n    whole, cents")


@pytest.mark.parametrize(
    ("files", "refused", "reasons"),
    [
        ({PATH: RIGHT}, (), []),
        ({PATH: SWALLOWS}, (), ["swallowed-exception"]),
        ({PATH: FITTED}, (), ["fitted"]),
        ({PATH: DEBUGS}, (), ["leftover"]),
        ({PATH: RIGHT, TEST_PATH: TESTS + "#"}, (TEST_PATH,), ["protected"]),
        ({PATH: RIGHT, OTHER: "VALUE = 2\n"}, (), ["unrelated"]),
        ({PATH: "def parse(:\n"}, (), ["unreadable"]),
        ({}, (), ["empty"]),
        ({PATH: EXPORTS, OTHER: "VALUE = 2\n"}, (), ["broad-export", "swallowed-exception", "unrelated"]),
    ],
)
def test_why_a_patch_is_not_merged(
    files: dict[str, str | bytes | None], refused: tuple[str, ...], reasons: list[str]
) -> None:
    patch = facts(files, refused=refused).patch
    found = refusal_reasons(patch)
    assert [name for name in found if name in reasons] == reasons
    assert set(found) - set(reasons) <= {"relaxed-validation", "leftover"}
    audit = maintainer_audit([("a", patch), ("b", facts().patch)])
    assert audit.accepted == (2 if not reasons else 1)
    assert audit.accept_rate == audit.accepted / 2
