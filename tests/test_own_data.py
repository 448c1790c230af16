"""One's own recordings, by what a new user writes and types: no simulator knows them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from mgp.cli import main
from mgp.data.store import EpisodeStore
from mgp.errors import ObservationError
from mgp.evaluation.open_loop import OpenLoop
from mgp.runs import Run, load_policy

EPISODES, LENGTH, POINTS, HELD_OUT = 12, 40, 24, 1
SIZES = shlex.split(
    "--training.steps 30 --training.batch 16 --training.warmup 3 --encoder.hidden 8 16 --encoder.dim 8"
    " --policy.tokenizer.steps 30 --policy.tokenizer.batch 16 --policy.tokenizer.window 16 --policy.tokenizer.codes 16"
    " --policy.tokenizer.code-dim 4 --policy.tokenizer.width 8 --policy.transformer.dim 16 --policy.transformer.heads 2"
    " --policy.transformer.cross-layers 1 --policy.transformer.self-layers 1 --device cpu"
)


def recordings(actions: str, seed: int = 0) -> list[dict[str, np.ndarray]]:
    """A hand that goes to a seeded place; a cloud round that place."""
    random = np.random.default_rng(seed)
    episodes = []
    for _ in range(EPISODES):
        goal, hand, rows = random.uniform(-0.3, 0.3, 3), np.zeros(3), []
        cloud = goal + 0.02 * random.normal(size=(POINTS, 3))
        for _ in range(LENGTH):
            step = np.clip(goal - hand, -0.03, 0.03)
            gripper = np.linalg.norm(goal - hand) < 0.02
            command = [*(hand + step if actions == "absolute" else step), float(gripper)]
            rows.append({"action": command, "state": [*hand, *(hand + np.array([0, 0.01, 0]))], "cloud": cloud})
            hand = hand + step
        episodes.append({key: np.array([row[key] for row in rows], np.float32) for key in rows[0]})
    return episodes


def write(path: str | Path, actions: str | None = "displacement", episodes=None, **meta) -> Path:
    """As README.md shows it."""
    episodes = recordings(actions or "displacement") if episodes is None else episodes
    said = {"actions": actions} if actions else {}
    said |= {"env": "mine/task", "observation": "cloud", "horizon": LENGTH, "hold_action": [0.0, 0.0, 0.0, None]}
    EpisodeStore.write(path, episodes, seeds=range(len(episodes)), meta={**said, **meta})
    return Path(path)


def refused(words: list[str], capsys) -> str:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return " ".join(said.err.split())


def weights(run: Path | str) -> dict[str, np.ndarray]:
    return load_file(Run.open(run).checkpoint / "policy.safetensors")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("actions", "frame"), [("displacement", "hand"), ("absolute", "reach")])
def test_from_a_store_to_a_report_by_the_commands_alone(actions, frame, here, capsys):
    write("data/mine.zarr", actions)
    gaze = ["--policy.gaze", "30"] if actions == "absolute" else []
    main(["train", "--data", "data/mine.zarr", "--method", "mgp-long", *SIZES, *gaze])
    folder = Path("runs/mine-task-mgp-long-seed0")
    assert f"mgp eval {folder}" in capsys.readouterr().out
    run = Run.open(folder)
    assert run.config.encoder.frame == frame
    assert run.demonstration_seeds == list(range(EPISODES - HELD_OUT))
    assert run.spec.hold == (0.0, 0.0, 0.0, None)
    assert (run.spec.horizon, run.spec.actions) == (LENGTH, actions)

    main(["eval", str(folder)])
    said = capsys.readouterr().out
    assert "MGP-Long on 1 held-out episode of mine/task" in said
    figures = OpenLoop.load(folder / "eval" / "open-loop.json")
    assert f"would run {figures.error:.4f}" in said
    assert figures.episodes == HELD_OUT
    assert figures.plans == -(-LENGTH // run.config.policy.sampling.execution_horizon)
    assert np.isfinite([figures.error, figures.repeating, *figures.error_by_step, *figures.error_by_number]).all()
    assert len(figures.error_by_number) == 4
    assert 0 <= figures.tokens <= 1
    assert (folder / "eval" / "open-loop.png").read_bytes().startswith(b"\x89PNG")

    main(["eval-tokenizer", str(folder)])
    assert "codes_in_use" in capsys.readouterr().out
    tokens = json.loads((folder / "eval" / "tokenizer.json").read_text())
    assert tokens["episodes"] == HELD_OUT
    assert "replay_success" not in tokens, "there is nothing to replay in"

    main(["report", str(folder), "--output", "report.html"])
    page = Path("report.html").read_text()
    assert "Held-out recordings" in page
    assert f"{figures.error:.3f}" in page
    assert 'src="data:image/png;base64,' in page
    assert "holds no evaluation" not in page
    assert "open-loop.json" not in page, "it is shown, and no broken evaluation"

    policy = load_policy(folder)
    frame_seen = {key: array[0] for key, array in recordings(actions)[0].items() if key != "action"}
    assert policy.act(frame_seen).shape == (4,)
    assert np.isfinite(policy.act(None)).all(), "the plan goes on without a frame"


@pytest.mark.parametrize("method", ["mgp-short", "bc"])
def test_other_methods_learn_from_them_too(method, here, capsys):
    write("mine.zarr", "displacement")
    sizes = SIZES if method != "bc" else SIZES[: SIZES.index("--policy.tokenizer.steps")]
    main(["train", "--data", "mine.zarr", "--method", method, "--output", "run", *sizes])
    main(["eval", "run", "--sampling.execution-horizon", "4"])
    figures = OpenLoop.load(Path("run/eval/open-loop.json"))
    assert figures.plans == LENGTH // 4
    assert (figures.tokens is None) is (method == "bc")
    main(["report", "run", "--output", "report.html"])
    assert figures.method in Path("report.html").read_text()


def test_the_error_falls_with_training(here):
    """That it means something, on episodes that were held out."""
    write("mine.zarr", "displacement")
    words = shlex.split("--encoder.hidden 16 32 --encoder.dim 32 --training.batch 64 --task.held-out 3")
    errors = []
    for steps in ("1", "150"):
        main(["train", "--data", "mine.zarr", "--method", "bc", "--output", steps, "--training.steps", steps, *words])
        main(["eval", steps])
        errors.append(OpenLoop.load(Path(steps, "eval", "open-loop.json")).error)
    assert errors[1] < 0.4 * errors[0]


def test_recordings_that_do_not_say_their_actions_are_refused_with_the_remedy(here, capsys):
    write("mine.zarr", None)
    said = refused(["train", "--data", "mine.zarr", *SIZES], capsys)
    assert "mine.zarr does not say what its actions are" in said
    assert "add --task.actions displacement" in said
    assert "or absolute" in said
    assert not Path("runs").exists()
    main(["train", "--data", "mine.zarr", "--task.actions", "absolute", "--output", "run", *SIZES])
    run = Run.open("run")
    assert (run.spec.actions, run.config.encoder.frame) == ("absolute", "reach")
    main(["eval", "run"])


def test_a_store_of_another_environment_is_refused(here, capsys):
    write("mine.zarr", env="metaworld/push")
    said = refused(["train", "--task", "assembly", "--data", "mine.zarr", *SIZES], capsys)
    assert "mine.zarr holds metaworld/push, the run wants metaworld/assembly: name the right --data or --task" in said
    write("own.zarr")
    said = refused(["train", "--task", "assembly", "--data", "own.zarr", *SIZES], capsys)
    assert "own.zarr holds mine/task, the run wants metaworld/assembly" in said
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--task.held-out", "12"], "has 12 episodes, task.demonstrations = 0 and task.held_out = 12 were asked for"),
        (["--task.demonstrations", "12"], "task.demonstrations = 12 and task.held_out = 1 were asked for: lower"),
        (["--task.actions", "relative"], "found 'relative'"),
        (["--augmentation.rotation", "10", "--encoder.frame", "world"], "choose encoder.frame = 'hand'"),
    ],
)
def test_numbers_and_settings_that_do_not_fit_are_refused(words, expected, here, capsys):
    write("mine.zarr", "displacement")
    assert expected in refused(["train", "--data", "mine.zarr", *SIZES, *words], capsys)


def test_a_simulators_store_is_not_asked_for_where_recordings_were_named(here, capsys):
    write("mine.zarr", episodes=recordings("displacement")[:3])
    said = refused(["train", "--task", "push", "--data", "mine.zarr", *SIZES], capsys)
    assert "mine.zarr holds mine/task, the run wants metaworld/push" in said
    assert "collect" not in said


def test_what_only_a_simulator_can_do_is_refused(here, capsys):
    write("mine.zarr")
    main(["train", "--data", "mine.zarr", "--output", "run", *SIZES])
    for words in (["--missing", "0.5"], ["--episodes", "3"], ["--csv", "rows.csv"]):
        assert f"{words[0]} is for a simulator" in refused(["eval", "run", *words], capsys)


SENSORS = {
    "state": lambda hand: [*hand, 0.5],
    "joints": lambda hand: [*hand, *hand, 0.5, 0.5],
    "rgb": lambda hand: np.full((16, 16, 3), 100 * np.abs(hand[0]), np.uint8),
}


@pytest.mark.parametrize(
    ("actions", "keys", "meta", "frame"),
    [
        ("displacement", {"state": "state", "rgb": "rgb"}, {"points": 1}, "hand"),
        ("displacement", {"state": "state", "rgb": "rgb"}, {}, "motion"),
        ("displacement", {"state": "joints"}, {}, "motion"),
        ("displacement", {"rgb_wrist": "rgb"}, {}, "world"),
        ("absolute", {"rgb_wrist": "rgb"}, {}, "world"),
    ],
)
def test_the_frame_follows_from_what_was_recorded(actions, keys, meta, frame, here):
    """Nothing is to be guessed, whatever sensors there are."""
    episodes = []
    for one in recordings(actions):
        sensors = {key: [SENSORS[made](row[:3]) for row in one["state"]] for key, made in keys.items()}
        episodes.append({"action": one["action"], **{key: np.array(rows) for key, rows in sensors.items()}})
    write("mine.zarr", actions, episodes, **meta)
    main(["train", "--data", "mine.zarr", "--method", "mgp-long", "--output", "run", *SIZES])
    assert Run.open("run").config.encoder.frame == frame
    main(["eval", "run"])
    policy, seen = load_policy("run"), {key: episodes[0][key][0] for key in keys}
    assert np.isfinite(policy.act(seen)).all()
    for key in keys:
        if key.startswith("rgb"):
            policy.reset()
            with pytest.raises(ObservationError, match="has dtype float32, the policy was trained on bytes"):
                policy.act({**seen, key: seen[key].astype(np.float32) / 255})


def test_every_instruction_is_learned_and_held_out(here):
    """Recorded one task after the other, the last episodes alone would leave one of them unlearned."""
    texts = ["lift"] * 7 + ["push"] * 3 + ["wave"] * 2
    said = {"actions": "displacement", "env": "mine/task", "horizon": LENGTH, "hold_action": [0.0] * 4}
    EpisodeStore.write("mine.zarr", recordings("displacement"), range(EPISODES), said, texts)
    main(
        [
            "train",
            "--data",
            "mine.zarr",
            "--method",
            "bc",
            "--output",
            "run",
            *SIZES[: SIZES.index("--policy.tokenizer.steps")],
        ]
    )
    run = Run.open("run")
    assert sorted({*range(EPISODES)} - {*run.demonstration_seeds}) == [6, 9, 11]
    assert run.spec.instructions == ("lift", "push", "wave")
    main(["eval", "run"])
    assert OpenLoop.load(Path("run/eval/open-loop.json")).episodes == 3


def test_one_episode_is_too_few(here, capsys):
    write("mine.zarr", "displacement", recordings("displacement")[:1])
    assert "record at least two" in refused(["train", "--data", "mine.zarr", *SIZES], capsys)


def test_a_run_that_kept_nothing_apart_says_so(here, capsys):
    write("mine.zarr", "displacement")
    main(["train", "--data", "mine.zarr", "--output", "run", "--task.held-out", "0", *SIZES])
    for command in ("eval", "eval-tokenizer"):
        assert "train with --task.held-out 2" in refused([command, "run"], capsys)
    assert "holds no evaluation" in _report("run")


def _report(run: str) -> str:
    main(["report", run, "--output", "report.html"])
    return re.sub(r"\s+", " ", Path("report.html").read_text())


def test_held_out_episodes_are_never_trained_on(here):
    """With other content in them, the weights are the same to the bit; with other content elsewhere they are not."""
    plain, other = recordings("displacement"), recordings("displacement", seed=1)
    held, learned = [*plain[:-2], *other[-2:]], [other[0], *plain[1:]]
    found = []
    for name, episodes in (("plain", plain), ("held", held), ("learned", learned)):
        write("mine.zarr", "displacement", episodes)  # one name, since a run records where its data are
        main(["train", "--data", "mine.zarr", "--output", name, "--task.held-out", "2", *SIZES])
        found.append(weights(name))
    assert all(np.array_equal(found[0][key], found[1][key]) for key in found[0])
    assert not all(np.array_equal(found[0][key], found[2][key]) for key in found[0])


def test_a_broken_open_loop_file_is_noted_and_the_rest_shown(here):
    write("mine.zarr", "displacement")
    main(["train", "--data", "mine.zarr", "--output", "run", *SIZES])
    main(["eval", "run"])
    Path("run/eval/open-loop.png").write_bytes(b"no picture")
    assert "open-loop.png cannot be shown (it is no PNG)" in _report("run")
    Path("run/eval/open-loop.png").unlink()
    assert "open-loop.png cannot be shown" in _report("run")
    Path("run/eval/open-loop.json").write_text('{"method": "x"}')
    page = _report("run")
    assert "is no open-loop evaluation of mgp" in page
    assert "Training" in page
