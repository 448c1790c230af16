"""Accuracy of tokenised actions (paper, appendix): error, codes in use, and replay in the environment."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tqdm import tqdm

from mgp.data.demonstrations import Demonstrations
from mgp.envs.base import RobotEnv
from mgp.errors import DataError
from mgp.policies.mgp import MGP


@torch.no_grad()
def evaluate_tokenizer(
    policy: MGP, demonstrations: Demonstrations, env: RobotEnv | None, episodes: Sequence[int] | None = None
) -> dict[str, float]:
    """Each episode cut into windows as the policy sees them, tokenised and decoded; with an environment, replayed."""
    if env is not None and not demonstrations.seeds:
        raise DataError("the demonstrations do not say their seeds, so they cannot be replayed")
    tokenizer = policy.options.tokenizer
    length = policy.tokens * tokenizer.actions_per_token if policy.long else tokenizer.window
    chosen = range(len(demonstrations.ends)) if episodes is None else episodes
    used: set[int] = set()
    absolute, squared, solved, originals = [], [], 0, 0
    for episode in tqdm(chosen, desc="tokenizer" if env is None else "replay"):
        begin, end = int(demonstrations.starts[episode]), int(demonstrations.ends[episode])
        starts = torch.arange(begin, end, length)
        raw = demonstrations.action_windows(starts, length, torch.full_like(starts, episode))
        tokens = policy.tokenize(raw)
        used |= set(tokens.flatten().tolist())
        back = policy.actions(tokens.to(policy.device)).cpu()
        error = (back - raw).flatten(0, 1)[: end - begin]
        absolute.append(error.abs().mean())
        squared.append(error.square().mean())
        if env is not None:
            seed = demonstrations.seeds[episode]
            solved += _replay(env, seed, back.flatten(0, 1)[: end - begin].numpy())
            originals += _replay(env, seed, demonstrations.arrays["action"][begin:end].numpy())
    count = len(chosen)
    figures = {
        "l1": float(torch.stack(absolute).mean()),
        "l2": float(torch.stack(squared).mean()),
        "codes_in_use": float(len(used)),
        "codes": float(tokenizer.codes),
        "episodes": float(count),
    }
    replayed = {"replay_success": solved / count, "replay_of_originals": originals / count}
    return figures if env is None else figures | replayed


def _replay(env: RobotEnv, seed: int, actions) -> bool:
    """Whether a fixed sequence of actions solves the episode of a seed."""
    env.reset(seed=seed)
    for action in actions:
        _, terminated, truncated, info = env.advance(action)
        if info["success"]:
            return True
        if terminated or truncated:  # e.g. a wrong button: an episode that is over must not be stepped
            return False
    return False
