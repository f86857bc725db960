"""C families that UBSan sees: overflow of signed numbers, division by zero, shifts too far."""

from __future__ import annotations

from mimo.domains.cyber.generated.plant import Plant, Words, family, one_verb


@family("integer-overflow", "signed-integer-overflow")
def _integer_overflow(w: Words) -> Plant:
    a, b = w.name("width rows first"), w.name("height columns second")
    formula, big = w.rng.choice(
        (
            (f"{a} * {b}", (70000, 50000)),
            (f"{a} + {b}", (2000000000, 1000000000)),
            (f"{a} * {a} + {b}", (60000, 5)),
        )
    )
    return one_verb(
        w,
        """
void $f(const char *text)
{
    int $a = 0, $b = 0;
    @guard
    if (sscanf(text, "%d %d", &$a, &$b) != 2 || $a < 0 || $b < 0)
        return;
    int $result = $formula;
    printf("%d\\n", $result);
}
""",
        f=w.name("area_of compute total_cost"),
        a=a,
        b=b,
        result=w.name("result total area"),
        formula=formula,
        verbs="area cost total",
        function="f",
        trigger=f"{big[0]} {big[1]}",
        benign=f"{w.number(2, 9)} {w.number(2, 9)}",
        prose="Two numbers without an upper limit are combined in an int.",
    )


@family("divide-by-zero", "division-by-zero")
def _divide_by_zero(w: Words) -> Plant:
    less = w.number(1, 9)
    return one_verb(
        w,
        """
void $f(const char *text)
{
    int $a = 0, $b = 0;
    @guard
    if (sscanf(text, "%d %d", &$a, &$b) != 2)
        return;
    printf("%d\\n", $a $sign ($b - $less));
}
""",
        f=w.name("share_out split_sum average"),
        a=w.name("amount sum goods"),
        b=w.name("people parts heads"),
        sign=w.pick("/", "%"),
        less=less,
        verbs="share split average",
        function="f",
        trigger=f"{w.number(10, 99)} {less}",
        benign=f"{w.number(10, 99)} {less + 2}",
        prose="A number is divided by a difference that can be zero.",
    )


@family("shift", "shift-exponent")
def _shift(w: Words) -> Plant:
    most = w.number(2, 5) * 20
    return one_verb(
        w,
        """
void $f(const char *text)
{
    int $bits = atoi(text);
    @guard
    if ($bits < 0 || $bits > $most)
        return;
    unsigned $mask = $unit << $bits;
    printf("%u\\n", $mask);
}
""",
        f=w.name("make_mask power bit_at"),
        bits=w.name("bits shift places"),
        mask=w.name("mask power_of flag"),
        unit=w.pick("1u", "3u", "5u"),
        most=most,
        verbs="mask power bit",
        function="f",
        trigger=str(w.number(32, most)),
        benign=str(w.number(1, 20)),
        prose="The number of places of a shift may be larger than a number has bits.",
    )


FAMILIES = (_integer_overflow, _divide_by_zero, _shift)
