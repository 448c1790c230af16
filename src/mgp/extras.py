"""Libraries that only some policies need: imported when one is built, so that the rest works without them."""

from __future__ import annotations

import importlib
from types import ModuleType

from mgp.errors import ConfigError


def needed(module: str, extra: str, whose: str) -> ModuleType:
    """The module, or an error that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{whose} needs {module.replace('_', '-')}, which is not installed ({error}): run"
            f" `pip install 'masked-generative-policy[{extra}]'`"
        ) from error
