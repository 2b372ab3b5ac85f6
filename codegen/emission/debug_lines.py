"""Which line of a nest each instruction comes from, as debug information: for people who read machine code beside the nest.

A lowered nest is not the one that a user reads, but its statements keep the names of their stages and its loops keep theirs. So a line is
found by these names; what lowering made, and nobody wrote, belongs to the line around it. LLVM carries the lines through all of its passes
and makes the same code with them as without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from llvmlite import ir as llvm

from tensorlang import ir
from tensorlang.codegen.emission.types import I32, Builder, Value

NO_LINE: Final = 0
"""The line of what no line stands for."""


@dataclass(frozen=True, slots=True)
class NestLines:
    """The lines, counted from 1, of the stages and of the loops of a nest, by their full names."""

    stages: Mapping[str, int]
    loops: Mapping[str, int]

    def of(self, stmt: ir.Stmt) -> int | None:
        """The line of a statement; None for one that has none of its own."""
        match stmt:
            case ir.Store(stage=stage):
                return self.stages.get(stage)
            case ir.For(loop=loop):
                return self.loops.get(loop)
            case _:
                return None


@dataclass(slots=True)
class FunctionLines:
    """The debug information of one LLVM function."""

    module: llvm.Module
    lines: NestLines
    file: Value
    unit: Value
    scope: Value
    known: dict[int, Value] = field(default_factory=dict)

    @classmethod
    def of(cls, function: Value, lines: NestLines) -> FunctionLines:
        """That of the first function of a module."""
        module = function.module
        file = module.add_debug_info("DIFile", {"filename": "nest", "directory": ""})
        unit = module.add_debug_info(
            "DICompileUnit",
            {
                "language": llvm.DIToken("DW_LANG_C"), "file": file, "producer": "tensorlang", "runtimeVersion": 0, "isOptimized": True,
                "emissionKind": llvm.DIToken("LineTablesOnly"),
            },
            is_distinct=True,
        )  # fmt: skip
        module.add_named_metadata("llvm.dbg.cu", unit)
        for name, version in (("Dwarf Version", 4), ("Debug Info Version", 3)):
            flag = module.add_metadata([llvm.Constant(I32, 2), name, llvm.Constant(I32, version)])
            module.add_named_metadata("llvm.module.flags", flag)
        return cls(module, lines, file, unit, _scope(module, function, file, unit))

    def outlined(self, function: Value, outside: Builder, inside: Builder) -> FunctionLines:
        """That of a function made of a part of this one, which begins on the line where this one is."""
        made = FunctionLines(self.module, self.lines, self.file, self.unit, _scope(self.module, function, self.file, self.unit))
        line = next((line for line, place in self.known.items() if place is outside.debug_metadata), NO_LINE)
        inside.debug_metadata = made.place(line)
        return made

    def place(self, line: int) -> Value:
        """What an instruction of a line carries."""
        if line not in self.known:
            self.known[line] = self.module.add_debug_info("DILocation", {"line": line, "column": 0, "scope": self.scope})
        return self.known[line]

    @contextmanager
    def at(self, builder: Builder, stmt: ir.Stmt) -> Iterator[None]:
        """Emit a statement: what is inserted meanwhile is of its line, or of the line around it."""
        before, line = builder.debug_metadata, self.lines.of(stmt)
        builder.debug_metadata = self.place(NO_LINE) if line is None and before is None else before if line is None else self.place(line)
        yield
        builder.debug_metadata = before or self.place(NO_LINE)


def _scope(module: llvm.Module, function: Value, file: Value, unit: Value) -> Value:
    kind = module.add_debug_info("DISubroutineType", {"types": module.add_metadata([])})
    scope = module.add_debug_info(
        "DISubprogram",
        {
            "name": function.name, "file": file, "line": NO_LINE, "type": kind, "scopeLine": NO_LINE, "unit": unit,
            "spFlags": llvm.DIToken("DISPFlagDefinition | DISPFlagOptimized"),
        },
        is_distinct=True,
    )  # fmt: skip
    function.set_metadata("dbg", scope)
    return scope
