"""What is written in the files, by file.

The processor is named and threads are counted here, so the texts are the same on every machine. A directive's text ends with the nest as
it is lowered for that processor, where a tail, a storage or a version of the nest becomes loops and conditions.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import unified_diff
from functools import partial
from pathlib import Path
from typing import Final

import tensorlang as tl
from tensorlang import ops
from tensorlang.autotune.operators import program
from tensorlang.codegen.compilation import default_schedule
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.target import Target, target
from tensorlang.ir.printer import print_nest
from tensorlang.schedules.catalogue import DIRECTIVES
from tests.goldens.choices import CHOICES
from tests.goldens.steps import SCHEDULES

HERE: Final = Path(__file__).parent
UPDATE: Final = "python -m tests.goldens --update"


def machine() -> Target:
    """The processor of every text: 512 bits, and caches as its maker gives them."""
    return target("skylake-avx512")


def directive(name: str) -> str:
    """The nest before the last step of a schedule, that step, the nest after it, and that nest lowered."""
    definition, steps = SCHEDULES[name]
    s = tl.Schedule(definition)
    for method, *arguments in steps[:-1]:
        getattr(s, method)(*arguments)
    before = f"{s!r}\n\n{s}"
    method, *arguments = steps[-1]
    getattr(s, method)(*arguments)
    scheduled, lowered = str(s), print_nest(lower(s.nest, machine()))
    last = repr(s).splitlines()[-1]
    return "\n\n".join((before, last, scheduled, "lowered: the same" if lowered == scheduled else f"lowered:\n\n{lowered}")) + "\n"


def default(name: str) -> str:
    """The steps of the default schedule of an operator at the extents that the tuner takes by itself, and the nest that they make."""
    s = default_schedule(program(name, {})[1], machine(), threads=1)
    return f"{s!r}\n\n{s}\n"


TEXTS: Final[dict[str, Callable[[], str]]] = {
    **{f"directives/{name}.txt": partial(directive, name) for name in DIRECTIVES},
    **{f"defaults/{name}.txt": partial(default, name) for name in ops.__all__},
    **{f"choices/{name}.txt": made for name, made in CHOICES.items()},
}


def written() -> set[str]:
    """The files that there are."""
    return {str(path.relative_to(HERE)) for path in HERE.glob("*/*.txt")}


def changed(file: str, text: str) -> str:
    """How a text differs from its file, as a unified diff; empty where it does not."""
    path = HERE / file
    golden = path.read_text() if path.exists() else ""
    return "".join(unified_diff(golden.splitlines(keepends=True), text.splitlines(keepends=True), f"tests/goldens/{file}", "now"))
