"""Predictions against recordings that were not learned from: for robots without a simulator.

The policy is shown a recorded episode as if it drove it. At every plan, what it would do from then on is set against
what was done, so that the error is known for each step ahead. The robot is where the recording has it, not where the
policy would have brought it: a small error here is needed for success, and does not prove it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from mgp.data.demonstrations import Demonstrations
from mgp.errors import DataError
from mgp.files import write_atomic
from mgp.policies.driver import Driver
from mgp.policies.learned import LearnedPolicy
from mgp.policies.mgp import MGP

FIGURES, PICTURE = "open-loop.json", "open-loop.png"  # in RUN/eval
AHEAD = 32  # steps ahead that are kept at most
SHOWN = (1, 2, 4, 8, 16, AHEAD)  # and those of them that people are shown


@dataclass(frozen=True)
class OpenLoop:
    """Mean absolute errors, actions normalised to [-1, 1]; the yardstick is a robot that repeats its last action."""

    method: str
    task: str
    episodes: int
    plans: int
    error: float  # of the actions that would be run
    error_by_step: list[float]  # (T,) by how far ahead of the plan's observation
    repeating: float  # the same as `error` of one that repeats the action before each plan
    error_by_number: list[float]  # (A,) in the data's own units, of the actions that would be run
    tokens: float | None  # share of tokens that are those of the recording; None without a tokenizer

    def save(self, path: Path) -> None:
        write_atomic(path, json.dumps(asdict(self), indent=1).encode())

    @classmethod
    def load(cls, path: Path) -> OpenLoop:
        try:
            return cls(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError) as error:
            raise DataError(f"{path} is no open-loop evaluation of mgp ({error}): run `mgp eval` again") from error


@dataclass(frozen=True)
class Follow:
    """One recorded episode and the plans made along it."""

    recorded: np.ndarray  # (T, A)
    starts: list[int]  # when each plan was made
    plans: list[np.ndarray]  # each (T', A), up to the episode's end
    run: int  # actions of each that would be run


def follow(policy: LearnedPolicy, demonstrations: Demonstrations, episode: int) -> Follow:
    """Show the policy a recorded episode, and note its plans."""
    arrays = demonstrations.arrays
    begin, end = int(demonstrations.starts[episode]), int(demonstrations.ends[episode])
    recorded = arrays["action"][begin:end].numpy()
    driver = Driver(policy, [episode])
    text = {"instruction": demonstrations.instructions[episode]} if demonstrations.instructions else {}
    starts, plans = [], []
    for step in range(end - begin):
        frame = {key: arrays[key][begin + step].numpy() for key in policy.observation_shapes}
        driver.see(0, {**frame, **text})
        if driver.due:
            plans.append(driver.plan().actions[0, : end - begin - step])
            starts.append(step)
        driver.take()
        driver.amend(recorded[step][None])  # the recording drives
    return Follow(recorded, starts, plans, policy.execution_horizon)


def open_loop(
    policy: LearnedPolicy, demonstrations: Demonstrations, episodes: Sequence[int], progress: bool = True
) -> OpenLoop:
    if not len(episodes):
        raise DataError("no episodes were kept apart: train with --task.held-out 2, say")
    scale = policy.normalizer.action_scale.cpu().numpy()  # type: ignore[operator]
    by_step: list[list[float]] = [[] for _ in range(AHEAD)]
    executed, repeated, raw, matches = [], [], [], []
    plans = 0
    for episode in tqdm(episodes, desc="open loop", unit="episode", disable=not progress):
        seen = follow(policy, demonstrations, episode)
        plans += len(seen.plans)
        for start, plan in zip(seen.starts, seen.plans, strict=True):
            difference = np.abs(plan - seen.recorded[start : start + len(plan)])  # (T', A)
            for ahead, error in enumerate((difference * scale).mean(1)[:AHEAD]):
                by_step[ahead].append(float(error))
            executed.append((difference * scale)[: seen.run].mean())
            raw.append(difference[: seen.run].mean(0))
            before = seen.recorded[max(start - 1, 0)]
            stays = np.abs(before - seen.recorded[start : start + seen.run]) * scale
            repeated.append(stays.mean())
            if isinstance(policy, MGP):
                matches += _same_tokens(policy, plan, seen.recorded[start : start + len(plan)])
    return OpenLoop(
        method=policy.label,
        task=policy.config.task.name,
        episodes=len(episodes),
        plans=plans,
        error=float(np.mean(executed)),
        error_by_step=[float(np.mean(errors)) for errors in by_step if errors],
        repeating=float(np.mean(repeated)),
        error_by_number=np.mean(raw, axis=0).tolist(),
        tokens=float(np.mean(matches)) if matches else None,
    )


def _same_tokens(policy: MGP, plan: np.ndarray, recorded: np.ndarray) -> list[bool]:
    """Whether planned and recorded actions (T, A) are the same tokens, over those that would be run."""
    per = policy.options.tokenizer.actions_per_token
    length = min(len(plan), max(policy.execution_horizon, per)) // per * per
    if not length:
        return []
    both = torch.from_numpy(np.stack([plan[:length], recorded[:length]]))
    planned, real = policy.tokenize(both)
    return (planned == real).tolist()
