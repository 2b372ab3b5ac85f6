"""The examples run as their texts say, in small."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.mark.slow  # three searches; the gallery has a shorter one
def test_photographs_are_filtered_as_scipy_does_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from examples import photo

    rows = photo.main(tmp_path / "out", tmp_path / "log", trials=1, crop=32)
    assert [row.name for row in rows] == ["blur", "sharpen", "sobel"]
    assert all(row.error <= photo.TOLERANCE for row in rows)
    written = sorted(path.name for path in (tmp_path / "out").glob("*.png"))
    assert written == [f"{name}-{row.name}.png" for name in ("china", "flower") for row in rows]
    assert "SciPy ms" in capsys.readouterr().out
    want = np.rint(photo.scipy_sharpen(photo.photographs(32)["china"]))
    with Image.open(tmp_path / "out" / "china-sharpen.png") as image:
        assert np.abs(np.asarray(image).astype("float32") - want).max() <= 1


def test_the_network_reads_the_same_digits_as_scikit_learn() -> None:
    from examples import digits  # scikit-learn takes a second to load

    outcome = digits.main(hidden=32)
    assert outcome.agreement == 1
    assert outcome.accuracy == outcome.accuracy_sklearn > 0.9


@pytest.mark.usefixtures("brief_jobs")
def test_a_template_by_hand_is_tuned_and_replayed_without_it(capsys: pytest.CaptureFixture[str]) -> None:
    from examples import own_template

    assert own_template.main(trials=3) > 0
    assert "invalid points" in capsys.readouterr().out


def test_a_graph_compiler_on_the_public_names_fuses_shares_packs_and_plans(capsys: pytest.CaptureFixture[str]) -> None:
    from examples import toy_graph_compiler as toy

    text = Path(toy.__file__).read_text()
    assert len(text.splitlines()) <= 200
    assert not re.search(r"(?:from|import) tensorlang\.|\._[a-z]", text)  # what it needs is public
    compiled = toy.main()  # compares with NumPy
    groups = ["+".join(node.operator for node in group.nodes) for group in compiled.groups]
    half = groups.index("mean") // 2
    assert groups[:half] == groups[half : 2 * half]  # the blocks are alike; whether their last sum is fused is a matter of the CPU
    assert groups[0] == "conv2d+bias+relu" and "conv2d" not in groups and groups[-1] == "softmax"
    assert len(set(compiled.keys)) == len(set(groups))
    assert compiled.bytes < sum(compiled.values[group.result].nbytes for group in compiled.groups)
    assert "NumPy" in capsys.readouterr().out


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 12), marks=pytest.mark.slow)], ids=len)
def test_the_graph_compiler_gives_what_numpy_gives_for_graphs_drawn_at_random(seeds: range) -> None:
    from examples import toy_graph_compiler as toy

    for seed in seeds:
        rng = np.random.default_rng(seed)
        graph = toy.Graph(x=(3, 4, 6, 5))
        graph.shapes["w"], graph.weights["w"] = (4, 4, 3, 3), rng.standard_normal((4, 4, 3, 3), np.float32) / 6
        graph.shapes["b"], graph.weights["b"] = (4,), rng.standard_normal(4, np.float32)
        made = ["x"]
        for n in range(7):
            last, other = made[-1], made[int(rng.integers(len(made)))]
            operator = ("conv2d", "bias", "add", "relu")[int(rng.integers(4))]
            reads = {"conv2d": (last, "w"), "bias": (other, "b"), "add": (last, other), "relu": (last,)}[operator]
            made.append(graph.node(f"v{n}", operator, *reads, **({"padding": 1} if operator == "conv2d" else {})))
        x = rng.standard_normal((3, 4, 6, 5), np.float32)
        values = graph.weights | {"x": x}
        for node in graph.nodes:
            values[node.name] = toy.NUMPY[node.operator](*(values[name] for name in node.reads))
        np.testing.assert_allclose(toy.Compiled(graph)(x=x), values[made[-1]], rtol=1e-3, atol=1e-4)


def test_the_graph_compiler_says_of_a_node_why_there_is_no_kernel() -> None:
    from examples import toy_graph_compiler as toy

    with pytest.raises(SystemExit, match=r"layer: there is no operator 'conv9d'"):
        toy.Graph(x=(3, 4)).node("layer", "conv9d", "x")
