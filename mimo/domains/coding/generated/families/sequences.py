"""Families over lists."""

from __future__ import annotations

from mimo.domains.coding.generated.family import family

FAMILIES = (
    family(
        "first-item",
        '''
def $f($x):
    """Return the first item of $x, or None if it is empty."""
    if not $x:
        return None
    return $x[0]
''',
        "f: first head front",
        "x: items values queue",
        modules="lists items queues",
        inputs="[1, 2, 3] | [] | [7] | [4, 5] | ['a', 'b'] | [0, 9] | [3, 3, 1] | [8, 6, 4, 2]",
        level=1,
    ),
    family(
        "last-item",
        '''
def $f($x):
    """Return the last item of $x, or None if it is empty."""
    if not $x:
        return None
    return $x[-1]
''',
        "f: last tail_item newest",
        "x: items values history",
        modules="ends logs stacks",
        inputs="[1, 2, 3] | [] | [7] | [4, 5] | ['a', 'b'] | [0, 9] | [3, 3, 1] | [8, 6, 4, 2]",
        level=1,
    ),
    family(
        "count-above",
        '''
def $f($x, $k):
    """Return how many of $x are greater than $k."""
    $t = 0
    for $i in $x:
        if $i > $k:
            $t += 1
    return $t
''',
        "f: count_above over_limit num_greater",
        "x: values scores items",
        "k: limit bar least",
        "t: count found total",
        "i: value score item",
        modules="counts scores stats",
        inputs="[1, 5, 9], 4 | [], 3 | [3, 3], 3 | [2, 3, 4], 3 | [10, 0], 0 | [7], 9 | [8, 8, 1], 7"
        " | [-1, -2], -2",
    ),
    family(
        "running-total",
        '''
def $f($x):
    """Return the list of running totals of $x."""
    $r = []
    $t = 0
    for $i in $x:
        $t += $i
        $r.append($t)
    return $r
''',
        "f: running_total cumulate prefix_sums",
        "x: values numbers items",
        "r: result totals out",
        "t: total sum_so_far acc",
        "i: value number item",
        modules="running totals ledger",
        inputs="[1, 2, 3] | [] | [5] | [4, -1] | [0, 0, 2] | [10, 20, 30] | [-3, -4] | [1, 1, 1, 1]",
    ),
    family(
        "evens-only",
        '''
def $f($x):
    """Return the even numbers of $x, in order."""
    $r = []
    for $i in $x:
        if $i % 2 == 0:
            $r.append($i)
    return $r
''',
        "f: only_even keep_even evens",
        "x: numbers values items",
        "r: result kept out",
        "i: number value item",
        modules="filters parity selects",
        inputs="[1, 2, 3, 4] | [] | [1, 3] | [2] | [0, 5, 6] | [-2, -3] | [10, 11, 12] | [7, 8]",
    ),
    family(
        "index-of",
        '''
def $f($x, $k):
    """Return the position of $k in $x, or -1 if it is not there."""
    for $i in range(len($x)):
        if $x[$i] == $k:
            return $i
    return -1
''',
        "f: index_of position find_item",
        "x: items values row",
        "k: wanted target key",
        "i: i place index",
        modules="search lookup finder",
        inputs="[4, 5, 6], 5 | [4, 5, 6], 4 | [4, 5, 6], 6 | [4, 5], 9 | [], 1 | [2, 2], 2 | [1, 0, 1], 0"
        " | [9, 8, 7, 6], 6",
    ),
    family(
        "chunk",
        '''
def $f($x, $n):
    """Return $x cut into lists of $n items; the last may be shorter."""
    $r = []
    for $i in range(0, len($x), $n):
        $r.append($x[$i : $i + $n])
    return $r
''',
        "f: chunk split_every batches",
        "x: items values rows",
        "n: size n per_chunk",
        "r: result chunks out",
        "i: start i begin",
        modules="chunks batching slices",
        inputs="[1, 2, 3, 4], 2 | [1, 2, 3], 2 | [], 3 | [1], 3 | [1, 2, 3, 4, 5], 1"
        " | [1, 2, 3, 4, 5, 6], 4 | [7, 8, 9], 3",
    ),
    family(
        "dedupe",
        '''
def $f($x):
    """Return $x without repeats; the first of each stays, in order."""
    $r = []
    for $i in $x:
        if $i not in $r:
            $r.append($i)
    return $r
''',
        "f: unique without_repeats distinct",
        "x: items values names",
        "r: result seen out",
        "i: item value name",
        modules="unique cleanup repeats",
        inputs="[1, 1, 2] | [] | [3] | [2, 1, 2, 1] | [5, 5, 5] | ['a', 'b', 'a'] | [0, 1, 0, 2] | [4, 3, 2]",
    ),
    family(
        "pairwise-sum",
        '''
def $f($x, $y):
    """Return the list of sums of items at the same place; extra items are dropped."""
    $n = min(len($x), len($y))
    return [$x[$i] + $y[$i] for $i in range($n)]
''',
        "f: add_pairs pairwise_sum zip_add",
        "x: left xs first",
        "y: right ys second",
        "n: n length count",
        "i: i k place",
        modules="vectors pairs columns",
        inputs="[1, 2], [3, 4] | [1], [2, 3] | [], [1] | [5, 6, 7], [1, 1] | [0], [0] | [9, 8], [-9, -8]"
        " | [1, 2, 3], [4, 5, 6]",
    ),
    family(
        "is-sorted",
        '''
def $f($x):
    """Return True if no item of $x is smaller than the one before it."""
    for $i in range(1, len($x)):
        if $x[$i] < $x[$i - 1]:
            return False
    return True
''',
        "f: is_sorted in_order ascending",
        "x: items values row",
        "i: i k place",
        modules="order sorting checks",
        inputs="[1, 2, 3] | [3, 2] | [] | [1] | [1, 1, 2] | [1, 3, 2] | [2, 1, 3] | [5, 5] | [0, -1]",
    ),
    family(
        "rotate",
        '''
def $f($x, $n):
    """Return $x with its first $n items moved to the end."""
    if not $x:
        return $x
    $k = $n % len($x)
    return $x[$k:] + $x[:$k]
''',
        "f: rotate rotate_left shift_left",
        "x: items values row",
        "n: n steps places",
        "k: cut k start",
        modules="rotation rings shifts",
        inputs="[1, 2, 3], 1 | [1, 2, 3], 0 | [], 2 | [1, 2, 3], 3 | [1, 2, 3, 4], 2 | [1, 2, 3], 4"
        " | [9], 5 | [5, 6, 7, 8, 9], 3",
    ),
)
