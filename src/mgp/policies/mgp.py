"""MGP behind the policy contract: MGP-Short and MGP-Long share everything but how they sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mgp.config import Config, SamplingConfig
from mgp.data.demonstrations import keyed_generator
from mgp.errors import ConfigError, ObservationError
from mgp.model.network import MGPNetwork
from mgp.policies.base import PlanTrace, Policy, check_observation
from mgp.policies.files import load_network, save_network
from mgp.sampling.long import FIRST_MISSING, Edit, LongPlanner
from mgp.sampling.sampler import likeness
from mgp.sampling.short import plan_short


class MGP(Policy):
    """B episodes, H frames, N tokens, A action width."""

    def __init__(
        self,
        network: MGPNetwork,
        observation_shapes: dict[str, tuple[int, ...]],
        hold: np.ndarray,
        sampling: SamplingConfig | None = None,
        device: str = "cpu",
    ):
        config = network.config
        self.config: Config = replace(config, sampling=sampling or config.sampling)
        self.network = network.eval().to(device)
        self.device = torch.device(device)
        self.history = (config.encoder.history - 1) * config.encoder.stride + 1
        self.execution_horizon = self.config.sampling.execution_horizon
        self.observation_shapes = dict(observation_shapes)
        self.hold = np.asarray(hold, dtype=np.float32)  # (A,) NaN where the last command goes on, as a gripper's
        self._alike = likeness(network.tokenizer.codebook.codes.detach().cpu(), self.config.sampling.near_codes)
        self.reset([0])

    def reset(self, seeds: Sequence[int]) -> None:
        self._forget()
        self._first: dict[str, np.ndarray] = {}  # the first frame of each episode (B, 1, ...)
        self._generators = [keyed_generator(self.config.seed, seed) for seed in seeds]
        self._last = np.tile(np.nan_to_num(self.hold), (len(seeds), 1))  # (B, A) last command of each episode
        self._planner = LongPlanner(
            self.config.sampling, self.network.transformer.vocabulary, self.config.tokens, self._generators, self._alike
        )

    @torch.inference_mode()
    def plan(self, observation: dict[str, np.ndarray], observed: np.ndarray | None = None) -> np.ndarray:
        condition, seen = self._look(observation, observed)
        actions = self._long(condition, seen) if self.config.policy == "long" else self._short(condition, seen)
        self._last = actions[:, -1].copy()
        return actions

    @torch.inference_mode()
    def what_if(
        self, observation: dict[str, np.ndarray], observed: np.ndarray | None = None, **changes: object
    ) -> Edit | None:
        """The edit that `plan` would make of MGP-Long's plan if sampled otherwise, e.g. `scoring="inverse"`.

        Nothing comes of it: neither plan nor random streams change. None where there is nothing to edit: no plan yet,
        the plan is over, nothing was observed, or `variant` is "full", which never edits.
        """
        if self.config.policy != "long":
            raise ConfigError("MGP-Short keeps no plan that could be edited: ask an MGP-Long (policy = 'long')")
        condition, seen = self._look(observation, observed)
        return self._planner.what_if(
            lambda tokens, executed: self._logits(tokens, condition, executed), torch.from_numpy(seen), **changes
        )

    @torch.inference_mode()
    def decoded(self, plan: Tensor) -> Tensor:
        """Whole plans (B, N) as the actions of their tokens (B, N, actions, A), normalised; NaN where they are over."""
        codes, over = self._codes(plan)
        actions = self.network.decoded(codes).cpu().unflatten(1, (plan.shape[1], -1))
        return actions.masked_fill(over[:, :, None, None], torch.nan)

    def _look(
        self, observation: dict[str, np.ndarray], observed: np.ndarray | None
    ) -> tuple[Tensor | None, np.ndarray]:
        """The condition (O, H, C) of the observed episodes, None without any, and which these are (B,)."""
        batch = len(self._generators)
        seen = np.ones(batch, dtype=bool) if observed is None else np.asarray(observed, dtype=bool)
        if seen.shape != (batch,):
            raise ObservationError(
                f"observed has shape {seen.shape} for {batch} episodes: reset with one seed for each"
            )
        arrays = self._seen(observation)
        for key, value in arrays.items():
            if value.shape[:2] != (batch, self.history):
                raise ObservationError(
                    f"{key!r} has shape {value.shape}: need ({batch}, {self.history}, ...), a row for each episode"
                    " begun with `reset` and a column for each frame of history"
                )
        frames = {key: value[seen] for key, value in arrays.items()}
        check_observation(frames, self.observation_shapes, leading=2)
        frames = {key: value[:, :: self.config.encoder.stride] for key, value in frames.items()}
        if self.config.encoder.first:
            if not self._first:
                if not seen.all():
                    raise ObservationError(FIRST_MISSING)
                self._first = {key: value[:, -1:].copy() for key, value in frames.items()}
            frames = {key: np.concatenate([self._first[key][seen], value], 1) for key, value in frames.items()}
        return self._condition(frames) if seen.any() else None, seen

    def _seen(self, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Without the colours of a cloud if the policy was trained without."""
        seen = super()._seen(observation)
        if "cloud" in seen and not self.config.encoder.colour:
            seen["cloud"] = seen["cloud"][..., :3]
        return seen

    def _condition(self, arrays: dict[str, np.ndarray]) -> Tensor:
        """The condition (O, H, C) of the O episodes with an observation."""
        tensors = {
            key: torch.as_tensor(value, dtype=torch.float32, device=self.device) for key, value in arrays.items()
        }
        return self.network.condition(tensors["state"], tensors.get("cloud"), tensors["state"])

    def _logits(self, tokens: Tensor, condition: Tensor | None, executed: Tensor) -> Tensor:
        assert condition is not None, "no episode was observed, so none is replanned"
        out = self.network.transformer(tokens.to(self.device), condition, executed.to(self.device))
        return out.cpu()

    def _short(self, condition: Tensor | None, seen: np.ndarray) -> np.ndarray:
        """The window starts at the oldest frame; what lies before now is not executed. Unseen episodes hold."""
        start, run = self.config.past, self.execution_horizon
        actions = np.repeat(self._holding()[:, None], run, axis=1)  # (B, run, A)
        if condition is None:
            return actions
        nothing = torch.zeros(len(condition), dtype=torch.long)
        out = plan_short(
            lambda tokens: self._logits(tokens, condition, nothing),
            len(condition),
            self.config.tokens,
            self.config.sampling,
            self.network.transformer.vocabulary,
            [generator for generator, one in zip(self._generators, seen, strict=True) if one],
        )
        window = self.network.actions(out.tokens.to(self.device))  # (O, T, A)
        actions[seen] = window[:, start : start + run].cpu().numpy()
        return actions

    def _long(self, condition: Tensor | None, seen: np.ndarray) -> np.ndarray:
        per, run = self.config.tokenizer.actions_per_token, self.execution_horizon
        start = self._planner.executed
        plan = self._planner.step(
            lambda tokens, executed: self._logits(tokens, condition, executed), torch.from_numpy(seen), run // per
        )
        codes, over = self._codes(plan)
        actions = self.network.actions(codes).cpu().numpy()  # (B, T, A)
        steps = np.arange(start * per, start * per + run)
        chosen = actions[:, np.minimum(steps, actions.shape[1] - 1)]
        ended = (steps >= actions.shape[1]) | over.numpy()[:, np.minimum(steps // per, plan.shape[1] - 1)]
        if not ended.any():
            return chosen
        out = np.empty_like(chosen)
        for step in range(run):
            out[:, step] = np.where(ended[:, step, None], self._holding(), chosen[:, step])
            self._last = out[:, step]
        return out

    def _codes(self, plan: Tensor) -> tuple[Tensor, Tensor]:
        """Codes of a plan, and which of its tokens are over; both (B, N).

        [END] and what follows are never decoded: the last code stands in, and those steps hold position.
        """
        codes = self.network.transformer.vocabulary.codes
        over = (plan >= codes).cummax(1).values
        last = torch.where(over, 0, torch.arange(plan.shape[1])).cummax(1).values
        return plan.gather(1, last).clamp_max(codes - 1).to(self.device), over

    def _holding(self) -> np.ndarray:
        """(B, A) the action that keeps each robot where it is."""
        return np.where(np.isnan(self.hold), self._last, self.hold)

    def trace(self, episode: int) -> PlanTrace | None:
        log = self._planner.log
        if self.config.policy != "long" or not log:
            return None
        return PlanTrace(**{key: np.stack([entry[key][episode] for entry in log]) for key in log[0]})

    def with_sampling(self, **changes: object) -> MGP:
        """The same weights, sampled otherwise: `policy.with_sampling(variant="full", temperature=0.5)`."""
        sampling = self.config.sampling.changed(**changes)
        return MGP(self.network, self.observation_shapes, self.hold, sampling, str(self.device))

    def save(self, folder: Path) -> None:
        """As it is sampled now, so that `load` gives the same actions."""
        save_network(self.network, folder, self.observation_shapes, self.hold, self.config.sampling)

    @classmethod
    def load(cls, folder: Path, sampling: SamplingConfig | None = None, device: str = "cpu") -> MGP:
        network, shapes, hold, saved = load_network(folder)
        return cls(network, shapes, hold, sampling or saved, device)
