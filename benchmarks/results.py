"""The tables in results/: `python -m benchmarks.results SETTING [TASK ...]`, SETTING one of

    metaworld      Short, Long, w/o SM and Full on the five tasks of the README; 13 minutes of one core a task
    sweeps         temperature and refinement steps on two of them
    missing        the same policies, observations withheld
    robustness     the same policies, noisy depth and a displaced camera
    dynamic        scenes that move: trained there, and zero-shot from the static task
    non-markovian  buttons pressed in an order that no frame tells
    sorting        a towel sorted by a light that went off, with and without missing observations
    memory         what remembers: the plan alone, or the first frame in view; six tasks, four trainings of each
    ablations      `ablations NAME [TASK ...]`: one of the paper's seven (ablations.py); without a name, all of them
    baselines      every method on three tasks, some on two more; `baselines dp3 act push` makes these lines only, also
                   such as are not made unless they are named (act and bc on disassemble and pick-place)
    baselines-missing, baselines-dynamic
                   some of them with 35 % of the observations withheld, and in scenes that move
    edition        `edition TABLE REASON`: a fresh test block for a table, for a change of code that no preset shows

Trains what is not trained yet (runs/), then evaluates, sampled as the preset says. A row pools the training seeds 0, 1
and 2 (memory, ablations and baselines: 0 alone); "assembly@1" is assembly with training seed 1 alone, "assembly@0,1"
with two. The evaluation seeds are a test block that the ledger results/blocks.csv gives (`mgp.evaluation.seeds` has the
rules): the same one for all methods of an edition, a fresh one if a preset has changed. Nothing of a dirty commit is
taken. metaworld, sweeps and missing are one table to the ledger, so that they have the same episodes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.ablations import ABLATIONS, STATIC, Ablation
from mgp.config import flat
from mgp.envs import env_names
from mgp.errors import ConfigError, MGPError, UnknownNameError
from mgp.evaluation import rows, seeds
from mgp.evaluation.missing import Missing
from mgp.evaluation.provenance import commit, reproducible
from mgp.policies import methods as known_methods
from mgp.policies.config import RunConfig
from mgp.presets import get_config
from mgp.runs import SUMMARY, Run, load_policy, run_path
from mgp.workflows.evaluate import describe, evaluate_run
from mgp.workflows.rows import result_row
from mgp.workflows.train import train

RESULTS = Path("results")
TRAININGS = (0, 1, 2)
METHODS = ("mgp-short", "mgp-long")
METAWORLD = ("assembly", "disassemble", "stick-push", "push", "drawer-open")
MEMORY = (
    *("sorting/towel", "sorting/towel-nudged", "buttons/on-off", "buttons/color-change", "buttons/shifted"),
    "metaworld-memory/pick-place-cue",
)
BASELINES = (
    *METHODS,
    *("bc", "dp", "dp3", "simple-dp3", "dp3-full", "consistency-policy", "flow-policy", "quest", "vqbet", "prise"),
    *("act", "act-20", "resnet-t", "mp1", "mip"),
)
STRONGEST = (*METHODS, "dp3", "flow-policy", "mp1", "act-20")  # on more tasks
BLIND = (*METHODS, "dp3", "dp3-full", "act-20", "quest")  # without some observations, and where the scene moves
COMPARED = {
    **dict.fromkeys(("assembly", "push", "drawer-open"), BASELINES),
    **dict.fromkeys(("disassemble", "pick-place"), STRONGEST),
}
VARIANTS: tuple[dict[str, Any], ...] = ({}, {"variant": "no-sm"}, {"variant": "full"})
SWEEP = [{"temperature": value} for value in (0.25, 0.5, 1.0)] + [{"refine_steps": value} for value in (1, 3)]
# Options that came after the first test blocks were claimed. With these values everything is as it was before, so that
# they are no part of a digest: else a new option would be a changed preset of every method.
LATER = {
    "encoder.causal": False,
    "policy.sampling.score": "posterior",
    "policy.sampling.window": 8,
    "policy.sampling.edit_window": 0,
    "policy.masking.run": 0.0,
    "policy.masking.stale_plan": 0.0,
    "policy.gaze": 0,
}


class Table:
    """Rows of one results/*.csv; `edition`: the table in the ledger, if it shares the episodes of another."""

    def __init__(self, name: str, episodes: int = 50, edition: str | None = None):
        self.path, self.episodes, self.edition = RESULTS / f"{name}.csv", episodes, edition or name

    def add(
        self,
        group: Sequence[Run],
        changes: dict[str, Any],
        missing: float = 0.0,
        env: str | None = None,
        options: dict[str, Any] | None = None,
        said: Mapping[str, Any] | None = None,
        learned: Mapping[str, Any] | None = None,
    ) -> None:
        """One row: runs that differ in the training seed only.

        `said`: options that the row names, also where they are the preset's; `learned`: these too, and to the ledger
        they make it another training of the method.
        """
        config = group[0].config
        preset = get_config(config.method, config.task.name).policy.sampling
        sampling = preset.changed(**changes)
        own = not missing and env is None and not options
        timed = own and set(changes) <= {"variant"}  # each variant thinks for a time of its own
        trained = named(config.task.name, learned or {})
        for run in group:  # a row would refuse it too, but after the episodes of a test block were spent on it
            check_clean(run.trained_at, f"{run.folder} was trained at commit")
        block = seeds.claim(
            RESULTS / seeds.LEDGER,
            self.edition,
            load_policy(group[0].policy_checkpoint).with_sampling(**vars(sampling)).label,
            trained if env is None else f"{env} (trained on {trained})",
            preset_digest(config),
            commit(),
        )
        first = seeds.block_seeds(block, self.episodes)[0]
        results = []
        for run in group:
            conditions = {
                "latency": timed,
                "env_name": env,
                "options": options,
                "said": {**(said or {}), **(learned or {})},
            }
            result = evaluate_run(run, sampling, self.episodes, first, Missing(missing), **conditions)
            print(describe(result), flush=True)
            results.append(result)
        rows.add_rows(self.path, [result_row(group, results, own and not changes)])

    def add_variants(
        self,
        group: Sequence[Run],
        missing: float = 0.0,
        env: str | None = None,
        learned: Mapping[str, Any] | None = None,
    ) -> None:
        for changes in VARIANTS if group[0].config.method == "mgp-long" else VARIANTS[:1]:
            self.add(group, changes, missing, env, learned=learned)


def named(task: str, learned: Mapping[str, Any]) -> str:
    """A task as the ledger has it: "sorting/towel (encoder.first=False)" where this is part of what is compared."""
    words = " ".join(f"{name}={value}" for name, value in sorted(learned.items()))
    return f"{task} ({words})" if words else task


def preset_digest(config: RunConfig) -> str:
    """Of all that was chosen: the sampling is the preset's, whatever the run was trained with."""
    preset = get_config(config.method, config.task.name)
    chosen = replace(config, policy=replace(config.policy, sampling=preset.policy.sampling))
    content = json.loads(chosen.to_json())
    for name, value in LATER.items():
        *path, last = name.split(".")
        inner = content
        for part in path:
            inner = inner.get(part, {})
        if inner.get(last) == value:
            del inner[last]
    return seeds.digest(content)


def check_clean(name: str, what: str) -> None:
    if not reproducible(name):
        raise ConfigError(f"{what} {name!r}, which cannot be checked out again: commit, and use a clean clone")


def split(task: str, trainings: tuple[int, ...] = TRAININGS) -> tuple[str, tuple[int, ...]]:
    """Name and training seeds of "assembly@0,1", `trainings` of "assembly"."""
    name, at, chosen = task.partition("@")
    if at and not all(seed.isdecimal() for seed in chosen.split(",")):
        raise ConfigError(f"{task!r}: {chosen!r} is no training seed; write e.g. {name}@1 or {name}@0,1")
    return name, tuple(sorted({int(seed) for seed in chosen.split(",")})) if at else trainings


def own_path(config: RunConfig) -> Path:
    """The folder of a run; one that is trained otherwise than its preset says has its own, which says how."""
    path, preset = run_path(config), get_config(config.method, config.task.name)
    there, usual = (flat(asdict(replace(one, seed=0))) for one in (config, preset))
    return path.with_name(
        "-".join([path.name, *(f"{key}={value}" for key, value in there.items() if usual[key] != value)])
    )


def runs(
    tasks: Iterable[str], methods: Sequence[str] = METHODS, changes: Mapping[str, Any] | None = None
) -> Iterator[list[Run]]:
    """For each task and method the runs of its training seeds; `changes`: trained otherwise than the preset says."""
    groups = [
        [get_config(method, name).changed({"seed": seed, **(changes or {})}) for seed in chosen]
        for name, chosen in map(split, tasks)
        for method in methods
    ]
    known = env_names()
    for group in groups:  # all of them, before the first one trains for minutes
        if group[0].task.name not in known:
            raise UnknownNameError("task", group[0].task.name, known)
    for group in groups:
        trained = []
        for config in group:
            folder = own_path(config)
            if (folder / SUMMARY).exists():  # how it is sampled is no part of what was learned
                sampled = Run.open(folder).config.policy.sampling
                config = replace(config, policy=replace(config.policy, sampling=sampled))
            trained.append(Run.open(train(config, folder)))
        yield trained


def metaworld(tasks: list[str]) -> None:
    for group in runs(tasks or METAWORLD):
        Table("metaworld").add_variants(group)


def sweeps(tasks: list[str]) -> None:
    for group in runs(tasks or ("disassemble", "push")):
        for changes in SWEEP:  # metaworld.csv has the same episodes at temperature 0 and two refinement steps
            Table("sweeps", edition="metaworld").add(group, changes)


def missing(tasks: list[str]) -> None:
    table = Table("missing", edition="metaworld")
    for group in runs(tasks or METAWORLD[:4]):
        for probability in (0.35, 0.5, 0.7):  # metaworld.csv has the same episodes at 0
            table.add(group, {}, probability)
        if group[0].config.method == "mgp-long":
            table.add(group, {"variant": "no-sm"}, 0.35)
            table.add(group, {"variant": "full"}, 0.35)


def dynamic(tasks: list[str]) -> None:
    chosen = [split(task) for task in tasks or STATIC]
    for name, _ in chosen:
        if name not in STATIC:
            raise UnknownNameError("moving scene", name, STATIC)
    for name, trainings in chosen:
        moving, at = f"metaworld-dynamic/{name}", ",".join(map(str, trainings))
        for group in runs([f"{moving}@{at}"]):
            Table("dynamic").add_variants(group)
        for group in runs([f"metaworld/{STATIC[name]}@{at}"]):
            Table("dynamic").add_variants(group, env=moving)


def non_markovian(tasks: list[str]) -> None:
    for group in runs(tasks or ("buttons/on-off", "buttons/color-change")):
        Table("non_markovian", 20).add_variants(group)


def sorting(tasks: list[str]) -> None:
    for group in runs(tasks or ("sorting/towel",)):
        for probability in (0.0, 0.35, 0.5):
            Table("sorting", 25).add_variants(group, probability)


def memory(tasks: list[str]) -> None:
    """The same training budget with the first frame in view and without it, where memory is in the plan or nowhere."""
    for name, at in one_seed(tasks or MEMORY):
        for first in (False, True):
            learned = {"encoder.first": first}
            for group in runs([f"{name}@{at}"], changes=learned):
                Table("memory").add_variants(group, learned=learned)


def ablations(words: list[str]) -> None:
    names = words[:1] or list(ABLATIONS)
    if names[0] not in ABLATIONS:
        raise UnknownNameError("ablation", names[0], ABLATIONS)
    for name in names:
        _ablation(ABLATIONS[name], words[1:])


def _ablation(ablation: Ablation, tasks: list[str]) -> None:
    table, word = Table("ablations"), ablation.word
    for name, at in one_seed(tasks or ablation.tasks):
        for value in ablation.values:
            said = {word: value}
            changes = {ablation.option: value} if ablation.trained else {}
            for group in runs([f"{name}@{at}"], [ablation.method], changes):
                if ablation.trained:
                    table.add(group, {}, learned=said)
                else:
                    table.add(group, said, said=said)


def one_seed(tasks: Iterable[str]) -> list[tuple[str, str]]:
    """Names, and training seeds as `runs` has them: 0 alone where none is named."""
    return [(name, ",".join(map(str, chosen))) for name, chosen in (split(task, (0,)) for task in tasks)]


def baselines(words: list[str]) -> None:
    """One training seed: seventeen recipes on three tasks are two nights on two cores with three."""
    for group in _compared(words, COMPARED):
        Table("baselines").add(group, {})


def baselines_missing(words: list[str]) -> None:
    for group in _compared(words, dict.fromkeys(("assembly", "push"), BLIND)):
        Table("baselines_missing", edition="baselines").add(group, {}, 0.35)


def baselines_dynamic(words: list[str]) -> None:
    scenes = dict.fromkeys((f"metaworld-dynamic/{name}" for name in ("push", "basketball")), BLIND)
    for group in _compared(words, scenes):
        Table("baselines_dynamic").add(group, {})


def _compared(words: list[str], table: Mapping[str, Sequence[str]]) -> Iterator[list[Run]]:
    """The runs of each method on each task of a table; of the methods and tasks that are named, if any are."""
    chosen = [word for word in words if word in known_methods()]
    for name, at in one_seed([word for word in words if word not in chosen] or table):
        if name not in table:
            raise UnknownNameError("task of this table", name, table)
        yield from runs([f"{name}@{at}"], chosen or table[name])


def edition(words: list[str]) -> None:
    if len(words) < 2:
        raise ConfigError(f"`edition {' '.join(words)}`: name a table and say why it needs a fresh test block")
    block = seeds.open_edition(RESULTS / seeds.LEDGER, words[0], commit(), " ".join(words[1:]))
    print(f"the next rows of {words[0]} are of test block {block}, seeds {seeds.block_seeds(block, 1)[0]} on")


def robustness(tasks: list[str]) -> None:
    """Depth noise and a camera that is not where it was calibrated, nothing retrained."""
    conditions = [{"depth_noise": noise} for noise in (0.002, 0.005)] + [{"camera_shift": s} for s in (0.005, 0.01)]
    table = Table("robustness")
    for group in runs(tasks or ("push", "disassemble")):
        for options in ({}, *conditions):
            table.add(group, {}, options=options)


SETTINGS = {
    "metaworld": metaworld,
    "sweeps": sweeps,
    "missing": missing,
    "robustness": robustness,
    "dynamic": dynamic,
    "non-markovian": non_markovian,
    "sorting": sorting,
    "memory": memory,
    "ablations": ablations,
    "baselines": baselines,
    "baselines-missing": baselines_missing,
    "baselines-dynamic": baselines_dynamic,
    "edition": edition,
}


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    setting, *tasks = arguments
    try:
        if setting not in SETTINGS:
            raise UnknownNameError("setting", setting, SETTINGS)
        check_clean(commit(), "this is commit")  # said now, not after hours of training
        SETTINGS[setting](tasks)
    except MGPError as error:
        print(f"benchmarks.results: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
