"""Families over whole numbers."""

from __future__ import annotations

from mimo.domains.coding.generated.family import family

FAMILIES = (
    family(
        "clamp",
        '''
def $f($x, $lo, $hi):
    """Return $x, but at least $lo and at most $hi."""
    if $x < $lo:
        return $lo
    if $x > $hi:
        return $hi
    return $x
''',
        "f: clamp limit bound",
        "x: value number n",
        "lo: low least bottom",
        "hi: high most top",
        modules="ranges bounds limits",
        inputs="5, 0, 3 | -1, 0, 3 | 2, 0, 3 | 0, 0, 3 | 3, 0, 3 | 9, 4, 7 | 1, 4, 7 | 5, 4, 7"
        " | -8, -6, -2 | 0, -6, -2",
        level=1,
    ),
    family(
        "is-even",
        '''
def $f($x):
    """Return True if $x is even, else False."""
    return $x % 2 == 0
''',
        "f: is_even even divides_by_two",
        "x: number n value",
        modules="parity integers checks",
        inputs="0 | 1 | 2 | 3 | 7 | 10 | -2 | -5 | 12 | 21",
        level=1,
    ),
    family(
        "area",
        '''
def $f($w, $h):
    """Return the area of a rectangle: $w times $h."""
    return $w * $h
''',
        "f: area rectangle_area surface",
        "w: width a wide",
        "h: height b tall",
        modules="shapes geometry areas",
        inputs="2, 3 | 4, 5 | 1, 7 | 6, 6 | 0, 9 | 10, 3 | 8, 1 | 5, 12",
        level=1,
    ),
    family(
        "absolute",
        '''
def $f($x):
    """Return the distance of $x from zero."""
    if $x < 0:
        return -$x
    return $x
''',
        "f: absolute magnitude distance",
        "x: number value n",
        modules="signs integers sizes",
        inputs="4 | -4 | 0 | -1 | 1 | 9 | -17 | 23 | -30 | 5",
        level=1,
    ),
    family(
        "larger",
        '''
def $f($a, $b):
    """Return the larger one of $a and $b."""
    if $a > $b:
        return $a
    return $b
''',
        "f: larger maximum bigger",
        "a: first a left",
        "b: second b right",
        modules="compare choose picks",
        inputs="1, 2 | 2, 1 | 5, 5 | -3, -7 | -7, -3 | 0, 4 | 4, 0 | 10, 9 | 8, 12",
        level=1,
    ),
    family(
        "sum-to",
        '''
def $f($n):
    """Return the sum of the whole numbers from 1 to $n, $n included."""
    $t = 0
    for $i in range(1, $n + 1):
        $t += $i
    return $t
''',
        "f: sum_to total_up_to add_up",
        "n: n last limit",
        "t: total result amount",
        "i: i number k",
        modules="sums series totals",
        inputs="1 | 2 | 3 | 4 | 5 | 10 | 0 | 7 | 12 | 20",
    ),
    family(
        "factorial",
        '''
def $f($n):
    """Return the product of the whole numbers from 1 to $n (1 for 0)."""
    $t = 1
    for $i in range(2, $n + 1):
        $t *= $i
    return $t
''',
        "f: factorial product_to multiply_up",
        "n: n last number",
        "t: result product value",
        "i: i factor k",
        modules="products factors combos",
        inputs="0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8",
    ),
    family(
        "digit-sum",
        '''
def $f($n):
    """Return the sum of the decimal digits of $n (not negative)."""
    $t = 0
    for $d in str($n):
        $t += int($d)
    return $t
''',
        "f: digit_sum sum_of_digits add_digits",
        "n: number n value",
        "t: total result amount",
        "d: digit c char",
        modules="digits decimals figures",
        inputs="0 | 5 | 12 | 99 | 100 | 345 | 1007 | 86 | 4321 | 19",
    ),
    family(
        "discount",
        '''
def $f($p, $q):
    """Return $p lowered by $q percent, in whole cents rounded down."""
    if $q <= 0:
        return $p
    return $p * (100 - $q) // 100
''',
        "f: discounted reduced_price sale_price",
        "p: price cents amount",
        "q: percent rate cut",
        modules="prices sales shop",
        inputs="1000, 10 | 1000, 0 | 999, 50 | 250, 25 | 80, 100 | 1, 1 | 500, 1 | 77, 30 | 1000, -5",
    ),
    family(
        "leap",
        '''
def $f($y):
    """Return True for a leap year: divisible by 4, but by 100 only if also by 400."""
    if $y % 400 == 0:
        return True
    if $y % 100 == 0:
        return False
    return $y % 4 == 0
''',
        "f: is_leap leap_year has_leap_day",
        "y: year y date",
        modules="years dates calendars",
        inputs="2000 | 1900 | 2004 | 2001 | 2100 | 2400 | 1996 | 2023 | 2024 | 1800 | 401 | 104",
    ),
    family(
        "ceil-div",
        '''
def $f($n, $s):
    """Return how many boxes of size $s hold $n things."""
    $q = $n // $s
    if $n % $s > 0:
        $q += 1
    return $q
''',
        "f: boxes_needed pages_for count_chunks",
        "n: count total n",
        "s: size capacity per_box",
        "q: full boxes whole",
        modules="packing paging chunks",
        inputs="10, 5 | 11, 5 | 1, 5 | 0, 5 | 14, 7 | 15, 7 | 99, 10 | 100, 10 | 6, 1 | 23, 4",
    ),
    family(
        "gcd",
        '''
def $f($a, $b):
    """Return the greatest common divisor of $a and $b."""
    while $b != 0:
        $a, $b = $b, $a % $b
    return $a
''',
        "f: gcd common_divisor greatest_divisor",
        "a: a first m",
        "b: b second n",
        modules="divisors ratios integers",
        inputs="12, 18 | 18, 12 | 7, 3 | 9, 9 | 5, 0 | 100, 75 | 17, 51 | 64, 48 | 1, 9",
    ),
    family(
        "shipping",
        '''
def $f($w):
    """Return the shipping cost: 5 up to 2 kg, 9 up to 10 kg, 20 above."""
    if $w <= 2:
        return 5
    if $w <= 10:
        return 9
    return 20
''',
        "f: shipping postage delivery_cost",
        "w: weight kg mass",
        modules="parcels mail orders",
        inputs="1 | 2 | 3 | 9 | 10 | 11 | 30 | 0 | 5 | 12",
    ),
    family(
        "collatz",
        '''
def $f($n):
    """Return how often to halve $n (even) or take 3 * $n + 1 (odd) until it is 1."""
    $t = 0
    while $n != 1:
        $n = $n // 2 if $n % 2 == 0 else 3 * $n + 1
        $t += 1
    return $t
''',
        "f: collatz steps_to_one hailstone",
        "n: n number start",
        "t: steps count turns",
        modules="sequences orbits walks",
        inputs="1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 12 | 16",
    ),
)
