"""Small programs for the tests of caches, and a look at the files that caches write."""

import hashlib
import json
from typing import Any

import tensorlang as tl
from tensorlang.codegen.cache import archive


def scaled(factor: float = 2.0, shape: tuple[int, int] = (4, 5), dtype: str = "float32", name: str = "x") -> tl.Tensor:
    x = tl.placeholder(shape, dtype, name=name)
    result: tl.Tensor = tl.compute(shape, lambda i, j: x[i, j] * factor, name="y")
    return result


def product(n: int = 8) -> tl.Tensor:
    a, b = tl.placeholder((n, n), name="A"), tl.placeholder((n, n), name="B")
    result: tl.Tensor = tl.ops.matmul(a, b)
    return result


def entry(folder: Any) -> Any:
    (path,) = folder.iterdir()
    return path


def edited(path: Any, change: Any) -> None:
    """Change the header of an entry and set the digest right."""
    body = path.read_bytes()[40:]
    size = int.from_bytes(body[:8], "little")
    header = json.loads(body[8 : 8 + size])
    change(header)
    text = json.dumps(header).encode()
    body = len(text).to_bytes(8, "little") + text + body[8 + size :]
    path.write_bytes(archive.MAGIC + hashlib.sha256(body).digest() + body)
