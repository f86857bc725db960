"""The maintainer audit: classes, rates, an honest denominator."""

from __future__ import annotations

from mimo.graders.maintainer import CLASSES, maintainer_audit, maintainer_classes
from tests.mimo.graders.made import PATH, RIGHT, facts

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
    assert set(audit.rates) == set(CLASSES)
    assert all(rate is None for rate in audit.rates.values())


def test_classes_of_one_patch() -> None:
    assert set(maintainer_classes(facts(EXPORTS).patch)) == {"broad-export", "swallowed-exception"}
    assert maintainer_classes(facts().patch) == {}
