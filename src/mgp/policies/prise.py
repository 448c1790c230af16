"""PRISE (Zheng et al. 2024): single actions become codes that mean something in a state, byte-pair encoding joins codes
to skills, and a policy chooses skills; each code of one is decoded with what is seen when its turn comes.

B windows or episodes, O of them observed, H frames, C condition width, K steps ahead, A action width, D latent width,
N codes, V vocabulary, T flat time of the demonstrations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mgp.config import AugmentationConfig, Sampling, TrainingConfig, not_negative, positive
from mgp.data.demonstrations import Demonstrations
from mgp.data.spec import DataSpec
from mgp.data.windows import Batch, Sample, Source, Trajectories, Windows
from mgp.model.encoders.state import mlp
from mgp.model.gpt import GPT, GPTConfig, draw
from mgp.policies.base import Chunk, Frame, Memory
from mgp.policies.config import ABSOLUTE, AUGMENTATION, ENCODER, Method, PolicyConfig, RunConfig, released
from mgp.policies.learned import Figures, LearnedMemory, LearnedPolicy, Stage
from mgp.tokenizer import bpe
from mgp.tokenizer.state_codes import StateCodes

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
    gpt: GPTConfig = field(default_factory=lambda: GPTConfig(64, 8, 4, dropout=0.1))
    hidden: int = 256  # width of the layers of all MLPs; 1024 in the release
    steps: int = 1500  # of the first stage
    batch: int = 64  # of the first stage
    learning_rate: float = 1e-3  # of the first stage
    sampling: PRISESampling = field(default_factory=PRISESampling)

    def __post_init__(self) -> None:
        positive(self, "codes", "longest", "frequency", "ahead", "hidden", "steps", "batch", "learning_rate")
        positive(self, "vocabulary")


@dataclass
class SkillMemory(LearnedMemory):
    pending: list[list[int]] = field(default_factory=list)  # codes of each episode's skill that are still to run


class SkillWindows(Trajectories):
    tokens: Tensor  # (T,) the skill that begins at each time

    def extra(self, sample: Sample, actions: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        return {"token": self.tokens[sample.time]}


class PRISE(LearnedPolicy):
    """Kept: a code an action, quantised with the latent state in view; latent dynamics of 3 steps, predicted by cosine;
    byte-pair encoding (200 tokens, at most 20 codes); then a policy over tokens on the frozen encoder, the decoder
    trained on as released, over every skill by its Gumbel-softmax share. The likeliest skill is run to its end, each
    code decoded with the current observation: a look at every step, so `execution_horizon` is 1.

    Smaller by default: MLPs of 256 (release: 1024), 2 frames (10). Otherwise: L1 decoding, the release's deterministic
    variant; the codebook follows by moving averages; the codes of a demonstration are those of it as recorded, also
    where training sees it turned. BPE is learned from the demonstrations when the last stage begins; its merges are a
    buffer. A step without an observation holds, and the skill waits with it.
    """

    Config = PRISEConfig
    merges: Tensor  # (V - N, 2), -1 where nothing more was merged
    table: Tensor  # (V, K, N) 1 where the k-th code of a token is n

    def __init__(self, config: RunConfig, spec: DataSpec):
        super().__init__(config, spec)
        options, self.window = self.options, 1
        dim = options.gpt.dim
        self.encoder = self.make_encoder()
        self.embed = nn.Linear(self.encoder.dim, dim)
        self.gpt = GPT(options.gpt, config.encoder.frames)
        self.codes = StateCodes(options.codes, dim, options.hidden, spec.action)
        self.skill = mlp((dim, options.hidden, options.hidden, options.vocabulary))
        self.register_buffer("merges", torch.full((options.vocabulary - options.codes, 2), -1))
        self.register_buffer("table", torch.zeros(options.vocabulary, options.ahead, options.codes))
        self.auxiliary = self.make_auxiliary(options.ahead)

    @property
    def options(self) -> PRISEConfig:
        return cast(PRISEConfig, self.config.policy)

    @property
    def sampling(self) -> PRISESampling:
        return self.options.sampling

    # --- training: codes, then (without gradients) skills, then the policy over them --------------------------------

    def stages(self) -> tuple[Stage, ...]:
        options = self.options
        return (Stage("codes", options.steps, options.batch, options.learning_rate), *super().stages())

    def begin_stage(self, stage: Stage) -> dict[str, nn.Parameter]:
        late = ("skill.", "codes.decoder.")
        for name, parameter in self.named_parameters():
            parameter.requires_grad_(name.startswith(late) if stage.name == "policy" else not name.startswith("skill."))
        return {name: parameter for name, parameter in self.named_parameters() if parameter.requires_grad}

    def source(self, stage: Stage, demonstrations: Demonstrations) -> Source:
        config, ahead = self.config, self.options.ahead
        rest = (demonstrations, config.encoder, config.augmentation, config.training, ahead)
        if stage.name == "codes":
            states = Trajectories(*rest)
            states.frames = ahead + 1
            return states
        source = SkillWindows(*rest)
        source.frames, source.tokens = ahead, self._learn_skills(demonstrations)
        return source

    @torch.no_grad()
    def _learn_skills(self, demonstrations: Demonstrations) -> Tensor:
        """Sets `merges`; returns the first token of what follows each time (T,)."""
        options, config = self.options, self.config
        self.eval()
        plain = Windows(demonstrations, config.encoder, AugmentationConfig(0, 0.0), config.training, 1)
        codes = []
        for time in torch.arange(int(demonstrations.ends[-1])).split(BLOCK):
            episode = demonstrations.episode_of(time)
            times = demonstrations.history(time, config.encoder.history, 1, config.encoder.first)
            looks = plain.look(times, Sample(time, episode, torch.zeros_like(time), None), torch.Generator())
            actions = self.normal_actions(demonstrations.arrays["action"][time].to(self.device))
            codes.append(self.codes.encode(self.states(self.condition(looks.to(self.device))), actions).cpu())
        strings = [part.tolist() for part in torch.cat(codes).split(demonstrations.lengths.tolist())]
        merges = bpe.learn(strings, options.codes, options.vocabulary, options.longest, options.frequency)
        self.merges.fill_(-1)[: len(merges)] = torch.tensor(merges, dtype=torch.long).reshape(-1, 2)
        self.table.zero_()
        for token, word in enumerate(self.words()):
            for step, code in enumerate(word[: options.ahead]):
                self.table[token, step, code] = 1.0
        first = lru_cache(None)(lambda string: bpe.encode(string, merges, options.codes)[0])
        reach = 2 * options.longest  # what lies further ahead does not change the first token, but in odd cases
        return torch.tensor([first(tuple(one[at : at + reach])) for one in strings for at in range(len(one))])

    def words(self) -> list[tuple[int, ...]]:
        """The codes of each token that was learned."""
        merges = [(left, right) for left, right in self.merges.tolist() if left >= 0]
        return bpe.words(merges, self.options.codes)

    def states(self, condition: Tensor) -> Tensor:
        """The condition (B, H, C) to the latent state (B, D)."""
        return self.gpt(self.embed(condition))[:, -1].float()

    def skills(self, state: Tensor) -> Tensor:
        """States (B, D) to logits of the tokens (B, V); those never learned are impossible."""
        known = self.options.codes + (self.merges[:, 0] >= 0).sum()
        unknown = torch.arange(self.options.vocabulary, device=state.device) >= known
        return self.skill(state).float().masked_fill(unknown, -torch.inf)

    def loss(self, stage: Stage, batch: Batch, generator: torch.Generator) -> tuple[Tensor, Figures]:
        actions, inside = self.normal_actions(batch.actions), batch.inside.float()  # (B, K, A), (B, K)
        with torch.set_grad_enabled(stage.name == "codes"):
            condition = self.condition(batch.looks, generator)
            states = self.states(condition).unflatten(0, (len(actions), -1))  # (B, K or K + 1, D)
        if stage.name == "codes":
            loss, figures = self.codes.loss(states, actions, inside, generator)
            now = condition.unflatten(0, (len(actions), -1))[:, 0]
            auxiliary, more = self.auxiliary_loss(now, batch.actions)
            return loss + auxiliary, figures | more
        logits, token = self.skills(states[:, 0]), batch.extra["token"]
        choice = F.cross_entropy(logits, token)
        uniform = torch.rand(logits.shape, generator=generator).clamp(1e-10, 1 - 1e-7).to(logits.device)
        share = (logits - (-uniform.log()).log()).softmax(-1)  # (B, V), of each skill by Gumbel's noise
        # every skill decodes code by code, and there are few codes: each is decoded once, for all skills that have it
        weight = (share @ self.table.flatten(1)).unflatten(1, self.table.shape[1:])  # (B, K, N)
        every = torch.arange(self.options.codes, device=logits.device).expand(*states.shape[:2], -1)
        error = (self.codes.decode(states[:, :, None], every) - actions[:, :, None]).abs().sum(-1)
        decoding = (weight * error * inside[..., None]).sum((1, 2)).mean()
        accuracy = (logits.argmax(-1) == token).float().mean()
        return choice + decoding, {"choice": choice, "decoding": decoding, "accuracy": accuracy}

    # --- acting -----------------------------------------------------------------------------------------------------

    def begin(self, seeds: Sequence[int]) -> SkillMemory:
        return SkillMemory(**vars(super().begin(seeds)), pending=[[] for _ in seeds])

    @torch.inference_mode()
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
            actions[seen] = self._run(self.condition(looks), generators, pending).cpu().numpy()
        return Chunk(actions, 1)

    def predict(self, condition: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """The first action of a new skill."""
        return self._run(condition, generators, [[] for _ in generators])

    def _run(self, condition: Tensor, generators: Sequence[torch.Generator], pending: list[list[int]]) -> Tensor:
        """The next code of each row, of a new skill where none is left, as raw actions (O, 1, A)."""
        state, words = self.states(condition), self.words()
        for left, token in zip(pending, draw(self.skills(state), self.sampling.temperature, generators), strict=True):
            if not left:
                left.extend(words[int(token)])
        codes = torch.tensor([left.pop(0) for left in pending], device=state.device)
        return self.raw_actions(self.codes.decode(state, codes))[:, None]


POLICY = PRISE
METHODS = {
    "prise": Method(
        PRISEConfig(), ENCODER, AUGMENTATION, TrainingConfig(early=2.0, auxiliary=5.0, learning_rate=1e-3), ABSOLUTE
    ),
    "paper-prise": released(
        PRISEConfig(hidden=1024, steps=200_000, batch=512, learning_rate=1e-4),
        TrainingConfig(steps=30_000, batch=512, learning_rate=1e-4),
        history=10,
    ),
}
