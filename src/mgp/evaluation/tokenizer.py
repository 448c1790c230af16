"""Accuracy of tokenised actions (paper, appendix): error, codes in use, and replay in the environment."""

from __future__ import annotations

import torch
from tqdm import tqdm

from mgp.data.demonstrations import Demonstrations
from mgp.envs.base import RobotEnv
from mgp.errors import DataError
from mgp.model.network import MGPNetwork


@torch.no_grad()
def evaluate_tokenizer(network: MGPNetwork, demonstrations: Demonstrations, env: RobotEnv) -> dict[str, float]:
    """Each demonstration cut into windows as the policy sees them, tokenised, decoded, and replayed from its seed."""
    if not demonstrations.seeds:
        raise DataError("the demonstrations do not say their seeds, so they cannot be replayed")
    config, per = network.config, network.config.tokenizer.actions_per_token
    length = config.tokenizer.window if config.policy == "short" else config.tokens * per
    used: set[int] = set()
    absolute, squared, solved, originals = [], [], 0, 0
    for episode, seed in enumerate(tqdm(demonstrations.seeds, desc="replay")):
        begin, end = int(demonstrations.starts[episode]), int(demonstrations.ends[episode])
        starts = torch.arange(begin, end, length)
        raw = demonstrations.action_windows(starts, length, torch.full_like(starts, episode))
        tokens = network.tokenizer.encode(network.normalizer.normalize("action", raw))
        used |= set(tokens.flatten().tolist())
        back = network.actions(tokens)
        error = (back - raw).flatten(0, 1)[: end - begin]
        absolute.append(error.abs().mean())
        squared.append(error.square().mean())
        solved += _replay(env, seed, back.flatten(0, 1)[: end - begin].numpy())
        originals += _replay(env, seed, demonstrations.arrays["action"][begin:end].numpy())
    count = len(demonstrations.seeds)
    return {
        "l1": float(torch.stack(absolute).mean()),
        "l2": float(torch.stack(squared).mean()),
        "codes_in_use": float(len(used)),
        "codes": float(config.tokenizer.codes),
        "replay_success": solved / count,
        "replay_of_originals": originals / count,
        "episodes": float(count),
    }


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
