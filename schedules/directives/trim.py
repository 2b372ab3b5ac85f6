"""`trim`: iterations of which nobody reads anything do not run.

    for i in range(64):                                     for i in range(64):
        for j_o in range(8):                                    for j_o in range(8):
            for j_i in range(8):                    ->              if 8 * j_o <= i:
                S[i, j] = exp(X[i, j])                                  for j_i in range(8):
    for i in range(64):                                                     S[i, j] = exp(X[i, j])
        for j in range(64):                                 for i in range(64):
            if j <= i:                                          for j in range(64):
                m[i] = max(m[i], S[i, j])                           if j <= i:
                                                                        m[i] = max(m[i], S[i, j])

An iteration of `loop` runs where something that it computes may be read: inside triangles, bands and other parts that conditions on
indices cut out. It computes all of its elements then, and is asked once: conditions inside that only spare what nobody reads go, and
choices that they make one way. So a tile of a product is computed as a whole or not at all.

Legal where the loop writes intermediates alone; conditions inside stay where what is read exists under them only. A recurrence may be
trimmed as well: of a step of a scan those elements that the next one reads, or what comes behind the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tensorlang.algebra.bounds import conjuncts, negated
from tensorlang.algebra.polyhedra import find
from tensorlang.algebra.rules import conjunction
from tensorlang.ir import Axis, Buffer, Compare, Expr, For, If, Nest, Select, Stmt, Store, Unary
from tensorlang.ir.linear import Linear, expression, linear
from tensorlang.ir.mentions import allocations
from tensorlang.ir.printer import short
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, map_own_expressions, map_statements, read_in, reads_data, rewrite, statements
from tensorlang.schedules.directive import Directive, LoopName, Refusal
from tensorlang.schedules.legality.accesses import accesses, conditions_around
from tensorlang.schedules.legality.in_bounds import place_facts, unprotected
from tensorlang.schedules.legality.read_where import Forms, common, orders, read_where, turns_of, written_where
from tensorlang.schedules.placement.upper_bounds import contracted
from tensorlang.schedules.rewriting.edit import edit_loops, loops, loops_on, path_to_loop, path_to_store, stores


@dataclass(frozen=True, slots=True)
class Trim(Directive):
    """Run the iterations of `loop` of which something may be read, and compute all of their elements."""

    loop: LoopName

    def apply(self, nest: Nest) -> Nest:
        """The nest with one condition in the loop."""
        loop = path_to_loop(nest, self.loop)[-1]
        assert isinstance(loop, For)
        needed = self._needed(nest, loop)
        bare = _without(nest, loop, needed)
        asked = self._asked(bare, needed)

        def rarer(part: For) -> For:
            return replace(part, body=If(conjunction(asked), part.body)) if asked else part

        made = _decided(replace(nest, body=edit_loops(bare.body, lambda part: part.loop == self.loop, rarer)), self.loop, needed)
        if made == nest:
            reason = f"all that an iteration of {short(self.loop)!r} computes may be read, as far as conditions on indices tell"
            raise Refusal("TL-S005", reason, loop=self.loop)
        return made

    def _needed(self, nest: Nest, loop: For) -> dict[Buffer, Forms]:
        """Where elements of what the loop writes are read. Raises `Refusal` where it writes something else."""
        written = list(dict.fromkeys(buffer for store in stores(loop.body) for buffer in store.buffers))
        kept = {local.name for local in allocations(nest.body)}
        result = next((buffer for buffer in written if buffer.name not in kept), None)
        if result is not None:
            reason = f"{short(self.loop)!r} writes {result.name!r}, which the caller reads"
            raise Refusal("TL-S301", reason, stage=result.name, loop=self.loop)
        said = frozenset[str]().union(*(read_in(end) for part in loops(nest.body) for end in (part.lo, part.hi)))
        found = list(accesses(nest.body))
        return {buffer: {} if buffer.name in said else read_where(nest, buffer, found, turns_of(nest, loop, buffer)) for buffer in written}

    def _asked(self, nest: Nest, needed: dict[Buffer, Forms]) -> list[Expr]:
        """What has to hold of an iteration of which something is read, and is not asked already."""
        path = path_to_loop(nest, self.loop)
        loop = path[-1]
        assert isinstance(loop, For)
        own = {local.name for local in allocations(loop.body)}
        each: list[Forms] = []
        for store in stores(loop.body):
            around = loops_on(path_to_store(nest, store))
            inside = around[[part.loop for part in around].index(self.loop) + 1 :]
            kept = (needed[buffer] for buffer in store.buffers if buffer.name not in own)
            each += [_weakest(nest, written_where(nest, forms, store, around), inside) for forms in kept]
        first = loop.body
        while isinstance(first, If) and first.orelse is None:
            first = first.then
        known = place_facts(nest, loops_on(path), conditions_around(nest, first))
        conditions = (self._order(nest, Linear(constant, dict(terms))) for terms, constant in common(each).items())
        return [condition for condition in conditions if find(*known, Unary("not", condition)) is not None]

    def _order(self, nest: Nest, form: Linear) -> Expr:
        """`form < 0` as a comparison of sums, of the axes that loops were made of where they are whole."""
        names = frozenset(loop.loop for loop in loops_on(path_to_loop(nest, self.loop)))
        whole = linear(contracted(nest, expression(form), names))
        terms = sorted(whole.terms.items(), key=repr)  # the same in every process, as sets are not
        left = Linear(0, {atom: factor for atom, factor in terms if factor > 0})
        right = Linear(-1 - whole.constant, {atom: -factor for atom, factor in terms if factor < 0})
        return Compare("le", expression(left), expression(right))


def _without(nest: Nest, loop: For, needed: dict[Buffer, Forms]) -> Nest:
    """The nest without conditions in a loop that only spare what nobody reads; itself where there are none."""
    spared = {id(part): frozenset(_spared(nest, part, needed)) for part in statements(loop.body) if isinstance(part, If)}
    if not any(spared.values()):
        return nest

    def rewritten(asked: Stmt) -> Stmt:
        part = map_statements(asked, rewritten)
        if not isinstance(part, If) or part.orelse is not None:
            return part
        kept = [condition for condition in conjuncts((part.cond,)) if condition not in spared[id(asked)]]
        return replace(part, cond=conjunction(kept)) if kept else part.then

    return _with_body(nest, loop, rewritten(loop.body))


def _with_body(nest: Nest, loop: For, body: Stmt) -> Nest:
    """The nest with another body of a loop; itself where that would read what is not there."""
    made = replace(nest, body=edit_loops(nest.body, lambda part: part is loop, lambda _: replace(loop, body=body)))
    return made if all(unprotected(made, store) is None for store in stores(body)) else nest


def _decided(nest: Nest, name: str, needed: dict[Buffer, Forms]) -> Nest:
    """The nest without choices in a loop that are made one way for every element that is read; itself where there are none."""
    loop = path_to_loop(nest, name)[-1]
    assert isinstance(loop, For)

    def one_side(part: Stmt) -> Stmt:
        if not isinstance(part, Store) or not part.buffers:
            return map_statements(part, one_side)
        around = loops_on(path_to_store(nest, part))
        forms = common([written_where(nest, needed[buffer], part, around) for buffer in part.buffers])

        def side(value: Expr) -> Expr:
            match value:
                case Select(cond, yes, no) if not reads_data(cond):
                    parts = conjuncts((cond,)), conjuncts((negated(cond),))
                    chosen, refused = (all(_implies(forms, nest, each, around) for each in every) for every in parts)
                    return yes if chosen else no if refused else value
                case _:
                    return value

        return map_own_expressions(part, lambda value: rewrite(value, side)) if forms else part

    return _with_body(nest, loop, one_side(loop.body))


def _spared(nest: Nest, asked: If, needed: dict[Buffer, Forms]) -> Iterator[Expr]:
    """The parts of a condition that hold of every element that is read of what is written under it."""
    if asked.orelse is not None:
        return
    around = {id(store): loops_on(path_to_store(nest, store)) for store in stores(asked.then)}
    for condition in conjuncts((asked.cond,)):
        if all(
            _implies(written_where(nest, needed[buffer], store, around[id(store)]), nest, condition, around[id(store)])
            for store in stores(asked.then)
            for buffer in store.buffers
        ):
            yield condition


def _implies(forms: Forms, nest: Nest, condition: Expr, around: tuple[For, ...]) -> bool:
    """Does a condition hold wherever the forms are below 0?"""
    said = orders(nest, condition, [part.loop for part in around])
    return bool(said) and all(forms.get(terms, constant - 1) >= constant for terms, constant in said.items())


def _weakest(nest: Nest, forms: Forms, inside: tuple[For, ...]) -> Forms:
    """The forms at the iteration of the loops inside where each is least; without those that are not linear in these."""
    result: Forms = {}
    for terms, constant in forms.items():
        least: Linear | None = Linear(constant, dict(terms))
        for loop in reversed(inside):
            least = None if least is None else _least(nest, least, loop)
        if least is not None:
            key = frozenset(least.terms.items())
            result[key] = max(least.constant, result.get(key, least.constant))
    return result


def _least(nest: Nest, form: Linear, loop: For) -> Linear | None:
    axis = Axis(loop.loop)
    factor = form.terms.get(axis, 0)
    rest = form.plus(Linear(0, {axis: factor}), -1)
    end = linear(loop.lo) if factor > 0 else linear(loop.hi).plus(Linear(-1))
    return None if loop.loop in closure(nest, axes_of(expression(rest))) else rest.plus(end, factor)
