"""PRISE (Zheng et al. 2024): single actions become codes that mean something in a state, byte-pair encoding joins codes
to skills, and a policy chooses skills; each code of one is decoded with what is seen when its turn comes.

B windows or episodes, O of them observed, H frames, C condition width, K steps ahead, A action width, D latent width,
N codes, V vocabulary, T flat time of the demonstrations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mgp.config import Sampling, TrainingConfig, not_negative, positive
from mgp.data.demonstrations import Demonstrations
from mgp.data.spec import DataSpec
from mgp.data.windows import Batch, Source, Trajectories, recorded
from mgp.graph import graph
from mgp.model.encoders.state import mlp
from mgp.model.gpt import GPT, GPTConfig
from mgp.model.state_codes import StateCodes
from mgp.policies.acting import acting
from mgp.policies.base import Chunk, Frame, Memory
from mgp.policies.config import ABSOLUTE, AUGMENTATION, ENCODER, Method, PolicyConfig, RunConfig, released
from mgp.policies.learned import Figures, LearnedMemory, LearnedPolicy, Stage
from mgp.sampling.sampler import draw
from mgp.tokenizer.bpe import Skills

BLOCK = 512  # times that are encoded at once


@dataclass(frozen=True)
class PRISESampling(Sampling):
    execution_horizon: int = 1  # each code of a skill is decoded with a new look
    temperature: float = 0.0  # of the choice among skills; 0 = the likeliest, as released

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(self, "temperature")


@dataclass(frozen=True)
class PRISEConfig(PolicyConfig):
    name: ClassVar[str] = "prise"
    codes: int = 10  # N, of single actions
    vocabulary: int = 200  # V, codes and skills
    longest: int = 20  # codes of a skill, at most
    frequency: int = 5  # times that a pair must be seen to become a skill
    ahead: int = 3  # K, steps that the latent dynamics look ahead
    gpt: GPTConfig = field(default_factory=lambda: GPTConfig(64, 8, 4))
    hidden: int = 256  # width of the layers of all MLPs; 1024 in the release
    steps: int = 2000  # of the first stage
    batch: int = 64  # of the first stage
    learning_rate: float = 1e-3  # of the first stage
    sampling: PRISESampling = field(default_factory=PRISESampling)

    def __post_init__(self) -> None:
        positive(self, "codes", "longest", "frequency", "ahead", "hidden", "steps", "batch", "learning_rate")
        positive(self, "vocabulary")


@dataclass
class SkillMemory(LearnedMemory):
    pending: list[list[int]] = field(default_factory=list)  # codes of each episode's skill that are still to run


class PRISE(LearnedPolicy):
    """Kept: a code an action, quantised with the latent state in view; latent dynamics of 3 steps, predicted by cosine;
    byte-pair encoding (200 tokens, at most 20 codes); then a policy over tokens on the frozen encoder, the decoder
    trained on as released, over every skill by its Gumbel-softmax share. The likeliest skill is run to its end, each
    code decoded with the current observation: a look at every step, so `execution_horizon` is 1.

    Smaller by default: MLPs of 256 (release: 1024), 2 frames (10), no dropout (.1). Otherwise: L1 decoding, the
    release's deterministic variant; the codebook follows by moving averages; the codes of a demonstration are those of
    it as recorded, also where training sees it turned. BPE is learned from the demonstrations when the last stage
    begins; its merges are a buffer. A step without an observation holds, and the skill waits with it.
    """

    Config = PRISEConfig

    def __init__(self, config: RunConfig, spec: DataSpec):
        super().__init__(config, spec)
        options, self.window = self.options, 1
        dim = options.gpt.dim
        self.encoder = self.make_encoder()
        self.embed = nn.Linear(self.encoder.dim, dim)
        self.gpt = GPT(options.gpt, config.encoder.frames)
        self.codes = StateCodes(options.codes, dim, options.hidden, spec.action)
        self.choice = mlp((dim, options.hidden, options.hidden, options.vocabulary))
        self.skills = Skills(options.codes, options.vocabulary, options.longest, options.frequency, options.ahead)
        self.auxiliary = self.make_auxiliary(options.ahead)

    @property
    def options(self) -> PRISEConfig:
        return cast(PRISEConfig, self.config.policy)

    # --- training: codes, then (without gradients) skills, then the policy over them --------------------------------

    def stages(self) -> tuple[Stage, ...]:
        options = self.options
        return (Stage("codes", options.steps, options.batch, options.learning_rate), *super().stages())

    def begin_stage(self, stage: Stage) -> dict[str, nn.Parameter]:
        self.requires_grad_(stage.name == "codes")
        self.choice.requires_grad_(stage.name == "policy")
        self.codes.decoder.requires_grad_(True)
        return {name: parameter for name, parameter in self.named_parameters() if parameter.requires_grad}

    def source(self, stage: Stage, demonstrations: Demonstrations) -> Source:
        config, ahead = self.config, self.options.ahead
        training = config.training
        if stage.name == "codes":  # the stage that teaches the encoder: 32 scenes of a batch of 64, not 8
            training = replace(training, segment=min(training.segment, 2))
        source = Trajectories(demonstrations, config.encoder, config.augmentation, training, ahead)
        source.frames = ahead + (stage.name == "codes")
        source.labels = {"token": self._learn_skills(demonstrations)} if stage.name == "policy" else {}
        return source

    @torch.no_grad()
    def _learn_skills(self, demonstrations: Demonstrations) -> Tensor:
        """Joins the codes of the demonstrations; returns the token that begins at each time (T,)."""
        self.eval()
        codes = []
        for looks, actions in recorded(demonstrations, self.config.encoder, BLOCK):
            states = self.states(self.condition(looks.to(self.device)))
            codes.append(self.codes.encode(states, self.normal_actions(actions.to(self.device))).cpu())
        strings = [part.tolist() for part in torch.cat(codes).split(demonstrations.lengths.tolist())]
        return self.skills.learn(strings)

    @graph
    def states(self, condition: Tensor) -> Tensor:
        """The condition (B, H, C) to the latent state (B, D)."""
        return self.gpt(self.embed(condition))[:, -1].float()

    def logits(self, states: Tensor) -> Tensor:
        """States (B, D) to logits of the tokens (B, V); those never learned are impossible."""
        return self.choice(states).float().masked_fill(~self.skills.known, -torch.inf)

    def loss(self, stage: Stage, batch: Batch, generator: torch.Generator) -> tuple[Tensor, Figures]:
        actions, inside = self.normal_actions(batch.actions), batch.inside.float()  # (B, K, A), (B, K)
        self.gpt.train(stage.name == "codes")  # frozen afterwards: no dropout
        with torch.set_grad_enabled(stage.name == "codes"):
            condition = self.condition(batch.looks, generator)
            states = self.states(condition).unflatten(0, (len(actions), -1))  # (B, K or K + 1, D)
        if stage.name == "codes":
            loss, figures = self.codes.loss(states, actions, inside, generator)
            now = condition.unflatten(0, (len(actions), -1))[:, 0]
            auxiliary, more = self.auxiliary_loss(now, batch.actions)
            return loss + auxiliary, figures | more
        logits, token = self.logits(states[:, 0]), batch.extra["token"]
        choice = F.cross_entropy(logits, token)
        uniform = torch.rand(logits.shape, generator=generator).clamp(1e-10, 1 - 1e-7).to(logits.device)
        share = (logits - (-uniform.log()).log()).softmax(-1)  # (B, V), of each skill by Gumbel's noise
        # every skill decodes code by code, and there are few codes: each is decoded once, for all skills that have it
        weight = (share @ self.skills.table.flatten(1)).unflatten(1, self.skills.table.shape[1:])  # (B, K, N)
        error = self.codes.errors(states, actions) * inside[..., None]
        decoding = (weight * error).sum((1, 2)).mean()
        accuracy = (logits.argmax(-1) == token).float().mean()
        return choice + decoding, {"choice": choice, "decoding": decoding, "accuracy": accuracy}

    # --- acting -----------------------------------------------------------------------------------------------------

    def begin(self, seeds: Sequence[int]) -> SkillMemory:
        return SkillMemory(**vars(super().begin(seeds)), pending=[[] for _ in seeds])

    @acting
    def plan(
        self, observation: Frame, memory: Memory, observed: np.ndarray | None = None, executed: int | None = None
    ) -> Chunk:
        assert isinstance(memory, SkillMemory)
        looks, seen = self.look(observation, memory, observed)
        actions = self.holding(memory)[:, None].copy()  # (B, 1, A)
        if looks is not None:
            rows = np.flatnonzero(seen)
            pending = [memory.pending[row] for row in rows]
            generators = [memory.generators[row] for row in rows]
            actions[seen] = self._run(self.condition(looks, memory=memory), generators, pending).cpu().numpy()
        return Chunk(actions, 1)

    def predict(self, condition: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """The first action of a new skill."""
        return self._run(condition, generators, [[] for _ in generators])

    def _run(self, condition: Tensor, generators: Sequence[torch.Generator], pending: list[list[int]]) -> Tensor:
        """The next code of each row, of a new skill where none is left, as raw actions (O, 1, A)."""
        state, words = self.states(condition), self.skills.words()
        for left, token in zip(
            pending, draw(self.logits(state), self.options.sampling.temperature, generators), strict=True
        ):
            if not left:
                left.extend(words[int(token)])
        codes = torch.tensor([left.pop(0) for left in pending], device=state.device)
        return self.raw_actions(self.codes.decode(state, codes))[:, None]


POLICY = PRISE
METHODS = {
    # 9 minutes of one core, 4 of them for the codes
    "prise": Method(
        PRISEConfig(),
        ENCODER,
        AUGMENTATION,
        TrainingConfig(3000, early=2.0, auxiliary=5.0, learning_rate=1e-3),
        ABSOLUTE,
    ),
    "paper-prise": released(
        PRISEConfig(gpt=GPTConfig(64, 8, 4, dropout=0.1), hidden=1024, steps=200_000, batch=512, learning_rate=1e-4),
        TrainingConfig(steps=30_000, batch=512, learning_rate=1e-4),
        history=10,
    ),
}
