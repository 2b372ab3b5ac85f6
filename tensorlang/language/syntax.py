"""The syntax of Tensor Comprehensions (Vasilache et al., 2018): text to a tree, with the position of everything for errors.

    function  = def NAME ( parameter, ... ) -> ( NAME, ... ) { statement ... }
    parameter = TYPE ( SIZE, ... ) NAME | TYPE NAME
    statement = NAME ( NAME, ... ) OPERATOR value [where NAME in value : value, ...] [;]
    OPERATOR  = "=" | "+=!" | "*=!" | "max=!" | "min=!"
    value     = value ? value : value | value OP value | - value | ! value | NAME ( value, ... ) | NAME | NUMBER | ( value )

A comment runs from # to the end of its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

from tensorlang.errors import DefinitionError

OPERATORS: Final = ("=", "+=!", "*=!", "max=!", "min=!")
_TOKEN: Final = re.compile(
    r"(?P<space>\s+|\#[^\n]*)|(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?f?)|(?P<op>(?:max|min)=!|\+=!|\*=!|->|<=|>=|==|!=|&&|\|\||[-+*/%<>=?:!(){},;])"
    r"|(?P<name>[A-Za-z_]\w*)"
)
_LEVELS: Final = (("||",), ("&&",), ("==", "!="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"))
MAX_LENGTH: Final = 1 << 16
MAX_DEPTH: Final = 64


@dataclass(frozen=True, slots=True)
class At:
    """A place in the text: line and column, from 1."""

    line: int
    column: int

    def fail(self, reason: str) -> NoReturn:
        """Raise `DefinitionError` for this place."""
        raise DefinitionError(f"tl.tc, line {self.line}, column {self.column}: {reason}")


@dataclass(frozen=True, slots=True)
class Number:
    """A literal."""

    value: int | float
    at: At


@dataclass(frozen=True, slots=True)
class Name:
    """A size, an index, a scalar."""

    name: str
    at: At


@dataclass(frozen=True, slots=True)
class Applied:
    """An element of a tensor, or a function of values."""

    name: str
    args: tuple[Value, ...]
    at: At


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator on one, two or three values ("?" has three)."""

    op: str
    args: tuple[Value, ...]
    at: At


Value: TypeAlias = "Number | Name | Applied | Operation"


@dataclass(frozen=True, slots=True)
class Parameter:
    """An operand of the function: its type as spelled, its sizes, its name."""

    type: str
    sizes: tuple[Number | Name, ...]
    name: str
    at: At


@dataclass(frozen=True, slots=True)
class Range:
    """`where name in lo:hi`."""

    name: str
    lo: Value
    hi: Value
    at: At


@dataclass(frozen=True, slots=True)
class Comprehension:
    """One tensor defined over its indices."""

    name: str
    indices: tuple[Name, ...]
    op: str
    value: Value
    ranges: tuple[Range, ...]
    at: At


@dataclass(frozen=True, slots=True)
class FunctionDefinition:
    """A whole definition."""

    name: str
    parameters: tuple[Parameter, ...]
    results: tuple[Name, ...]
    statements: tuple[Comprehension, ...]


def parse(source: object) -> FunctionDefinition:
    """The tree of a definition. Raises `DefinitionError` with the place of the first mistake."""
    if not isinstance(source, str) or len(source) > MAX_LENGTH:
        raise DefinitionError(f"tl.tc takes text of at most {MAX_LENGTH} characters, not {source!r:.60}")
    return _Parser(_tokens(source)).function()


def _tokens(source: str) -> list[tuple[str, str, At]]:
    found: list[tuple[str, str, At]] = []
    place, line, start = 0, 1, 0
    while place < len(source):
        at = At(line, place - start + 1)
        match = _TOKEN.match(source, place)
        if match is None:
            at.fail(f"{source[place]!r} has no meaning here")
        kind, spelled = str(match.lastgroup), match.group()
        if kind != "space":
            found.append((kind, spelled, at))
        line += spelled.count("\n")
        if "\n" in spelled:
            start = place + spelled.rindex("\n") + 1
        place = match.end()
    return [*found, ("end", "the end", At(line, place - start + 1))]


class _Parser:
    """Recursive descent over the tokens."""

    def __init__(self, tokens: list[tuple[str, str, At]]) -> None:
        self.tokens = tokens
        self.place = 0
        self.depth = 0

    @property
    def at(self) -> At:
        return self.tokens[self.place][2]

    def sees(self, *spelled: str) -> bool:
        kind, found, _ = self.tokens[self.place]
        return found in spelled and kind in ("op", "name")

    def accepts(self, spelled: str) -> bool:
        if not self.sees(spelled):
            return False
        self.place += 1
        return True

    def expect(self, spelled: str) -> None:
        if not self.accepts(spelled):
            self.at.fail(f"expected {spelled!r}, found {self.tokens[self.place][1]!r}")

    def take(self, kind: str) -> str:
        found, spelled, at = self.tokens[self.place]
        if found != kind:
            at.fail(f"expected a {kind}, found {spelled!r}")
        self.place += 1
        return spelled

    def listed(self, part: Callable[[], Any]) -> tuple[Any, ...]:
        """`( part, ... )`, possibly empty."""
        self.expect("(")
        found = []
        if not self.sees(")"):
            found.append(part())
            while self.accepts(","):
                found.append(part())
        self.expect(")")
        return tuple(found)

    def function(self) -> FunctionDefinition:
        self.expect("def")
        name = self.take("name")
        parameters = self.listed(self.parameter)
        self.expect("->")
        here = self.at
        results = self.listed(self.name)
        if not results:
            here.fail("a definition has at least one result, as in -> (C)")
        self.expect("{")
        statements = []
        while not self.sees("}"):
            statements.append(self.statement())
        self.expect("}")
        if self.tokens[self.place][0] != "end":
            self.at.fail(f"expected the end after one definition, found {self.tokens[self.place][1]!r}")
        return FunctionDefinition(name, parameters, results, tuple(statements))

    def parameter(self) -> Parameter:
        at, kind = self.at, self.take("name")
        sizes = self.listed(self.size) if self.sees("(") else ()
        return Parameter(kind, sizes, self.take("name"), at)

    def size(self) -> Number | Name:
        found = self.atom()
        if isinstance(found, Name) or (isinstance(found, Number) and isinstance(found.value, int)):
            return found
        return found.at.fail("a size is a name or an integer")

    def name(self) -> Name:
        at = self.at
        return Name(self.take("name"), at)

    def statement(self) -> Comprehension:
        at, name = self.at, self.take("name")
        indices = self.listed(self.name) if self.sees("(") else ()
        if not self.sees(*OPERATORS):
            self.at.fail(f"expected one of {', '.join(OPERATORS)}, found {self.tokens[self.place][1]!r}")
        op = self.take("op")
        value = self.value()
        ranges = []
        if self.accepts("where"):
            ranges.append(self.range())
            while self.accepts(","):
                ranges.append(self.range())
        while self.accepts(";"):
            pass
        return Comprehension(name, indices, op, value, tuple(ranges), at)

    def range(self) -> Range:
        at, name = self.at, self.take("name")
        self.expect("in")
        lo = self.operation(0)
        self.expect(":")
        return Range(name, lo, self.operation(0), at)

    def bounded(self, count: int) -> None:
        """Raise `DefinitionError` where a value has grown too large."""
        if count > MAX_DEPTH:
            self.at.fail(f"a value of more than {MAX_DEPTH} parts in a row is too large; make a part of it a tensor of its own")

    def value(self) -> Value:
        self.depth += 1
        self.bounded(self.depth)
        at, cond = self.at, self.operation(0)
        if self.accepts("?"):
            yes = self.value()
            self.expect(":")
            cond = Operation("?", (cond, yes, self.value()), at)
        self.depth -= 1
        return cond

    def operation(self, level: int) -> Value:
        if level == len(_LEVELS):
            return self.unary()
        left = self.operation(level + 1)
        count = 0
        while self.sees(*_LEVELS[level]):
            self.bounded(count := count + 1)
            at, op = self.at, self.take("op")
            left = Operation(op, (left, self.operation(level + 1)), at)
        return left

    def unary(self) -> Value:
        signs: list[tuple[At, str]] = []
        while self.sees("-", "!"):
            self.bounded(len(signs))
            signs.append((self.at, self.take("op")))
        result = self.atom()
        for at, op in reversed(signs):
            result = Operation(op, (result,), at)
        return result

    def atom(self) -> Value:
        kind, spelled, at = self.tokens[self.place]
        if self.accepts("("):
            inner = self.value()
            self.expect(")")
            return inner
        self.place += 1
        if kind == "number":
            plain = spelled.removesuffix("f")
            return Number(int(plain) if plain.isdigit() and plain == spelled else float(plain), at)
        if kind == "name":
            return Applied(spelled, self.listed(self.value), at) if self.sees("(") else Name(spelled, at)
        return at.fail(f"expected a value, found {spelled!r}")
