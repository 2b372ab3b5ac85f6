"""Bits of sums with a number, taken apart into those of whole blocks and those within one block.

    (16 a + b) ^ 20  =  16 (a ^ 1) + (b ^ 4)        (16 a + b) & 32  =  16 (a & 2)        for 0 <= b < 16

Let g be a power of two, `x = g w + r` and `q g <= r < (q + 1) g` for a known q, as in `quotients`. In two's complement the bits of x from
that of g on are those of `w + q`, the others those of `r - q g`, and likewise of the number m, of which they are `m // g` and `m % g`.
An operation on bits takes each by itself, so

    x op m  =  g ((w + q) op (m // g)) + ((r - q g) op (m % g)).

Where r holds the lanes of a vector, what is read at `x ^ m` for a multiple m of g is one vector, and for less one whose elements change
places: amplitudes of qubits, butterflies, sorting networks.
"""

from __future__ import annotations

from typing import Final

from tensorlang import ir
from tensorlang.algebra.quotients import Span
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Binary, Expr
from tensorlang.ir.linear import Linear, expression

BITWISE: Final = ("and", "or", "xor")


def bits_apart(op: str, form: Linear, mask: int, span: Span) -> Expr | None:
    """`form op mask` by blocks, the largest first; None where there are none. The caller knows that `form` does not wrap."""
    for block in sorted({factor & -factor for factor in form.terms.values()} - {1}, reverse=True):
        whole = Linear(0, {atom: factor // block for atom, factor in form.terms.items() if factor % block == 0})
        rest = Linear(form.constant, {atom: factor for atom, factor in form.terms.items() if factor % block})
        bounds = span(rest)
        if not rest.terms or bounds is None or bounds[0] // block != bounds[1] // block:
            continue
        quotient = bounds[0] // block
        blocks, within = whole.plus(Linear(quotient)), rest.plus(Linear(-quotient * block))
        high = Binary("mul", ir.const(block), _masked(op, blocks, mask // block))
        low = bits_apart(op, within, mask % block, span) or _masked(op, within, mask % block)
        return simplify(Binary("add", high, low))
    return None


def _masked(op: str, form: Linear, mask: int) -> Expr:
    if mask == 0:
        return ir.const(0) if op == "and" else expression(form)
    return simplify(Binary(op, expression(form), ir.const(mask)))
