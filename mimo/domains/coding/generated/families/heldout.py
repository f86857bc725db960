"""Families kept for evaluation: the demonstrator refuses them and no training task is made of them."""

from __future__ import annotations

from mimo.domains.coding.generated.family import family

FAMILIES = (
    family(
        "smaller",
        '''
def $f($a, $b):
    """Return the smaller one of $a and $b."""
    if $a < $b:
        return $a
    return $b
''',
        "f: smaller minimum lesser",
        "a: first a left",
        "b: second b right",
        modules="compare choose picks",
        inputs="1, 2 | 2, 1 | 5, 5 | -3, -7 | -7, -3 | 0, 4 | 4, 0 | 10, 9 | 8, 12",
        level=1,
        split="heldout",
    ),
    family(
        "perimeter",
        '''
def $f($w, $h):
    """Return the way around a rectangle: twice $w plus twice $h."""
    return 2 * $w + 2 * $h
''',
        "f: perimeter outline way_around",
        "w: width a wide",
        "h: height b tall",
        modules="shapes geometry fences",
        inputs="2, 3 | 4, 5 | 1, 7 | 6, 6 | 0, 9 | 10, 3 | 8, 1 | 5, 12",
        level=1,
        split="heldout",
    ),
    family(
        "sign",
        '''
def $f($x):
    """Return -1 if $x is negative, 1 if it is positive, 0 for zero."""
    if $x < 0:
        return -1
    if $x > 0:
        return 1
    return 0
''',
        "f: sign direction sign_of",
        "x: number value n",
        modules="signs integers steps",
        inputs="5 | -5 | 0 | 1 | -1 | 100 | -42 | 3",
        level=1,
        split="heldout",
    ),
    family(
        "is-multiple",
        '''
def $f($n, $d):
    """Return True if $n is a multiple of $d; only 0 is a multiple of 0."""
    if $d == 0:
        return $n == 0
    return $n % $d == 0
''',
        "f: is_multiple divisible fits_into",
        "n: number n total",
        "d: divisor d step",
        modules="divisors checks integers",
        inputs="6, 3 | 7, 3 | 0, 5 | 5, 0 | 0, 0 | 9, 9 | 10, 4 | 12, 6 | 1, 2",
        split="heldout",
    ),
    family(
        "count-equal",
        '''
def $f($x, $k):
    """Return how many of $x are equal to $k."""
    $t = 0
    for $i in $x:
        if $i == $k:
            $t += 1
    return $t
''',
        "f: count_equal occurrences num_equal",
        "x: values items row",
        "k: wanted target key",
        "t: count found total",
        "i: value item cell",
        modules="counts search stats",
        inputs="[1, 2, 1], 1 | [], 3 | [3, 3], 3 | [2, 3, 4], 9 | [0, 0, 1], 0 | [7], 7 | [8, 8, 1], 1",
        split="heldout",
    ),
    family(
        "odd-doubled",
        '''
def $f($x):
    """Return twice each odd number of $x, in order."""
    $r = []
    for $i in $x:
        if $i % 2 == 1:
            $r.append($i * 2)
    return $r
''',
        "f: odd_doubled double_odds twice_odds",
        "x: numbers values items",
        "r: result doubled out",
        "i: number value item",
        modules="doubles filters odds",
        inputs="[1, 2, 3] | [] | [2, 4] | [5] | [0, 7, 8] | [9, 9] | [3, 6, 11]",
        split="heldout",
    ),
    family(
        "second-half",
        '''
def $f($x):
    """Return the second half of $x; of an odd number of items the middle one belongs to it."""
    $m = len($x) // 2
    return $x[$m:]
''',
        "f: second_half back_half upper_half",
        "x: items values row",
        "m: middle half cut",
        modules="halves slices splits",
        inputs="[1, 2, 3, 4] | [1, 2, 3] | [] | [7] | [1, 2] | [5, 4, 3, 2, 1]"
        " | ['a', 'b', 'c', 'd', 'e', 'f']",
        split="heldout",
    ),
    family(
        "differences",
        '''
def $f($x):
    """Return the list of each item of $x minus the one before it (empty for less than two)."""
    $r = []
    for $i in range(1, len($x)):
        $r.append($x[$i] - $x[$i - 1])
    return $r
''',
        "f: differences steps deltas",
        "x: values numbers row",
        "r: result out gaps",
        "i: i k place",
        modules="deltas series changes",
        inputs="[1, 4, 9] | [] | [5] | [3, 1] | [2, 2, 2] | [10, 0, 10] | [1, 2, 4, 8]",
        split="heldout",
    ),
    family(
        "count-upper",
        '''
def $f($x):
    """Return how many characters of $x are upper case letters."""
    $t = 0
    for $c in $x:
        if $c.isupper():
            $t += 1
    return $t
''',
        "f: count_upper num_capitals capitals",
        "x: text word line",
        "t: count total found",
        "c: c letter char",
        modules="letters texts cases",
        inputs="'Hello' | '' | 'abc' | 'ABC' | 'aBcD' | '12 X' | 'PyThOn' | 'no'",
        split="heldout",
    ),
    family(
        "wrap-quotes",
        '''
def $f($x, $q):
    """Return $x with $q put before and after it, unless it already starts and ends with $q."""
    if $x.startswith($q) and $x.endswith($q):
        return $x
    return $q + $x + $q
''',
        "f: quote wrap enclose",
        "x: text word value",
        "q: mark q sign",
        modules="quotes format wrapping",
        inputs="'a', '*' | '*a*', '*' | '*a', '*' | 'a*', '*' | '', '-' | '-x-', '*' | '--', '-' | 'ab', '='",
        split="heldout",
    ),
    family(
        "invert",
        '''
def $f($x):
    """Return a dict from each value of $x to the list of its keys, in order."""
    $r = {}
    for $k in $x:
        $r.setdefault($x[$k], []).append($k)
    return $r
''',
        "f: invert group_by_value keys_by_value",
        "x: table data pairs",
        "r: result groups out",
        "k: key name k",
        modules="groups tables inverse",
        inputs="{'a': 1, 'b': 1} | {} | {'x': 5} | {'a': 1, 'b': 2} | {'p': 0, 'q': 1, 'r': 0} | {'k': 'v'}",
        split="heldout",
    ),
    family(
        "total-price",
        '''
def $f($o, $p):
    """Return the sum of amount times price over the dict $o; a product without price costs 0."""
    $t = 0
    for $k in $o:
        $t += $o[$k] * $p.get($k, 0)
    return $t
''',
        "f: total_price order_sum bill",
        "o: order cart amounts",
        "p: prices costs price_list",
        "t: total result amount",
        "k: name product key",
        modules="orders carts bills",
        inputs="{'a': 2}, {'a': 3} | {}, {'a': 1} | {'a': 1, 'b': 2}, {'a': 5, 'b': 7} | {'c': 4}, {}"
        " | {'a': 3}, {'a': 0} | {'x': 1, 'y': 1}, {'x': 9}",
        split="heldout",
    ),
    family(
        "grade",
        '''
def $f($p):
    """Return "good" from 80 points on, "fair" from 50 on, else "poor"."""
    if $p >= 80:
        return "good"
    if $p >= 50:
        return "fair"
    return "poor"
''',
        "f: grade rating verdict",
        "p: points score marks",
        modules="grades school ratings",
        inputs="100 | 80 | 79 | 50 | 49 | 0 | 65 | 81 | 51",
        split="heldout",
    ),
)
