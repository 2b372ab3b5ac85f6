"""What a planner asks before it builds: how stages read, and what kernels would cost."""

from typing import Any

import pytest

import tensorlang as tl
from bench.library_estimates import measured, specs
from tensorlang import kernels
from tensorlang.codegen.compilation import default_schedule
from tensorlang.ops.table import OPERATORS
from tests.kernels.programs import CONV, product

X, Y, I = (
    tl.placeholder(shape, dtype, name=name)
    for name, shape, dtype in (("X", (8, 6), "float32"), ("Y", (6,), "float32"), ("I", (8,), "int64"))
)
k = tl.reduce_axis(6, name="k")


@pytest.mark.parametrize(
    ("tensor", "kind", "relations"),
    [
        (tl.compute((8, 6), lambda i, j: X[i, j] * 2.0), "pointwise", ["same"]),
        (tl.compute((8, 6), lambda i, j: X[i, j] + Y[j]), "pointwise", ["same", "broadcast"]),
        (tl.compute((8, 6), lambda i, j: Y[j] + 1.0), "pointwise", ["broadcast"]),
        (tl.compute((6, 8), lambda i, j: X[j, i]), "injective", ["moved"]),
        (tl.compute((48,), lambda i: X[i // 6, i % 6]), "injective", ["moved"]),
        (tl.compute((4, 6), lambda i, j: X[2 * i, j]), "injective", ["moved"]),
        (tl.pad(Y, ((1, 1),)), "injective", ["moved"]),
        (tl.compute((8,), lambda i: tl.sum(X[i, k], axis=k)), "reduction", ["several"]),
        (tl.compute((5,), lambda i: Y[i] + Y[i + 1]), "reduction", ["several"]),
        (tl.compute((8, 6), lambda i, j: X[tl.clamp(I[i], 0, 7), j]), "opaque", ["data", "same"]),
        (tl.recurrence((6,), lambda i, self: self[i - 1] + Y[i]), "opaque", ["data"]),
        (tl.scan(lambda t, s: tl.compute((6,), lambda i: s[i] * 2.0), Y, 3), "opaque", ["data"]),
    ],
)
def test_a_stage_is_of_the_kind_of_its_reads(tensor: Any, kind: str, relations: list[str]) -> None:
    found = kernels.access(tensor)
    (stage,) = found.stages
    assert (stage.kind, found.kind) == (kind, kind)
    if relations != ["data", "same"]:
        assert [read.relation for read in stage.reads] == relations
    else:
        assert {read.tensor: read.relation for read in stage.reads}["X"] == "data"


def test_the_access_of_a_program_names_operands_and_stages_in_order_of_use() -> None:
    found = kernels.access(tl.ops.softmax(product(weight_first=True)))
    assert found.operands == ("A", "B")
    assert {stage.name: stage.kind for stage in found.stages} == {
        "C": "reduction",
        "softmax_max": "reduction",
        "softmax_exp": "pointwise",
        "softmax_sum": "reduction",
        "softmax": "pointwise",
    }
    assert [stage.name for stage in found.stages] == ["C", "softmax_max", "softmax_exp", "softmax_sum", "softmax"]
    assert found.kind == "reduction"


def test_what_is_no_program_has_no_access() -> None:
    with pytest.raises(tl.DefinitionError):
        kernels.access("C")
    with pytest.raises(tl.BuildError, match="there is no operator 'conv9d'"):
        kernels.access(kernels.Spec("conv9d", ((1, 2),)))


def test_a_spec_has_the_access_of_its_definition() -> None:
    assert kernels.access(CONV) == kernels.access(CONV.define())


def test_an_estimate_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensorlang.codegen.compilation.compile_nest", None)
    found = kernels.estimate(kernels.Spec("matmul", ((64, 96), (96, 128))), "x86-64-v3")
    assert found.flops == 2 * 64 * 96 * 128
    assert found.seconds > 0 and found.bound and {"L2", "memory"} <= set(found.bytes)
    assert kernels.estimate(tl.ops.matmul(tl.placeholder((64, 96)), tl.placeholder((96, 128))), "x86-64-v3") is found


def test_more_work_is_estimated_to_take_longer() -> None:
    sizes = (64, 128, 256)
    seconds = [kernels.estimate(kernels.Spec("matmul", ((size, size), (size, size))), "znver3").seconds for size in sizes]
    assert seconds == sorted(seconds) and seconds[-1] > 8 * seconds[0]
    plain = kernels.estimate(CONV, "znver3")
    fused = kernels.estimate(CONV, "znver3", epilogue=lambda v, n, o, y, x: v + 1.0)
    assert fused.flops == plain.flops + 8 * 5 * 5


def test_extents_that_a_call_tells_are_given_to_an_estimate() -> None:
    spec = kernels.Spec("softmax", ((tl.dim("n"), 64),))
    few, many = (kernels.estimate(spec, "znver3", dims={"n": count}) for count in (8, 800))
    assert many.flops == 100 * few.flops and many.seconds > few.seconds
    assert kernels.estimate(spec, "znver3").flops > many.flops
    with pytest.raises(tl.ScheduleError, match="no dim 'm'"):
        kernels.estimate(spec, "znver3", dims={"m": 4})


def test_packing_constants_is_no_part_of_a_call() -> None:
    """A convolution of few pixels, whose weights are packed across."""
    image, weight = tl.placeholder((1, 64, 7, 7), name="image"), tl.placeholder((128, 64, 3, 3), name="weight")
    convolution = tl.ops.conv2d(image, weight, padding=1)
    whole = default_schedule((convolution,), tl.target("znver4"), frozenset({"weight"}), 1).estimate("znver4")
    packing = whole.stages["weight_pack"]
    assert packing > whole.seconds / 20
    assert kernels.estimate(convolution, "znver4", constants=("weight",)).seconds < whole.seconds - packing / 2


def test_the_published_rank_correlation_is_over_every_operator() -> None:
    found = list(specs())
    assert {name.split()[0] for name, _ in found} == set(OPERATORS)
    assert all(bool(kernels.supports(spec)) for _, spec in found)


def test_estimates_rank_kernels_as_the_clock_does() -> None:
    """A handful, far apart: `python -m bench.library` has all operators."""
    sizes = [kernels.Spec("matmul", ((n, n), (n, n))) for n in (24, 96, 384)]
    told, took = [kernels.estimate(spec).seconds for spec in sizes], [measured(spec) for spec in sizes]
    assert told == sorted(told) and took == sorted(took)
