"""A client of `mgp serve` for the machine on the robot: needs numpy, msgpack and websockets, and no torch.

    from mgp.client import PolicyClient

    with PolicyClient("192.168.0.5:8000", api_key=key, timeout=0.05) as policy:
        policy.reset()
        while running:
            robot.command(policy.act(robot.observe()))  # (A,) within the timeout, whatever the server does

`act` never keeps the robot waiting. An answer that is late is bridged by the plan in hand, for a stated number of
actions, then the robot is held; if the server is lost it is held at once, until `reset` has found one again.
"""

from __future__ import annotations

import time as clock
from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np

from mgp.errors import ConnectionLostError, MessageError, RemoteError
from mgp.runtime.link import REPLY, Link
from mgp.runtime.wire import pack, unpack

Status = Literal["fresh", "plan", "hold"]


class PolicyClient:
    def __init__(
        self,
        address: str = "127.0.0.1:8000",
        api_key: str | None = None,
        *,
        timeout: float = 0.05,
        bridge: int | None = None,
        patience: float = 10.0,
        lost_after: float = 2.0,
    ):
        """`timeout`: seconds that `act` takes at most, a control period or less. `bridge`: actions of the plan in hand
        that are run beyond its time while an answer is late; by default as many as a plan is run for. `patience`:
        seconds to connect and for the first answer of an episode. `lost_after`: seconds without an answer after which
        the server is taken for lost."""
        self.address, self.key, self.timeout = address, api_key, timeout
        self.patience, self.lost_after = patience, lost_after
        self.link = self._connect()
        self.bridge: int = self.metadata["action_horizon"] if bridge is None else bridge
        self.status: Status = "hold"  # of the last action: fresh from the server, of the plan in hand, or held
        self.reason = ""  # why it is not fresh
        self.counts = {"fresh": 0, "plan": 0, "hold": 0}
        self._begin(0, None)

    @property
    def metadata(self) -> dict[str, Any]:
        """What the server says of its policy: shapes of observations, actions in a reply, how to hold still, ..."""
        return self.link.metadata

    @property
    def lost(self) -> str | None:
        """Why there is no server any more; None while there is one."""
        return self.link.lost

    def reset(self, seed: int = 0, episode: str | int | None = None) -> None:
        """A new episode, with a new connection if the last one was lost. Its first `act` may take `patience`."""
        if self.link.waiting and not self.lost:
            self.link.answer(self.lost_after)  # of the old episode
        if self.lost or self.link.waiting:
            self.link.close()
            self.link = self._connect()
        self._begin(seed, episode)

    def act(self, frame: Mapping[str, Any] | None, time: float | None = None) -> np.ndarray:
        """One frame in, None if it did not arrive, one action (A,) out; `status` says where it comes from.

        `time`: when the frame was taken, by `time.monotonic`; now, if not given.
        """
        begin, first = clock.monotonic(), self._last is None
        self._collect(0.0)  # an answer that was late
        asked = not self.link.waiting and not self.lost
        if asked:
            asked = self._ask(frame, begin if time is None else time, first)
        came = self._collect(self.patience if first else max(0.0, self.timeout - (clock.monotonic() - begin)))
        self._step += 1
        if first and self._position >= len(self._plan):
            self._give_up()
        return self._next(fresh=asked and came)

    def infer(self, observation: Mapping[str, Any], timeout: float | None = None, **mgp: Any) -> dict[str, Any]:
        """The reply to one observation, as openpi's client gives it. `mgp`: words of the extension, `reset=True`.

        Raises RemoteError if the server refuses it, ConnectionLostError if there is none."""
        if not self.lost:
            seconds = self.patience if timeout is None else timeout
            self.link.ask(pack({**observation, **({"mgp": mgp} if mgp else {})}), seconds)
        answer = self.link.answer(self.patience + 1)
        if isinstance(answer, str):
            raise RemoteError(answer)
        if answer is None:
            raise ConnectionLostError(f"the policy server at {self.address} is lost: {self.lost}; reset")
        return unpack(answer, REPLY)

    def close(self) -> None:
        self.link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- the plan in hand -----------------------------------------------------------------------------------------

    def _connect(self) -> Link:
        link = Link(self.address, self.key, self.patience)
        if link.metadata.get("server") != "mgp":
            link.close()
            raise ConnectionLostError(
                f"the server at {self.address} is not `mgp serve`: ask it with openpi's own client"
            )
        return link

    def _begin(self, seed: int, episode: str | int | None) -> None:
        self._opening: dict[str, Any] = {"reset": True, "seed": seed, "episode": episode}  # goes with the next request
        self._plan = np.empty((0, 0), np.float32)  # (T, A) of the last reply
        self._position = 0  # actions of it that were run
        self._since = 0  # actions run since the question that has no answer yet
        self._step = 0  # control step
        self._last: np.ndarray | None = None  # command of this episode

    def _ask(self, frame: Mapping[str, Any] | None, time: float, first: bool) -> bool:
        """False if the frame cannot be sent at all; once the robot moves that is no reason to stop in mid-air."""
        mgp = {**self._opening, "step": self._step, "executed": self._position, "beyond": self.bridge, "time": time}
        mgp |= {"missing": frame is None, "sent": clock.monotonic()}
        if not first:
            mgp["deadline"] = 1000 * self.timeout
        try:
            message = pack({**(frame or {}), "mgp": mgp})
        except MessageError as error:
            if first:
                raise
            self.reason = f"bad frame: {error}"
            return False
        self._since = 0
        self.link.ask(message, self.patience if first else self.lost_after)
        return True

    def _collect(self, timeout: float) -> bool:
        """Take the answer if it comes in time. What was run since it was asked for is not run again."""
        answer = self.link.answer(timeout)
        if answer is None:
            self.reason = f"lost: {self.lost}" if self.lost else "late" if self.link.waiting else self.reason
            return False
        if isinstance(answer, str):
            self.reason = answer
            return False
        try:
            self._plan, self._position = self._actions(answer), self._since
        except MessageError as error:
            self.reason = f"bad reply: {error}"
            return False
        self._opening, self.reason = {}, ""
        return True

    def _actions(self, answer: bytes) -> np.ndarray:
        """(T, A) of a reply, if a robot can run them."""
        actions, width = unpack(answer, REPLY).get("actions"), self.metadata["action_width"]
        if not isinstance(actions, np.ndarray) or actions.ndim != 2 or actions.shape[1] != (width or actions.shape[1]):
            raise MessageError(f"no actions of {width} numbers")
        if not np.isfinite(actions).all():
            raise MessageError("actions with NaN or Inf")
        return actions

    def _next(self, fresh: bool) -> np.ndarray:
        if self._position < len(self._plan) and not self.lost:
            self.status = "fresh" if fresh else "plan"
            action = self._plan[self._position].copy()
            self._position, self._since = self._position + 1, self._since + 1
        else:
            self.status, action = "hold", self._held()
        self.counts[self.status] += 1
        self._last = action
        return action

    def _held(self) -> np.ndarray:
        """The action that keeps still; where there is none, the last command goes on."""
        assert self._last is not None
        hold = self.metadata["hold"] or [None] * len(self._last)
        return np.array(
            [last if still is None else still for still, last in zip(hold, self._last, strict=True)], np.float32
        )

    def _give_up(self) -> None:
        """Nothing was commanded in this episode, so that nothing moves: better an error than a guess."""
        if self.lost or self.link.waiting:
            why = self.lost or f"no answer in {self.patience} s"
            raise ConnectionLostError(f"the policy server at {self.address} gave no first action: {why}; reset")
        raise RemoteError(self.reason)
