"""Encoders of observations, by the kind of a key. A new one is one file and one line in `ENCODERS`.

A key's kind is its name up to the first underscore: "rgb_wrist" and "rgb_front" are both encoded as "rgb".
"""

from __future__ import annotations

import importlib

from torch import nn

from mgp.config import EncoderConfig
from mgp.errors import UnknownNameError

# kind: module with `build(config, shape) -> nn.Module` that maps (F, *shape) to (F, config.dim)
ENCODERS = {
    "state": "mgp.model.encoders.state",
    "cloud": "mgp.model.encoders.cloud",
    "rgb": "mgp.model.encoders.image",
    "depth": "mgp.model.encoders.image",
    "instruction": "mgp.model.encoders.instruction",
}


def kind_of(key: str) -> str:
    kind = key.partition("_")[0]
    if kind not in ENCODERS:
        raise UnknownNameError("kind of observation", key, ENCODERS)
    return kind


def is_observation(key: str) -> bool:
    """Whether an array of that name can be looked at."""
    return key.partition("_")[0] in ENCODERS


def build_encoder(key: str, config: EncoderConfig, shape: tuple[int, ...]) -> nn.Module:
    return importlib.import_module(ENCODERS[kind_of(key)]).build(config, shape)
