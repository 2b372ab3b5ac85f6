"""What code is compiled for: processors, their instructions and caches."""

from tensorlang.codegen.target.description import (
    Target as Target,
)
from tensorlang.codegen.target.description import (
    needed as needed,
)
from tensorlang.codegen.target.description import (
    target as target,
)
from tensorlang.codegen.target.description import (
    why_foreign as why_foreign,
)
