"""Which of LLVM's passes run over a module; `binding` gives them `llvmlite.binding`, which is loaded on use."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

_SHUFFLE: Final = re.compile(r"shufflevector <\d+ x (\w+)>[^\n]*> <i32 ")
"""A shuffle of lanes of a type, not of one lane into all."""
_ONES: Final = ("16843009", "72340172838076673")
"""Words whose bytes are 1."""
_COUNTED: Final = re.compile(rf"mul [^\n]*\b(?:{'|'.join(_ONES)})\b")
"""The end of a sum of bits: four or eight sums of bytes, added up in the highest byte of a product by 0x01010101."""
MOSTLY_MOVED: Final = 0.25
"""The share of shuffles among the instructions of a module from which it is taken for one that moves more than it computes: packing
weights for a convolution makes 0.1 to 0.2, transposing an odd matrix 0.4."""


@dataclass(frozen=True, slots=True)
class Passes:
    """Which of LLVM's optimisations run. We vectorise and unroll ourselves, so its own vectorisers and unroller are off."""

    level: int = 2
    vectorize: bool = False
    unroll: bool = False


Pipeline: TypeAlias = Literal["default", "functions", "short"]
DEFAULT_PASSES: Final = Passes()


def optimize(llvm: Any, module: Any, target_machine: Any, passes: Passes, pipeline: Pipeline) -> None:
    """LLVM's default pipeline, the part of it that simplifies each function, or a short one."""
    options = llvm.create_pipeline_tuning_options(speed_level=passes.level)
    options.loop_vectorization = passes.vectorize
    options.loop_interleaving = passes.vectorize
    options.slp_vectorization = False
    options.loop_unrolling = passes.unroll
    builder = llvm.create_pass_builder(target_machine, options)
    try:
        if pipeline == "functions":
            for function in module.functions:
                if not function.is_declaration:
                    _run(llvm, builder.getFunctionPassManager(), function, builder)
        else:
            _run(llvm, _short_pipeline(llvm) if pipeline == "short" else builder.getModulePassManager(), module, builder)
    finally:
        builder.close()
        options.close()


def level_of(text: str, passes: Passes) -> Passes:
    """The passes, of a level at which LLVM sees that bits are counted, where they are: processors have an instruction for it."""
    asked = passes.level == DEFAULT_PASSES.level and any(ones in text for ones in _ONES)  # a pattern takes twenty times as long as words
    return replace(passes, level=3) if asked and _COUNTED.search(text) else passes


def _run(llvm: Any, manager: Any, of: Any, builder: Any) -> None:
    """Run a pass manager once, and free it: a second run of the same one aborts the process."""
    try:
        manager.run(of, builder)
    finally:
        if type(manager)._dispose is llvm.ffi.ObjectRef._dispose:  # noqa: SLF001 - its own disposal is hidden by the base class
            llvm.newpassmanagers.NewPassManager._dispose(manager)  # noqa: SLF001
        manager.detach()


def needs_whole_pipeline(text: str, passes: Passes) -> bool:
    """Is there something in a module that only the whole of the default pipeline makes faster?

    It simplifies each function, and then once more with passes for what was vectorised: half of its time. Of our code these find something
    where parts of vectors are put together under masks, by joining the shuffles: of masks (strided windows), or of what is mostly moved
    (odd transpositions). Functions that have to be put into others, and LLVM's own vectoriser and unroller, need it too.
    """
    if passes.vectorize or passes.unroll or not passes.level or "alwaysinline" in text:
        return True
    if '@"llvm.masked.' not in text:
        return False
    shuffled = _SHUFFLE.findall(text)
    return "i1" in shuffled or len(shuffled) > MOSTLY_MOVED * text.count("\n  ")


def pipeline_of(text: str, passes: Passes) -> Pipeline:
    """What has to run over a module."""
    return "default" if needs_whole_pipeline(text, passes) else "functions"


def _short_pipeline(llvm: Any) -> Any:
    """What is left to do for code that was written as it is to run: functions put into one another, addresses folded."""
    manager = llvm.create_new_module_pass_manager()
    manager.add_always_inliner_pass()
    manager.add_sroa_pass()
    manager.add_instruction_combine_pass()
    manager.add_simplify_cfg_pass()
    return manager
