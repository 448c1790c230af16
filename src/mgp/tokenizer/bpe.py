"""Byte-pair encoding of strings of action codes: neighbours that often stand together become a token of their own.

Tokens 0 .. codes-1 are the codes themselves; the i-th merge makes token codes + i.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor, nn

Merge = tuple[int, int]


def learn(strings: Sequence[Sequence[int]], codes: int, vocabulary: int, longest: int, frequency: int) -> list[Merge]:
    """At most vocabulary - codes merges: each time the most frequent pair, the lowest one if several are.

    No token stands for more than `longest` codes, and no pair that is seen less than `frequency` times is merged.
    """
    parts = [list(map(int, string)) for string in strings]
    length = dict.fromkeys(range(codes), 1)
    merges: list[Merge] = []
    while codes + len(merges) < vocabulary:
        seen = Counter(pair for part in parts for pair in pairwise(part))
        fits = {pair: count for pair, count in seen.items() if length[pair[0]] + length[pair[1]] <= longest}
        best = min(fits, key=lambda pair: (-fits[pair], pair), default=None)
        if best is None or fits[best] < frequency:
            break
        token = codes + len(merges)
        length[token] = length[best[0]] + length[best[1]]
        merges.append(best)
        parts = [_merged(part, best, token) for part in parts]
    return merges


def encode(string: Sequence[int], merges: Sequence[Merge], codes: int) -> list[int]:
    """Codes to tokens: the merges in the order they were learned."""
    part = list(map(int, string))
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    while True:
        rank = min((ranks[pair] for pair in pairwise(part) if pair in ranks), default=None)
        if rank is None:
            return part
        part = _merged(part, merges[rank], codes + rank)


def words(merges: Sequence[Merge], codes: int) -> list[tuple[int, ...]]:
    """The codes that each token stands for."""
    out: list[tuple[int, ...]] = [(code,) for code in range(codes)]
    for left, right in merges:
        out.append(out[left] + out[right])
    return out


def _merged(part: list[int], pair: Merge, token: int) -> list[int]:
    """From the left, so that of three alike the first two are merged."""
    out, at = [], 0
    while at < len(part):
        hit = at + 1 < len(part) and part[at] == pair[0] and part[at + 1] == pair[1]
        out.append(token if hit else part[at])
        at += 2 if hit else 1
    return out


class Skills(nn.Module):
    """A vocabulary that was learned, in buffers: V tokens of N codes."""

    merges: Tensor  # (V - N, 2), -1 where nothing more was merged
    table: Tensor  # (V, K, N) 1 where the k-th code of a token is n

    def __init__(self, codes: int, vocabulary: int, longest: int, frequency: int, ahead: int):
        """`ahead`: K, codes of each token in `table`."""
        super().__init__()
        self.codes, self.vocabulary, self.longest, self.frequency = codes, vocabulary, longest, frequency
        self.register_buffer("merges", torch.full((vocabulary - codes, 2), -1))
        self.register_buffer("table", torch.zeros(vocabulary, ahead, codes))

    def learn(self, strings: Sequence[Sequence[int]]) -> Tensor:
        """From strings of codes; returns the token that begins at each of their places, end to end (T,)."""
        merges = learn(strings, self.codes, self.vocabulary, self.longest, self.frequency)
        self.merges.fill_(-1)[: len(merges)] = torch.tensor(merges, dtype=torch.long).reshape(-1, 2)
        self.table.zero_()
        for token, word in enumerate(words(merges, self.codes)):
            for step, code in enumerate(word[: self.table.shape[1]]):
                self.table[token, step, code] = 1.0
        first = lru_cache(None)(lambda string: encode(string, merges, self.codes)[0])
        reach = 2 * self.longest  # what lies further ahead hardly ever changes the first token
        return torch.tensor([first(tuple(one[at : at + reach])) for one in strings for at in range(len(one))])

    def words(self) -> list[tuple[int, ...]]:
        """The codes of each token."""
        return words([(left, right) for left, right in self.merges.tolist() if left >= 0], self.codes)

    @property
    def known(self) -> Tensor:
        """(V,) whether a token was learned."""
        codes = torch.ones(self.codes, dtype=torch.bool, device=self.merges.device)
        return torch.cat([codes, self.merges[:, 0] >= 0])
