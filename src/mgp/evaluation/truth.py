"""Which tokens of a plan a change of the scene has made wrong: the plan beside the expert's way from the same state.

The robot's commands so far are played again in the scene that changed and in its static twin, and the expert goes on in
both from where they lead. A token is *now wrong* if it lies further than WRONG from the expert's way in the scene as it
is, and did not from the expert's way in the scene as it was; it is *still right* if it does not lie so far from the
first. One that is far from both was wrong before the change, and tells nothing of it: it is left out. So are tokens
after the expert is done.

What is compared is where a token leads the hand: to a place, or by how much it displaces it. The gripper and the hand's
turning are not. Experts draw their pace and the plan has its own, so the two ways are aligned by dynamic time warping:
each step of the plan has a partner in the expert's, in the same order. T steps, A action width.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mgp.envs.base import RobotEnv

WRONG = 0.01  # metres


def play(env: RobotEnv, seed: int, actions: Iterable[np.ndarray]) -> bool:
    """An episode from its start through these actions; whether it goes on after them."""
    env.reset(seed=seed)
    for action in actions:
        _, terminated, truncated, info = env.advance(action)
        if terminated or truncated or info["success"]:
            return False
    return True


def changed_at(env: RobotEnv) -> int | None:
    """The control steps taken when the scene of the present episode changed; None: not yet."""
    return env.moves_from if env.shifted_at is None else env.shifted_at


def experts_actions(env: RobotEnv, seed: int, executed: np.ndarray) -> np.ndarray | None:
    """What the expert does (T, A) after the commands `executed`, until it has succeeded; None if it does not."""
    if not play(env, seed, executed):
        return None
    act, actions = env.expert(), []
    while True:
        actions.append(np.asarray(act()))
        _, terminated, truncated, info = env.advance(actions[-1])
        if info["success"]:
            return np.stack(actions)
        if terminated or truncated:
            return None


def led_to(actions: np.ndarray, env: RobotEnv, steps: int) -> np.ndarray:
    """Where each action (T, A) leads the hand (T, 3), in metres; displacements: those of the last `steps` together."""
    hand = env.unit * actions[:, :3].astype(float)
    if env.actions == "absolute":
        return hand
    total = np.cumsum(np.concatenate([np.zeros((steps, 3)), hand]), axis=0)
    return total[steps:] - total[:-steps]


def apart(plan: np.ndarray, expert: np.ndarray) -> np.ndarray:
    """How far each step of a plan (T, 3) lies from its partner on the expert's way (E, 3), whatever the pace of each.

    Only of the steps before the expert is done. A slow plan need not come to the expert's end.
    """
    cost = np.linalg.norm(plan[: len(expert), None] - expert[None], axis=-1)  # (T, E)
    total = np.empty_like(cost)
    total[0] = cost[0].cumsum()
    for i in range(1, len(cost)):
        total[i, 0] = total[i - 1, 0] + cost[i, 0]
        step = np.minimum(total[i - 1, 1:], total[i - 1, :-1])
        for j in range(1, len(expert)):
            total[i, j] = min(step[j - 1], total[i, j - 1]) + cost[i, j]
    nearest = np.full(len(cost), np.inf)
    i, j = len(cost) - 1, int(total[-1].argmin())
    while i >= 0 and j >= 0:
        nearest[i] = min(nearest[i], cost[i, j])
        before = {(i - 1, j - 1): np.inf, (i - 1, j): np.inf, (i, j - 1): np.inf}
        before |= {place: total[place] for place in before if min(place) >= 0}
        i, j = min(before, key=lambda place: before[place])
    return nearest


def wrong(before: float, now: float) -> bool | None:
    """Whether the change has made a token wrong that lay so many metres from the expert's ways; None: left out."""
    if now <= WRONG:
        return False
    return True if before <= WRONG else None
