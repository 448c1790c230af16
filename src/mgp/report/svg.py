"""Matplotlib figures as inline SVG that takes colours and font from the page, and so follows light and dark."""

from __future__ import annotations

import io
import re
from typing import Any

import matplotlib
from markupsafe import Markup, escape
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

# Matplotlib knows no CSS variables: it draws in these marker colours, which are then replaced by the variable.
INK, MUTED, LINE, OURS, PAPER, PINK = "#010203", "#010204", "#010205", "#010206", "#010207", "#010208"
VARIABLES = {INK: "ink", MUTED: "muted", LINE: "line", OURS: "ours", PAPER: "paper", PINK: "pink"}

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: small, selectable, in the page's font
    "text.parse_math": False,  # names come from files
    "font.size": 9.5,
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "text.color": INK,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


def style():
    """Context in which a figure for the page is made."""
    return matplotlib.rc_context(STYLE)


def inline_svg(figure: Figure, prefix: str, label: str) -> Markup:
    """The figure as an <svg> element; `prefix` keeps its ids apart from those of the other figures of the page."""
    FigureCanvasSVG(figure)
    text = io.StringIO()
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": prefix}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Type": None, "Format": None})
    svg = text.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg[svg.index("<svg") :], flags=re.S)
    svg = re.sub(r"<[^>]*>", _slim, svg)
    svg = re.sub(r"\s*\n\s*", "", svg)
    svg = re.sub(r'(?<= )id="', f'id="{prefix}-', svg)
    svg = re.sub(r"(url\(#|href=\"#)", rf"\g<1>{prefix}-", svg)
    for marker, variable in VARIABLES.items():
        svg = svg.replace(marker, f"var(--{variable})")
    # the page sets the size; the viewBox keeps the shape
    opening, rest = svg.split(">", 1)
    opening = re.sub(r' (width|height|version)="[^"]*"', "", opening)
    # Matplotlib has escaped the texts of the figure
    return Markup(f'<svg role="img" aria-label="{escape(label)}"{opening[4:]}>{rest}')


def _slim(tag: re.Match[str]) -> str:
    """A tag without its font (the page's is used), needless digits and line breaks: a third of the size."""
    text = re.sub(r"\s+", " ", tag.group()).replace("base64, ", "base64,")
    text = re.sub(r"font-family: [^;\"]*;? ?|font: [^;\"]*;? ?", _font, text)
    text = re.sub(r' transform="rotate\(-0 [^"]*"', "", text)
    return re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number.group()):.2f}", text)


def _font(style: re.Match[str]) -> str:
    """Matplotlib writes a bold or sized font as one shorthand; keep weight and size."""
    weight = re.search(r"\b(bold|[1-9]00)\b", style.group())
    size = re.search(r"([\d.]+px)", style.group())
    return (f"font-weight: {weight[1]}; " if weight else "") + (f"font-size: {size[1]}; " if size else "")
