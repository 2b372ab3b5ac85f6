"""Operators as definitions: plain functions from tensors to tensors, with the argument names and layouts of `torch.nn.functional`."""

from tensorlang.ops.activation import gelu, leaky_relu, relu, sigmoid, silu, tanh
from tensorlang.ops.contraction import attention, batch_matmul, dense, linear, matmul
from tensorlang.ops.convolution import conv1d, conv2d, depthwise_conv2d
from tensorlang.ops.indexing import embedding, resize2d
from tensorlang.ops.normalization import batch_norm, group_norm, layer_norm, log_softmax, rms_norm, softmax
from tensorlang.ops.pooling import avg_pool2d, max_pool2d
from tensorlang.ops.transposed import conv2d_transpose

__all__ = [
    "attention",
    "avg_pool2d",
    "batch_matmul",
    "batch_norm",
    "conv1d",
    "conv2d",
    "conv2d_transpose",
    "dense",
    "depthwise_conv2d",
    "embedding",
    "gelu",
    "group_norm",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "matmul",
    "max_pool2d",
    "relu",
    "resize2d",
    "rms_norm",
    "sigmoid",
    "silu",
    "softmax",
    "tanh",
]
