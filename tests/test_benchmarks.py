"""What `python -m benchmarks.results` trains and measures, with training and evaluation left out; the others, small."""

from __future__ import annotations

import importlib.util
import json
import types
from pathlib import Path

import pytest
from benchmarks import (
    atr_figure,
    clouds,
    contact_sheet,
    gaze_figure,
    memory_pictures,
    memory_tasks,
    moving_scenes,
    pairs,
    readme_table,
    so101_pictures,
    store,
    training,
    trials,
)

import small
from mgp.evaluation.csv_table import changed
from mgp.evaluation.episode import EpisodeResult
from mgp.evaluation.record import Evaluation
from mgp.policies import methods
from mgp.presets import get_config
from mgp.workflows.train import train

SOURCE = Path(__file__).parents[1] / "benchmarks" / "results.py"


def variant(config, sampling) -> str:
    return "short" if config.method == "mgp-short" else getattr(sampling, "variant", config.method)


@pytest.fixture
def results(monkeypatch, tmp_path):
    """The module; `trained` lists (environment, seed, method), `measured` [trained on, variant, env, missing, timed].

    `written` lists (table, first seed of each evaluation of a row, whether the figure of training is beside it).
    """
    spec = importlib.util.spec_from_file_location("results_under_test", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.trained, module.measured, module.options, module.written, configs = [], [], [], [], {}
    module.said, module.folders = [], []

    def train(config, folder):
        module.trained.append((config.task.name, config.seed, config.method))
        module.folders.append(folder)
        configs[folder] = config
        return folder

    def load_policy(config):
        def with_sampling(**sampling):
            return types.SimpleNamespace(label=variant(config, types.SimpleNamespace(**sampling)))

        return types.SimpleNamespace(with_sampling=with_sampling)

    def evaluate_run(run, sampling, episodes, seed, missing, latency, env_name, options, said):
        row = [run.config.task.name, variant(run.config, sampling), env_name, missing.probability, latency]
        module.measured.append(row)
        module.options.append(options)
        module.said.append((sampling, said))
        return seed

    def opened(folder):
        config = configs[folder]
        return types.SimpleNamespace(
            config=config, folder=folder, trained_at=module.trained_at, policy_checkpoint=config
        )

    module.trained_at = "0123456789ab"
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(module, "train", train)
    monkeypatch.setattr(module, "commit", lambda: "0123456789ab")
    monkeypatch.setattr(module, "Run", types.SimpleNamespace(open=opened))
    monkeypatch.setattr(module, "evaluate_run", evaluate_run)
    monkeypatch.setattr(module, "describe", str)
    monkeypatch.setattr(module, "load_policy", load_policy)
    monkeypatch.setattr(module, "result_row", lambda group, results, as_trained: (results, as_trained))
    monkeypatch.setattr(module.rows, "add_rows", lambda path, rows: module.written.append((path.stem, *rows[0])))
    return module


def test_a_moving_scene_and_its_static_twin_have_the_seed_asked_for(results):
    assert results.main(["dynamic", "push@1"]) == 0
    names = ["metaworld-dynamic/push"] * 2 + ["metaworld/push"] * 2
    assert results.trained == [
        (name, 1, method) for name, method in zip(names, ["mgp-short", "mgp-long"] * 2, strict=True)
    ]
    assert {row[2] for row in results.measured if row[0] == "metaworld/push"} == {"metaworld-dynamic/push"}
    assert [row[4] for row in results.measured] == [row[0] == "metaworld-dynamic/push" for row in results.measured]


def test_each_variant_is_timed_and_the_plain_one_has_the_figure_of_training(results):
    assert results.main(["metaworld", "assembly@0"]) == 0
    assert [(row[1], row[4]) for row in results.measured] == [
        (name, True) for name in ("short", "long", "no-sm", "full")
    ]
    assert [best for _, _, best in results.written] == [True, True, False, False]
    results.measured.clear()
    results.written.clear()
    assert results.main(["missing", "assembly@0"]) == 0
    assert results.measured
    assert not any(row[4] for row in results.measured)
    assert not any(best for _, _, best in results.written)


def test_a_row_pools_the_training_seeds_on_one_block_which_the_missing_observations_share(results):
    assert results.main(["metaworld", "assembly", "push@1"]) == 0
    assert results.trained[:3] == [("metaworld/assembly", seed, "mgp-short") for seed in (0, 1, 2)]
    assert results.written[0] == ("metaworld", [100_000] * 3, True)
    assert results.written[-1] == ("metaworld", [100_000], False)
    assert results.main(["missing", "assembly"]) == 0
    assert results.main(["sorting"]) == 0
    assert {(table, seeds[0]) for table, seeds, _ in results.written} == {
        ("metaworld", 100_000),
        ("missing", 100_000),
        ("sorting", 101_000),
    }


def test_a_changed_preset_and_a_new_edition_have_fresh_blocks(results, monkeypatch, capsys):
    assert results.main(["sorting"]) == 0
    monkeypatch.setattr(results.seeds, "digest", lambda preset: "changed")
    assert results.main(["sorting"]) == 0
    assert results.main(["edition", "sorting", "another", "renderer"]) == 0
    assert "test block 2, seeds 102000 on" in capsys.readouterr().out
    assert results.main(["sorting"]) == 0
    assert {seeds[0] for _, seeds, _ in results.written} == {100_000, 101_000, 102_000}
    assert results.main(["edition", "sorting"]) == 2
    assert "say why" in capsys.readouterr().err


def test_code_that_no_commit_holds_is_refused_before_a_block_is_spent(results, monkeypatch, capsys, tmp_path):
    results.trained_at = "0123456789ab+dirty"
    assert results.main(["sorting"]) == 2
    assert "was trained at commit '0123456789ab+dirty'" in capsys.readouterr().err
    monkeypatch.setattr(results, "commit", lambda: "f" * 12 + "+dirty")
    results.trained.clear()
    assert results.main(["sorting"]) == 2
    assert "this is commit 'ffffffffffff+dirty'" in capsys.readouterr().err
    assert results.trained == results.measured == []
    assert not (tmp_path / "blocks.csv").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "SETTING one of"),
        (["metawrld"], "Did you mean 'metaworld'?"),
        (["dynamic", "push", "basketball-midway"], "unknown moving scene 'basketball-midway'"),
        (["metaworld", "push", "asembly"], "Did you mean 'assembly'?"),
        (["metaworld", "push@one"], "'one' is no training seed; write e.g. push@1"),
    ],
)
def test_mistakes_end_with_code_2_before_any_training(results, words, expected, capsys):
    assert results.main(words) == 2
    assert expected in capsys.readouterr().err
    assert results.trained == []


def test_tasks_of_every_setting_are_there(results):
    for name in ("sweeps", "dynamic", "non-markovian", "sorting", "robustness"):
        assert results.main([name]) == 0
    assert ("buttons/on-off", 0, "mgp-long") in results.trained
    assert len(results.trained) == 3 * 2 * (2 + 2 * 5 + 2 + 1 + 2)


def test_robustness_changes_the_sensor_and_nothing_else(results):
    assert results.main(["robustness", "push@0"]) == 0
    assert results.options[:5] == [{}, {"depth_noise": 0.002}, {"depth_noise": 0.005}] + [
        {"camera_shift": shift} for shift in (0.005, 0.01)
    ]
    assert results.written[1] == ("robustness", [100_000], False)
    assert results.trained == [("metaworld/push", 0, "mgp-short"), ("metaworld/push", 0, "mgp-long")]


# --- what remembers, and the paper's ablations ----------------------------------------------------------------------


def test_memory_is_trained_with_and_without_the_first_frame_and_each_row_says_which(results, tmp_path):
    assert results.main(["memory", "sorting/towel", "metaworld-memory/pick-place-cue@1"]) == 0
    places, cue = "sorting-towel", "metaworld-memory-pick-place-cue"
    assert [folder.name for folder in results.folders] == [
        f"{places}-mgp-short-seed0",
        f"{places}-mgp-long-seed0-encoder.first=False",  # their presets keep the first frame in view
        f"{places}-mgp-short-seed0-encoder.first=True",
        f"{places}-mgp-long-seed0",
        f"{cue}-mgp-short-seed1",
        f"{cue}-mgp-long-seed1-encoder.first=False",
        f"{cue}-mgp-short-seed1-encoder.first=True",
        f"{cue}-mgp-long-seed1",
    ]
    variants = ["short", "long", "no-sm", "full"]
    assert [row[1] for row in results.measured] == variants * 4
    assert [said for _, said in results.said] == ([{"encoder.first": False}] * 4 + [{"encoder.first": True}] * 4) * 2
    assert {(table, *first) for table, first, _ in results.written} == {("memory", 100_000)}, "all on the same episodes"
    entries = results.seeds.entries(tmp_path / "blocks.csv")
    assert len(entries) == 16
    assert {"sorting/towel (encoder.first=False)", "sorting/towel (encoder.first=True)"} < {e["task"] for e in entries}


def test_memory_is_of_six_tasks_and_one_training_seed(results):
    assert results.main(["memory"]) == 0
    assert {seed for _, seed, _ in results.trained} == {0}
    assert len({task for task, _, _ in results.trained}) == 6
    assert len(results.trained) == 6 * 4
    assert len(set(results.folders)) == 6 * 4
    assert len(results.measured) == 6 * 8


def test_an_ablation_of_sampling_is_of_one_training_and_names_its_option_in_every_row(results):
    assert results.main(["ablations", "long-mask-ratio", "disassemble"]) == 0
    assert results.trained == [("metaworld/disassemble", 0, "mgp-long")] * 3, "which is trained once"
    assert len(set(results.folders)) == 1
    assert [(sampling.mask_ratio, said) for sampling, said in results.said] == [
        (value, {"mask_ratio": value}) for value in (0.5, 0.7, 0.85)
    ]
    assert {(table, *first) for table, first, _ in results.written} == {("ablations", 100_000)}


def test_an_ablation_of_the_tokenizer_has_a_training_for_each_value(results, tmp_path):
    assert results.main(["ablations", "short-codes", "stick-pull@1"]) == 0
    assert [folder.name for folder in results.folders] == [
        "stick-pull-mgp-short-seed1-policy.tokenizer.codes=512",
        "stick-pull-mgp-short-seed1",
        "stick-pull-mgp-short-seed1-policy.tokenizer.codes=2048",
    ]
    assert [said for _, said in results.said] == [{"policy.tokenizer.codes": codes} for codes in (512, 1024, 2048)]
    assert {tuple(first) for _, first, _ in results.written} == {(100_000,)}


def test_the_seven_ablations_of_the_paper_can_all_be_made(results, capsys):
    assert len(results.ABLATIONS) == 7
    assert results.main(["ablations"]) == 0
    made = {(task, method) for task, _, method in results.trained}
    assert len(results.measured) == 3 * (5 + 5 + 5 + 5 + 5 + 10 + 5)
    assert ("metaworld-dynamic/push", "mgp-long") in made
    assert ("metaworld/pick-place-wall", "mgp-long") in made
    assert results.main(["ablations", "long-scorings"]) == 2
    assert "Did you mean 'long-scoring'?" in capsys.readouterr().err


def test_an_option_that_is_new_and_off_changes_no_digest(results):
    config = get_config("mgp-long", "push")
    plain = results.preset_digest(config)
    content = json.loads(config.to_json())
    for name in results.LATER:
        *path, last = name.split(".")
        inner = content
        for part in path:
            inner = inner[part]
        del inner[last]  # as before it was there
    assert results.seeds.digest(content) == plain
    results.LATER.clear()
    assert results.preset_digest(config) != plain


# --- the other benchmarks, each made small --------------------------------------------------------------------------


def small_clouds(folder, monkeypatch) -> list[str]:
    monkeypatch.setattr(clouds, "FRAMES", 2)
    assert set(clouds.run(("push",))) == {"push"}
    return ["push", "camera/oracle"]


def small_store(folder, monkeypatch) -> list[str]:
    for name, value in (("STEPS", 20), ("POINTS", 16), ("FRAMES", 10)):
        monkeypatch.setattr(store, name, value)
    store.run(count=5, rounds=1)
    store.peak(count=4, steps=20, batch=2)
    steps = "a step of MGP-Short (peer: memory)"
    return ["4 demonstrations", "MiB of memory", "scattered (peer: memory)", "ten by ten (peer: memory)", steps]


def small_training(folder, monkeypatch) -> list[str]:
    monkeypatch.setattr(training, "WIDTHS", (8, 8))
    training.run(rounds=1, segments=2, points=16, methods=("bc",))
    steps = "a step of bc, (8, 8) on each point (peer: every point has a gradient)"
    return ["encoding 16 windows of 4 frames", "codebook step", "vector-quantize-pytorch", steps]


def small_contact_sheet(folder, monkeypatch) -> list[str]:
    contact_sheet.run(str(folder / "sheet.png"), ["push"])
    assert (folder / "sheet.png").read_bytes().startswith(b"\x89PNG")
    return ["1 clouds"]


def small_moving_scenes(folder, monkeypatch) -> list[str]:
    monkeypatch.setattr(moving_scenes, "DEFAULT_STEPS", (0, 3))
    monkeypatch.setattr(moving_scenes, "FILM_END", 8)
    moving_scenes.run(str(folder / "moving.png"), ["push"])
    assert (folder / "moving.webp").stat().st_size
    return ["1 strips"]


def small_so101_pictures(folder, monkeypatch) -> list[str]:
    monkeypatch.setattr(so101_pictures, "SIZE", 32)
    monkeypatch.setattr(so101_pictures, "FILM_SIZE", 32)
    monkeypatch.setattr(so101_pictures, "EVERY", {"sorting/towel": 40})
    so101_pictures.run(folder, ["sorting/towel"])
    assert {path.name for path in folder.iterdir()} == {"so101.png", "sorting-towel.webp"}
    return []


def small_memory_pictures(folder, monkeypatch) -> list[str]:
    monkeypatch.setattr(memory_pictures, "SIZE", 32)
    memory_pictures.run(folder, ["sorting/towel-nudged"])
    assert {path.name for path in folder.iterdir()} == {"memory-tasks.png", "sorting-towel-nudged.webp"}
    return []


def small_atr_figure(folder, monkeypatch) -> list[str]:
    task = {"task.observation": "state", "task.demonstrations": 2, "encoder.frame": "motion", "encoder.zoom": ()}
    few = {"training.steps": 2, "training.batch": 4, "training.eval_every": 0, "encoder.dim": 8}
    config = get_config("mgp-long", "sorting/towel-nudged").changed({**small.SMALLER["mgp"], **few, **task})
    trained = train(config, folder / "run", folder / "data.zarr")
    assert atr_figure.main([str(trained), "10001"], folder / "atr.png") == 0
    assert (folder / "atr.png").read_bytes().startswith(b"\x89PNG")
    assert atr_figure.main([]) == 2
    return []


def small_gaze_figure(folder, monkeypatch) -> list[str]:
    few = {"training.steps": 2, "training.batch": 4, "training.eval_every": 0, "encoder.dim": 8, "policy.gaze": 2}
    task = {"task.demonstrations": 1, "policy.masking.foreign_frame": 0.0, "policy.sampling.execution_horizon": 120}
    config = get_config("mgp-long", "buttons/shifted").changed({**small.SMALLER["mgp"], **few, **task})
    trained = train(config, folder / "run", folder / "data.zarr")
    assert gaze_figure.main([str(trained), "10001"], folder / "gaze.png") == 0
    assert (folder / "gaze.png").read_bytes().startswith(b"\x89PNG")
    assert gaze_figure.main([]) == 2
    return []


def small_memory_tasks(folder, monkeypatch) -> list[str]:
    monkeypatch.setattr(memory_tasks, "TIMED", 1)
    memory_tasks.run(["metaworld-memory/pick-place-cue"], range(70_000, 70_001))
    return ["1 episodes, seeds 70000 to 70000", "metaworld-memory/pick-place-cue-still"]


SMALL = {
    "atr_figure": small_atr_figure,
    "gaze_figure": small_gaze_figure,
    "clouds": small_clouds,
    "store": small_store,
    "training": small_training,
    "contact_sheet": small_contact_sheet,
    "moving_scenes": small_moving_scenes,
    "so101_pictures": small_so101_pictures,
    "memory_pictures": small_memory_pictures,
    "memory_tasks": small_memory_tasks,
}


@pytest.mark.parametrize("name", SMALL)
def test_a_small_run_of_each_benchmark(name, tmp_path, monkeypatch, capsys):
    expected = SMALL[name](tmp_path, monkeypatch)
    said = capsys.readouterr().out
    assert all(words in said for words in expected)


def test_none_is_forgotten():
    modules = {path.stem for path in SOURCE.parent.glob("*.py")} - {"__init__", "__main__"}
    elsewhere = {"results", "ablations", "trials", "pairs", "speed", "speed_training", "lerobot_peers", "timing"}
    elsewhere |= {"controlled", "delay", "engines", "replanning"}  # test_controlled_benchmarks.py
    elsewhere |= {"readme_table"}  # below
    elsewhere |= {"latency"}  # test_latency_benchmark.py
    assert modules == {*SMALL, *elsewhere}, "a new benchmark needs a small run here"
    listed = (SOURCE.parent / "__main__.py").read_text()
    assert all(name in listed for name in ("clouds", "store", "training")), "`make bench` runs what measures speed"


def test_baselines_name_methods_and_tasks_and_have_one_training_seed(results):
    assert results.main(["baselines", "dp3", "act", "push", "pick-place@1"]) == 0
    assert results.trained == [
        *[("metaworld/push", 0, method) for method in ("dp3", "act")],
        *[("metaworld/pick-place", 1, method) for method in ("dp3", "act")],
    ]
    assert {row[0] for row in results.written} == {"baselines"}


def test_every_method_that_is_no_papers_is_compared(results):
    everything = {name for name in methods() if not name.startswith("paper-")}
    assert set(results.COMPARED["assembly"]) == everything
    assert set(results.COMPARED["pick-place"]) < everything


def test_a_task_that_the_table_has_not_is_refused_before_anything_is_trained(results, capsys):
    assert results.main(["baselines", "dp3", "stick-push"]) == 2
    assert "unknown task of this table 'stick-push'" in capsys.readouterr().err
    assert not results.trained


def outcome(method: str, solved: set[int]) -> Evaluation:
    episodes = tuple(EpisodeResult(seed, seed in solved, None, 200, 40) for seed in range(100_000, 100_006))
    return Evaluation(method, "metaworld/push", "cloud", episodes)


def test_trials_tell_who_forgot_from_who_did_not_adapt(monkeypatch, capsys):
    ends = [
        *[(True, {"basket": "red", "shifted": True})] * 2,
        (False, {"basket": "blue", "shifted": True}),  # forgot
        (False, {"basket": "none", "shifted": True}),  # did not adapt
        (False, {"basket": "none", "shifted": False}),
    ]
    asked = []

    def evaluate_run(run, sampling, episodes, seed, latency, record):
        asked.append((sampling, episodes, seed, latency))
        wins = 0 if sampling.variant == "full" else 2
        episodes = tuple(
            EpisodeResult(10_000 + n, won and n < wins, None, 9, 1, end=end) for n, (won, end) in enumerate(ends)
        )
        return Evaluation("MGP-Long", "sorting/towel-nudged", "cloud", episodes)

    config = get_config("mgp-long", "sorting/towel-nudged")
    runs = types.SimpleNamespace(open=lambda folder: types.SimpleNamespace(folder=folder, config=config))
    monkeypatch.setattr(trials, "Run", runs)
    monkeypatch.setattr(trials, "evaluate_run", evaluate_run)
    assert trials.main(["runs/x", "--episodes", "5"]) == 0
    said = capsys.readouterr().out
    assert "2 of 5" in said
    assert [sampling.variant for sampling, *_ in asked[:3]] == ["no-sm", "long", "full"]
    assert {(count, seed) for _, count, seed, _ in asked} == {(5, 10_000)}
    line = next(line for line in said.splitlines() if line.startswith("Full"))
    assert line.split()[1:] == ["0", "of", "5", "3", "1", "0.500"]  # baskets that do not count as solved are wrong
    assert trials.main([]) == 2


def test_pairs_count_the_episodes_of_two_policies():
    line = {"task": "metaworld/push", "seeds": "0", "block": "0", "missing": "0.0", "success": "0.5"}
    lines = [{**line, "method": "MGP-Short", "outcomes": "111110"}, {**line, "method": "dp3", "outcomes": "100001"}]
    rows = pairs.pairs([*lines, {**lines[1], "block": "1"}])
    assert [(row["method"], row["against"]) for row in rows] == [("dp3", "MGP-Short")]
    assert {name: rows[0][name] for name in ("both", "only_method", "only_against", "neither", "p")} == {
        "both": "1",
        "only_method": "1",
        "only_against": "4",
        "neither": "0",
        "p": "0.3750",
    }


def test_pairs_leave_out_whose_episodes_were_not_kept(tmp_path, monkeypatch, capsys):
    """A rate of 0 or 1 tells each episode all the same."""
    monkeypatch.chdir(tmp_path)
    line = {"task": "metaworld/push", "seeds": "0", "block": "0", "episodes": "4", "success": "1.0"}
    other = {"dp3": {"success": "0.75"}, "act": {"success": "0.0"}, "bc": {"success": "0.75", "outcomes": "1110"}}
    with changed(tmp_path / "results" / "baselines.csv", (*line, "method", "outcomes")) as lines:
        lines += [{**line, "method": "MGP-Short"}, *({**line, "method": name, **more} for name, more in other.items())]
    assert pairs.main([]) == 0
    said = capsys.readouterr()
    assert "left out: dp3 against MGP-Short" in said.err
    assert [row.split(",")[0] for row in said.out.split()] == ["act", "bc"]
    assert "act,MGP-Short,metaworld/push,0.0,0,4,0,0,4,0,0.1250" in said.out


def test_the_readme_shows_the_newest_block_of_each_table():
    """`python -m benchmarks.readme_table` writes it."""
    text = (SOURCE.parents[1] / "README.md").read_text()
    found = readme_table.tables()
    assert "baselines" in found, "run from the top of the repository"
    for name, body in found.items():
        assert body in text, f"{name} is not in the README, or is out of date"


def test_a_table_has_methods_by_tasks_of_one_block(tmp_path):
    line = {"method": "dp3", "task": "metaworld/push", "block": "1", "success": "0.5", "low": "0.366", "high": "1.0"}
    best = {**line, "method": "MGP-Short", "success": "0.9"}
    more = [{**line, "task": "metaworld/door-open"}, {**line, "method": "act", "block": "0"}]
    more.append({**line, "method": "bc", "block": ""})  # of mgp 0.1
    said = readme_table.table(readme_table.newest([line, best, *more]))
    assert said.splitlines() == [
        "| method | push | door-open |",
        "|---|---|---|",
        "| MGP-Short | 0.90 [.37, 1.0] (.52) |  |",
        "| DP3 | 0.50 [.37, 1.0] (.51) | 0.50 [.37, 1.0] (.99) |",
    ]
    text = "before\n<!-- a -->\nold\n<!-- /a -->\nafter"
    assert readme_table.written(text, "a", "new") == text.replace("old", "new")
    assert readme_table.written(text, "b", "new") == text
