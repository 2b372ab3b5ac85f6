"""The bench of models runs in small, and its tables say what was measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.models import __main__ as bench, page
from bench.models.engines import ENGINES, missing
from tensorlang.graph import Builder

FACTS = {"wall": 2.0, "processor": 1.5, "compile": 1.25, "peak_mb": 300.0, "empty_mb": 100.0}


def test_the_tables_have_the_ratio_to_the_fastest_of_the_others() -> None:
    times = {"tensorlang": 6.0, "torch": 8.0, "onnxruntime": 4.0}
    engines = {name: {"processor_ms": time, "wall_ms": 2 * time, "error": 0.0} for name, time in times.items()}
    built = {
        name: {"cold": FACTS, **({"warm": {**FACTS, "processor": 0.1, "compile": 0.05}} if name == "tensorlang" else {})} for name in times
    }
    text = page.tables([{"model": "net", "engines": engines, "built": built, "load": 1.0}], {"openvino": "openvino is not installed"})
    assert "| net | 6.0 (12.0) | 8.0 (16.0) | 4.0 (8.0) | 1.50 |" in text
    assert "| net | 1.5 | 0.1 | 1.5 | 1.5 |" in text and "| net | 300 | 300 | 300 | 300 |" in text
    assert "| net | 1.25 | 0.05 | 0.040 |" in text
    assert "Left out: openvino, since openvino is not installed." in text


def test_an_engine_that_is_not_there_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.models.engines.find_spec", lambda name: None)
    assert missing("openvino") == "openvino is not installed"
    monkeypatch.setattr("bench.models.engines.which", lambda name: None)
    assert missing("torch compile") == "no C++ compiler is there"


@pytest.mark.extras("torch")
def test_layers_with_channels_last_are_those_of_torch() -> None:
    import torch

    from bench.models import steps

    b = Builder()
    image, weight = b.input((1, 6, 6, 4), name="image"), np.random.default_rng(0).random((3, 3, 4, 8), np.float32)
    layer = b("conv2d_channels_last", image, weight, np.arange(8, dtype=np.float32), stride=2, padding=1)
    g = b.finish(b("max_pool2d_channels_last", layer, kernel_size=2))
    x = np.random.default_rng(1).random((1, 6, 6, 4), np.float32)
    found = steps.values(g, {"image": torch.from_numpy(x)})
    np.testing.assert_allclose(found[g.outputs[0].name].numpy(), g.run(x)[0], rtol=1e-5)


@pytest.mark.extras("torch", "onnx")
@pytest.mark.slow  # six processes, each of which loads torch or compiles
def test_a_small_model_is_measured_beside_torch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--models",
        "bert",
        "--size",
        "small",
        "--engines",
        "tensorlang",
        "torch",
        "--rounds",
        "3",
        "--steps",
        "--folder",
        str(tmp_path),
    ]
    (found,) = bench.main(arguments)
    assert set(found["engines"]) == {"tensorlang", "torch"} <= set(ENGINES)
    assert all(one["error"] < 1e-4 and one["processor_ms"] > 0 for one in found["engines"].values())
    assert 0 < found["built"]["tensorlang"]["warm"]["processor"] < found["built"]["tensorlang"]["cold"]["processor"]
    out = capsys.readouterr().out
    assert "| linear + gelu |" in out and "ms in kernels, torch" in out
