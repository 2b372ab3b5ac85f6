"""`python -m tensorlang.graph` runs models and explains patterns; wrong usage is one line on stderr and exit code 2."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorlang.graph import __main__ as command

ROOT = Path(__file__).parents[2]
of_onnx = pytest.mark.extras("onnx")
PATTERN = """
def linear_tanh(pm):
    return pm.Op("tanh", args=(pm.Op("linear", args=(...,)),))
"""


def here(*arguments: object) -> tuple[int, str, str]:
    """Exit code and what is printed, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as end:
        command.main([str(argument) for argument in arguments])
    assert isinstance(end.value.code, int)
    return end.value.code, out.getvalue(), err.getvalue()


@pytest.fixture
def model(tmp_path: Path) -> tuple[Path, Any]:
    """A linear layer and an activation with a dim for the batch, and what they compute."""
    import onnx

    helper, rng = onnx.helper, np.random.default_rng(0)
    w, b = rng.standard_normal((5, 4)).astype("f4"), rng.standard_normal(5).astype("f4")
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["h"], transB=1), helper.make_node("Relu", ["h"], ["y"])]
    value = helper.make_tensor_value_info
    weights = [onnx.numpy_helper.from_array(w, "w"), onnx.numpy_helper.from_array(b, "b")]
    made = helper.make_graph(nodes, "net", [value("x", 1, ("n", 4))], [value("y", 1, ("n", 5))], weights)
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "net.onnx")
    return tmp_path / "net.onnx", lambda x: np.maximum(x @ w.T + b, 0)


@pytest.fixture
def pattern(tmp_path: Path) -> Path:
    (tmp_path / "wanted.py").write_text(PATTERN)
    return tmp_path / "wanted.py"


@of_onnx
def test_a_model_runs_on_arrays_from_files_and_its_outputs_are_saved(model: tuple[Path, Any], tmp_path: Path) -> None:
    path, wanted = model
    x = np.random.default_rng(1).standard_normal((3, 4)).astype("f4")
    np.save(tmp_path / "x.npy", x)
    code, out, err = here("run", path, "--input", tmp_path / "x.npy", "--time", "--threads", 1, "--save", tmp_path / "out.npz")
    assert (code, err) == (0, "")
    assert "net: 2 nodes, 1 kernels" in out and "float32[3, 5]" in out and "time of a call: " in out
    with np.load(tmp_path / "out.npz") as saved:
        (found,) = saved.values()
    np.testing.assert_allclose(found, wanted(x), rtol=1e-5, atol=1e-6)


@of_onnx
def test_inputs_are_drawn_at_sizes_that_are_asked_for(model: tuple[Path, Any]) -> None:
    code, out, err = here("run", model[0], "--dim", "n=7")
    assert (code, err) == (0, "") and "float32[7, 5]" in out


@pytest.mark.extras("torch")
@pytest.mark.filterwarnings("ignore")  # torch's own
def test_a_program_of_torch_runs(tmp_path: Path) -> None:
    import torch

    torch.export.save(torch.export.export(torch.nn.Linear(4, 3), (torch.zeros(2, 4),)), str(tmp_path / "net.pt2"))
    code, out, err = here("run", tmp_path / "net.pt2")
    assert code == 0, err
    assert "float32[2, 3]" in out


@of_onnx
def test_a_pattern_that_does_not_match_is_explained_and_exit_1(model: tuple[Path, Any], pattern: Path) -> None:
    pattern.write_text(PATTERN.replace('"tanh", ', '"relu", ').replace('"linear"', '"conv2d"'))
    code, out, err = here("explain", model[0], pattern)
    assert (code, err) == (1, "")
    assert "0 matches" in out and "expected conv2d, found linear" in out


@of_onnx
def test_matches_are_listed(model: tuple[Path, Any], pattern: Path) -> None:
    pattern.write_text(PATTERN.replace("tanh", "relu"))
    code, out, _ = here("explain", model[0], f"{pattern}:linear_relu")
    assert code == 0 and out.endswith("net: 1 match\n")


@of_onnx
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing command"),
        (("frobnicate",), "No such command 'frobnicate'"),
        (("run",), "Missing argument 'MODEL'"),
        (("run", "missing.onnx"), "there is no file missing.onnx"),
        (("run", __file__), "ends in .onnx or .pt2, not test_command.py"),
        (("run", "{model}", "--input", "missing.npy"), "--input missing.npy for x: float32[n, 4] cannot be read"),
        (("run", "{model}", "--input", "{model}"), "cannot be read as an array"),
        (("run", "{model}", "--dim", "m=3"), "have no dim 'm'; known: 'n'"),
        (("run", "{model}", "--dim", "n"), "--dim takes NAME=NUMBER, not 'n'"),
        (("run", "{model}", "--threads", "0"), "--threads"),
        (("run", "{broken}"), "cannot be read as a model of onnx"),
        (("explain", "{model}"), "Missing argument 'PATTERN"),
        (("explain", "{model}", "missing.py"), "there is no file missing.py"),
        (("explain", "{model}", "{pattern}:linear_tan"), "no function 'linear_tan'; did you mean 'linear_tanh'?"),
        (("explain", "{model}", "{empty}"), "has 0 functions; name one"),
        (("explain", "{model}", "{wrong}"), "cannot be run: ZeroDivisionError"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(
    arguments: tuple[str, ...], message: str, model: tuple[Path, Any], pattern: Path, tmp_path: Path
) -> None:
    files = {"model": model[0], "pattern": pattern}
    for name, text in (("broken.onnx", "no model"), ("empty.py", ""), ("wrong.py", "1 / 0")):
        files[name.partition(".")[0]] = tmp_path / name
        (tmp_path / name).write_text(text)
    code, out, err = here(*(argument.format(**files) for argument in arguments))
    assert (code, out) == (2, "")
    assert message in err and err.startswith("tensorlang.graph: ") and err.count("\n") == 1


@of_onnx
def test_inputs_that_do_not_fit_are_refused_by_the_names_of_the_model(model: tuple[Path, Any], tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 5), "f4"))
    code, _, err = here("run", model[0], "--input", tmp_path / "x.npy")
    assert code == 1 and "input x: float32[n, 4]: expected shape" in err


@of_onnx
def test_a_pattern_that_can_never_match_is_refused(model: tuple[Path, Any], pattern: Path) -> None:
    pattern.write_text(PATTERN.replace("tanh", "tahn"))
    code, _, err = here("explain", model[0], pattern)
    assert code == 1 and "did you mean 'tan" in err


def test_it_is_a_module_that_is_run() -> None:
    done = subprocess.run([sys.executable, "-m", "tensorlang.graph", "--help"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "explain" in done.stdout and done.stderr == ""


@of_onnx
@pytest.mark.usefixtures("brief_jobs")
def test_a_model_is_tuned_into_a_log_that_it_then_runs_from(model: tuple[Path, Any], tmp_path: Path) -> None:
    path, _ = model
    code, out, err = here("tune", path, "--log", tmp_path / "log.jsonl", "--trials", 1, "--threads", 1, "--dim", "n=4")
    assert (code, err) == (0, "") and "100% of the time" in out and "1 kernels tuned" in out
    code, out, err = here("run", path, "--database", tmp_path / "log.jsonl", "--threads", 1)
    assert (code, err) == (0, "") and "y: float32" in out
    assert here("tune", path, "--log", tmp_path / "log.jsonl", "--dim", "m=4")[0] == 2
