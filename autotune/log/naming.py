"""What a task is called: its operator and its extents by name, as `matmul M=128,N=256,K=512`.

The shape of a result does not tell a product of depth 512 from one of depth 64. So a record has the extents by name (`shape`), as the
command or the job file gave them. Where it does not, as in older records and for a definition made in Python, they are those of the axes
in the definition: those of the results, then those that are reduced on the way, by a name that is not taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

MOST: Final = 12
"""Extents that a name has at most."""


def named_extents(task: Mapping[str, Any]) -> dict[str, int]:
    """The extents of a record's task by name; empty if it does not say any. Dims known at run time are among them."""
    said = task.get("shape")
    if not isinstance(said, dict) or not said:
        said = dict(_axes(task.get("definition")))
    dims = task.get("dims")
    found = {**said, **(dims if isinstance(dims, dict) else {})}
    kept = [(str(name), size) for name, size in found.items() if isinstance(size, int) and not isinstance(size, bool)]
    return dict(kept[:MOST])


def spelled_extents(task: Mapping[str, Any]) -> str:
    """The extents as `--shape` takes them: `M=128,N=256,K=512`."""
    return ",".join(f"{name}={size}" for name, size in named_extents(task).items())


def task_title(task: Mapping[str, Any]) -> str:
    """The operator and its extents."""
    return f"{task.get('op')} {spelled_extents(task)}".rstrip()


def file_stem(task: Mapping[str, Any]) -> str:
    """The title as the name of a file, with the start of the fingerprint, so that two programs never share one."""
    title = "".join(char if char.isalnum() or char in "-_=," else "-" for char in task_title(task))[:120]
    return f"{title}-{str(task.get('fingerprint'))[:8]}"


def _axes(definition: object) -> Iterator[tuple[str, int]]:
    """Axes of a canonical definition with their extents, those of the results first, each name once."""
    try:
        definitions: list[dict[str, Any]] = definition["definitions"]  # type: ignore[index]  # checked below
        results = [place if isinstance(place, int) else place[0] for place in definition["outputs"]]  # type: ignore[index]
        order = [*results, *(place for place in reversed(range(len(definitions))) if place not in results)]
        seen: set[str] = set()
        for place in order:
            for name, size in _own(definitions[place], whole=place in results):
                if name not in seen:
                    seen.add(name)
                    yield name, size
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError):
        return


def _own(definition: dict[str, Any], *, whole: bool) -> Iterator[tuple[str, int]]:
    """Axes of a stage with their extents; of an intermediate one those that it reduces."""
    names = definition.get("axes") or []
    sizes: dict[int, object] = dict(enumerate(definition.get("shape") or [])) if whole else {}
    sizes |= dict(_reduced(definition.get("values") or []))
    yield from ((str(names[place]), size) for place, size in sizes.items() if place < len(names) and isinstance(size, int))


def _reduced(node: object) -> Iterator[tuple[int, int]]:
    """Axes of reductions with their lengths, of an expression as the canonical form has it."""
    if not isinstance(node, list):
        return
    if node and node[0] == "reduce":
        yield from ((axis, high - low) for axis, low, high in node[3] if isinstance(low, int) and isinstance(high, int))
    for part in node:
        yield from _reduced(part)
