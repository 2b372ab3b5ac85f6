"""MobileNetV3-Large (Howard et al. 2019, arXiv 1905.02244, table 1), with torchvision's epsilon and rounding of the squeeze."""

from __future__ import annotations

from typing import Any

from tests.models.base import F, Module, nn, torch

LARGE = (
    # kernel, expanded, out, squeeze, hard-swish, stride
    (3, 16, 16, False, False, 1), (3, 64, 24, False, False, 2), (3, 72, 24, False, False, 1), (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1), (5, 120, 40, True, False, 1), (3, 240, 80, False, True, 2), (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1), (3, 184, 80, False, True, 1), (3, 480, 112, True, True, 1), (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2), (5, 960, 160, True, True, 1), (5, 960, 160, True, True, 1),
)  # fmt: skip


def eighths(width: float) -> int:
    """The nearest multiple of 8 that does not take away more than a tenth."""
    rounded = max(8, int(width + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * width else rounded


def normed(inputs: int, outputs: int, size: int = 1, stride: int = 1, groups: int = 1, activation: Any = None) -> Any:
    """A convolution without bias, its batch norm, and an activation."""
    convolution = nn.Conv2d(inputs, outputs, size, stride, (size - 1) // 2, groups=groups, bias=False)
    layers = (convolution, nn.BatchNorm2d(outputs, eps=0.001, momentum=0.01), *([] if activation is None else [activation(inplace=True)]))
    return nn.Sequential(*layers)


class Squeeze(Module):  # type: ignore[misc]
    """Channels scaled by what their means say."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, eighths(channels / 4), 1), nn.Conv2d(eighths(channels / 4), channels, 1)

    def forward(self, x: Any) -> Any:
        return F.hardsigmoid(self.up(F.relu(self.down(F.adaptive_avg_pool2d(x, 1))))) * x


class Inverted(Module):  # type: ignore[misc]
    """Expanded, filtered channel by channel, squeezed, projected."""

    def __init__(self, inputs: int, size: int, expanded: int, outputs: int, squeeze: bool, swish: bool, stride: int) -> None:
        super().__init__()
        activation = nn.Hardswish if swish else nn.ReLU
        layers = [] if expanded == inputs else [normed(inputs, expanded, activation=activation)]
        layers.append(normed(expanded, expanded, size, stride, expanded, activation))
        layers += [Squeeze(expanded)] if squeeze else []
        self.body = nn.Sequential(*layers, normed(expanded, outputs))
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Any) -> Any:
        return x + self.body(x) if self.residual else self.body(x)


class MobileNetV3(Module):  # type: ignore[misc]
    """`rows` are the blocks; those of the table make the large one."""

    def __init__(self, rows: tuple[tuple[Any, ...], ...] = LARGE, hidden: int = 1280, classes: int = 1000) -> None:
        super().__init__()
        channels, blocks = 16, [normed(3, 16, 3, 2, activation=nn.Hardswish)]
        for size, expanded, outputs, squeeze, swish, stride in rows:
            blocks.append(Inverted(channels, size, expanded, outputs, squeeze, swish, stride))
            channels = outputs
        self.features = nn.Sequential(*blocks, normed(channels, 6 * channels, activation=nn.Hardswish))
        self.classify = nn.Sequential(
            nn.Linear(6 * channels, hidden), nn.Hardswish(inplace=True), nn.Dropout(0.2, inplace=True), nn.Linear(hidden, classes)
        )

    def forward(self, x: Any) -> Any:
        return self.classify(torch.flatten(F.adaptive_avg_pool2d(self.features(x), 1), 1))
