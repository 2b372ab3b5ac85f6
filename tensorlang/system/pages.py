"""Pages, made of the template `page.html` of a package. Only what writes pages imports this, and with it the library of templates."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def rendered(package: str, **values: Any) -> str:
    """The page of a package. A name that a template misspells is an error, and everything is escaped but what is marked as safe."""
    loader = PackageLoader(package)
    templates = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return templates.get_template("page.html").render(values)
