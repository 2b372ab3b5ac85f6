"""PyTorch: the graph of a model as `torch.export` writes it, printed as let-bindings, with the line of the model that each node is from."""

import warnings

import torch

from tensorlang import graph

net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 3)).eval()
batch = torch.export.Dim("batch", min=2, max=64)
with torch.no_grad(), warnings.catch_warnings():
    warnings.simplefilter("ignore")
    program = torch.export.export(net, (torch.rand(5, 4),), dynamic_shapes=({0: batch},))
    g = graph.from_torch(program)
    print(g)
    print(g.table())
    assert g == graph.from_torch(program.run_decompositions())  # addmm and permute are linear
    compiled = g.compile()
    for size in (2, 64):  # one compilation
        x = torch.rand(size, 4)
        torch.testing.assert_close(torch.from_numpy(compiled(x)[0]), net(x), rtol=1e-4, atol=1e-5)
