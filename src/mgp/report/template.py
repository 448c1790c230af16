"""The templates of the pages. What comes from files is escaped by Jinja; only drawings are let through as they are."""

from __future__ import annotations

import functools
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


@functools.cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("mgp.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,  # a value that was forgotten is a mistake, not an empty place
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, **values: Any) -> Markup:
    """A part of a page, or a page, as HTML that needs no more escaping."""
    return Markup(_environment().get_template(f"{template}.html").render(values))
