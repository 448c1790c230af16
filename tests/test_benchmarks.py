"""What `python -m benchmarks.results` trains and measures, with training and evaluation left out."""

from __future__ import annotations

import importlib.util
import types
from pathlib import Path

import pytest

from mgp.runs import run_path

SOURCE = Path(__file__).parents[1] / "benchmarks" / "results.py"


@pytest.fixture
def results(monkeypatch):
    """The module; `trained` lists (environment, seed, policy), `measured` (trained on, variant, env, timed, top5)."""
    spec = importlib.util.spec_from_file_location("results_under_test", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.trained, module.measured, configs = [], [], {}

    def train(config):
        module.trained.append((config.env.name, config.seed, config.policy))
        configs[run_path(config)] = config
        return run_path(config)

    def evaluate_run(run, sampling, episodes, seed, missing, latency, env_name):
        changed = "short" if run.config.policy == "short" else sampling.variant
        module.measured.append([run.config.env.name, changed, env_name, missing.probability, latency])
        return None

    monkeypatch.setattr(module, "train", train)
    opened = types.SimpleNamespace(open=lambda folder: types.SimpleNamespace(config=configs[folder]))
    monkeypatch.setattr(module, "Run", opened)
    monkeypatch.setattr(module, "evaluate_run", evaluate_run)
    monkeypatch.setattr(module, "describe", str)
    monkeypatch.setattr(module, "result_row", lambda run, result, plain: module.measured[-1].append(plain))
    monkeypatch.setattr(module.table, "append", lambda path, rows: None)
    return module


def test_a_moving_scene_and_its_static_twin_have_the_seed_asked_for(results):
    assert results.main(["dynamic", "push@1"]) == 0
    names = ["metaworld-dynamic/push"] * 2 + ["metaworld/push"] * 2
    assert results.trained == [(name, 1, policy) for name, policy in zip(names, ["short", "long"] * 2, strict=True)]
    assert {row[2] for row in results.measured if row[0] == "metaworld/push"} == {"metaworld-dynamic/push"}
    assert [row[4] for row in results.measured] == [row[0] == "metaworld-dynamic/push" for row in results.measured]


def test_each_variant_is_timed_and_the_plain_one_has_the_figure_of_training(results):
    assert results.main(["metaworld", "assembly"]) == 0
    assert [(row[1], *row[4:]) for row in results.measured] == [
        ("short", True, True),
        ("long", True, True),
        ("no-sm", True, False),
        ("full", True, False),
    ]
    results.measured.clear()
    assert results.main(["missing", "assembly"]) == 0
    assert results.measured
    assert not any(row[4] or row[5] for row in results.measured)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "SETTING one of"),
        (["metawrld"], "Did you mean 'metaworld'?"),
        (["dynamic", "push", "basketball-midway"], "unknown moving scene 'basketball-midway'"),
        (["metaworld", "push", "asembly"], "Did you mean 'metaworld/assembly'?"),
        (["metaworld", "push@one"], "'one' is no training seed; write e.g. push@1"),
    ],
)
def test_mistakes_end_with_code_2_before_any_training(results, words, expected, capsys):
    assert results.main(words) == 2
    assert expected in capsys.readouterr().err
    assert results.trained == []


def test_tasks_of_every_setting_are_there(results):
    for name in ("sweeps", "dynamic", "non-markovian", "sorting"):
        assert results.main([name]) == 0
    assert ("buttons/on-off", 0, "long") in results.trained
    assert len(results.trained) == 2 * (2 + 2 * 5 + 2 + 1)
