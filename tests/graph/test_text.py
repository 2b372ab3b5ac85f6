"""Graphs as text: let-bindings read back, DOT and tables name every node; graphs are compared by structure."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import tensorlang as tl
from tensorlang.graph import Builder, Graph, Node, Origin, from_let
from tests.graph.graphs import array, batched, constants_of, normalised, random_graphs


@given(random_graphs())
def test_what_is_printed_reads_back_as_the_same_graph(g: Graph) -> None:
    again = from_let(g.to_let(), constants_of(g))
    assert again == g
    assert again.to_let() == g.to_let()


def test_let_bindings_are_what_they_look_like() -> None:
    b = Builder("net")
    b.origins = (Origin("model.py", 12, "head"),)
    x = b.input((tl.dim("n", 1, 64), 4), name="x")
    h = b("linear", x, b.constant(np.zeros((5, 4), "float32"), "weight"))
    g = b.finish(b("mul", b("softmax", h, dim=-1), 2.0))
    assert g.to_let() == (
        "graph net(x: float32[n, 4]) where 1 <= n <= 64\n"
        '  let weight: float32[5, 4] = constant("a3b8cd51e5a6e1c3")\n'
        "  let c: float32[()] = constant(2.0)\n"
        "  let linear: float32[n, 5] = linear(x, weight, None)                             # model.py:12 in head\n"
        "  let softmax: float32[n, 5] = softmax(linear, dim=1)                             # model.py:12 in head\n"
        "  let mul: float32[n, 5] = mul(softmax, c)                                        # model.py:12 in head\n"
        "  in (mul)"
    ).replace("a3b8cd51e5a6e1c3", g.constants[0].digest)


def test_bounds_numbers_words_and_tuples_read_back() -> None:
    b = Builder()
    x = b.input((tl.dim("n", 2, 9), 4, 6), name="x")
    y = b("reshape", b("gelu", x, approximate="tanh"), shape=(-1, 3))
    z = b("pad", b("clamp", x, min=-1.5), pad=((0, 0), (1, 2), (0, 0)), value=float("-inf"))
    g = b.finish(y, z, b("add", x, float("inf")), b("to", x, dtype="int8"))
    assert from_let(g.to_let()) == g


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "bfloat16", "float64"])
def test_small_constants_of_every_type_are_written_out(dtype: str) -> None:
    b = Builder()
    held = b.constant(np.array([0, 1, 1, 0]).astype(tl.dtype(dtype).numpy), "held")
    g = b.finish(b("eq", b.input((4,), dtype), held))
    assert from_let(g.to_let()) == g


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("graph g(x: float32[3]) in x", "a graph begins with"),
        ("let y: float32[3] = relu(z)", "the value 'z' is not defined before"),
        ("let y: float32[4] = relu(x)", r"y is float32\[3\], and not float32\[4\]"),
        ("let y: float32[3] = relv(x)", "there is no operator 'relv'; did you mean 'relu'"),
        ("let y: float32[3] = gelu(x, approximate=__import__('os'))", "is no number, word, dim"),
        ("let y: float99[3] = relu(x)", "'float99' is not a tensorlang type"),
        ("let x: float32[3] = relu(x)", "the name 'x' cannot name a value here, or is taken"),
        ('let w: float32[3] = constant("0000000000000000")', r"the array of w .* is not in the text; pass it as"),
        ("relu(x)", "a binding is spelled"),
        ("let y: float32[1//0] = relu(x)", "1 // 0 divides by 0"),
        ("let y: float32['a'-1] = relu(x)", "'a' is no number and no dim, and cannot be reckoned with"),
        ("let y: float32[1] = sum(x, dim=(1,)+'x')", r"\(1,\) is no number and no dim"),
        ("let y: float32[1] = sum(x, dim=(1,)*100000000)", r"\(1,\) is no number and no dim"),
        ("let y: float32[1] = sum(x, dim=-None)", "None is no number and no dim"),
        (f"let y: float32[3] = gelu(x, n={'-' * 5000}1)", "it is nested too deeply; write it with fewer signs and parentheses"),
        ("let *y: float32[3] = relu(x)", r"'\*y: float32\[3\]' are no names with types"),
        ("let y: float32[3]=3 = relu(x)", "are no names with types"),
        ("let y: float32[3], /, z: float32[3] = relu(x)", "are no names with types"),
        ("let y: float32[3], *, z: float32[3] = relu(x)", "are no names with types"),
        ("let y: float32[3]) -> (x = relu(x)", "are no names with types"),
        (
            "let y: float32[3] = clamp(x, min=1, min=2)",
            "clamp: attributes are said once and by name, not as min=2|keyword argument repeated",
        ),
        ("let y: float32[3] = clamp(x, **{})", r"attributes are said once and by name, not as \*\*\{\}"),
        ("let y: int32[2] = constant([1.5, nan])", "y: 1.5 is no int32"),
        ("let y: uint8[1] = constant([300])", "y: 300 is no uint8"),
        ("let y: uint64[1] = constant([-1])", "y: -1 is no uint64"),
        ("let y: bool[1] = constant([2])", "y: 2 is no bool"),
        ("let y: float16[1] = constant([1e6])", "y: 1000000.0 is no float16"),
        ("let y: float32[2] = constant([1, [2]])", r"y: \(2,\) is no float32"),
        ("let y: float32[1] = constant(None)", "y: None is no float32"),
        ("in (x)\n  let y: float32[3] = relu(x)", "a graph ends with its line in"),
        ("in (x", "a binding is spelled"),
        ("let y: float32[3] = (", "was never closed"),
    ],
)
def test_a_text_that_is_no_graph_is_refused_with_its_line(line: str, message: str) -> None:
    header = "" if line.startswith("graph") else "graph g(x: float32[3])\n"
    with pytest.raises(tl.GraphError, match=message) as error:
        from_let(f"{header}  {line}\n  in (x)")
    assert f"line {1 + bool(header) + line.count(chr(10))}" in str(error.value)


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("uint64", [1, 2**64 - 1]), ("uint64", [2**63 + 1, 5]), ("int64", [-(2**63), 2**63 - 1]), ("uint8", [0, 255]),
        ("float32", [float("nan"), float("-inf"), -0.0, 1e-45]), ("float16", [1.1, 65504]), ("float64", [0.1, 1e308]),
    ],
)  # fmt: skip
def test_the_ends_of_a_type_read_back_to_the_bit(dtype: str, values: list[float]) -> None:
    b = Builder()
    held = np.array(values, dtype)
    again = from_let(b.finish(b.input((2,)), b.constant(held, "held")).to_let())
    assert again.constants[0].array.dtype == held.dtype
    assert again.constants[0].array.tobytes() == held.tobytes()


@pytest.mark.parametrize("broken", ["\n", "\r", "\x0b", "\x1c", "\x85", "\u2028"])
def test_a_line_break_in_an_origin_stays_in_its_comment(broken: str) -> None:
    b = Builder()
    b.origins = (Origin(f"a{broken}b", 1),)
    g = b.finish(b("relu", b.input((3,))))
    assert from_let(g.to_let()) == g
    told = f"a{repr(broken)[1:-1]}b:1"
    assert told in g.to_let()
    assert [told in line for line in g.table().splitlines()] == [False, True]


def test_a_text_without_an_end_is_refused() -> None:
    with pytest.raises(tl.GraphError, match="ends without its last line"):
        from_let("graph g(x: float32[3])")


def test_another_array_than_the_printed_one_is_refused() -> None:
    g = normalised()
    with pytest.raises(tl.GraphError, match="not the one that the text was printed with"):
        from_let(g.to_let(), constants_of(g) | {"weight": np.zeros((5, 4), "float32")})


def test_dot_and_table_name_every_node() -> None:
    g = normalised("relu")
    for text in (g.to_dot(), g.table()):
        assert all(node.operator in text for node in g.nodes)
    assert g.to_dot().count("->") == sum(len(node.read) for node in g.nodes) + len(g.outputs)
    assert len(g.table().splitlines()) == 1 + len(g.nodes)


def test_names_origins_and_the_order_of_independent_nodes_do_not_count() -> None:
    def made(first: str, second: str, swapped: bool) -> Graph:
        b = Builder("other" if swapped else "one")
        x = b.input((3,), name=first)
        if swapped:
            b.origins = (Origin("elsewhere.py", 3),)
            down = b.node("tanh", (x,), name=second)[0]
            return b.finish(b("add", b("relu", x), down))
        up = b("relu", x)
        return b.finish(b("add", up, b("tanh", x)))

    assert made("x", "t", False) == made("y", "u", True)
    assert hash(made("x", "t", False)) == hash(made("y", "u", True))


@pytest.mark.parametrize(
    "made",
    [
        lambda b, x: b("gelu", x, approximate="tanh"),
        lambda b, x: b("relu", x),
        lambda b, x: b("gelu", b("gelu", x)),
        lambda b, x: (b("gelu", x), b("relu", x))[0],  # a node that nobody reads
        lambda b, x: b("add", b("gelu", x), 0.0),
    ],
)
def test_operators_attributes_operands_and_unread_nodes_count(made) -> None:
    def graph_of(make) -> Graph:
        b = Builder()
        return b.finish(make(b, b.input((3,))))

    assert graph_of(made) != graph_of(lambda b, x: b("gelu", x))
    assert graph_of(made) == graph_of(made)


def test_constants_count_by_their_bits() -> None:
    def graph_of(number: float) -> Graph:
        b = Builder()
        return b.finish(b("add", b.input((3,)), np.full(3, number, "float32")))

    assert graph_of(0.0) == graph_of(0.0)
    assert graph_of(0.0) != graph_of(-0.0)


def test_bounds_of_dims_count() -> None:
    def graph_of(most: int) -> Graph:
        b = Builder()
        return b.finish(b("relu", b.input((tl.dim("n", 1, most), 4))))

    assert graph_of(8) == graph_of(8) and hash(graph_of(8)) == hash(graph_of(8))
    assert graph_of(8) != graph_of(64)
    assert graph_of(8).inputs[0].type != graph_of(64).inputs[0].type


def test_a_graph_tells_who_makes_and_reads_a_value() -> None:
    g = normalised("relu")
    linear, relu, norm = g.nodes
    assert g.producer(relu.results[0]) is relu and g.producer(g.inputs[0]) is None
    assert g.users(linear.results[0]) == (relu,) and g.users(norm.results[0]) == ()
    assert g.is_output(norm.results[0]) and not g.is_output(relu.results[0])
    assert g.constant(linear.inputs[1]) is not None and g.constant(g.inputs[0]) is None
    assert norm["eps"] == 1e-5


def test_dims_are_those_of_inputs() -> None:
    assert [repr(dim) for dim in batched().dims] == ["n"]
    assert normalised().dims == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: Graph(g.inputs, g.constants, g.nodes[::-1], g.outputs), "the graph has a cycle or is out of order"),
        (lambda g: Graph(g.inputs, g.constants, g.nodes[1:], g.outputs), "reads linear: .*, which is not defined"),
        (lambda g: Graph(g.inputs, g.constants, (*g.nodes, g.nodes[1]), g.outputs), "is defined twice"),
        (lambda g: Graph(g.inputs, g.constants, g.nodes[:1], g.outputs), "the output batch_norm: .* is not defined"),
        (
            lambda g: Graph(g.inputs, g.constants, (Node("relu6x", g.inputs, (), g.nodes[1].results), *g.nodes[2:]), g.outputs),
            "there is no operator 'relu6x'; did you mean 'relu6'",
        ),
        (
            lambda g: Graph(g.inputs, g.constants, (Node("relu", g.inputs, (), g.nodes[1].results),), g.nodes[1].results),
            r"said to be float32\[3, 5\], but the operator gives float32\[3, 4\]",
        ),
        (
            lambda g: Graph(g.inputs, g.constants, (Node("softmax", g.inputs, (("dim", -1),), g.inputs),), g.inputs),
            "its attributes are spelled {'dim': -1}, and not {'dim': 1}",
        ),
    ],
)
def test_a_graph_that_is_not_well_formed_is_refused_with_its_node(change, message: str) -> None:
    with pytest.raises(tl.GraphError, match=message):
        change(normalised("relu")).verify()


def test_a_cycle_is_named_with_the_origin_of_a_node_in_it() -> None:
    g = normalised("relu", "tanh")
    linear, relu, tanh, norm = g.nodes
    looped = Node("relu", tanh.results, (), relu.results, (Origin("model.py", 7),))
    with pytest.raises(tl.GraphError, match=r"relu relu \(model.py:7\) reads tanh: .*cycle"):
        Graph(g.inputs, g.constants, (linear, looped, tanh, norm), g.outputs).verify()


def test_a_dim_has_one_pair_of_bounds() -> None:
    b = Builder()
    x, y = b.input((tl.dim("n", 1, 4),), name="x"), b.input((tl.dim("n", 1, 5),), name="y")
    with pytest.raises(tl.GraphError, match="the dim n is from"):
        b.finish(b("relu", x), b("relu", y))


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda b, x: b("relu", x, slope=2), "relu has no attribute 'slope'; it has none"),
        (lambda b, x: b("softmax", x), "softmax needs the attribute 'dim'"),
        (lambda b, x: b("softmax", x, dim=2), r"axis 2 is none of the 2 axes of float32\[3, 4\]"),
        (lambda b, x: b("linear", x), "linear needs the operand 'weight'; it takes input, weight, bias?"),
        (lambda b, x: b("linear", x, x, None, x), "linear takes 3 operands"),
        (lambda b, x: b("linear", x, array(5, 5)), r"linear \(model.py:3\): linear: the input channels differ"),
        (lambda b, x: b("add", x, array(3)), "the shapes .* do not fit"),
        (lambda b, x: b("add", x, "text"), "an operand is a value of the graph"),
        (lambda b, x: b("reshape", x, shape=(5, -1)), r"the 12 elements of float32\[3, 4\] do not fall into"),
        (lambda b, x: b("reshape", x, shape=(5, 5)), "has another number of elements"),
        (lambda b, x: b("slice", x, dim=0, start=2, end=9), "elements 2 to 9 by 1 are none of axis 0"),
        (lambda b, x: b("add", Builder().input((3, 4)), x), "belongs to another graph"),
        (lambda b, x: b("reluu", x), "did you mean 'relu'"),
        (lambda b, x: b("sum", x, dim="x"), r"sum \(model.py:3\): its operands and attributes do not fit together \(dim='x'\)"),
        (lambda b, x: b("slice", x, dim=0, start=0, end=None), "do not fit together"),
        (lambda b, x: b.constant(np.array(["a"])), "is not a tensorlang type"),
    ],
)
def test_what_is_wrong_is_refused_where_it_is_added(add, message: str) -> None:
    b = Builder()
    b.origins = (Origin("model.py", 3),)
    with pytest.raises(tl.GraphError, match=message):
        add(b, b.input((3, 4)))


@pytest.mark.parametrize("name", ["int", "double", "main", "größe", "a.b/c", "1st", "lambda", "let", "in", "x" * 400, "", "_"])
def test_any_name_of_a_model_becomes_one_that_prints_reads_back_and_compiles(name: str) -> None:
    b = Builder(name)
    x = b.input((3,), name=name)
    g = b.finish(b.node("add", (b.node("relu", (x,), name=name)[0], b.constant(array(3), name)), name=name)[0])
    assert from_let(g.to_let(), constants_of(g)) == g
    np.testing.assert_array_equal(g.compile()(array(3))[0], g.run(array(3))[0])
