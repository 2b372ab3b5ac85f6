"""What the code of a kernel takes, written into the code itself.

Machine code reads as many pointers as it was compiled for, and as much memory behind each as it was compiled for, whatever a file says
beside it. So every module of a kernel defines one more symbol, whose name is a digest of the signature (names, types, shapes, dims) and
of the instructions that the code may use. Who reads a file makes the name from the header and looks for it among the symbols of the
object: a header that says anything else than the code was compiled for does not fit, be it by damage or by an editor.
"""

from __future__ import annotations

import hashlib
import json
from typing import Final

from tensorlang.codegen.cache.signature import Signature
from tensorlang.codegen.runtime.symbols import defined_symbols
from tensorlang.codegen.target import Target, needed

_PREFIX: Final = "tensorlang.interface."


def with_interface(text: str, signature: Signature, target: Target) -> str:
    """The text of a module with the symbol of its interface."""
    return f'{text}\n@"{symbol(signature, target)}" = constant i8 0\n'


def matches(code: bytes, signature: Signature, target: Target) -> bool:
    """Was the object compiled for this signature and target? Raises `BuildError` for what is no object."""
    return symbol(signature, target) in defined_symbols(code)


def symbol(signature: Signature, target: Target) -> str:
    """The name of the symbol: a digest of the signature, the triple and the instructions that the code may use."""
    about = [signature.to_json(), target.triple, sorted(needed(target))]
    return _PREFIX + hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
