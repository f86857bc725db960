"""Families over strings."""

from __future__ import annotations

from mimo.domains.coding.generated.family import family

FAMILIES = (
    family(
        "initials",
        '''
def $f($x):
    """Return the first letters of the words in $x, in upper case."""
    $r = ""
    for $w in $x.split():
        $r += $w[0].upper()
    return $r
''',
        "f: initials acronym short_form",
        "x: name text phrase",
        "r: result letters out",
        "w: word part w",
        modules="names labels words",
        inputs="'ada lovelace' | 'a' | '' | 'to be done' | 'Grace Hopper' | 'x y z'"
        " | 'as soon as possible' | 'Bo'",
    ),
    family(
        "count-vowels",
        '''
def $f($x):
    """Return how many letters of $x are vowels (a, e, i, o, u)."""
    $t = 0
    for $c in $x.lower():
        if $c in "aeiou":
            $t += 1
    return $t
''',
        "f: count_vowels num_vowels vowels",
        "x: text word line",
        "t: count total found",
        "c: c letter char",
        modules="letters vowels texts",
        inputs="'hello' | '' | 'xyz' | 'AEIOU' | 'Queue' | 'rhythm' | 'banana' | 'Io' | 'strength'",
    ),
    family(
        "palindrome",
        '''
def $f($x):
    """Return True if $x reads the same backwards; case does not count."""
    $w = $x.lower()
    return $w == $w[::-1]
''',
        "f: is_palindrome reads_same mirrored",
        "x: text word phrase",
        "w: low plain w",
        modules="mirror words puzzles",
        inputs="'anna' | 'Anna' | 'abc' | '' | 'x' | 'Level' | 'ab' | 'Noon' | 'hello'",
    ),
    family(
        "shorten",
        '''
def $f($x, $n):
    """Return $x if it has at most $n characters, else its first $n and "..."."""
    if len($x) <= $n:
        return $x
    return $x[:$n] + "..."
''',
        "f: shorten truncate cut_text",
        "x: text title line",
        "n: size width limit",
        modules="titles display clip",
        inputs="'hello', 3 | 'hello', 5 | 'hello', 9 | '', 2 | 'abcdef', 1 | 'abcdef', 6 | 'abcdef', 4"
        " | 'xy', 0",
    ),
    family(
        "pad-left",
        '''
def $f($x, $n):
    """Return $x with zeros put before it until it has $n characters."""
    while len($x) < $n:
        $x = "0" + $x
    return $x
''',
        "f: pad_zeros zero_fill fill_left",
        "x: text code digits",
        "n: width size length",
        modules="padding codes format",
        inputs="'7', 3 | '42', 2 | '42', 5 | '', 2 | '123', 1 | '9', 1 | '50', 4 | '1', 6",
    ),
    family(
        "caesar",
        '''
def $f($c, $n):
    """Return the small letter $n places after $c; z is followed by a."""
    $k = ord($c) - ord("a") + $n
    return chr(ord("a") + $k % 26)
''',
        "f: shift_letter next_letter caesar",
        "c: letter c char",
        "n: steps n places",
        "k: place k index",
        modules="cipher letters codes",
        inputs="'a', 1 | 'z', 1 | 'm', 0 | 'x', 5 | 'b', 25 | 'c', 26 | 'y', 2 | 'a', 13",
    ),
    family(
        "word-count",
        '''
def $f($x, $w):
    """Return how often the word $w stands in $x; case does not count."""
    $t = 0
    for $p in $x.lower().split():
        if $p == $w.lower():
            $t += 1
    return $t
''',
        "f: count_word word_hits times_used",
        "x: text line message",
        "w: word wanted term",
        "t: count hits total",
        "p: part token item",
        modules="search texts words",
        inputs="'a b a', 'a' | 'a b a', 'A' | '', 'x' | 'one two', 'three' | 'Go go GO', 'go'"
        " | 'ab abc ab', 'ab' | 'x', 'X'",
    ),
    family(
        "swap-ends",
        '''
def $f($x):
    """Return $x with its first and last characters swapped."""
    if len($x) < 2:
        return $x
    return $x[-1] + $x[1:-1] + $x[0]
''',
        "f: swap_ends trade_ends flip_ends",
        "x: text word line",
        modules="words edges swaps",
        inputs="'abcd' | 'ab' | 'a' | '' | 'hello' | 'xyz' | 'level' | 'python'",
    ),
)
