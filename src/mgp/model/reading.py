"""The passes of one plan over one condition, without doing anything twice.

Keys and values of the condition are made once. A token that stands as in the first pass is not read again: until the
self-attention layers it knows itself, its place and the condition alone. In the last layer only tokens whose logits are
wanted ask. All of it is exact.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mgp.model.transformer import MaskedTransformer

ROUND = 8  # numbers of tokens are rounded up to multiples: an engine prepares itself for every shape it meets


class Reading:
    """A function of tokens (B, N) and places (B, P) to logits (B, P, K + 1), for O = B episodes.

    B may be a multiple of O: several plans of each episode, one after the other, are then read as they are.
    The condition (O, H, C) is asked for when the first logits are: a plan that stays as it is needs none.
    """

    def __init__(self, transformer: MaskedTransformer, condition: Callable[[], Tensor]):
        self.transformer, self.condition = transformer, condition
        self.keys_values: Tensor | None = None
        self.first: tuple[Tensor, Tensor, Tensor] | None = None  # executed (B,), tokens (B, N), as read (B, N, D)

    def __call__(self, tokens: Tensor, wanted: Tensor, executed: Tensor) -> Tensor:
        device = self.transformer.code_vectors.device
        tokens, wanted, executed = tokens.to(device), wanted.to(device), executed.to(device)
        return self.transformer.answer(self._read(tokens, executed), wanted).cpu()

    def _read(self, tokens: Tensor, executed: Tensor) -> Tensor:
        if self.keys_values is None:
            self.keys_values = self.transformer.keys_values(self.condition())
        if len(tokens) > len(self.keys_values):
            each = len(tokens) // len(self.keys_values)
            return self._whole(tokens, executed, self.keys_values.repeat_interleave(each, 0))
        if self.first is None or self.transformer.local is not None or not torch.equal(executed, self.first[0]):
            x = self._whole(tokens, executed, self.keys_values)
            self.first = self.first or (executed, tokens, x)
            return x
        _, before, x = self.first
        changed = tokens != before
        if not bool(changed.any()):
            return x
        place = chosen(changed)
        fresh = self.transformer.read(tokens.gather(1, place), place, executed, self.keys_values)
        return x.scatter(1, place[..., None].expand_as(fresh), fresh)

    def _whole(self, tokens: Tensor, executed: Tensor, keys_values: Tensor) -> Tensor:
        place = torch.arange(tokens.shape[1], device=tokens.device)[None].expand_as(tokens)
        return self.transformer.read(tokens, place, executed, keys_values)


def chosen(those: Tensor) -> Tensor:
    """Places (B, P) of those that are true in each row (B, N), in order.

    Rows are filled up with places that are false, to the most there are in any row, rounded up.
    """
    count = max(int(those.sum(1).max()), 1)
    count = min(-(-count // ROUND) * ROUND, those.shape[1])
    return those.byte().argsort(dim=1, descending=True, stable=True)[:, :count]
