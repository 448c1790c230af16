"""One loop for every policy and stage: warm-up and cosine, averaged weights, checkpoints, exact resuming, DDP."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from tqdm import tqdm

from mgp.config import flat
from mgp.data.demonstrations import Demonstrations, keyed_generator
from mgp.data.windows import Source
from mgp.errors import CheckpointError, ConfigError
from mgp.policies import policy_class
from mgp.policies.config import RunConfig
from mgp.policies.learned import Stage
from mgp.training.checkpoint import Progress, folder_of, newest, restore, save_checkpoint
from mgp.training.interrupt import hold_interrupts
from mgp.training.log import MetricsLog
from mgp.training.memory import keep_freed_memory
from mgp.training.precision import has_bf16

PROBE = (10, 30)  # steps timed to turn a budget in minutes into a number of steps
GRADIENT_NORM = 1.0  # at most
Evaluate = Callable[[Path, int], None]  # (checkpoint folder, step)


@dataclass
class Trainer:
    config: RunConfig
    demonstrations: Demonstrations
    run: Path
    device: torch.device = torch.device("cpu")  # noqa: RUF009  immutable
    minutes: float | None = None  # budget of all stages; only the last one's steps are fitted to it
    evaluate: Evaluate | None = None
    data: Path | None = None  # where the demonstrations are, for the record
    quiet: bool = False

    def __post_init__(self) -> None:
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        self.world = dist.get_world_size() if dist.is_initialized() else 1
        build = policy_class(self.config.policy.name).build
        self.policy = build(self.config, self.demonstrations).to(self.device)
        self.progress = Progress()
        self.average: dict[str, Tensor] = {}
        self.last: Path | None = None
        self.resumed: Path | None = None  # checkpoint that `train` went on from; stays `last` if nothing was left

    def train(self) -> Path:
        """Run what is left of the stages; returns the folder of the last checkpoint. Ctrl-C saves and re-raises."""
        keep_freed_memory()
        found = newest(self.run)
        if found:
            self._check_same(found[1])
            self.progress = Progress(**found[1]["progress"])
            self.last = self.resumed = found[0]
        for number, stage in enumerate(self.policy.stages()):
            if number >= self.progress.stage:
                self._stage(number, stage, found[0] if found and number == self.progress.stage else None)
        assert self.last is not None
        return self.last

    def _check_same(self, meta: dict) -> None:
        # a field that came later has its default in an older run
        there, asked = (flat(asdict(config)) for config in (RunConfig.from_json(meta["config"]), self.config))
        keys = dict.fromkeys((*asked, *there))  # an option of the environment may be in one of them only
        other = [
            f"{key} = {there.get(key)} (asked: {asked.get(key)})" for key in keys if there.get(key) != asked.get(key)
        ]
        if meta["demonstration_seeds"] != list(self.demonstrations.seeds):
            other.append(f"demonstrations {meta['demonstration_seeds']} (asked: {list(self.demonstrations.seeds)})")
        if other:
            raise CheckpointError(
                f"{self.run} holds a run with another configuration: {', '.join(other)}; choose another --output folder"
            )

    def _stage(self, number: int, stage: Stage, resume: Path | None) -> None:
        if resume is None:
            self.progress.stage, self.progress.step, self.average = number, 0, {}
        else:  # what earlier stages learned must be there before this one begins
            restore(resume, self.policy)
        last = number == len(self.policy.stages()) - 1
        parameters, source, optimizer = self._begin(stage)
        if resume:
            self.average = restore(resume, self.policy, optimizer)
        fitting = self.minutes is not None and last and stage.name not in self.progress.totals
        begin = self.progress.step
        total = self.progress.totals.get(stage.name, max(stage.steps, begin + PROBE[1]) if fitting else stage.steps)
        if not fitting:
            self.progress.totals[stage.name] = total
        started, probe_from = time.monotonic() - self.progress.seconds, 0.0
        log = MetricsLog(self.run, stage.name, self.progress.step) if self.rank == 0 else None
        bar = tqdm(
            total=total, initial=self.progress.step, desc=stage.name, unit="step", disable=self.quiet or self.rank > 0
        )
        try:
            while self.progress.step < total:
                with hold_interrupts():
                    loss, figures = self._update(number, stage, source, parameters, optimizer, total)
                    self.progress.step = step = self.progress.step + 1
                    self.progress.seconds = time.monotonic() - started
                if fitting and step - begin in PROBE:
                    if step - begin == PROBE[0]:
                        probe_from = self.progress.seconds
                    else:
                        total = self._fit_budget(step, (self.progress.seconds - probe_from) / (PROBE[1] - PROBE[0]))
                        self.progress.totals[stage.name] = bar.total = total
                bar.update()
                if log and (step % 20 == 0 or step == total):
                    values = {"loss": loss.item(), **{key: value.item() for key, value in figures.items()}}
                    log.write(step, self.progress.seconds, values)
                    bar.set_postfix({key: f"{value:.4g}" for key, value in values.items()})
                every = self.config.training.eval_every
                evaluating = bool(every) and last and (step % every == 0 or step == total)
                if step % self.config.training.checkpoint_every == 0 or step == total or evaluating:
                    self._save(stage, optimizer)
                    if self.world > 1:
                        dist.barrier()
                if evaluating and self.evaluate and self.rank == 0 and self.last:
                    paused = time.monotonic()
                    self.evaluate(self.last, step)
                    started += time.monotonic() - paused
        except KeyboardInterrupt:
            self._save(stage, optimizer)
            raise
        finally:
            bar.close()
            if log:
                log.close()

    def _begin(self, stage: Stage) -> tuple[dict[str, nn.Parameter], Source, torch.optim.Optimizer]:
        """What the stage trains, on what, and with what."""
        parameters = self.policy.begin_stage(stage)
        source = self.policy.source(stage, self.demonstrations)
        optimizer = torch.optim.AdamW(
            list(parameters.values()),
            lr=stage.learning_rate,
            weight_decay=stage.weight_decay,
            betas=(0.9, 0.99),
            fused=True,
        )
        return parameters, source, optimizer

    def _update(
        self, number: int, stage: Stage, source: Source, parameters: dict, optimizer: torch.optim.Optimizer, total: int
    ) -> tuple[Tensor, dict[str, Tensor]]:
        training, step = self.config.training, self.progress.step
        key = (self.config.seed, number, step, self.rank)
        generator = keyed_generator(*key)
        for group in optimizer.param_groups:
            warm = min(1.0, (step + 1) / max(1, stage.warmup))
            group["lr"] = stage.learning_rate * warm * 0.5 * (1 + math.cos(math.pi * step / total))
        self.policy.train()
        half = stage.autocast and (training.precision == "bf16" or has_bf16(self.device))
        with torch.random.fork_rng():
            torch.manual_seed(keyed_generator(*key, 1).initial_seed())  # dropout draws from the default generator
            # in full precision: what is learned is not to be rounded before it is learned
            batch = source.draw(-(-stage.batch // self.world), generator).to(self.device)
            with torch.autocast(self.device.type, torch.bfloat16, enabled=half):
                loss, figures = self.policy.loss(stage, batch, generator)
        figures = {name: value.detach() for name, value in figures.items()}
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._share_gradients(parameters)
        norm = torch.nn.utils.clip_grad_norm_(parameters.values(), GRADIENT_NORM)
        if not (loss.isfinite() and norm.isfinite()):  # before the weights take it over
            raise ConfigError(
                f"the {stage.name} loss is {loss.item()} and its gradient {norm.item()} at step {step}:"
                " lower learning_rate"
            )
        optimizer.step()
        if stage.averaged:
            decay = min(training.ema_decay, (1 + step) / (10 + step))
            if not self.average:
                self.average = {name: parameter.detach().clone() for name, parameter in parameters.items()}
            averages = [self.average[name] for name in parameters]  # a loaded one is in another order
            torch._foreach_lerp_(averages, [p.detach() for p in parameters.values()], 1 - decay)
        return loss.detach(), figures

    def _share_gradients(self, parameters: dict) -> None:
        """Mean over processes, in one message."""
        if self.world == 1:
            return
        gradients = [p.grad for p in parameters.values() if p.grad is not None]
        flat = torch.cat([g.flatten() for g in gradients])
        dist.all_reduce(flat)
        for gradient, part in zip(gradients, (flat / self.world).split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))

    def _fit_budget(self, step: int, per_step: float) -> int:
        left = self.minutes * 60 - self.progress.seconds if self.minutes is not None else 0.0
        total = torch.tensor([step + max(1, int(left / per_step))], device=self.device)
        if self.world > 1:
            dist.broadcast(total, 0)
        return int(total)

    def _save(self, stage: Stage, optimizer: torch.optim.Optimizer) -> None:
        path = folder_of(self.run, self.progress, stage.name)
        if self.rank == 0 and self.last != path:
            about = {
                "config": self.config.to_json(),
                "demonstration_seeds": list(self.demonstrations.seeds),
                "data": str(self.data or ""),
                "acts": stage == self.policy.stages()[-1],
            }
            save_checkpoint(
                self.run,
                stage.name,
                self.policy,
                optimizer,
                self.average,
                self.progress,
                about,
            )
        self.last = path
