"""How often a property is drawn: `@examples(60)` is sixty times in the profile "ci" of `conftest`, and in proportion in any other."""

from __future__ import annotations

from hypothesis import settings


def examples(count: int) -> settings:
    """Settings for a property that is drawn so often where all draws are the same in each run."""
    return settings(max_examples=count * settings.default.max_examples // settings.get_profile("ci").max_examples)
