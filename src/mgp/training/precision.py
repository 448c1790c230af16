"""Whether bfloat16 is quick here."""

from __future__ import annotations

import functools

import torch


@functools.cache
def has_bf16(device: torch.device) -> bool:
    """On a processor without instructions for it, bfloat16 is emulated: a small step took 1370 ms, not 160."""
    if device.type != "cpu":
        return torch.cuda.is_bf16_supported()
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
