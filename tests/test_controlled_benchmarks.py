"""The benchmarks of the controller, with tiny policies on a toy robot: what they count, and what they write."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from benchmarks import controlled, delay, engines, pairs, replanning, results

import small
from mgp.data.spec import DataSpec
from mgp.policies.base import PlanTrace
from mgp.policies.learned import LearnedPolicy
from mgp.runtime.log import ControlLog, PlanNote
from wave_robot import make_wave


class TinyRun:
    """Stands in for a run folder; the policy is as untrained as it is quick."""

    def __init__(self, folder: Path):
        self.folder = Path(folder)
        self.config = small.tiny("long" if "long" in self.folder.name else "short")
        self.spec = DataSpec.of(small.demonstrations())
        self.policy_checkpoint, self.demonstration_seeds, self.trained_at = self.folder, [0, 1], "0123456789ab"

    @classmethod
    def open(cls, folder: Path) -> TinyRun:
        return cls(folder)

    def loader(self, **sampling):
        return lambda: load(self.folder, **sampling)


def load(folder: Path, engine: str = "torch", **sampling) -> LearnedPolicy:
    """Where "coarse" computes, actions come out reversed; where "timid" does, other ones."""
    made = small.policy(TinyRun(folder).config).with_sampling(**sampling)
    made.engine = engine
    if engine == "coarse":
        made.normalizer.action_scale.neg_()
    if engine == "timid":
        made.tokenizer.codebook.codes.mul_(0.5)
    return made


def solved(seed: int) -> bool:
    """Whether the scene says so of an episode: it looks at nothing that a policy does."""
    env = make_wave("toy/static")
    env.reset(seed=seed)
    return env.phase < 3


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    monkeypatch.setattr(controlled, "Run", TinyRun)
    monkeypatch.setattr(controlled, "load_policy", load)
    monkeypatch.setattr(controlled, "make_env", lambda name, observation, **options: make_wave("toy/static"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_delay_has_a_row_for_each_way_and_each_time(tiny, capsys):
    options = ["--development", "--episodes", "2", "--workers", "1", "--output", "delay.csv"]
    assert delay.main(["short", "long", *options]) == 0
    table = rows(tiny / "delay.csv")
    cells = [("unguarded", "0"), ("frozen", "0")]
    cells += [(mode, str(time)) for time in (50, 100, 200) for mode in ("frozen", "naive", "wait")]
    assert [(row["mode"], row["delay_ms"]) for row in table] == 2 * cells
    assert [row["method"] for row in table] == ["MGP-Short"] * 11 + ["MGP-Long"] * 11
    assert {row["episodes"] for row in table} == {"2"}
    assert {row["evaluation_seeds"] for row in table} == {"10000-10001"}
    held = {(row["mode"], row["delay_ms"]): float(row["held"]) for row in table[:11]}
    assert held["wait", "200"] > held["frozen", "200"] > held["frozen", "0"] == 0
    assert all(0 <= float(row["success"]) <= 1 for row in table)
    assert all(float(row["seam_jump"]) >= 0 for row in table if row["seam_jump"])
    assert "mode naive  delay_ms 200" in capsys.readouterr().out
    assert {row["engine"] for row in table} == {"torch"}
    assert delay.main(["short", *options]) == 0
    assert len(rows(tiny / "delay.csv")) == 22, "a row made again takes the place of its old self"


def test_rows_from_before_outcomes_were_kept_stay_as_they_are(tiny, monkeypatch):
    monkeypatch.setattr(delay, "DELAYS", (0,))
    old = "method,mode,delay_ms,episodes,success,block\nMGP-Short,frozen,0,3,0.3333,10\n"
    (tiny / "delay.csv").write_text(old)
    assert delay.main(["short", "--development", "--episodes", "7", "--workers", "1", "--output", "delay.csv"]) == 0
    first, *new = rows(tiny / "delay.csv")
    assert ",".join(list(first.values())[:6]) == old.split()[1]
    assert not any(list(first.values())[6:])
    assert pairs.outcomes(first) is None, "nobody knows which of them was solved"
    expected = [solved(10_000 + place) for place in range(7)]
    assert {True, False} == set(expected)
    assert [row["outcomes"] for row in new] == ["".join(str(int(one)) for one in expected)] * 2
    assert [pairs.outcomes(row) for row in new] == [dict(enumerate(expected))] * 2


def test_frozen_and_naive_joins_are_compared_episode_by_episode(monkeypatch, capsys):
    """Alike in success, and yet no two episodes end alike: a comparison of rates would not see it."""

    class Driven:
        options = SimpleNamespace(rate=20.0)
        policy = SimpleNamespace(normalizer=SimpleNamespace(action_scale=torch.ones(1)))

        def drive(self, label: str, **trial):
            good = {"unguarded": "11111111", "frozen": "11110000", "naive": "00001111", "wait": "00000000"}
            good["frozen"] = "11111111" if label == "frozen 200 ms" else good["frozen"]
            word = good[label.split()[0]]
            return [replace(episode(digit == "1", [], 20), seed=7 + place) for place, digit in enumerate(word)]

        def row(self, **values):
            return values

    monkeypatch.setattr(delay, "DELAYS", (0, 100, 200))
    table = delay.measure(Driven())
    assert [row["outcomes"] for row in table[1:5]] == ["11110000", "11110000", "00001111", "00000000"]
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("frozen against naive")]
    assert said == [
        "frozen against naive, 100 ms: 4 episodes solved by the first alone, 4 by the second, p 1.0000",
        "frozen against naive, 200 ms: 4 episodes solved by the first alone, 0 by the second, p 0.1250",
    ]


def test_rows_of_another_engine_are_other_rows(tiny, monkeypatch):
    monkeypatch.setattr(delay, "DELAYS", (0,))
    options = ["--development", "--episodes", "1", "--workers", "1", "--output", "delay.csv"]
    for engine in ("torch", "timid", "torch"):
        assert delay.main(["short", *options, "--engine", engine]) == 0
    table = rows(tiny / "delay.csv")
    assert [row["engine"] for row in table] == ["torch"] * 2 + ["timid"] * 2
    assert table[1]["seam_jump"] != table[3]["seam_jump"], "it is the one that computed"


def test_replanning_counts_passes_and_rates_the_alarm(tiny, capsys):
    words = ["long", "--development", "--episodes", "6", "--workers", "1", "--output", "."]
    assert replanning.main(words) == 0
    table = rows(tiny / "replanning.csv")
    assert [float(row["replan"]) for row in table] == list(replanning.SHARES)
    saved = [float(row["saved"]) for row in table]
    assert saved[0] == 0
    assert max(saved) > 0, "a plan that stays costs less"
    # 24 steps: a first plan of 2 passes, then 5 looks of 1 + 2
    assert float(table[0]["passes_a_step"]) == pytest.approx((2 + 5 * 3) / 24, abs=0.08)
    assert float(table[0]["rewrites"]) == pytest.approx(5, abs=0.5)
    alarms = rows(tiny / "alarm.csv")
    assert [int(row["step"]) for row in alarms] == [1, 2, 4, 5, 6, 7, 8, 10, 11, 12, 18, 24]
    assert {row["failed"] for row in alarms} != {"0"}
    assert all(0 <= float(row["auroc"]) <= 1 for row in alarms if row["auroc"])
    assert {row["engine"] for row in (*table, *alarms)} == {"torch"}
    assert alarms[0]["auroc"] == "0.5", "before three looks nothing is known"


def test_engines_are_set_against_torch_on_the_same_episodes(tiny, monkeypatch, capsys):
    monkeypatch.setattr(engines, "exported", lambda checkpoint: {"engines": {"coarse": {}, "torch": {}}})
    options = ["--development", "--episodes", "4", "--workers", "1", "--output", "engines.csv"]
    assert engines.main(["long", *options]) == 0
    said = capsys.readouterr().out
    plain, coarse = rows(tiny / "engines.csv")
    assert (plain["engine"], coarse["engine"]) == ("torch", "coarse")
    assert engines.main(["long", *options, "--engine", "coarse"]) == 2
    assert "leave --engine out" in capsys.readouterr().err
    assert plain["only_here"] == plain["only_torch"] == "0"
    assert plain["p"] == "1.0"
    solved = [float(row["success"]) * 4 for row in (plain, coarse)]
    assert solved[1] - solved[0] == int(coarse["only_here"]) - int(coarse["only_torch"])
    assert "engine coarse  episodes 4" in said
    monkeypatch.setattr(engines, "exported", lambda checkpoint: None)
    assert engines.main(["long", *options]) == 2
    assert "run `mgp export" in capsys.readouterr().err


def test_what_a_benchmark_cannot_do_is_named(tiny, capsys, monkeypatch):
    monkeypatch.setattr(controlled, "commit", lambda: "0123456789ab+dirty")
    assert replanning.main(["short", "--development"]) == 2
    assert "give runs of MGP-Long" in capsys.readouterr().err
    assert delay.main(["short", "--episodes", "2"]) == 2
    assert "cannot be checked out again" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("task", "table", "said"),
    [
        ("metaworld/push", "metaworld", ""),
        ("metaworld-dynamic/push", "dynamic", ""),
        *((task, "memory", " (encoder.first=True)") for task in results.MEMORY),
    ],
)
def test_a_row_is_of_the_episodes_of_its_tasks_table(tiny, monkeypatch, task, table, said):
    """And of the very training that `benchmarks.results` has entered for it."""
    claimed = []
    monkeypatch.setattr(controlled, "commit", lambda: "0123456789ab")
    monkeypatch.setattr(controlled.seeds, "claim", lambda *words: claimed.append(words) or 7)
    monkeypatch.setattr(controlled, "preset_digest", lambda config: "digest")

    class Named(TinyRun):
        def __init__(self, folder):
            super().__init__(folder)
            self.config = self.config.changed({"task.name": task, "encoder.first": True})

    monkeypatch.setattr(controlled, "Run", Named)
    subject = controlled.Subject(Path("long"), controlled.Options((), episodes=2))
    ((_, asked, label, name, digest, commit),) = claimed
    assert (asked, label, name, digest, commit) == (table, "MGP-Long", task + said, "digest", "0123456789ab")
    row = subject.row()
    assert (row["task"], row.get("variant", "")) == (task, said.strip(" ()"))
    assert row["evaluation_seeds"] == "107000-107001"


def episode(solved: bool, looks: list[float], lasted: int) -> ControlLog:
    log = ControlLog("x", 20.0, "frozen", [0.0], success=solved, total=lasted)
    for step, sure in enumerate(looks):
        log.plans.append(PlanNote(step, step, 0.0, 0, 0, False, sure, []))
    return log


class Judged:
    """Enough of a subject for `alarm`."""

    run = SimpleNamespace(spec=SimpleNamespace(horizon=20))

    def row(self, **values):
        return values


def test_an_alarm_is_not_foretold_by_how_long_an_episode_lasts(capsys):
    """All grow less sure alike, and who fails does so for longer: at any time there is nothing to tell them by."""
    falling = [0.9 - 0.04 * step for step in range(20)]
    logs = [
        episode(solved, falling[: 20 if not solved else 8], 20 if not solved else 8) for solved in (True, False)
    ] * 4
    found = replanning.alarm(Judged(), logs)
    assert {row["auroc"] for row in found if row["step"] <= 8} == {0.5}
    assert {row["ended"] for row in found if row["step"] <= 8} == {0}
    assert {row["auroc"] for row in found if row["step"] > 8} == {None}, "no solved one is left to compare with"
    assert {row["ended"] for row in found if row["step"] > 8} == {4}


def test_the_level_is_chosen_on_the_first_half_and_judged_on_the_second(capsys):
    """Solved episodes of the second half are less sure than those of the first."""
    logs = [episode(True, [0.8] * 20, 20)] * 6 + [episode(False, [0.5] * 20, 20)] * 2
    logs += [episode(True, [0.7] * 20, 20)] * 3 + [episode(True, [0.9] * 20, 20)] * 3
    logs += [episode(False, [0.6] * 20, 20), episode(False, [0.85] * 20, 20)]
    last = replanning.alarm(Judged(), logs)[-1]
    assert last["level"] == pytest.approx(0.8)
    assert (last["caught"], last["false_alarms"]) == (0.5, 0.5)
    other = replanning.alarm(Judged(), logs[8:] + logs[:8])[-1]
    assert other["level"] == pytest.approx(0.7)
    assert (other["caught"], other["false_alarms"]) == (1.0, 0.0)


def test_passes_of_an_episode():
    executed, masked = np.array([0, 1, 2, 3, 4]), np.zeros((5, 4), int)
    masked[0], masked[1, 2:], masked[3, 3] = 2, 1, 1
    trace = PlanTrace(executed, np.zeros((5, 4), int), np.ones((5, 4)), masked)
    # the first plan: 3; three looks, the fifth comes after the end; two of them rewrite
    assert replanning.passes(trace, 3) == 3 + 3 + 2 * 3


def test_doubt_is_the_lowest_of_three_looks_in_a_row():
    log = ControlLog("x", 20.0, "frozen", [0.0])
    for step, sure in enumerate([0.9, 0.2, 0.3, 0.1, 0.8, 0.05]):
        log.plans.append(PlanNote(2 * step, 2 * step, 0.0, 0, 0, False, sure, []))
    found = replanning.doubts(log, 14)
    assert found.tolist() == [1.0] * 4 + [0.9] * 2 + [0.3] * 8
