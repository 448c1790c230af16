"""Policies by name. A new one is one file and one line in `POLICIES`; docs/architecture.md shows how."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from mgp.errors import UnknownNameError

if TYPE_CHECKING:
    from mgp.policies.config import Method
    from mgp.policies.learned import LearnedPolicy

# policy: module with POLICY, a LearnedPolicy, and METHODS, its named recipes
POLICIES = {
    "mgp": "mgp.policies.mgp",
    "bc": "mgp.policies.bc",
    "diffusion": "mgp.policies.diffusion",
    "open-loop": "mgp.policies.open_loop",
    "consistency": "mgp.policies.consistency",
    "flow": "mgp.policies.flow",
    "mean-flow": "mgp.policies.mean_flow",
    "mip": "mgp.policies.mip",
    "act": "mgp.policies.act",
    "quest": "mgp.policies.quest",
    "vqbet": "mgp.policies.vqbet",
    "prise": "mgp.policies.prise",
    "resnet-t": "mgp.policies.resnet_t",
}


def policy_class(name: str) -> type[LearnedPolicy]:
    if name not in POLICIES:
        raise UnknownNameError("policy", name, POLICIES)
    return importlib.import_module(POLICIES[name]).POLICY


def methods() -> dict[str, Method]:
    """Every named recipe of every policy."""
    return {name: one for module in POLICIES.values() for name, one in importlib.import_module(module).METHODS.items()}
