"""Rollout pictures as data addresses: a strip of stills and an animation, within a budget of bytes."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

import numpy as np
from PIL import Image

STILLS = 12
# tried in turn until the animation fits: every n-th picture, quality of WebP
ECONOMIES = ((1, 70), (1, 45), (2, 45), (2, 25), (4, 25), (8, 15))


def still(picture: np.ndarray, quality: int = 75) -> str:
    return _address(_webp([Image.fromarray(picture)], quality))


def animation(pictures: np.ndarray, budget: int, milliseconds: int = 110) -> str:
    """Loops for ever, resting at the end. The cheapest economy is taken even if it does not fit."""
    content = b""
    for stride, quality in ECONOMIES:
        chosen = list(range(0, len(pictures), stride))
        if chosen[-1] != len(pictures) - 1:
            chosen.append(len(pictures) - 1)  # the outcome must be seen
        frames = [Image.fromarray(pictures[index]) for index in chosen]
        durations = [milliseconds * stride] * (len(frames) - 1) + [1500]
        content = _webp(frames, quality, durations)
        if len(content) <= budget:
            break
    return _address(content)


def spread(count: int, stills: int = STILLS) -> list[int]:
    """Indices of the stills: first, last and evenly between."""
    return sorted({round(index) for index in np.linspace(0, count - 1, min(stills, count))})


def _webp(frames: Sequence[Image.Image], quality: int, durations: Sequence[int] | None = None) -> bytes:
    buffer = io.BytesIO()
    if durations is None or len(frames) == 1:
        frames[0].save(buffer, "WEBP", quality=quality, method=4)
    else:
        frames[0].save(
            buffer,
            "WEBP",
            save_all=True,
            append_images=frames[1:],
            duration=list(durations),
            loop=0,
            quality=quality,
            method=4,
        )
    return buffer.getvalue()


def _address(content: bytes) -> str:
    return "data:image/webp;base64," + base64.b64encode(content).decode()
