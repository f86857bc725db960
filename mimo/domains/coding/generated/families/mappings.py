"""Families over dictionaries and pairs."""

from __future__ import annotations

from mimo.domains.coding.generated.family import family

FAMILIES = (
    family(
        "tally",
        '''
def $f($x):
    """Return a dict from each item of $x to how often it occurs."""
    $r = {}
    for $i in $x:
        $r[$i] = $r.get($i, 0) + 1
    return $r
''',
        "f: tally count_items histogram",
        "x: items values votes",
        "r: counts result table",
        "i: item value vote",
        modules="tallies votes counts",
        inputs="['a', 'b', 'a'] | [] | [1] | [2, 2, 2] | ['x', 'y'] | [0, 1, 0, 1, 0] | [5, 4, 5]",
    ),
    family(
        "in-stock",
        '''
def $f($s, $k, $n):
    """Return True if the dict $s has at least $n of $k (a missing key counts as 0)."""
    return $s.get($k, 0) >= $n
''',
        "f: in_stock has_enough available",
        "s: stock store shelf",
        "k: item name product",
        "n: amount wanted count",
        modules="stock inventory orders",
        inputs="{'a': 3}, 'a', 3 | {'a': 3}, 'a', 4 | {'a': 3}, 'b', 1 | {}, 'a', 0 | {'a': 3}, 'a', 1"
        " | {'b': 1}, 'b', 1 | {'b': 1}, 'a', 0",
        level=1,
    ),
    family(
        "best-key",
        '''
def $f($x):
    """Return the key of $x with the highest value, the first one on a tie, None if empty."""
    $b = None
    for $k in $x:
        if $b is None or $x[$k] > $x[$b]:
            $b = $k
    return $b
''',
        "f: best_key winner top_name",
        "x: scores points table",
        "b: best top leader",
        "k: name key player",
        modules="ranking scores games",
        inputs="{'a': 1, 'b': 2} | {'a': 2, 'b': 1} | {} | {'x': 0} | {'a': 3, 'b': 3}"
        " | {'a': -5, 'b': -2} | {'p': 1, 'q': 7, 'r': 7}",
    ),
    family(
        "merge-add",
        '''
def $f($a, $b):
    """Return a new dict with the keys of $a and $b; values of shared keys are added."""
    $r = dict($a)
    for $k in $b:
        $r[$k] = $r.get($k, 0) + $b[$k]
    return $r
''',
        "f: merge_counts add_tables combine",
        "a: first left a",
        "b: second right b",
        "r: result merged total",
        "k: key name k",
        modules="merging tables ledger",
        inputs="{'x': 1}, {'x': 2} | {}, {} | {'a': 1}, {} | {}, {'a': 4}"
        " | {'a': 1, 'b': 2}, {'b': 3, 'c': 4} | {'k': 5}, {'k': -5}",
    ),
)
