"""The seven ablations of the paper's appendix: which option of which method is varied, over which values and tasks."""

from __future__ import annotations

from typing import Any, NamedTuple

from mgp.envs.metaworld_dynamic import MOTIONS

HARD = ("assembly", "hand-insert", "pick-out-of-hole", "pick-place", "push")
VERY_HARD = ("shelf-place", "disassemble", "stick-pull", "stick-push", "pick-place-wall")
# each scene that moves from the first step on, and the static task it is a twin of
STATIC = {name: motion.task for name, motion in MOTIONS.items() if not motion.start}
SAMPLING = "policy.sampling."


class Ablation(NamedTuple):
    method: str
    option: str  # by its dotted name
    values: tuple[Any, ...]
    tasks: tuple[str, ...]

    @property
    def trained(self) -> bool:
        """Whether each value needs a training of its own; how a policy is sampled does not."""
        return not self.option.startswith(SAMPLING)

    @property
    def word(self) -> str:
        """The option as rows say it: as `mgp eval` does, or as `mgp train` does."""
        return self.option if self.trained else self.option.removeprefix(SAMPLING)


ABLATIONS = {
    "short-refine-steps": Ablation("mgp-short", "policy.sampling.refine_steps", (1, 2, 3), HARD),
    "short-codes": Ablation("mgp-short", "policy.tokenizer.codes", (512, 1024, 2048), VERY_HARD),
    "short-actions-per-token": Ablation("mgp-short", "policy.tokenizer.actions_per_token", (2, 4, 8), VERY_HARD),
    "long-refine-steps": Ablation(
        "mgp-long", "policy.sampling.refine_steps", (1, 2, 3), tuple(f"metaworld-dynamic/{name}" for name in STATIC)
    ),
    "long-mask-ratio": Ablation("mgp-long", "policy.sampling.mask_ratio", (0.5, 0.7, 0.85), VERY_HARD),
    "long-scoring": Ablation("mgp-long", "policy.sampling.scoring", ("random", "reuse", "atr"), (*HARD, *VERY_HARD)),
    "long-execution-step": Ablation("mgp-long", "policy.sampling.execution_horizon", (4, 12, 36), HARD),
}
