"""Raw observations to the condition c_t of the paper: one embedding a frame, the same for every policy.

B windows, H frames, F distinct frames, S state width, C condition width.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from mgp.config import AugmentationConfig, EncoderConfig
from mgp.data.demonstrations import Demonstrations
from mgp.data.description import state_places
from mgp.data.frames import cloud_to_hand, state_to_hand, with_motion
from mgp.data.normalizer import Normalizer
from mgp.data.spec import DataSpec
from mgp.data.windows import Looks
from mgp.errors import ConfigError
from mgp.graph import graph
from mgp.model.encoders import ENCODERS, build_encoder, kind_of
from mgp.model.encoders.instruction import BUCKETS, bag_of_words
from mgp.model.kept import Kept


class ObservationEncoder(nn.Module):
    """An encoder for each key of the observation, concatenated for each frame; an instruction stands in every frame."""

    words: Tensor  # (I, BUCKETS) of the data's instructions

    def __init__(self, config: EncoderConfig, spec: DataSpec):
        super().__init__()
        self.config = config
        if config.frame != "world" and "state" not in spec.shapes:
            raise ConfigError(
                f"encoder.frame = {config.frame!r} needs the robot's state, the data have {sorted(spec.shapes)}:"
                " choose encoder.frame = 'world'"
            )
        if config.at_hand and not spec.places:
            raise ConfigError(
                f"encoder.frame = {config.frame!r} needs the hand's place, but the data do not say that it stands in"
                f" their state of {spec.shapes['state'][0]} numbers: write points = 1 into their metadata if these"
                " begin with it, or choose encoder.frame = 'motion' or 'world', and augmentation.rotation and"
                " stretch = 0"
            )
        self.places = spec.places
        shapes = {key: spec.shapes[key] for kind in ENCODERS for key in spec.shapes if kind_of(key) == kind}
        if "state" in shapes:
            shapes["state"] = (state_width(config, shapes["state"][0]),)
        if config.frame == "reach":
            shapes |= {key: (shape[0], shape[1] + 3) for key, shape in shapes.items() if kind_of(key) == "cloud"}
        if spec.instructions:
            shapes["instruction"] = (BUCKETS,)
        self.encoders = nn.ModuleDict({key: build_encoder(key, config, shape) for key, shape in shapes.items()})
        self.register_buffer("words", bag_of_words(spec.instructions), persistent=False)
        self.dim = config.dim * len(shapes)

    def forward(
        self,
        looks: Looks,
        normalizer: Normalizer,
        noise: Tensor | None = None,
        kept: Kept | None = None,
        apart: bool = False,
    ) -> Tensor | list[Tensor]:
        """To the condition (B, H, C); `noise` is added to the normalised state, `kept` knows frames seen before.

        `apart`: to the parts that `join` makes it of.
        """
        parts = self._parts(looks, normalizer, noise, kept)
        return parts if apart else self.join(*parts)

    def _parts(
        self, looks: Looks, normalizer: Normalizer, noise: Tensor | None = None, kept: Kept | None = None
    ) -> list[Tensor]:
        """Features (B, H, C') of all but the state, which `join` encodes.

        Places are turned to the hand's here, and not in a graph: in the bfloat16 of some engines millimetres are lost.
        """
        new = looks if kept is None or not looks.frames else kept.unseen(looks)
        state, clouds = relative(self.config, new, self.places)
        parts = []
        for key, encoder in self.encoders.items():
            if key == "state":
                assert state is not None
                normal = normalizer.normalize("state", state)
                parts.append(normal if noise is None else normal + noise)
            elif key == "instruction":
                assert looks.instruction is not None, "this encoder was built for instructions"
                text = encoder(self.words[looks.instruction])
                parts.append(text[:, None].expand(-1, looks.which.shape[1], -1))
            else:
                frames = clouds.get(key, new.frames[key])
                if key in normalizer.keys:
                    frames = normalizer.normalize(key, frames)
                encoded = encoder(frames) if len(frames) else None  # (F, C)
                if kept is not None:
                    encoded = torch.stack(kept.complete(key, encoded))
                assert encoded is not None
                parts.append(encoded[looks.which])
        return parts

    @graph
    def join(self, *parts: Tensor) -> Tensor:
        """The parts, one for each key, to the condition (B, H, C)."""
        both = zip(self.encoders.items(), parts, strict=True)
        return torch.cat([encoder(part) if key == "state" else part for (key, encoder), part in both], dim=-1)

    def noise(self, looks: Looks, scale: float, generator: torch.Generator) -> Tensor | None:
        """State noise for `forward`, None without any."""
        if not scale or looks.state is None:
            return None
        shape = (*looks.state.shape[:2], state_width(self.config, looks.state.shape[-1]))
        return scale * torch.randn(shape, generator=generator)


def state_width(config: EncoderConfig, width: int) -> int:
    hand = width + 1 + 3 * config.first
    return {"hand": hand, "reach": 2 * width, "motion": 2 * width, "world": width}[config.frame]


def relative(config: EncoderConfig, looks: Looks, places: int) -> tuple[Tensor | None, dict[str, Tensor]]:
    """State (B, H, S'), whose first triples are `places`, and clouds (F, P, 3+) in the chosen frame."""
    state, hand = looks.state, looks.hand
    if state is not None and config.frame != "world":
        # motion is that of the newest frames; the first of the episode lies too far back to be one of them
        parts = (state[:, :1], state[:, 1:]) if config.first else (state,)
        if config.frame == "hand":
            away = [state[..., :3] - state[:, :1, :3]] if config.first else []  # where the first frame was seen from
            seen = torch.cat([state_to_hand(part, places, config.causal) for part in parts], dim=1)
            state = torch.cat([seen, *away], dim=-1)
        else:
            state = torch.cat([with_motion(part, config.causal) for part in parts], dim=1)
    clouds = {key: frames for key, frames in looks.frames.items() if kind_of(key) == "cloud"}
    if config.at_hand and hand is not None:
        # where actions are places, a point's place on the table stands behind its place as seen from the hand
        beside = {key: [cloud[..., :3]] if config.frame == "reach" else [] for key, cloud in clouds.items()}
        clouds = {key: torch.cat([cloud_to_hand(clouds[key], hand), *beside[key]], dim=-1) for key in clouds}
    return state, clouds


def fit_normalizer(
    encoder: EncoderConfig, augmentation: AugmentationConfig, demonstrations: Demonstrations
) -> Normalizer:
    """Limits of the actions, and of state and clouds as the encoder sees them."""
    arrays = demonstrations.arrays
    fitted = {"action": arrays["action"].numpy()}
    if augmentation.warps:  # turned actions reach as far in x as in y
        fitted["action"] = _widened(fitted["action"])
    if "state" in arrays:
        times = demonstrations.history(torch.arange(len(arrays["action"])), encoder.history, encoder.first)
        there = state_places(demonstrations.meta, arrays["state"].shape[-1])
        state, _ = relative(encoder, Looks(arrays["state"][times], {}, times, None), there)
        assert state is not None
        fitted["state"] = state.numpy()
    for key in arrays:
        if key != "action" and kind_of(key) == "cloud":
            limits = _cloud_limits(encoder, demonstrations, key)
            if encoder.at_hand:  # zero stays the hand, where `encoder.zoom` resolves finely
                limits[:, :3] = np.abs(limits[:, :3]).max(0) * np.array([[-1.0], [1.0]])
            fitted[key] = limits
    return Normalizer.fit(fitted)


def _cloud_limits(encoder: EncoderConfig, demonstrations: Demonstrations, key: str) -> np.ndarray:
    """Least and greatest numbers of any point, (2, 3+), in the chosen frame; the clouds may be on disk."""
    lows, highs = [], []
    for pieces in demonstrations.pieces(key, *(["state"] if "state" in demonstrations.arrays else [])):
        hand = pieces[1][:, :3] if len(pieces) > 1 else None
        seen = relative(encoder, Looks(None, {key: pieces[0]}, torch.empty(0), hand), 0)[1][key]
        # one axis after the other takes a seventh of the time
        lows.append(seen.amin(0).amin(0))
        highs.append(seen.amax(0).amax(0))
    return torch.stack([torch.stack(lows).amin(0), torch.stack(highs).amax(0)]).numpy()


def _widened(actions: np.ndarray) -> np.ndarray:
    """With two more rows, so that both horizontal limits are the largest horizontal displacement there is."""
    corners = np.repeat(actions[:1], 2, axis=0)
    corners[:, :2] = np.abs(actions[:, :2]).max() * np.array([[1], [-1]])
    return np.concatenate([actions, corners])
