"""A spec is a value; what it means is what its operator says, and one question is asked of it: can you, and if not why."""

import inspect
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang import kernels, ops
from tensorlang.kernels import wanted
from tensorlang.ops.table import OPERATORS
from tests.draws import examples
from tests.kernels.programs import CONV, arrays

ROWS = st.sampled_from(sorted(OPERATORS))


def test_the_table_has_every_operator_and_every_tensor_that_it_takes() -> None:
    assert set(OPERATORS) == set(ops.__all__)
    for name, row in OPERATORS.items():
        takes = [
            parameter for parameter in inspect.signature(getattr(tl.ops, name)).parameters.values() if "Tensor" in str(parameter.annotation)
        ]
        assert len(row.operands) == len(row.tensors) == len(takes)
        assert [operand.optional for operand in row.operands] == [parameter.default is None for parameter in takes]


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_every_operator_is_supported_at_the_extents_of_the_table(name: str) -> None:
    row = OPERATORS[name]
    spec = kernels.Spec.at(row, row.defaults)
    assert kernels.supports(spec), kernels.supports(spec).reason
    assert spec.define().ndim >= 1


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (kernels.Spec("conv9d", ((1, 2),)), "no operator 'conv9d'; did you mean"),
        (kernels.Spec("conv2d", ((1, 8, 9, 9), (16, 7, 3, 3))), "weight takes 8 channels"),
        (kernels.Spec("conv2d", ((1, 8, 9, 9),)), "takes 2 to 3 shapes"),
        (kernels.Spec("conv2d", (None, (16, 8, 3, 3))), "cannot be left out"),
        (kernels.Spec("conv2d", CONV.shapes, attributes={"strides": 1}), "no attribute 'strides'; did you mean 'stride'"),
        (kernels.Spec("conv2d", CONV.shapes, attributes={"stride": 0}), "stride must be"),
        (kernels.Spec("conv2d", CONV.shapes, attributes={"stride": "x"}), "stride must be"),
        (
            kernels.Spec("leaky_relu", ((4, 5),), attributes={"negative_slope": "a"}),
            "leaky_relu with negative_slope='a': a str ('a') cannot",
        ),
        (kernels.Spec("conv2d", CONV.shapes, layout="CHWN"), "no layout 'CHWN'; it has NCHW and NHWC"),
        (kernels.Spec("max_pool2d", ((1, 2, 3, 4),)), "needs the attribute 'kernel_size'"),
        (kernels.Spec("gelu", ((4,),), dtypes="float99"), "float99"),
        (kernels.Spec("gelu", ((4,),), dtypes=("float32", "float32")), "dtypes= is one type"),
        (kernels.Spec("gelu", ((4,),), dtypes="int8"), "floating point"),
        (kernels.Spec("gelu", ((-4,),)), "at least 0"),
        (kernels.Spec("gelu", ((1 << 60,),)), "extent"),
        (kernels.Spec("gelu", ((1,) * 1000,)), "at most"),
        (kernels.Spec("gelu", 5), "takes 1 shapes"),  # type: ignore[arg-type]
        (kernels.Spec("gelu", ((4.5,),)), ""),  # type: ignore[arg-type]
        (kernels.Spec("gelu", (("n",),)), ""),  # type: ignore[arg-type]
        (kernels.Spec(("gelu",), ((4,),)), "no operator"),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_what_is_not_supported_has_a_reason_which_compile_raises(spec: kernels.Spec, reason: str) -> None:
    verdict = kernels.supports(spec)
    assert not verdict
    assert reason in verdict.reason
    with pytest.raises(tl.BuildError) as error:
        kernels.compile(spec)
    assert str(error.value) == verdict.reason
    for ask in (kernels.key, kernels.estimate):
        with pytest.raises(tl.BuildError):
            ask(spec)


@pytest.mark.parametrize("value", [object(), {"a": 1}, float("nan"), [[[[[[1]]]]]], np.zeros(3), np.float32])
def test_a_spec_is_made_of_plain_values(value: Any) -> None:
    with pytest.raises(tl.DefinitionError, match="numbers, words and tuples"):
        kernels.Spec("gelu", ((4,),), attributes={"approximate": value})


def test_what_is_no_spec_is_not_supported() -> None:
    assert not kernels.supports("conv2d")  # type: ignore[arg-type]


def test_specs_are_equal_where_they_say_the_same() -> None:
    listed = kernels.Spec("conv2d", [[1, 6, 9, 9], [np.int64(8), 6, 3, 3]], attributes={"padding": 1, "stride": 2}, layout="NCHW")  # type: ignore[list-item]
    assert listed == CONV and hash(listed) == hash(CONV)
    assert eval(repr(CONV), {"Spec": kernels.Spec}) == CONV  # noqa: S307 - a repr is run
    assert kernels.Spec("gelu", ((4,),)) != kernels.Spec("gelu", ((4,),), attributes={"approximate": "tanh"})


@pytest.mark.parametrize("value", [1, 1.0, True, "1"])
def test_numbers_that_are_equal_to_python_are_other_attributes(value: Any) -> None:
    """A verdict on `stride=1` says nothing of `stride=1.0`, which the operator refuses."""
    spec = kernels.Spec("conv2d", CONV.shapes, attributes={"stride": value})
    assert bool(kernels.supports(spec)) == (type(value) is int)


@examples(60)
@given(name=ROWS, data=st.data())
def test_supports_says_what_defining_says(name: str, data: st.DataObject) -> None:
    row = OPERATORS[name]
    sizes = {label: data.draw(st.integers(0, 5), label) for label in row.defaults}
    shapes, told = row.arguments(sizes)
    kept = shapes[: data.draw(st.integers(1, len(shapes)), "operands")]
    told = {label: value for label, value in told.items() if data.draw(st.booleans(), label)}
    spec = kernels.Spec(name, kept, data.draw(st.sampled_from(["float32", "float16", "int32"]), "type"), told)
    assert kernels.supports(spec).reason == why_undefined(spec)


def why_undefined(spec: kernels.Spec) -> str:
    try:
        spec.define()
    except tl.DefinitionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("widest_first", [False, True])
def test_bounds_of_dims_are_part_of_what_is_asked_for(widest_first: bool) -> None:
    label = f"bounded{widest_first}"

    def spec(most: int) -> kernels.Spec:
        return kernels.Spec("relu", ((tl.dim(label, 1, most), 4),))

    made = {most: kernels.compile(spec(most)) for most in ((64, 8) if widest_first else (8, 64))}
    rows = np.full((40, 4), -1, "f4")
    np.testing.assert_array_equal(made[64](rows), np.zeros_like(rows))
    with pytest.raises(tl.CallError, match="is from 1 to 8, and not 40"):
        made[8](rows)
    assert made[8] is kernels.compile(spec(8))
    assert kernels.key(spec(8)) != kernels.key(spec(64))
    assert kernels.estimate(spec(8)).seconds < kernels.estimate(spec(100000)).seconds


def test_dims_of_one_name_with_other_bounds_are_told_apart_by_their_places() -> None:
    wide, narrow = tl.dim("n", 1, 64), tl.dim("n", 1, 8)
    specs = {kernels.Spec("add", ((one, 4), (other, 4))) for one in (wide, narrow) for other in (wide, narrow, tl.dim("n"))}
    assert len(specs) == 6
    free = kernels.Spec("pad", ((tl.dim("n"),),), attributes={"padding": ((0, tl.dim("n")),)})
    assert free.text.endswith("None")
    bounded = kernels.Spec("pad", ((tl.dim("n"),),), attributes={"padding": ((0, wide),)})
    assert bounded != free


def test_a_spec_is_defined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = kernels.Spec("softmax", ((3, 21),))
    first = kernels.compile(spec)
    monkeypatch.setattr(kernels.Spec, "define", None)
    monkeypatch.setattr(wanted, "_of", None)
    assert kernels.supports(kernels.Spec("softmax", ((3, 21),)))
    assert kernels.compile(kernels.Spec("softmax", ((3, 21),))) is first
    assert kernels.key(spec) == kernels.key(spec)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_convolution_by_spec_is_the_operator(layout: str) -> None:
    x, w, b = arrays((1, 6, 9, 9), (8, 6, 3, 3), (8,))
    if layout == "NHWC":
        x, w = np.ascontiguousarray(x.transpose(0, 2, 3, 1)), np.ascontiguousarray(w.transpose(2, 3, 1, 0))
    spec = kernels.Spec("conv2d", (x.shape, w.shape, b.shape), attributes={"stride": 2, "padding": 1}, layout=layout)
    options: Any = {"stride": 2, "padding": 1, "layout": layout}
    operands = [tl.placeholder(array.shape, name=name) for name, array in zip("xwb", (x, w, b), strict=True)]
    wanted_result = tl.evaluate(tl.ops.conv2d(*operands, **options), dict(zip(operands, (x, w, b), strict=True)))
    np.testing.assert_allclose(kernels.compile(spec)(x, w, b=b), wanted_result, rtol=1e-4, atol=1e-5)


def test_an_operand_in_the_middle_can_be_left_out() -> None:
    (x, b) = arrays((4, 6), (6,))
    spec = kernels.Spec("layer_norm", ((4, 6), None, (6,)), attributes={"normalized_shape": 6})
    got = kernels.compile(spec)(x, b=b)
    centred = x - x.mean(1, keepdims=True)
    np.testing.assert_allclose(got, centred / np.sqrt(x.var(1, keepdims=True) + 1e-5) + b, rtol=1e-4, atol=1e-5)
