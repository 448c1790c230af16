import json
import re
import subprocess
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from toy_robot import ToyPolicy, make_toy

from mgp.errors import ConfigError, DataError, SeedOverlapError
from mgp.evaluation import Evaluation, check_seeds, evaluate
from mgp.evaluation.provenance import commit, reproducible


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return evaluate(
        partial(ToyPolicy, noise=0.3),
        "toy/line",
        "state",
        {"horizon": 14},
        seeds=range(100, 108),
        demonstration_seeds=range(10),
        method="MGP-Long",
        preset="toy",
        variant={"temperature": 0.5, "scoring": "atr"},
        training_seed=0,
        training_minutes=1.25,
        workers=1,
        progress=False,
        make=make_toy,
        picture_size=8,
    )


def test_an_evaluation_says_what_was_run(evaluation):
    assert 0 < evaluation.successes < 8
    assert evaluation.interval[0] < evaluation.success < evaluation.interval[1]
    assert [e.seed for e in evaluation.episodes] == list(range(100, 108))
    assert evaluation.demonstrations == 10
    assert evaluation.execution_horizon == 5
    assert evaluation.latency[0]["threads"] == 1


def test_saved_and_loaded_it_is_the_same(evaluation, tmp_path):
    evaluation.save(tmp_path / "a" / "long.json")
    loaded = Evaluation.load(tmp_path / "a" / "long.json")
    for one, other in zip(evaluation.episodes, loaded.episodes, strict=True):
        assert replace(one, pictures=None, trace=None) == replace(other, pictures=None, trace=None)
    first, again = evaluation.episodes[0], loaded.episodes[0]
    np.testing.assert_array_equal(first.pictures, again.pictures)
    np.testing.assert_array_equal(first.trace.masked, again.trace.masked)
    np.testing.assert_allclose(first.trace.confidence, again.trace.confidence, atol=1e-4)
    assert replace(loaded, episodes=()) == replace(evaluation, episodes=())
    content = json.loads((tmp_path / "a" / "long.json").read_text())
    assert content["success"] == evaluation.success
    assert content["interval"] == list(evaluation.interval)


def test_a_name_with_a_dot_is_kept(evaluation, tmp_path):
    for temperature in ("0.5", "0.7"):
        evaluation.save(tmp_path / f"temperature={temperature}")
    assert sorted(p.name for p in tmp_path.glob("*.json")) == ["temperature=0.5.json", "temperature=0.7.json"]


def test_infinite_confidence_survives_as_null(evaluation, tmp_path):
    episode = evaluation.episodes[0]
    trace = replace(episode.trace, confidence=np.full_like(episode.trace.confidence, np.inf))
    replace(evaluation, episodes=(replace(episode, trace=trace),)).save(tmp_path / "x")
    assert "Infinity" not in (tmp_path / "x.json").read_text()
    assert np.isnan(Evaluation.load(tmp_path / "x").episodes[0].trace.confidence).all()


def test_a_trace_of_unequal_arrays_is_refused_with_their_shapes(evaluation, tmp_path):
    episode = evaluation.episodes[0]
    trace = replace(episode.trace, masked=episode.trace.masked[:, 1:])
    replace(evaluation, episodes=(replace(episode, trace=trace),)).save(tmp_path / "x")
    with pytest.raises(DataError, match=re.escape(f"masked {trace.masked.shape}")):
        Evaluation.load(tmp_path / "x")


def test_lost_or_broken_pictures_do_not_take_the_figures_along(evaluation, tmp_path):
    evaluation.save(tmp_path / "x")
    for content in (b"no zip", b""):
        (tmp_path / "x.npz").write_bytes(content)
        assert Evaluation.load(tmp_path / "x").episodes[0].pictures is None
    (tmp_path / "x.npz").unlink()
    assert Evaluation.load(tmp_path / "x").success == evaluation.success


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format": 99}', '{"format": 1, "episodes": [{}]}'])
def test_what_is_no_evaluation_is_refused(content, tmp_path):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(DataError, match="evaluate again"):
        Evaluation.load(tmp_path / "x.json")


def test_what_the_clouds_were_made_of_is_known(evaluation):
    assert evaluation.cloud == "", "it saw none"
    seen = replace(evaluation, observation="cloud")
    assert seen.cloud == "oracle", "before there was a choice, all had the simulator's segmentation"
    assert replace(seen, options={"cloud": "camera"}).cloud == "camera"


def test_unknown_seeds_of_demonstrations_are_called_unknown(evaluation, tmp_path):
    assert evaluation.seeds_checked
    assert evaluation.overlap == ""
    blind = evaluate(ToyPolicy, "toy/line", seeds=[1], demonstration_seeds=(), make=make_toy, workers=1, latency=False)
    assert blind.overlap == "demonstration seeds unknown: overlap not checked"
    for one in (evaluation, blind):  # as written before the field was there
        one.save(tmp_path / "x")
        content = json.loads((tmp_path / "x.json").read_text())
        assert content.pop("seeds_checked") == one.seeds_checked
        (tmp_path / "x.json").write_text(json.dumps(content))
        assert Evaluation.load(tmp_path / "x").seeds_checked == one.seeds_checked


def test_seeds_of_demonstrations_are_refused_by_name():
    with pytest.raises(SeedOverlapError, match=r"seeds 8, 9 were used.*--seed 10000"):
        check_seeds([8, 9, 10], range(10))
    check_seeds([10, 11], range(10))
    with pytest.raises(SeedOverlapError):
        evaluate(ToyPolicy, "toy/line", seeds=[1], demonstration_seeds=[1], make=make_toy)


def test_repeated_and_absent_seeds_are_refused():
    with pytest.raises(ConfigError, match="seeds 5 occur more than once"):
        check_seeds([5, 6, 5], [])
    with pytest.raises(ConfigError, match="at least one episode"):
        check_seeds([], [])
    with pytest.raises(ConfigError, match="-1 is negative"):
        check_seeds([-1], [])


def test_commit_of_a_clean_a_dirty_and_no_repository(tmp_path):
    assert commit(tmp_path) == "unknown"

    def git(*arguments):
        identity = ["-c", "user.name=t", "-c", "user.email=t@t"]
        subprocess.run(["git", "-C", tmp_path, *identity, *arguments], check=True, capture_output=True)

    git("init", "-q")
    assert commit(tmp_path) == "unknown"  # no commit yet
    (tmp_path / "code.py").write_text("1")
    git("add", "-A")
    git("commit", "-qm", "one")
    clean = commit(tmp_path)
    assert len(clean) == 12
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "r.csv").write_text("a row")
    assert commit(tmp_path) == clean  # a result of this code does not change the code
    (tmp_path / "code.py").write_text("2")
    assert commit(tmp_path) == clean + "+dirty"
    assert reproducible(f"{clean} {clean}")
    assert not any(map(reproducible, ("", "unknown", f"{clean} {clean}+dirty")))
