"""PyTorch: `torch.compile(model, backend="tensorlang")`; what runs in torch is counted and named, and here that is nothing."""

import warnings

import torch

from tensorlang.bridges import torch_compile

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 5))
net, x = net.eval(), torch.rand(2, 3, 8, 8)
with torch.no_grad(), warnings.catch_warnings():
    warnings.simplefilter("ignore")
    compiled = torch.compile(net, backend=torch_compile.backend, options={"freeze": True})  # "tensorlang", where it is installed
    torch.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-5)
    net[0].weight.mul_(2)  # seen: its version is another one
    torch.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-5)
print("nodes that run in torch:", len(torch_compile.fallbacks()))
