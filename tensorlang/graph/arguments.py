"""What is given to the entries of this room is looked at before anything is made of it: a wrong kind is a `GraphError` that says so."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import tensorlang as tl
from tensorlang.graph.ir import Graph

P = ParamSpec("P")
R = TypeVar("R")


def require(what: str, taken: str, given: object, kind: type | tuple[type, ...]) -> None:
    """Raise `GraphError` where what is given is not of a kind: "`what` takes `taken`, not ..."."""
    if not isinstance(given, kind):
        raise tl.GraphError(f"{what} takes {taken}, not {given!r:.60}")


def of_graph(function: Callable[Concatenate[Graph, P], R]) -> Callable[Concatenate[Graph, P], R]:
    """The function, for graphs alone. Its calls raise `GraphError` for anything else."""

    @wraps(function)
    def checked(graph: Graph, *args: P.args, **options: P.kwargs) -> R:
        require(function.__name__, "a graph", graph, Graph)
        return function(graph, *args, **options)

    return cast("Callable[Concatenate[Graph, P], R]", checked)


def called(what: str, function: Callable[..., Any], *given: object) -> Any:
    """What a function of the user's gives. What else it raises is the cause of a `GraphError`: "`what` raised ..."."""
    try:
        return function(*given)
    except tl.TensorlangError:
        raise
    except Exception as error:
        raise tl.GraphError(f"{what} raised {type(error).__name__}: {error!s:.200}") from error
