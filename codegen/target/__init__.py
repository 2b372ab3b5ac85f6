"""What code is compiled for: processors, their instructions and caches."""

from tensorlang.codegen.target.description import (
    Target as Target,
    needed as needed,
    target as target,
    why_foreign as why_foreign,
)
from tensorlang.codegen.target.machines import machine as machine
