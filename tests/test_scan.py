"""A scan is an ordered recurrence whose step has stages of its own."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

import tensorlang as tl
from tests.agreement import agree

rng = np.random.default_rng(6)
KEEP = pytest.mark.parametrize("keep", ["all", "last"])
MIXED = pytest.mark.parametrize("keep", ["all", "last", ("all", "last"), ("last", "all")], ids=str)
Keep = Literal["all", "last"]


def chosen(keep: Any, stacks: tuple[Any, Any]) -> tuple[Any, ...]:
    """Of the states after every step what is kept of each."""
    words = keep if isinstance(keep, tuple) else (keep, keep)
    return tuple(stack if word == "all" else stack[-1] for word, stack in zip(words, stacks, strict=True))


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


@KEEP
@pytest.mark.parametrize("length", [0, 1, 6])
def test_a_scan_of_symbolic_length_runs_that_often(keep: Keep, length: int) -> None:
    n = tl.dim("n")
    X, A = tl.placeholder((n, 4), "float64", name="X"), tl.placeholder((4,), "float64", name="A")
    S = tl.scan(lambda t, s: tl.compute((4,), lambda j: s[j] * 0.5 + X[t, j], name="next"), A, n, keep=keep, name="S")
    x, a = rng.random((length, 4)), rng.random(4)
    states = [a]
    for row in x:
        states.append(states[-1] * 0.5 + row)
    agree(S, {X: x, A: a}, np.array(states[1:]).reshape(length, 4) if keep == "all" else states[-1])


def test_a_length_that_no_operand_fixes_is_passed_by_name() -> None:
    A = tl.placeholder((3,), "float64", name="A")
    S = tl.scan(lambda t, s: tl.compute((3,), lambda i: s[i] * 2), A, tl.dim("n"), keep="last", name="S")
    a = rng.random(3)
    agree(S, {A: a}, a * 8, n=3)
    agree(S, {A: a}, a, n=0)


@MIXED
def test_states_may_change_places(keep: Any) -> None:
    A, B = tl.placeholder((3,), "float64", name="A"), tl.placeholder((3,), "float64", name="B")
    P, Q = tl.scan(lambda t, s: (s[1], tl.compute((3,), lambda i: s[0][i] + s[1][i], name="sum")), (A, B), 7, keep=keep, name="F")
    a, b = rng.random(3), rng.random(3)
    ps, qs, p, q = [], [], a, b
    for _ in range(7):
        p, q = q, p + q
        ps.append(p)
        qs.append(q)
    agree((P, Q), {A: a, B: b}, chosen(keep, (np.stack(ps), np.stack(qs))))


@MIXED
def test_one_tensor_may_be_several_states(keep: Any) -> None:
    A = tl.placeholder((3,), "float64", name="A")

    def step(_: Any, s: Any) -> Any:
        double = tl.compute((3,), lambda i: s[0][i] * 2 + s[1][i], name="double")
        return double, double

    P, Q = tl.scan(step, (A, A), 3, keep=keep, name="S")
    a = rng.random(3)
    stack = np.stack([3 * a, 9 * a, 27 * a])
    agree((P, Q), {A: a}, chosen(keep, (stack, stack)))


@MIXED
@pytest.mark.parametrize("length", [0, 1, 5])
def test_one_stage_may_make_several_states(keep: Any, length: int) -> None:
    """A body of two values: they are stored at one index where as much is kept of both."""
    A, B, n = tl.placeholder((3, 4), "float64", name="A"), tl.placeholder((3, 4), "float64", name="B"), tl.dim("n")

    def step(t: Any, s: Any) -> Any:
        return tl.compute((3, 4), lambda i, j: (s[0][i, j] + s[1][i, 3 - j], s[1][i, j] * 0.5 + tl.cast(t, "float64")), name="both")

    P, Q = tl.scan(step, (A, B), n, keep=keep, name="S")
    p, q = a, b = rng.random((3, 4)), rng.random((3, 4))
    ps, qs = [], []
    for t in range(length):
        p, q = p + q[:, ::-1], q * 0.5 + t
        ps.append(p)
        qs.append(q)
    first, second = keep if isinstance(keep, tuple) else (keep, keep)
    of_p = np.array(ps).reshape(length, 3, 4) if first == "all" else p
    of_q = np.array(qs).reshape(length, 3, 4) if second == "all" else q
    agree((P, Q), {A: a, B: b}, (of_p, of_q), n=length)


def test_a_scan_that_keeps_one_state_whole_is_scheduled_as_any() -> None:
    A, V = tl.placeholder((16,), name="A"), tl.placeholder((16,), name="V")

    def step(_: Any, s: Any) -> Any:
        speed = tl.compute((16,), lambda i: s[1][i] - 0.5 * s[0][i], name="speed")
        return tl.compute((16,), lambda i: s[0][i] + 0.1 * speed[i], name="place"), speed

    places, speed = tl.scan(step, (A, V), 9, keep=("all", "last"), name="S")
    assert (places.shape, speed.shape) == ((9, 16), (16,))
    assert "(after every step, after the last step)" in places._repr_html_()
    s = tl.Schedule((places, speed))
    for stage in ("place", "speed"):
        _, inner = s.split(s.loops(stage)[-1], 8)
        s.vectorize(inner)
    a, v = rng.random((2, 16)).astype("float32")
    want, p, q = [], a, v
    for _ in range(9):
        q = q - np.float32(0.5) * p
        p = p + np.float32(0.1) * q
        want.append(p)
    for schedule in (s, tl.Schedule((places, speed)), tl.Schedule.from_json((places, speed), s.to_json())):
        got = tl.build(schedule)(a, v)
        np.testing.assert_allclose(got[0], np.stack(want), rtol=1e-5)
        np.testing.assert_allclose(got[1], q, rtol=1e-5)
    np.testing.assert_allclose(tl.build((places, speed))(a, v)[0], np.stack(want), rtol=1e-5)


@MIXED
def test_an_lstm_is_four_gates_and_two_states(keep: Any) -> None:
    batch, inputs, hidden, steps = 3, 5, 8, 4
    X, W = tl.placeholder((steps, batch, inputs), "float64", name="X"), tl.placeholder((inputs, 4 * hidden), "float64", name="W")
    R, B = tl.placeholder((hidden, 4 * hidden), "float64", name="R"), tl.placeholder((4 * hidden,), "float64", name="B")
    H, C = tl.placeholder((batch, hidden), "float64", name="H"), tl.placeholder((batch, hidden), "float64", name="C")

    def step(t: Any, state: Any) -> Any:
        h, c = state
        k, l = tl.reduce_axis(inputs, name="k"), tl.reduce_axis(hidden, name="l")
        a = tl.compute((batch, 4 * hidden), lambda n, j: tl.sum(X[t, n, k] * W[k, j], axis=k), name="a")
        b = tl.compute((batch, 4 * hidden), lambda n, j: tl.sum(h[n, l] * R[l, j], axis=l), name="b")
        g = tl.compute((batch, 4 * hidden), lambda n, j: a[n, j] + b[n, j] + B[j], name="g")

        def cell(n: Any, j: Any) -> Any:
            return tl.sigmoid(g[n, hidden + j]) * c[n, j] + tl.sigmoid(g[n, j]) * tl.tanh(g[n, 2 * hidden + j])

        new = tl.compute((batch, hidden), cell, name="c")
        return tl.compute((batch, hidden), lambda n, j: tl.sigmoid(g[n, 3 * hidden + j]) * tl.tanh(new[n, j]), name="h"), new

    feeds = {tensor: rng.standard_normal(tensor.shape) for tensor in (X, W, R, B, H, C)}
    x, w, r, b, h, c = feeds.values()
    hs, cs = [], []
    for t in range(steps):
        i, f, g, o = np.split(x[t] @ w + h @ r + b, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        hs.append(h)
        cs.append(c)
    outputs = tl.scan(step, (H, C), steps, keep=keep, name="lstm")
    agree(outputs, feeds, chosen(keep, (np.stack(hs), np.stack(cs))))


def test_a_gru_has_one_state() -> None:
    hidden, steps = 6, 5
    X, U = tl.placeholder((steps, 3, hidden), "float64", name="X"), tl.placeholder((3, hidden, hidden), "float64", name="U")
    H = tl.placeholder((hidden,), "float64", name="H")

    def step(t: Any, h: Any) -> Any:
        k, l = tl.reduce_axis(hidden, name="k"), tl.reduce_axis(hidden, name="l")
        gate = tl.compute((2, hidden), lambda g, j: tl.sigmoid(X[t, g, j] + tl.sum(U[g, j, k] * h[k], axis=k)), name="gate")
        new = tl.compute((hidden,), lambda j: tl.tanh(X[t, 2, j] + tl.sum(U[2, j, l] * gate[0, l] * h[l], axis=l)), name="new")
        return tl.compute((hidden,), lambda j: (1.0 - gate[1, j]) * new[j] + gate[1, j] * h[j], name="h")

    feeds = {tensor: rng.standard_normal(tensor.shape) for tensor in (X, U, H)}
    x, u, h = feeds.values()
    want = []
    for t in range(steps):
        r, z = sigmoid(x[t, 0] + u[0] @ h), sigmoid(x[t, 1] + u[1] @ h)
        h = (1 - z) * np.tanh(x[t, 2] + u[2] @ (r * h)) + z * h
        want.append(h)
    agree(tl.scan(step, H, steps, name="gru"), feeds, np.stack(want))


def test_a_scan_may_stand_in_the_step_of_another() -> None:
    A = tl.placeholder((3,), "float64", name="A")

    def outer(t: Any, s: Any) -> Any:
        def inner(u: Any, v: Any) -> Any:
            return tl.compute((3,), lambda i: v[i] + tl.cast(t * u, "float64") * s[i], name="v")

        return tl.scan(inner, s, 4, keep="last", name="inner")

    a = rng.random(3)
    want, state = [], a
    for t in range(3):
        state = state * (1 + sum(t * u for u in range(4)))
        want.append(state)
    agree(tl.scan(outer, A, 3, name="outer"), {A: a}, np.stack(want))


def test_recurrences_scatters_and_arg_reductions_stand_in_a_step() -> None:
    A = tl.placeholder((5,), "int64", name="A")

    def bounded(t: Any, s: Any) -> Any:
        k = tl.reduce_axis(5, name="k")
        best = tl.compute((), lambda: tl.argmax(s[k], axis=k), name="best")
        sums = tl.recurrence((5,), lambda i, self: s[i] + self[i - 1], name="sums")
        return tl.scatter(sums, k, lambda k: (tl.clamp(best[()] - k, 0, 4),), lambda k: t - k, name="moved")

    a = rng.integers(0, 9, 5)
    want, state = [], a
    for t in range(3):
        best, new = int(state.argmax()), state.cumsum()
        for k in range(5):
            new[min(max(best - k, 0), 4)] += t - k
        state = new
        want.append(state)
    agree(tl.scan(bounded, A, 3, name="S"), {A: a}, np.stack(want))


def halving(A: tl.Tensor, B: tl.Tensor, keep: Any = "last") -> tuple[tl.Tensor, ...]:
    """A state that takes half of another one in each step, and the other one."""

    def step(_: Any, s: Any) -> Any:
        return tl.compute((3,), lambda i: (s[0][i] + s[1][i], s[1][i] * 0.5), name="step")

    found: tuple[tl.Tensor, ...] = tl.scan(step, (A, B), 4, keep=keep, name="S")
    return found


def test_a_last_state_that_nothing_reads_is_not_copied() -> None:
    A, B = tl.placeholder((3,), "float64", name="A"), tl.placeholder((3,), "float64", name="B")
    first, second = halving(A, B)
    twice = tl.compute((3,), lambda i: first[i] * 2, name="twice")
    assert tl.Schedule(twice).stages() == ("S_0.start", "S_1.start", "step", "S_0", "twice")
    assert {"S_0", "S_1"} < set(tl.Schedule(twice, second).stages())  # a result is
    a, b = rng.random(3), rng.random(3)
    total, rest = a + b * 1.875, b / 16
    agree(twice, {A: a, B: b}, total * 2)
    agree((twice, second), {A: a, B: b}, (total * 2, rest))


@pytest.mark.parametrize("read", [0, 1])
def test_a_last_state_is_copied_for_whatever_reads_it(read: int) -> None:
    """What another scan begins with, adds in each step, or hands on."""
    A, B = tl.placeholder((3,), "float64", name="A"), tl.placeholder((3,), "float64", name="B")
    a, b = rng.random(3), rng.random(3)
    last = (a + b * 1.875, b / 16)[read]
    state = halving(A, B)[read]
    agree(tl.scan(lambda t, s: tl.compute((3,), lambda i: s[i] * 2), state, 3, keep="last", name="T"), {A: a, B: b}, last * 8)
    agree(tl.scan(lambda t, s: tl.compute((3,), lambda i: s[i] + state[i]), B, 3, keep="last", name="T"), {A: a, B: b}, b + last * 3)
    agree(tl.scan(lambda t, s: state, B, 3, keep="last", name="T"), {A: a, B: b}, last)
    handed = tl.scan(lambda t, s: halving(s, B)[read], A, 1, keep="last", name="T")
    agree(handed, {A: a, B: b}, last)
    assert f"S_{1 - read}" not in tl.Schedule(handed).stages()


@MIXED
@pytest.mark.parametrize("read", [0, 1])
def test_what_is_kept_of_every_step_stays_though_nothing_reads_it(keep: Any, read: int) -> None:
    A, B = tl.placeholder((3,), "float64", name="A"), tl.placeholder((3,), "float64", name="B")
    a, b = rng.random(3), rng.random(3)
    stacks = np.stack([a + b * (2 - 0.5**t) for t in range(4)]), np.stack([b * 0.5 ** (t + 1) for t in range(4)])
    agree(halving(A, B, keep)[read], {A: a, B: b}, chosen(keep, stacks)[read])


def test_what_depends_on_no_state_is_computed_once() -> None:
    A = tl.placeholder((4,), name="A")

    def step(_: Any, s: Any) -> Any:
        twice = tl.compute((4,), lambda i: A[i] * 2, name="twice")
        return tl.compute((4,), lambda i: s[i] + twice[i], name="next")

    nest = str(tl.Schedule(tl.scan(step, A, 5, name="S")))
    assert nest.index("# twice") < nest.index("for _ in range(5)")


def test_the_nest_of_a_kept_scan_reads_the_step_before() -> None:
    A = tl.placeholder((4,), name="A")
    kept = tl.Schedule(tl.scan(lambda t, s: tl.compute((4,), lambda j: s[j] + 1, name="next"), A, 5, name="S"))
    assert str(kept) == (
        "S(A: float32[4]) -> S: float32[5, 4]\n"
        "    for t in range(5):\n"
        "        for j in range(4):\n"
        "            S[t, j] = select(t == 0, A[j], S[t - 1, j]) + 1.0 # next"
    )
    assert kept.loops("S") == ("S.t",)
    assert kept.loops("next") == ("next.j",)


def test_the_state_cannot_leave_its_step() -> None:
    A = tl.placeholder((4,), name="A")
    leaked: list[Any] = []

    def step(t: Any, s: Any) -> Any:
        leaked.extend((s, tl.compute((4,), lambda j: s[j] * 2), tl.compute((4,), lambda j: tl.cast(t + j, "float32"))))
        return tl.compute((4,), lambda j: s[j] + 1)

    tl.scan(step, A, 3)
    for tensor in leaked:
        with pytest.raises(tl.DefinitionError, match="belongs to one step of a scan"):
            tl.Schedule(tensor)
    user = tl.compute((4,), lambda j: leaked[0][j] + A[j])
    with pytest.raises(tl.DefinitionError, match="belongs to one step of a scan"):
        tl.evaluate(user, {A: np.zeros(4, "f4")})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda A: tl.scan(lambda t, s: tl.compute((3,), lambda j: s[j]), A, 3), "keeps its shape and type"),
        (lambda A: tl.scan(lambda t, s: tl.compute((4,), lambda j: tl.cast(s[j], "float64")), A, 3), "keeps its shape and type"),
        (lambda A: tl.scan(lambda t, s: s[0], A, 3), "must return 1 tensors"),
        (lambda A: tl.scan(lambda t, s: s, (A, A), 3), None),
        (lambda A: tl.scan(lambda t, s: s[0], (A, A), 3), "must return 2 tensors"),
        (lambda A: tl.scan(lambda t, s: s, A, -1), "at least 0"),
        (lambda A: tl.scan(lambda t, s: s, A, 3, keep="some"), 'must be "all" or "last", not \'some\''),  # type: ignore[arg-type]
        (lambda A: tl.scan(lambda t, s: s, A, 3, keep=("all",)), r'must be "all" or "last", not \(\'all\',\)'),
        (lambda A: tl.scan(lambda t, s: s, (A, A), 3, keep=("all",)), 'must be "all" or "last", or a tuple of 2 of them, not'),
        (lambda A: tl.scan(lambda t, s: s, (A, A), 3, keep=("all", "none")), "a tuple of 2 of them"),  # type: ignore[arg-type]
        (lambda A: tl.scan(lambda t, s: s, (A, A), 3, keep=("all", 3)), "a tuple of 2 of them"),  # type: ignore[arg-type]
        (lambda A: tl.scan(lambda s: s, A, 3), "takes 1 parameters"),
        (lambda A: tl.scan(lambda t, s: s, 3, 3), "must be a tensor"),  # type: ignore[arg-type]
        (lambda A: tl.scan(lambda t, s: tl.compute((4,), lambda j: s[t]), A, 5), "outside"),
    ],
)
def test_misuse_is_a_definition_error(make: Any, message: str | None) -> None:
    A = tl.placeholder((4,), name="A")
    if message is None:
        make(A)
        return
    with pytest.raises(tl.DefinitionError, match=message):
        make(A)


@pytest.mark.parametrize("word", ["until", "while_", "stop"])
def test_a_scan_that_would_end_by_data_is_told_how(word: str) -> None:
    x = tl.placeholder((3,), name="x")
    step = lambda t, s: tl.compute((3,), lambda i: s[i] + 1, name="next")  # noqa: E731
    told = f"^scan grown has a fixed number of steps, so that it has no {word}=; give the most steps .*: tl.select"
    with pytest.raises(tl.DefinitionError, match=told):
        tl.scan(step, x, 4, name="grown", **{word: lambda s: s[0] > 3})
    with pytest.raises(tl.DefinitionError, match="^a scan has no reverse=; it takes step, init, length, keep and name"):
        tl.scan(step, x, 4, reverse=True)  # type: ignore[arg-type]
