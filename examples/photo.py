"""Filters for photographs: blur, sharpen and Sobel edges, each defined, tuned, run and compared with SciPy.

The photographs are the two that scikit-learn ships. A filter is a definition over any size of image and its counterpart in
`scipy.ndimage`; the rest of the file treats all filters alike.

    python examples/photo.py --out out/photo --log logs --trials 8
"""

from __future__ import annotations

import argparse
import functools
import operator
import sys
import timeit
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage
from sklearn.datasets import load_sample_images

import tensorlang as tl
from tensorlang.autotune import tune

SIGMA, RADIUS = 2.0, 6
AMOUNT = 1.5
LUMINANCE = (0.299, 0.587, 0.114)
TOLERANCE = 0.01  # of 255 levels: float32 rounding in another order

Photo = NDArray[np.uint8]
Plane = NDArray[np.float32]


def gaussian() -> list[float]:
    """The weights of SciPy's Gaussian, from `-RADIUS` to `RADIUS`."""
    weights = np.exp(-0.5 * (np.arange(-RADIUS, RADIUS + 1) / SIGMA) ** 2)
    return [float(weight) for weight in weights / weights.sum()]


def total(terms: Iterable[tl.Expr]) -> tl.Expr:
    """The sum of expressions, from left to right."""
    return functools.reduce(operator.add, terms)


def blurred(image: tl.Tensor, height: int, width: int) -> tl.Tensor:
    """A separable Gaussian: down the columns, then along the rows."""
    weights = gaussian()
    padded = tl.pad(image, ((RADIUS, RADIUS), (RADIUS, RADIUS), (0, 0)), mode="edge")
    columns = tl.compute(
        (height, width + 2 * RADIUS, 3),
        lambda y, x, c: total(tl.cast(padded[y + t, x, c], "float32") * weight for t, weight in enumerate(weights)),
        name="columns",
    )
    result: tl.Tensor = tl.compute(
        (height, width, 3),
        lambda y, x, c: total(columns[y, x + t, c] * weight for t, weight in enumerate(weights)),
        name="blurred",
    )
    return result


def blur(height: int, width: int) -> tl.Tensor:
    """A photograph out of focus."""
    return blurred(tl.placeholder((height, width, 3), "uint8", name="image"), height, width)


def sharpen(height: int, width: int) -> tl.Tensor:
    """An unsharp mask: away from the blurred image by `AMOUNT`."""
    image = tl.placeholder((height, width, 3), "uint8", name="image")
    soft = blurred(image, height, width)

    def pixel(y: tl.Expr, x: tl.Expr, c: tl.Expr) -> tl.Expr:
        level = tl.cast(image[y, x, c], "float32")
        return tl.clamp(level + (level - soft[y, x, c]) * AMOUNT, 0.0, 255.0)

    result: tl.Tensor = tl.compute((height, width, 3), pixel, name="sharp")
    return result


def sobel(height: int, width: int) -> tl.Tensor:
    """How steep the luminance is: the length of the Sobel gradient."""
    image = tl.placeholder((height, width, 3), "uint8", name="image")
    grey = tl.compute(
        (height, width),
        lambda y, x: total(tl.cast(image[y, x, c], "float32") * weight for c, weight in enumerate(LUMINANCE)),
        name="grey",
    )
    g = tl.pad(grey, ((1, 1), (1, 1)), mode="edge")

    def steepness(y: tl.Expr, x: tl.Expr) -> tl.Expr:
        down = g[y + 2, x] + g[y + 2, x + 1] * 2.0 + g[y + 2, x + 2] - g[y, x] - g[y, x + 1] * 2.0 - g[y, x + 2]
        along = g[y, x + 2] + g[y + 1, x + 2] * 2.0 + g[y + 2, x + 2] - g[y, x] - g[y + 1, x] * 2.0 - g[y + 2, x]
        return tl.sqrt(down * down + along * along)

    result: tl.Tensor = tl.compute((height, width), steepness, name="edges")
    return result


def scipy_blur(photo: Photo) -> Plane:
    """`blur` by SciPy."""
    result: Plane = ndimage.gaussian_filter(photo.astype("float32"), (SIGMA, SIGMA, 0), radius=(RADIUS, RADIUS, 0), mode="nearest")
    return result


def scipy_sharpen(photo: Photo) -> Plane:
    """`sharpen` by SciPy."""
    level = photo.astype("float32")
    result: Plane = np.clip(level + (level - scipy_blur(photo)) * np.float32(AMOUNT), 0, 255)
    return result


def scipy_sobel(photo: Photo) -> Plane:
    """`sobel` by SciPy."""
    grey = photo.astype("float32") @ np.asarray(LUMINANCE, "float32")
    result: Plane = np.hypot(ndimage.sobel(grey, 0, mode="nearest"), ndimage.sobel(grey, 1, mode="nearest"))
    return result


@dataclass(frozen=True, slots=True)
class Filter:
    """A definition, given height and width, and the same by SciPy."""

    name: str
    define: Callable[[int, int], tl.Tensor]
    scipy: Callable[[Photo], Plane]


FILTERS = (Filter("blur", blur, scipy_blur), Filter("sharpen", sharpen, scipy_sharpen), Filter("sobel", sobel, scipy_sobel))


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: milliseconds for one photograph, and the largest difference from SciPy, in levels."""

    name: str
    default: float
    tuned: float
    scipy: float
    error: float


def photographs(crop: int | None = None) -> dict[str, Photo]:
    """The photographs by name, or squares from their middle."""
    found = load_sample_images()
    photos = {Path(name).stem: image for name, image in zip(found.filenames, found.images, strict=True)}
    if crop is None:
        return photos
    return {name: np.ascontiguousarray(image[:crop, :crop]) for name, image in photos.items()}


def picture(plane: Plane) -> Image.Image:
    """An image file's pixels: levels cut to 0 .. 255."""
    return Image.fromarray(np.clip(np.rint(plane), 0, 255).astype("uint8"))


def apply(chosen: Filter, photos: dict[str, Photo], out: Path, log: Path, trials: int) -> Row:
    """Tune one filter, run it on every photograph, write the pictures and compare.

    Raises `RuntimeError` where a result is not SciPy's.
    """
    first = next(iter(photos.values()))
    definition = chosen.define(*first.shape[:2])
    default = tl.build(definition)
    tuned = tune(definition, trials=trials, log=log / f"{chosen.name}.jsonl", seed=0).kernel
    error = 0.0
    for name, photo in photos.items():
        want = chosen.scipy(photo)
        got = tuned(photo)
        error = max(error, *(float(np.abs(plane - want).max()) for plane in (default(photo), got)))
        picture(got).save(out / f"{name}-{chosen.name}.png")
    if error > TOLERANCE:
        raise RuntimeError(f"{chosen.name} differs from SciPy by {error:.3g} levels, more than {TOLERANCE}")
    return Row(
        chosen.name,
        1e3 * default.time(first, repeats=5).median,
        1e3 * tuned.time(first, repeats=5).median,
        1e3 * median(timeit.repeat(lambda: chosen.scipy(first), number=1, repeat=5)),
        error,
    )


def main(out: Path, log: Path, *, trials: int = 8, threads: int = 1, crop: int | None = None) -> list[Row]:
    """Apply every filter to every photograph; the pictures go to `out`, the tuning logs to `log`."""
    tl.set_threads(threads)
    out.mkdir(parents=True, exist_ok=True)
    log.mkdir(parents=True, exist_ok=True)
    photos = photographs(crop)
    rows = [apply(chosen, photos, out, log, trials) for chosen in FILTERS]
    print(f"{'filter':10}{'default ms':>12}{'tuned ms':>12}{'SciPy ms':>12}{'max error':>12}")
    for row in rows:
        print(f"{row.name:10}{row.default:12.3f}{row.tuned:12.3f}{row.scipy:12.3f}{row.error:12.2g}")
    print(f"{len(photos) * len(rows)} pictures in {out}, logs in {log}")
    return rows


def command(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Filter scikit-learn's photographs with tuned kernels.")
    parser.add_argument("--out", type=Path, default=Path("out/photo"), help="folder for the pictures (default: %(default)s)")
    parser.add_argument("--log", type=Path, default=Path("logs/photo"), help="folder for the tuning logs (default: %(default)s)")
    parser.add_argument("--trials", type=int, default=8, help="tuning trials for each filter (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="threads of a kernel (default: %(default)s, as SciPy)")
    options = parser.parse_args(arguments)
    main(options.out, options.log, trials=options.trials, threads=options.threads)
    return 0


if __name__ == "__main__":
    sys.exit(command())
