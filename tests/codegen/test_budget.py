"""What is bounded is the code that LLVM is given, by an estimate that a directive can afford."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.compilation import default_schedule
from tensorlang.codegen.emission.emit import emit
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.target import target
from tensorlang.ir import FuseRelation, Nest, Relation, SplitRelation, const
from tensorlang.ir.functions import FUNCTIONS
from tensorlang.schedules.directives.loop_kinds import Vectorize
from tensorlang.schedules.legality.budget import MAX_INSTRUCTIONS, too_much
from tensorlang.schedules.legality.code_size import FUNCTIONS as COUNTED, growth, instructions, parts
from tensorlang.schedules.legality.derived_axes import DerivedAxes
from tensorlang.schedules.strategies import choose
from tests.thinned import crossed, few

OPERATORS: dict[str, Callable[[], Any]] = {
    "matmul": lambda: tl.ops.matmul(tl.placeholder((37, 29)), tl.placeholder((29, 53))),
    "bytes": lambda: tl.ops.matmul(tl.placeholder((64, 64), "int8"), tl.placeholder((64, 64), "int8")),
    "conv2d": lambda: tl.ops.conv2d(tl.placeholder((1, 16, 14, 14)), tl.placeholder((32, 16, 3, 3)), padding=1),
    "depthwise": lambda: tl.ops.depthwise_conv2d(tl.placeholder((1, 8, 28, 28)), tl.placeholder((8, 1, 3, 3)), padding=1),
    "pool": lambda: tl.ops.max_pool2d(tl.placeholder((1, 8, 28, 28)), 3),
    "1x1": lambda: tl.ops.conv2d(tl.placeholder((1, 512, 7, 7)), tl.placeholder((2048, 512, 1, 1))),
    "pooled bytes": lambda: tl.ops.max_pool2d(tl.placeholder((1, 8, 28, 28), "int8"), 3, stride=2, padding=1),
    "softmax": lambda: tl.ops.softmax(tl.placeholder((17, 100))),
    "norm": lambda: tl.ops.layer_norm(tl.placeholder((8, 96)), (96,)),
    "attention": lambda: tl.ops.attention(*(tl.placeholder((1, 2, 17, 16)) for _ in range(3))),
    "gelu": lambda: tl.ops.gelu(tl.placeholder((1000,), "bfloat16")),
}
MACHINES = ("x86-64", "x86-64-v3", "x86-64-v4")


def emitted(nest: Nest, name: str) -> int:
    """The instructions of the module of a lowered nest."""
    machine = target(name)
    return sum(line.startswith("  ") for line in emit(nest, machine, name="f").splitlines())


def estimated(nest: Nest) -> float:
    return sum(part.total for part in parts(nest))


@crossed({"name": OPERATORS, "machine": MACHINES})
def test_the_estimate_is_near_what_is_emitted(name: str, machine: str) -> None:
    """Of a lowered nest within a factor of six; of the schedule, which knows no registers and no versions of tiles, of ten."""
    nest = default_schedule(OPERATORS[name](), target(machine)).nest
    lowered = lower(nest, target(machine))
    real = emitted(lowered, machine)
    assert real / 3 <= instructions(lowered.body, target(machine).vector_bits) <= 6 * real
    assert real / 10 <= estimated(nest) <= 10 * real


@pytest.mark.parametrize("name", few(OPERATORS, 4))
def test_points_of_the_strategies_are_far_from_the_budget(name: str) -> None:
    strategy = choose(OPERATORS[name](), target("x86-64-v4"), 2)
    points = [strategy.default, *strategy.space.sample(np.random.default_rng(0), 3)]
    assert max(estimated(strategy.schedule(one).nest) for one in points) < MAX_INSTRUCTIONS / 2


@crossed({"function": FUNCTIONS, "dtype": ["float32", "float64", "float16"]})
def test_a_function_counts_as_many_instructions_as_it_has(function: str, dtype: str) -> None:
    xs = [tl.placeholder((16,), dtype) for _ in range(FUNCTIONS[function].arity)]
    s = tl.Schedule(tl.compute((16,), lambda i: getattr(tl, function)(*(x[i] for x in xs)), name="Y"))
    s.unroll("i")
    nest = lower(s.nest, target("x86-64-v3"))
    assert 0.5 <= instructions(nest.body) / emitted(nest, "x86-64-v3") <= 2


def test_every_function_is_counted() -> None:
    assert COUNTED.keys() == FUNCTIONS.keys()


@pytest.mark.parametrize("name", OPERATORS)
def test_what_a_step_adds_is_the_difference_of_what_there_is(name: str) -> None:
    """Found in the statements that the step changed; growing, shrinking and unrelated statements together."""
    s = default_schedule(OPERATORS[name](), target("x86-64-v4"))
    assert len(s.directives) > 1
    for before, after in itertools.combinations(s._nests, 2):
        assert growth(after, before) == estimated(after) - estimated(before)
        assert growth(before, after) == estimated(before) - estimated(after)


def test_a_statement_counts_anew_where_only_the_relation_of_its_loop_is_another() -> None:
    s = tl.Schedule(tl.compute((37,), lambda i: tl.exp(tl.cast(i, "float32")), name="Y"))
    s.split("i", 8)
    peeled = replace(s.nest, relations=tuple(replace(relation, tail="peel") for relation in s.nest.relations))
    assert growth(peeled, s.nest) == estimated(peeled) - estimated(s.nest) > 0


def chain(i: Any, x: Any, depth: int) -> Any:
    value = x[i]
    for step in range(depth):
        value = tl.tanh(value) * tl.exp(x[i] + step)
    return value


def test_copies_of_a_large_expression_are_refused_by_the_directive_that_makes_them() -> None:
    x = tl.placeholder((2048,), name="X")
    s = tl.Schedule(tl.compute((2048,), lambda i: chain(i, x, 30), name="Y"))
    before = s.nest
    with pytest.raises(
        tl.ScheduleError, match=r"about \d+ instructions \(at most 40000\), most of them for 'Y': copies 2048 by 'i'"
    ) as refused:
        s.unroll("i")
    assert refused.value.code == "TL-S202"
    assert s.nest is before
    s.split("i", 8)
    s.unroll("i_i")


def test_lanes_of_a_large_expression_are_refused_where_they_take_many_registers() -> None:
    x = tl.placeholder((128,), "float64", name="X")
    s = tl.Schedule(tl.compute((128,), lambda i: chain(i, x, 60), name="Y"))
    assert s.can("vectorize", "i").error.code == "TL-S202"
    s.split("i", 8)
    s.vectorize("i_i")


def powers(x: Any, terms: int) -> Any:
    """A sum of powers of powers: little to write down, and much code."""
    return sum(((x ** (0.5 + n)) ** 1.25 for n in range(terms)), start=x)


def test_a_step_that_makes_code_no_larger_is_not_refused_for_its_size() -> None:
    x = tl.placeholder((4, 8), "float64", name="X")
    s = tl.Schedule(tl.compute((4, 8), lambda i, j: powers(x[i, j], 100), name="Y"))
    assert estimated(s.nest) > MAX_INSTRUCTIONS
    s.reorder("j", "i")
    assert not s.can("unroll", "i")


def test_a_definition_that_is_too_much_code_by_itself_is_refused_by_build() -> None:
    x = tl.placeholder((64,), "float64", name="X")
    y = tl.compute((64,), lambda i: powers(x[i], 100), name="Y")
    for program in (y, tl.Schedule(y)):
        with pytest.raises(
            tl.BuildError, match=r"'Y' cannot be built: .* an expression of \d+; compute parts of it in stages of their own"
        ):
            tl.build(program)


def test_a_definition_that_only_fits_unscheduled_is_built_unscheduled() -> None:
    x = tl.placeholder((40,), "float64", name="X")
    y = tl.compute((40,), lambda i: powers(x[i], 50), name="Y")
    values = np.linspace(0, 3, 40)
    want = powers(values, 50)
    np.testing.assert_allclose(tl.build(y)(values), want, rtol=1e-4, atol=1e-4)


def test_what_stands_twice_in_an_expression_counts_once() -> None:
    x = tl.placeholder((8,), name="X")

    def squared(depth: int) -> float:
        def body(i: Any) -> Any:
            value = tl.tanh(x[i])
            for _ in range(depth):
                value = value * value
            return value

        return estimated(tl.Schedule(tl.compute((8,), body, name="Y")).nest)

    assert squared(10) - squared(9) == squared(2) - squared(1) < 4


def test_code_is_emitted_once_for_what_stands_often_in_an_expression() -> None:
    """Ten squares of squares are ten products, though they are written out as a thousand."""
    x = tl.placeholder((8,), name="X")

    def body(i: Any) -> Any:
        value = x[i] * 0.5
        for _ in range(10):
            value = value * value
        return value

    nest = lower(tl.Schedule(tl.compute((8,), body, name="Y")).nest, target())
    assert emit(nest, target(), name="f").count("fmul") == 11


def test_choices_between_reads_that_stand_deep_in_one_another_are_refused() -> None:
    x = tl.placeholder((256,), name="X")

    def body(i: Any) -> Any:
        value = x[i]
        for n in range(120):
            value = tl.select(x[i] > n, x[(i + n) % 256], value)
        return value

    with pytest.raises(tl.BuildError, match=r"choices between reads stand 1\d\d deep in one another"):
        tl.build(tl.Schedule(tl.compute((256,), body, name="Y")))


def test_of_choices_that_copies_know_each_has_one_side() -> None:
    """A row of eight functions: a loop over it has all of them, and eight copies have one each."""
    x = tl.placeholder((64,), name="X")

    def body(i: Any, k: Any) -> Any:
        value = x[i]
        for n in range(8):
            value = tl.select(k == n, tl.sin(x[i] * (n + 2.0)), value)
        return value

    found = []
    for written_out in (False, True):
        s = tl.Schedule(tl.compute((64, 8), body, name="Y"))
        s.reorder("i", "k")
        if written_out:
            s.unroll("k")
        found.append((sum(part.total for part in parts(s.nest)), emit(lower(s.nest, target()), target(), name="f").count("\n")))
    (looped, emitted), (copied, emitted_copies) = found
    assert copied < 1.5 * looped and emitted_copies < 1.5 * emitted


def sums_within_sums(levels: int, axes: int) -> tl.Tensor:
    """Each sum moves with the one around it: what does not stands before that."""
    A, value = tl.placeholder((1,), name="A"), None
    every = [tuple(tl.reduce_axis(1, f"k{level}_{axis}") for axis in range(axes)) for level in range(levels)]
    for level in range(levels):
        around = every[level + 1][:1] if level + 1 < levels else ()
        here = sum((*every[level][1:], *around), every[level][0])
        value = tl.sum((A[0] if value is None else value) + tl.cast(here, "float32"), axis=every[level])
    made: tl.Tensor = tl.compute((1,), lambda _: value, name="B")
    return made


def test_as_many_loops_as_there_may_be_are_built_and_no_more_are_made() -> None:
    X = tl.placeholder((1,) * 63 + (4,), name="X")
    over = tuple(tl.reduce_axis(extent) for extent in X.shape)
    s = tl.Schedule(tl.compute((1,) * 63, lambda *at: tl.sum(X[over] + X[(*at, 0)], axis=over), name="Y"))
    s.split(s.loops("Y")[-1], 2)
    with pytest.raises(tl.ScheduleError, match="129 loops would stand in one another .at most 128.; split or tile less"):
        s.split(s.loops("Y")[-1], 2)
    np.testing.assert_array_equal(tl.build(s)(np.full(X.shape, 2, "float32")), np.full((1,) * 63, 16, "float32"))


@pytest.mark.parametrize(("levels", "axes"), [(3, 50), (10, 60)])
def test_more_loops_in_one_another_are_refused_by_name(levels: int, axes: int) -> None:
    for ask in (tl.build, tl.Schedule):
        with pytest.raises(tl.DefinitionError, match=f"{levels * axes + 1} loops stand in one another .at most 128"):
            ask(sums_within_sums(levels, axes))


def test_a_tensor_has_as_many_axes_as_an_array_at_most() -> None:
    with pytest.raises(tl.DefinitionError, match="placeholder X has 65 axes; a tensor has at most 64"):
        tl.placeholder((1,) * 65, name="X")


def test_lanes_that_a_split_made_are_counted_where_they_stride_through_memory() -> None:
    """The index names the axis that was split and not the loop of the lanes; a budget fires at the directive, and not at the build."""
    a = tl.placeholder((8, 8), "float64", name="A")

    def step(k: Any, s: Any) -> Any:
        return tl.compute(
            (8, 8),
            lambda i, j: tl.select(
                i > k,
                tl.select(j > k, s[i, j] - s[i, k] / s[k, k] * s[k, j], tl.select(j == k, s[i, j] / s[k, k], s[i, j])),
                s[i, j],
            ),
            name="s",
        )

    s = tl.Schedule(tl.scan(step, a, 8, keep="last", name="R"))
    s.unroll("s.j")
    s.split("R.k", 7)
    s.unroll("R.k_i")
    s.split("s.i", 64)
    refused = s.can("vectorize", "s.i_i")
    assert refused.error.code == "TL-S202"


@pytest.mark.parametrize("lanes", [8, 64])
def test_lanes_of_an_axis_are_counted_the_same_whatever_loops_it_has(lanes: int) -> None:
    def size(n: int, axis: str, *, split: bool) -> float:
        x = tl.placeholder((n, n), name="X")
        s = tl.Schedule(tl.compute((n, n), lambda i, j: x[i, j] + 1.0, name="Y"))
        if split:
            axis = s.split(axis, lanes)[1]
        s.vectorize(axis)
        return next(part.size for part in parts(s.nest) if part.stage == "Y")

    for axis in "ij":
        assert size(lanes, axis, split=False) == size(2 * lanes, axis, split=True)
    assert size(lanes, "i", split=False) > size(lanes, "j", split=False)


def test_lanes_of_fused_loops_lie_side_by_side_where_these_walk_a_tensor_in_its_order() -> None:
    def size(shape: tuple[Any, ...], columns: Any) -> float:
        x = tl.placeholder(shape, name="X")
        s = tl.Schedule(tl.compute((7, columns), lambda i, j: x[i, j] + 1.0, name="Y"))
        s.vectorize(s.split(s.fuse("i", "j"), 32)[1])
        return next(part.size for part in parts(s.nest) if part.stage == "Y")

    n = tl.dim("n")
    assert size((7, 9), 9) == size((7, n), n)
    assert size((7, 12), 9) > size((7, 9), 9)


@pytest.mark.parametrize(("step", "alone"), [(2, False), (4, False), (5, True)])
def test_lanes_that_are_near_are_picked_out_of_whole_vectors(step: int, alone: bool) -> None:
    def size(between: int) -> float:
        x = tl.placeholder((4, 32 * between), name="X")
        s = tl.Schedule(tl.compute((4, 32), lambda i, j: x[i, j * between], name="Y"))
        s.vectorize("j")
        return next(part.size for part in parts(s.nest) if part.stage == "Y")

    assert size(1) < size(step) <= size(9)
    assert (size(step) == size(9)) == alone


def test_lanes_that_take_an_element_together_are_one_load_and_a_shuffle() -> None:
    def size(index: Callable[[Any], Any]) -> float:
        x = tl.placeholder((4, 128), name="X")
        s = tl.Schedule(tl.compute((4, 32), lambda i, j: x[i, index(j)], name="Y"))
        s.vectorize("j")
        return next(part.size for part in parts(s.nest) if part.stage == "Y")

    beside, apart = size(lambda j: j), size(lambda j: j // 4 * 16)
    for index in (lambda j: j // 2, lambda j: j // 4 * 4, lambda j: j // 4 * 4 + 1):
        assert beside < size(index) < 2 * beside < apart


def test_a_loop_that_was_split_and_fused_again_and_again_is_looked_through_once() -> None:
    """Each time its axis is reached over two loops: to follow each of both would double the work with every turn."""
    relations: list[Relation] = []
    for turn in range(40):
        relations.append(SplitRelation(f"axis{turn}", f"outer{turn}", f"inner{turn}", 2, const(0), const(64)))
        relations.append(FuseRelation(f"axis{turn + 1}", f"outer{turn}", f"inner{turn}", const(0), const(0), const(2)))
    found = DerivedAxes.of(relations).over(("axis40",))
    assert found == tuple(relations), "the axes that follow from others come first, as their steps are found from theirs"


def stages(many: int, extent: int = 40) -> tl.Schedule:
    """Loops beside one another, each of some 1,400 instructions."""
    x = tl.placeholder((extent,), "float64", name="X")
    body = lambda i, n: tuple(tl.pow(x[i] + n, 1.5 + k) for k in range(6))  # noqa: E731
    made = [tl.compute((extent,), lambda i, n=n: body(i, n), name=f"Y{n}") for n in range(many)]
    return tl.Schedule(tuple(output for stage in made for output in stage))


def test_many_loops_may_be_four_times_as_much_code_as_one() -> None:
    """Code in a row is what LLVM is slow at."""
    assert estimated(stages(100).nest) > 3 * MAX_INSTRUCTIONS and too_much(stages(100).nest) is None
    refused = too_much(stages(130).nest)
    assert refused is not None and "instructions (at most 160000), most of them for 'Y0': an expression of " in refused


def test_one_loop_may_not_however_many_stand_beside_it() -> None:
    for beside in (0, 10):
        error = stages(1 + beside).can("unroll", "Y0.i").error
        assert error is not None and error.code == "TL-S202" and "copies 40 by 'i'" in error.reason
    assert stages(10, 20).can("unroll", "Y0.i")


def test_a_function_that_few_lanes_need_counts_nothing_where_it_is_called() -> None:
    x = tl.placeholder((1000,), "float64", name="X")
    made = [tl.compute((1000,), lambda i, n=n: tuple(tl.sin((k + n) * x[i]) for k in range(1, 7)), name=f"Y{n}") for n in range(12)]
    s = default_schedule(tuple(output for stage in made for output in stage), target("x86-64-v3"), threads=1)
    assert sum(isinstance(step, Vectorize) for step in s.directives) == 12 and not s.faults
