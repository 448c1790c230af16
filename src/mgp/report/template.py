"""The shell that every page has in common: template.html."""

from __future__ import annotations

from importlib import resources
from string import Template


def fill(title: str, lead: str, sections: str, footer: str) -> str:
    """The template with its parts, each HTML already."""
    template = Template(resources.files("mgp.report").joinpath("template.html").read_text())
    return template.substitute(title=title, lead=lead, sections=sections, footer=footer)
