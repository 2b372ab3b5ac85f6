"""What default schedules choose where constants of the strategies decide: tables over extents that lie on both sides of each threshold.

Tests of a strategy state what such a choice has to keep: what fits a cache, and which way it changes. The numbers themselves stand here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose


def products() -> str:
    """Whole configurations of matrix products."""
    shapes = [(rows, 300, 300) for rows in (32, 128, 256, 1000)] + [(256, 1000, 1000), (256, 1000, 1024)]
    shapes += [(2048, 2048, 2048), (2048, 2000, 2048)]
    shapes += [(16, 4096, 4096), (32, 4096, 4096), (64, 4096, 4096), (128, 3072, 768), (128, 768, 768), (64, 5000, 1000)]
    shapes += [(8192, 8192, 512), (20000, 3000, 1000), (1024, 1024, 1024)]
    lines = ["m x k x n on znver5, one thread"]
    for m, k, n in shapes:
        outputs = tl.ops.matmul(tl.placeholder((m, k), name="A"), tl.placeholder((k, n), name="B"))
        lines.append(f"{f'{m} x {k} x {n}':20} {_told(choose(outputs, target('znver5'), 1).default)}")
    return "\n".join(lines) + "\n"


def windows() -> str:
    """Where a padded image is made for depthwise convolutions, and where it is read by a pooling."""
    lines = ["where the padded image is, of extent, window, stride"]
    for cpu in ("znver4", "x86-64-v3", "cortex-a72"):
        for extent, size, stride in ((20, 3, 1), (20, 5, 1), (24, 7, 1), (400, 5, 1), (14, 5, 2), (56, 5, 2), (112, 3, 2), (400, 5, 2)):
            x, w = tl.placeholder((1, 3, extent, extent), name="X"), tl.placeholder((3, 1, size, size), name="W")
            outputs = tl.ops.depthwise_conv2d(x, w, padding=size // 2, stride=stride)
            lines.append(f"{cpu:12} {extent:4} {size} {stride}   {choose(outputs, target(cpu), 1).default['source']}")
        pooled = tl.ops.max_pool2d(tl.placeholder((1, 2, 57, 57), name="X"), 3, 2)
        lines.append(f"{cpu:12}   57 3 2   {choose(pooled, target(cpu), 1).default['source']}, pooled")
    return "\n".join(lines) + "\n"


def _told(config: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in config.items())


CHOICES: Final[dict[str, Callable[[], str]]] = {"products": products, "windows": windows}
