"""U-Net (Ronneberger et al. 2015, arXiv 1505.04597), padded and normed: the image halved `depth` times and put together again."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from tests.models.base import Module, nn, torch


def double(inputs: int, outputs: int) -> Any:
    """Two 3x3 convolutions with batch norm and ReLU."""
    layers = []
    for channels in (inputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class UNet(Module):  # type: ignore[misc]
    """Up by transposed convolutions, or bilinear; width 64 and depth 4 are those of the paper."""

    def __init__(self, width: int = 64, depth: int = 4, classes: int = 2, bilinear: bool = False) -> None:
        super().__init__()
        widths = [width << level for level in range(depth + 1)]
        self.first = double(3, width)
        self.down = nn.ModuleList(nn.Sequential(nn.MaxPool2d(2), double(one, other)) for one, other in pairwise(widths))
        pairs = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        if bilinear:
            ups = [nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), nn.Conv2d(a, b, 1)) for a, b in pairs]
        else:
            ups = [nn.ConvTranspose2d(one, other, 2, stride=2) for one, other in pairs]
        self.up = nn.ModuleList(ups)
        self.join = nn.ModuleList(double(2 * other, other) for _, other in pairs)
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, x: Any) -> Any:
        levels = [self.first(x)]
        for down in self.down:
            levels.append(down(levels[-1]))
        y = levels.pop()
        for up, join in zip(self.up, self.join, strict=True):
            y = join(torch.cat([levels.pop(), up(y)], dim=1))
        return self.last(y)
