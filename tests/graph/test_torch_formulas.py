"""What torch has a name for and graphs a formula is what torch computes, where it is large, small, infinite and no number too."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import graph

torch = pytest.importorskip("torch")
Module: Any = torch.nn.Module

pytestmark = [pytest.mark.extras("torch"), pytest.mark.filterwarnings("ignore")]  # torch's own


class Function(Module):  # type: ignore[misc]
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


ODD = [0.0, -0.0, 1.0, -1.5, 3e-30, -4e30, 2.5e38, torch.inf, -torch.inf, torch.nan]
PAIRS = torch.tensor(list(itertools.product(ODD, ODD))).T.contiguous()
LINE = torch.linspace(-6, 9, 61)
RUN = torch.tensor([[1.0, 3.0, 3.0, -1.0, torch.nan, 9.0, torch.nan, 2.0], [-torch.inf, -torch.inf, 2.0, 2.0, 5.0, 4.0, 5.0, torch.inf]])

FORMULAS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "fmax": (torch.fmax, (PAIRS[0], PAIRS[1])),
    "fmin": (torch.fmin, (PAIRS[0], PAIRS[1])),
    "fmax of integers": (torch.fmax, (torch.tensor([3, -1]), torch.tensor([2, 5]))),
    "hypot": (torch.hypot, (PAIRS[0], PAIRS[1])),
    "copysign": (torch.copysign, (PAIRS[0][:-10], PAIRS[1][:-10].nan_to_num(1.0))),
    "copysign of a number": (lambda x: torch.copysign(x, -2.0), (PAIRS[0],)),
    "erfc": (torch.erfc, (torch.cat([LINE, torch.tensor([torch.inf, -torch.inf, torch.nan])]),)),
    "erfc of half precision": (torch.erfc, (LINE[:40].half(),)),
    "ldexp": (torch.ldexp, (torch.tensor([1.5, -3.0, 0.0]), torch.tensor([4, -3, 7]))),
    "decimals": (lambda x: (x.round(decimals=2), (100 * x).round(decimals=-2), x.round()), (LINE / 7,)),
    "distances": (lambda x: (torch.dist(x, x.flip(0)), torch.dist(x, 2 * x, 1), torch.dist(x, -x, torch.inf)), (LINE,)),
    "running extrema": (lambda x: (*torch.cummax(x, 1), *torch.cummin(x, 1), *torch.cummax(x, 0)), (RUN,)),
    "running extrema of integers": (lambda x: (*x.cummax(0), *x.cummin(-1)), (torch.tensor([[4, 1, 4, 9], [4, 4, 0, 9]]),)),
}


@pytest.mark.parametrize("case", FORMULAS)
def test_a_formula_is_what_torch_computes(case: str) -> None:
    function, inputs = FORMULAS[case]
    wanted = function(*inputs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        g = graph.from_torch(torch.export.export(Function(function), inputs))
    for found in (g.run(*inputs), g.compile()(*inputs)):
        for one, other in zip(found, wanted, strict=True):
            assert one.dtype == other.numpy().dtype
            np.testing.assert_allclose(one, other.numpy(), rtol=2e-3 if one.dtype == np.float16 else 2e-6)
            if case.startswith("copysign"):  # the sign of an extremum of 0.0 and -0.0 is either
                np.testing.assert_array_equal(np.signbit(one), np.signbit(other.numpy()))


def test_digits_that_a_formula_does_not_have_are_refused() -> None:
    with pytest.raises(tl.GraphError, match=r"aten.erfc: of float64 has no translation; 1 - torch.erf\(x\) has one"):
        graph.from_torch(torch.export.export(Function(torch.erfc), (LINE.double(),)))
