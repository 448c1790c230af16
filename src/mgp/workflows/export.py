"""Write a run's policy down for other engines, compared with torch on frames of its own demonstrations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from mgp.data.demonstrations import Demonstrations
from mgp.engines import ENGINES, REFERENCE, SUFFIX, find_engine
from mgp.engines.agreement import Agreement, compare_graphs
from mgp.engines.calls import Graph, observe
from mgp.engines.folder import FOLDER, FORMAT, adopt, describe, weights_sum
from mgp.engines.onnx_files import write_graph, write_int8
from mgp.errors import ConfigError
from mgp.evaluation.idle import REST
from mgp.evaluation.open_loop import follow
from mgp.evaluation.replay import Replay
from mgp.evaluation.speed import race
from mgp.files import new_folder, seal
from mgp.policies.base import Policy
from mgp.policies.driver import Driver
from mgp.policies.learned import LearnedPolicy
from mgp.runs import Run, load_policy
from mgp.workflows.demonstrations import load_demonstrations

EPISODES = 2  # of the demonstrations, on which engines are compared
ROUNDS, SECONDS = 3, 0.5  # in which they are timed, taking turns


@dataclass(frozen=True)
class Line:
    """One engine of the table."""

    engine: str
    agreement: Agreement | None  # None: torch, which is agreed with
    milliseconds: float  # median of a replan
    slowest: float  # its 99th percentile
    refusal: str = ""


def export_run(
    run: Run, engines: Sequence[str] = (), data: Path | None = None, rounds: int = ROUNDS, seconds: float = SECONDS
) -> tuple[list[Line], bool]:
    """Writes the folder `engines/` of the run's checkpoint; gives the table, and whether the machine was idle.

    Without names: all that can be imported here; those that do not agree are left out. One that was named is refused.
    """
    names = tuple(engines) or installed()
    if not names:
        raise ConfigError("no engine is installed: run `pip install 'masked-generative-policy[engines]'`")
    checkpoint = run.policy_checkpoint
    demonstrations = load_demonstrations(run.config.task, data or run.data)
    policy = load_policy(checkpoint, engine=REFERENCE)
    policies: dict[str, Policy] = {REFERENCE: policy}
    agreements: dict[str, Agreement] = {}
    with new_folder(checkpoint / FOLDER) as folder:
        graphs, meta = write_engines(policy, demonstrations, folder, names)
        for name in names:
            other = adopt(load_policy(checkpoint, engine=REFERENCE), folder, meta, name)
            policies[name], agreements[name] = other, _compare(policy, other, graphs, demonstrations)
            if engines and agreements[name].refusal:
                raise ConfigError(
                    f"engine {name!r} is not exported: {agreements[name].refusal}; choose another, or train for longer:"
                    " an unsure policy changes its mind for little"
                )
        lines, idle = _timed(policies, agreements, demonstrations, rounds, seconds)
        good = [line for line in lines if not line.refusal]
        _drop_unused(folder, {find_engine(line.engine).weights for line in good if line.agreement})
        about = {line.engine: _about(line) for line in good}
        seal(folder, {**meta, "weights": weights_sum(checkpoint), "engines": about, "idle": idle})
    return lines, idle


def installed() -> tuple[str, ...]:
    """Engines that can compute here, but for those that compile anew in every process."""
    return tuple(one.name for one in ENGINES.values() if one.available and one.weights != "own")


def write_engines(
    policy: LearnedPolicy, demonstrations: Demonstrations, folder: Path, names: Sequence[str]
) -> tuple[list[Graph], dict[str, Any]]:
    """Files for the named engines into an open folder; the graphs they are of, and what meta.json says of them."""
    graphs = observe(policy, lambda: _act(policy, demonstrations))
    kinds = {find_engine(name).weights for name in names}
    for graph in graphs if kinds != {"own"} else ():
        plain = folder / f"{graph.name}{SUFFIX['fp32']}"
        write_graph(policy, graph, plain)
        for kind in kinds & {"int8", "dynamic"}:
            write_int8(plain, folder / f"{graph.name}{SUFFIX[kind]}", dynamic=kind == "dynamic", logits=graph.logits)
    libraries = {find_engine(name).library for name in names}
    versions = {name: version(name) for name in ("torch", "onnx", *libraries)}
    return graphs, {
        "format": FORMAT,
        "versions": versions,
        "graphs": {graph.name: describe(graph) for graph in graphs},
    }


def table(lines: Sequence[Line]) -> str:
    """As people read it; ratios are to torch."""
    base = lines[0].milliseconds
    head = f"{'engine':<18} {'ms a replan':>11} {'p99':>8} {'ratio':>6} {'error':>8} {'tokens':>7} {'actions':>8}"
    rows = [head]
    for line in lines:
        row = f"{line.engine:<18} {line.milliseconds:11.3f} {line.slowest:8.3f} {line.milliseconds / base:6.2f}"
        if line.agreement is not None:
            tokens = "-" if line.agreement.tokens is None else f"{line.agreement.tokens:.4f}"
            row += f" {line.agreement.error:8.1e} {tokens:>7} {line.agreement.actions:8.5f}"
        rows.append(row + (f"  refused: {line.refusal}" if line.refusal else ""))
    return "\n".join(rows)


def _act(policy: LearnedPolicy, demonstrations: Demonstrations) -> None:
    """One episode alone, as on a robot, and some steps of two at once: what differs then may have any size."""
    for episode in _episodes(demonstrations):
        follow(policy, demonstrations, episode)
    driver = Driver(policy, [0, 1])
    for step in range(2 * policy.execution_horizon):
        for row in (0, 1):
            driver.see(row, _frame(policy, demonstrations, step + row))
        if driver.due:
            driver.plan()
        driver.take()


def _episodes(demonstrations: Demonstrations) -> range:
    return range(min(EPISODES, len(demonstrations.ends)))


def _frame(policy: LearnedPolicy, demonstrations: Demonstrations, step: int) -> dict:
    last = int(demonstrations.ends[0]) - 1
    frame = {key: np.asarray(demonstrations.arrays[key][min(step, last)]) for key in policy.observation_shapes}
    return frame | ({"instruction": demonstrations.instructions[0]} if demonstrations.instructions else {})


def _drop_unused(folder: Path, kinds: set[str]) -> None:
    """Files that only engines read which were refused."""
    wanted = tuple(SUFFIX[kind] for kind in kinds if kind in SUFFIX)
    for path in folder.glob("*.onnx"):
        kind = next(suffix for suffix in sorted(SUFFIX.values(), key=len, reverse=True) if path.name.endswith(suffix))
        if kind not in wanted:
            path.unlink()


def _compare(
    policy: LearnedPolicy, other: LearnedPolicy, graphs: Sequence[Graph], demonstrations: Demonstrations
) -> Agreement:
    error, tokens = compare_graphs(graphs, other)
    differences = []
    scale = policy.normalizer.action_scale.cpu().numpy()  # type: ignore[operator]
    for episode in _episodes(demonstrations):
        here, there = follow(policy, demonstrations, episode), follow(other, demonstrations, episode)
        for mine, others in zip(here.plans, there.plans, strict=True):
            differences.append((np.abs(mine - others) * scale)[: here.run].mean())
    return Agreement(error, tokens, float(np.mean(differences)))


def _timed(
    policies: dict[str, Policy],
    agreements: dict[str, Agreement],
    demonstrations: Demonstrations,
    rounds: int,
    seconds: float,
) -> tuple[list[Line], bool]:
    raced = race(policies, Replay(demonstrations), (1,), rounds, seconds, rest=REST if rounds > 1 else 0.0)
    lines = []
    for name in policies:
        middle, slow = np.percentile(raced.times[name, 1].replans, (50, 99)).tolist()
        agreement = agreements.get(name)
        lines.append(Line(name, agreement, middle, slow, agreement.refusal if agreement else ""))
    return lines, raced.machine.idle


def _about(line: Line) -> dict:
    agreement = {} if line.agreement is None else asdict(line.agreement)
    return {**agreement, "milliseconds": line.milliseconds, "p99": line.slowest}
