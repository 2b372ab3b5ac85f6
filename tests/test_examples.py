"""The examples run as their texts say, in small."""

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


def test_a_template_by_hand_is_tuned_and_replayed_without_it(capsys: pytest.CaptureFixture[str]) -> None:
    from examples import own_template

    assert own_template.main(trials=3) > 0
    assert "invalid points" in capsys.readouterr().out
