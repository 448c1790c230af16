"""Options of environments on the command line: NAME=VALUE, the value as JSON has it, or a plain word."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import tyro

from mgp.errors import ConfigError
from mgp.policies.config import RunConfig

KeyValues = Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME=VALUE")]


def parse_options(pairs: Sequence[str]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not (name and equals):
            raise ConfigError(f"--option {pair}: write NAME=VALUE, e.g. --option points=1024")
        try:
            out[name] = json.loads(text)
        except ValueError:
            out[name] = text
    return out


def with_options(config: RunConfig, pairs: Sequence[str]) -> RunConfig:
    return config.changed({"task.options": {**config.task.options, **parse_options(pairs)}})
