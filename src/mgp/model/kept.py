"""Features of frames that were seen before: a frame is encoded once, in however many plans it is looked at.

A frame is known by what it shows (and by where the hand was, to which its clouds are relative), not by when it came. So
nothing has to be said about episodes that begin anew or frames that were lost: another frame has another mark.
"""

from __future__ import annotations

from torch import Tensor

from mgp.data.windows import Looks


class Kept:
    def __init__(self) -> None:
        self.features: dict[str, dict[bytes, Tensor]] = {}  # of the last plan's frames, by key and mark
        self.marks: list[bytes] = []  # of the frames looked at now
        self.new: list[bytes] = []  # of these, the ones that are not known

    def unseen(self, looks: Looks) -> Looks:
        """The same state, and of the frames only those that must be encoded."""
        parts = [*looks.frames.values(), *([] if looks.hand is None else [looks.hand])]
        rows = zip(*(part.cpu().numpy() for part in parts), strict=True)
        self.marks = [b"".join(one.tobytes() for one in row) for row in rows]
        known = [self.features.get(key, {}) for key in looks.frames]
        places = {
            mark: place for place, mark in enumerate(self.marks) if not all(mark in features for features in known)
        }
        self.new = list(places)
        if len(places) == len(self.marks):
            return looks
        chosen = list(places.values())
        hand = None if looks.hand is None else looks.hand[chosen]
        return looks._replace(frames={key: frames[chosen] for key, frames in looks.frames.items()}, hand=hand)

    def complete(self, key: str, fresh: Tensor | None) -> list[Tensor]:
        """Features (D,) of all frames looked at, given those of the unseen ones (F', D); others are dropped."""
        known = self.features.get(key, {}) | dict(zip(self.new, () if fresh is None else fresh, strict=True))
        self.features[key] = {mark: known[mark] for mark in self.marks}
        return [known[mark] for mark in self.marks]
