"""How long each policy thinks: `python -m benchmarks.speed [POLICY ...]`, about nine minutes of an idle machine.

MGP and the baselines at batch 1, interleaved in one run, on one and on two threads (`mgp.evaluation.speed`). All see
the same frames of one demonstration (metaworld/assembly, camera clouds of 512 points). Weights are untrained: the work
is the same, none of these policies stops early.

- `released`: the network sizes and inference procedures that were published (`paper-*` methods), all with DP3's encoder
  on four frames; with these DP3 has the 262M parameters that the paper says of it. (Of MGP it says about 7M; its tables
  of hyper-parameters make 3.5M.) `--own-frames` gives each the number of frames that its release sees.
- `default`: the smaller methods of `mgp train --method`, each with its own encoder.
- LeRobot's own policies, where they can be imported (benchmarks/lerobot_peers.py says how).

The table is printed, and written to results/speed.csv if the machine was idle and the commit is clean; `mgp report`
shows it. `python -m benchmarks.speed training [RUN ...]` is about training (benchmarks/speed_training.py).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro

from benchmarks import lerobot_peers, speed_training
from benchmarks.timing import TASK, check_idle, demonstrated, show
from mgp.data.demonstrations import Demonstrations
from mgp.errors import MGPError, UnknownNameError
from mgp.evaluation.csv_table import Line
from mgp.evaluation.idle import Others
from mgp.evaluation.replay import Replay
from mgp.evaluation.speed import ROUNDS, TURN, race
from mgp.evaluation.speed_table import COLUMNS, DEFAULT, REFERENCE, RELEASED, Entry, speed_lines, write_speed
from mgp.policies import methods, policy_class
from mgp.policies.base import Policy
from mgp.policies.config import RunConfig
from mgp.policies.learned import LearnedPolicy
from mgp.presets import get_config
from mgp.report.paper import paper_latency

OUTPUT = Path("results/speed.csv")
LARGE = 1_000_000  # numbers of a weight that policies share
TRAINING_ONLY = ("teacher", "auxiliary")  # parts that do not act
PRINTED = (
    *("policy", "sizes", "threads", "parameters", "frames", "run", "replans", "encode_p50", "replan_p50", "replan_p99"),
    *("step_p50", "step_p99", "sequence_p50", "sequence_p99", "replan_ratio", "step_ratio", "paper_step"),
    *("paper_sequence", "paper_ratio"),
)


@dataclass(frozen=True)
class Competitor:
    policy: str  # as the paper writes it
    method: str  # its default one; "paper-" before it is the released one
    sampling: dict[str, Any] = field(default_factory=dict)
    benchmark: str = "Meta-World"  # that the paper timed it on
    note: str = ""
    sizes: tuple[str, ...] = (RELEASED, DEFAULT)

    def entry(self, sizes: str) -> Entry:
        """With the paper's figures, if these are the sizes that the paper timed."""
        if sizes != RELEASED:
            return Entry(self.policy, sizes, self.preset(sizes), note=self.note)
        step, sequence = paper_latency(self.policy.partition(" ")[0], self.benchmark)
        ours, _ = paper_latency("MGP-Short", self.benchmark)
        ratio = None if step is None or ours is None else round(step / ours, 1)
        return Entry(self.policy, sizes, self.preset(sizes), step, sequence, ratio, self.note)

    def preset(self, sizes: str) -> str:
        return f"paper-{self.method}" if sizes == RELEASED else self.method


COMPETITORS = (
    Competitor("MGP-Short", "mgp-short"),
    Competitor("MGP-Short (LIBERO)", "mgp-libero", benchmark="LIBERO-90", sizes=(RELEASED,)),
    Competitor("MGP-Long", "mgp-long"),
    Competitor("MGP-Full", "mgp-long", {"variant": "full", "execution_horizon": 200}, note="plans once"),
    Competitor("DP", "dp"),
    Competitor("DP3", "dp3"),
    Competitor("Simple-DP3", "simple-dp3"),
    Competitor("CP", "consistency-policy", note="one jump; without its teacher"),
    Competitor("FlowPolicy", "flow-policy"),
    Competitor("MP1", "mp1"),
    Competitor("MIP", "mip"),
    Competitor("QueST", "quest", benchmark="LIBERO-90"),
    Competitor("VQ-BeT", "vqbet"),
    Competitor("ACT", "act", note="a chunk at every step, averaged"),
    Competitor("PRISE", "prise"),
    Competitor("ResNet-T", "resnet-t"),
)


@dataclass(frozen=True)
class Options:
    """Time policies side by side. Without names: all of them."""

    policies: Annotated[tuple[str, ...], tyro.conf.Positional] = ()  # e.g. DP3 QueST; MGP-Short is always there
    rounds: int = ROUNDS
    seconds: float = TURN  # of a turn
    threads: tuple[int, ...] = (1, 2)
    own_frames: bool = False  # each policy sees as many frames as its release, not all the same four
    busy: bool = False  # on a machine that is not idle, too: the figures are printed, not written
    output: Path | None = None  # a CSV; none given: results/speed.csv, or none for a selection of policies


def config_of(preset: str, own_frames: bool) -> RunConfig:
    """Of a released method: with the encoder that all of them get."""
    config = get_config(preset, TASK)
    if not preset.startswith("paper-"):
        return config
    shared = methods()["paper-mgp-short"].encoder
    return replace(config, encoder=replace(shared, history=config.encoder.history) if own_frames else shared)


def build(competitor: Competitor, sizes: str, demonstrations: Demonstrations, own_frames: bool) -> LearnedPolicy:
    config = config_of(competitor.preset(sizes), own_frames)
    policy = policy_class(config.policy.name).build(config, demonstrations).eval()
    for part in TRAINING_ONLY:
        if getattr(policy, part, None) is not None:
            delattr(policy, part)
    return policy.with_sampling(**competitor.sampling) if competitor.sampling else policy


def share(policy: torch.nn.Module, kept: dict[tuple[str, torch.Size], torch.Tensor]) -> None:
    """Large weights of one name and shape become one piece of memory: six U-Nets of 1 GB take two.

    Untrained ones are as good as each other, and larger than any cache that one policy could leave warm for the next.
    """
    for name, parameter in policy.named_parameters():
        if parameter.numel() >= LARGE:
            parameter.data = kept.setdefault((name, parameter.shape), parameter.data)


def contestants(options: Options, demonstrations: Demonstrations) -> Iterator[tuple[Entry, Policy]]:
    wanted = {REFERENCE[0], *options.policies} if options.policies else None
    kept: dict[tuple[str, torch.Size], torch.Tensor] = {}
    for sizes in (RELEASED, DEFAULT):
        for competitor in COMPETITORS:
            if sizes in competitor.sizes and (wanted is None or competitor.policy in wanted):
                print(f"building {competitor.policy}, {sizes}", file=sys.stderr, flush=True)
                policy = build(competitor, sizes, demonstrations, options.own_frames)
                share(policy, kept)
                yield competitor.entry(sizes), policy
    try:
        yield from lerobot_peers.peers(demonstrations, config_of("paper-mgp-short", False), wanted)
    except ImportError as error:
        print(f"LeRobot's policies are left out ({error}): see benchmarks/lerobot_peers.py", file=sys.stderr)


def measure(options: Options, demonstrations: Demonstrations) -> tuple[list[Line], Others]:
    episode = Replay(demonstrations)
    found = dict(contestants(options, demonstrations))
    policies = {entry.name: policy for entry, policy in found.items()}

    def tick(name: str) -> None:
        print(f"\r{name:<40}", end="", file=sys.stderr, flush=True)

    raced = race(policies, episode, options.threads, options.rounds, options.seconds, tick=tick)
    print(file=sys.stderr)
    return speed_lines(list(found), policies, raced, episode.horizon), raced.machine


def run(options: Options) -> None:
    known = [competitor.policy for competitor in COMPETITORS]
    for name in options.policies:
        if name not in known:
            raise UnknownNameError("policy", name, known)
    check_idle(options.busy)
    lines, machine = measure(options, demonstrated(1))
    show(lines, PRINTED)
    output = options.output or (None if options.policies else OUTPUT)
    if output is not None and not options.busy:
        write_speed(output, COLUMNS, lines, machine)


def main(arguments: list[str]) -> int:
    try:
        if arguments[:1] == ["training"]:
            speed_training.main(arguments[1:])
        else:
            run(tyro.cli(Options, args=arguments, prog="python -m benchmarks.speed"))
    except MGPError as error:
        print(f"benchmarks.speed: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
