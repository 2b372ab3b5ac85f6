"""Floored quotients and remainders of sums, taken apart into the part of whole blocks and the part within one block.

    (16 a + b) // 64  =  a // 4                 (16 a + b) % 64  =  16 (a % 4) + b             for 0 <= b < 16

Let g divide m, and let `x = g w + r` where r stays within one block of g: `q g <= r < (q + 1) g` for a known q. Then

    x // m  =  (w + q) // (m / g)               x % m  =  g ((w + q) % (m / g)) + (r - q g).

Proof. `x = g (w + q) + (r - q g)` with `0 <= r - q g < g`, so `x // g = w + q`; and floors of floors are floors: `x // m` is
`(x // g) // (m / g)`. Then `x % m = x - m (x // m) = g ((w + q) - (m / g) ((w + q) // (m / g))) + (r - q g)`, the remainder times g and
the rest.

With g = m the block is the divisor and nothing is left to divide. Otherwise r, in which the lanes of a vector are, has left the quotient:
what is read moves with it, and the division is the same for all lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Binary, Expr
from tensorlang.ir.linear import Linear, expression

Span = Callable[[Linear], "tuple[int, int] | None"]
"""The least and the greatest value of a form, where they are known."""


def taken_apart(op: str, form: Linear, by: int, span: Span) -> Expr | None:
    """`form // by` ("floordiv") or `form % by` ("mod") by the largest block that allows it; None where none does.

    The caller knows that `form` does not wrap, and `by` is positive.
    """
    for block in _blocks(form, by):
        whole = Linear(0, {atom: factor // block for atom, factor in form.terms.items() if factor % block == 0})
        rest = Linear(form.constant, {atom: factor for atom, factor in form.terms.items() if factor % block})
        bounds = span(rest)
        if bounds is None or bounds[0] // block != bounds[1] // block:
            continue
        quotient = bounds[0] // block
        blocks, within = whole.plus(Linear(quotient)), rest.plus(Linear(-quotient * block))
        if block == by:
            return expression(blocks if op == "floordiv" else within)
        left = simplify(Binary(op, expression(blocks), ir.const(by // block)))
        return left if op == "floordiv" else expression(within.plus(Linear(0, {left: 1}), block))
    return None


def _blocks(form: Linear, by: int) -> Iterator[int]:
    """The sizes of blocks that some terms are whole multiples of, the largest first."""
    found = {by}
    for factor in form.terms.values():
        found |= {gcd(factor, size) for size in found}
    yield from sorted(found - {1}, reverse=True)
