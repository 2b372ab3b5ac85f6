"""The models by name, small for tests and at their published size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.models.base import drawn, image, tokens
from tests.models.bert import Bert
from tests.models.efficientnet import EfficientNet
from tests.models.gpt2 import GPT2
from tests.models.llama import Llama
from tests.models.lstm import Recurrent
from tests.models.mobilenet import LARGE, MobileNetV3
from tests.models.resnet import ResNet
from tests.models.unet import UNet
from tests.models.vit import ViT
from tests.models.whisper import WhisperEncoder


@dataclass(frozen=True)
class Model:
    """A model at two sizes: `small()` and `full()` give the module, weights drawn, and the inputs of a call."""

    name: str
    _small: Callable[[], tuple[Any, tuple[Any, ...]]]
    _full: Callable[[], tuple[Any, tuple[Any, ...]]]

    def small(self) -> tuple[Any, tuple[Any, ...]]:
        """A few layers, narrow, on a small input; every kind of layer is there."""
        net, inputs = self._small()
        return drawn(net), inputs

    def full(self) -> tuple[Any, tuple[Any, ...]]:
        """As it was published, batch 1."""
        net, inputs = self._full()
        return drawn(net), inputs


_ROWS: Final = ((1, 3, 1, 16, 1), (6, 5, 2, 24, 2))

MODELS: Final = {
    model.name: model
    for model in (
        Model(
            "resnet50",
            lambda: (ResNet((1, 2), 8, 10), (image(1, 3, 32, 32),)),
            lambda: (ResNet(), (image(1, 3, 224, 224),)),
        ),
        Model(
            "mobilenet_v3",
            lambda: (MobileNetV3((LARGE[0], LARGE[1], LARGE[3], LARGE[6]), 32, 10), (image(1, 3, 32, 32),)),
            lambda: (MobileNetV3(), (image(1, 3, 224, 224),)),
        ),
        Model(
            "efficientnet_b0",
            lambda: (EfficientNet(_ROWS, 32, 10), (image(1, 3, 32, 32),)),
            lambda: (EfficientNet(), (image(1, 3, 224, 224),)),
        ),
        Model(
            "unet",
            lambda: (UNet(4, 2), (image(1, 3, 16, 16),)),
            lambda: (UNet(), (image(1, 3, 256, 256),)),
        ),
        Model(
            "vit_b16",
            lambda: (ViT(32, 8, 2, 32, 4, 64, 10), (image(1, 3, 32, 32),)),
            lambda: (ViT(), (image(1, 3, 224, 224),)),
        ),
        Model(
            "bert",
            lambda: (Bert(2, 32, 4, 64, 50, 16), (tokens(1, 12, words=50),)),
            lambda: (Bert(), (tokens(1, 128, words=30522),)),
        ),
        Model(
            "gpt2",
            lambda: (GPT2(2, 32, 4, 50, 16), (tokens(1, 12, words=50),)),
            lambda: (GPT2(), (tokens(1, 128, words=50257),)),
        ),
        Model(
            "whisper_tiny",
            lambda: (WhisperEncoder(8, 12, 32, 4, 2), (image(1, 8, 24),)),
            lambda: (WhisperEncoder(), (image(1, 80, 3000),)),
        ),
        Model(
            "lstm",
            lambda: (Recurrent(6, 8, 2, 3), (image(2, 3, 6),)),
            lambda: (Recurrent(), (image(1, 16, 64),)),
        ),
        Model(
            "llama",
            lambda: (Llama(2, 32, 4, 2, 48, 50), (tokens(1, 12, words=50),)),
            lambda: (Llama(), (tokens(1, 128, words=32000),)),
        ),
    )
}  # fmt: skip
