"""A network that fits its demonstrations, before any training."""

from __future__ import annotations

import numpy as np
import torch

from mgp.config import Config
from mgp.data.demonstrations import Demonstrations
from mgp.data.normalizer import Normalizer
from mgp.errors import ConfigError
from mgp.model.network import MGPNetwork


def build_network(config: Config, demonstrations: Demonstrations) -> MGPNetwork:
    """Fresh weights from the seed, with the demonstrations' limits in the normaliser."""
    arrays = demonstrations.arrays
    if "cloud" in arrays and (arrays["cloud"].shape[-1] > 3) != config.encoder.colour:
        raise ConfigError(
            f"encoder.colour = {config.encoder.colour}, but the demonstrations' clouds have {arrays['cloud'].shape[-1]}"
            " numbers a point (3: xyz, 6: with colours): read them by Demonstrations.from_store(store,"
            f" colour={config.encoder.colour}), or change encoder.colour"
        )
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        widths = {"action": arrays["action"].shape[-1], "state": 1} | (
            {"cloud": arrays["cloud"].shape[-1]} if "cloud" in arrays else {}
        )
        probe = MGPNetwork(config, widths)  # only to put arrays into the chosen frame
        times = demonstrations.history(
            torch.arange(len(arrays["state"])), config.encoder.history, config.encoder.stride, config.encoder.first
        )
        state, _ = probe.relative(arrays["state"][times], None, arrays["state"])
        fitted = {"action": arrays["action"].numpy(), "state": state.numpy()}
        if config.training.rotation or config.training.stretch:  # turned actions reach as far in x as in y
            fitted["action"] = _widened(fitted["action"])
        if "cloud" in arrays:
            fitted["cloud"] = limits = _cloud_limits(probe, demonstrations)
            if config.encoder.frame == "hand":  # zero stays the hand, where `encoder.zoom` resolves finely
                limits[:, :3] = np.abs(limits[:, :3]).max(0) * np.array([[-1.0], [1.0]])
        torch.manual_seed(config.seed)
        network = MGPNetwork(config, {key: array.shape[-1] for key, array in fitted.items()})
    network.normalizer = Normalizer.fit(fitted)
    return network


def _cloud_limits(network: MGPNetwork, demonstrations: Demonstrations) -> np.ndarray:
    """Least and greatest numbers of any point, (2, 3+), in the chosen frame; the clouds may be on disk."""
    lows, highs = [], []
    for state, cloud in demonstrations.pieces("state", "cloud"):
        seen = network.relative(state[:, None], cloud, state)[1]
        assert seen is not None
        # one axis after the other takes a seventh of the time
        lows.append(seen.amin(0).amin(0))
        highs.append(seen.amax(0).amax(0))
    return torch.stack([torch.stack(lows).amin(0), torch.stack(highs).amax(0)]).numpy()


def _widened(actions: np.ndarray) -> np.ndarray:
    """With two more rows, so that both horizontal limits are the largest horizontal displacement there is."""
    corners = np.repeat(actions[:1], 2, axis=0)
    corners[:, :2] = np.abs(actions[:, :2]).max() * np.array([[1], [-1]])
    return np.concatenate([actions, corners])
