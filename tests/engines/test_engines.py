"""Engines stand in for torch: as good as the same for every policy, refused where they are not."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

import small
from mgp.engines import AUTO, ENGINES, REFERENCE, find_engine
from mgp.engines.agreement import Agreement
from mgp.engines.folder import FOLDER, StandIn, choose, exported
from mgp.errors import CheckpointError, ConfigError, UnknownNameError
from mgp.files import seal
from mgp.graph import graph, stand_in, watched
from mgp.policies.driver import Driver
from mgp.policies.files import save_policy
from mgp.runs import load_policy
from mgp.workflows import export
from mgp.workflows.export import export_run, table

pytestmark = pytest.mark.xdist_group("engines")  # what is exported once is used by all
INSTALLED = [name for name, engine in ENGINES.items() if engine.available and engine.weights != "own"]


class Saved:
    """Enough of a run: a policy in a folder, and the demonstrations that it was made for."""

    def __init__(self, folder, policy):
        save_policy(policy, folder)
        self.policy_checkpoint, self.config, self.data = folder, policy.config, folder


def exported_run(folder, monkeypatch, config, engines=()):
    data = small.demonstrations(config.task.observation)
    policy = small.policy(config) if config.policy.name == "mgp" else small.untrained(config)
    monkeypatch.setattr(export, "load_demonstrations", lambda task, path: data)
    run = Saved(folder, policy)
    lines, _ = export_run(run, engines, rounds=1, seconds=0.01)
    return run, lines


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """An exported MGP-Long."""
    with pytest.MonkeyPatch.context() as patch:
        yield exported_run(tmp_path_factory.mktemp("long") / "checkpoint", patch, small.tiny("long", "cloud"))


def actions(policy, rows: int = 1) -> np.ndarray:
    """Of some steps."""
    driver, out = Driver(policy, list(range(rows))), []
    for step in range(12):
        for row in range(rows):
            view = small.frames(policy.config, rows, 1, seed=step)
            driver.see(row, {key: value[row, 0] for key, value in view.items()})
        if driver.due:
            driver.plan()
        out.append(driver.take()[:, 0])
    return np.stack(out, 1)


@pytest.mark.slow  # it is exported once more, with plans long enough to differ
def test_memory_of_onnxruntime_stays_flat_over_replans_with_any_number_of_pending_tokens(tmp_path, monkeypatch):
    """Of 48, in an order that does not repeat. A session keeps a plan of the memory for each size that it meets; in the
    first parts it meets all.
    """
    length, per = 192, 4
    data = small.demonstrations("state", (length,) * 4)
    data = replace(data, meta={**small.META, "horizon": length})
    monkeypatch.setattr(small, "demonstrations", lambda observation: data)
    run, _ = exported_run(tmp_path / "run", monkeypatch, small.tiny("long"), ("onnxruntime",))
    policy = load_policy(run.policy_checkpoint, engine="onnxruntime")
    random, computed, met, pending = np.random.default_rng(0), StandIn.__call__, set(), set()

    def noted(self, *inputs):
        out = computed(self, *inputs)
        if out is not None:
            met.add((id(self), *(tuple(one.shape) for one in inputs)))
        return out

    monkeypatch.setattr(StandIn, "__call__", noted)
    used, replans, sizes = [], 0, 0
    for part in range(30):
        for seed in range(10):
            driver = Driver(policy, [seed])
            while driver.run < length:
                pending.add(-(-(length - driver.run) // per))
                driver.see(0, {"state": random.normal(0, 0.3, small.STATE["state"]).astype(np.float32)})
                driver.plan()
                driver.take(int(random.integers(1, 24)))
                replans += 1
        used.append(small.resident())
        sizes = len(met) if part == 5 else sizes
    print(f"\n{replans} replans, {len(met)} sizes of {len(pending)} pending: MB {np.round(used, 2).tolist()}")
    assert pending == set(range(1, length // per + 1))
    assert len(met) == sizes > 10, "all were met in the first parts, and onnxruntime computed them"
    assert used[-1] - used[5] < 2.0, "4000 replans: half a kilobyte each would be seen"


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
@pytest.mark.parametrize("rows", [1, 3])
def test_an_engine_acts_as_torch_does_alone_and_in_a_batch(long, engine, rows):
    run, _ = long
    expected = actions(load_policy(run.policy_checkpoint, engine=REFERENCE), rows)
    policy = load_policy(run.policy_checkpoint, engine=engine)
    assert policy.engine == engine
    np.testing.assert_allclose(actions(policy, rows), expected, rtol=1e-4, atol=1e-5)


def test_nothing_is_left_to_torch_that_an_engine_could_do(long):
    run, _ = long
    policy, called = load_policy(run.policy_checkpoint, engine="onnxruntime"), set()
    with watched(lambda module, method, inputs, output: called.add((type(module).__name__, method))):
        actions(policy)
    stands = {(type(m).__name__, name) for m in policy.modules() for name in m.__dict__.get("_stand_ins", {})}
    assert called == stands
    assert ("MaskedTransformer", "answer") in called


def test_the_fastest_that_was_exported_is_chosen_unless_one_is_named(long):
    run, lines = long
    good = [line for line in lines if not line.refusal]
    fastest = min(good, key=lambda line: line.milliseconds).engine
    assert choose(run.policy_checkpoint) == fastest == load_policy(run.policy_checkpoint).engine
    assert load_policy(run.policy_checkpoint, engine=REFERENCE).engine == REFERENCE
    with pytest.raises(UnknownNameError, match="Did you mean 'openvino'"):
        load_policy(run.policy_checkpoint, engine="openvno")
    assert {line.engine for line in lines} == {REFERENCE, *INSTALLED}
    assert all(line.engine in table(lines) for line in lines)


def test_the_files_say_what_they_are_of_and_what_made_them(long):
    run, _ = long
    meta = exported(run.policy_checkpoint)
    assert meta["versions"].keys() >= {"torch", "onnx"}
    assert "transformer.answer" in meta["graphs"]
    assert meta["engines"]["onnxruntime"]["tokens"] == 1.0
    assert meta["engines"]["onnxruntime"]["error"] < 1e-4
    assert "transformer.answer.onnx" in meta["sha256"]


def test_without_an_export_torch_computes_and_others_are_refused(tmp_path):
    run = Saved(tmp_path / "plain", small.policy(small.tiny("short")))
    assert load_policy(run.policy_checkpoint).engine == REFERENCE
    with pytest.raises(ConfigError, match=r"has no engine 'openvino' \(nothing was exported\): run `mgp export"):
        load_policy(run.policy_checkpoint, engine="openvino")


@pytest.fixture
def copied(long, tmp_path):
    return shutil.copytree(long[0].policy_checkpoint, tmp_path / "copy")


def test_files_of_other_weights_are_refused(copied, tmp_path):
    other = small.policy(small.tiny("long", "cloud", seed=1))
    save_policy(other, tmp_path / "other")
    shutil.copytree(copied / FOLDER, tmp_path / "other" / FOLDER)
    for engine in (AUTO, "onnxruntime"):
        with pytest.raises(CheckpointError, match=r"exported from other weights .* run `mgp export` again"):
            load_policy(tmp_path / "other", engine=engine)
    assert load_policy(tmp_path / "other", engine=REFERENCE).engine == REFERENCE


def test_damaged_files_are_refused(copied):
    path = copied / FOLDER / "tokenizer.decoder.onnx"
    path.write_bytes(path.read_bytes()[:-10] + b"0123456789")
    with pytest.raises(CheckpointError, match=r"cannot be used: run `mgp export` again.*corrupted"):
        load_policy(copied)


def test_an_engine_that_disagrees_is_left_out_and_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr("mgp.engines.agreement.ACTIONS", -1.0)
    config = small.tiny_of("bc")
    run, lines = exported_run(tmp_path / "all", monkeypatch, config, ())
    assert all("its actions differ by" in line.refusal for line in lines[1:])
    assert "refused" in table(lines)
    assert choose(run.policy_checkpoint) == REFERENCE
    assert not list((run.policy_checkpoint / FOLDER).glob("*.onnx")), "nobody reads them"
    with pytest.raises(ConfigError, match=r"'onnxruntime' is not exported: its actions differ .* -1.0 is allowed"):
        exported_run(tmp_path / "one", monkeypatch, config, ("onnxruntime",))
    assert not (tmp_path / "one" / FOLDER).exists(), "nothing half-written"


@pytest.mark.parametrize(
    ("agreement", "said"),
    [
        (Agreement(0.01, 0.95, 0.001), ""),
        (Agreement(0.01, None, 0.001), ""),
        (Agreement(0.01, 0.8, 0.0), "80.0% of its tokens"),
        (Agreement(0.01, None, 0.5), "differ by 0.500"),
        (Agreement(float("nan"), None, 0.0), "NaN"),
    ],
)
def test_what_is_too_little(agreement, said):
    assert said in agreement.refusal
    assert bool(agreement.refusal) == bool(said)


def test_another_policy_is_exported_without_a_word_of_its_own(tmp_path, monkeypatch):
    run, lines = exported_run(tmp_path / "bc", monkeypatch, small.tiny_of("bc", "cloud"), ("onnxruntime",))
    assert lines[1].agreement.tokens is None
    expected = actions(load_policy(run.policy_checkpoint, engine=REFERENCE), 2)
    np.testing.assert_allclose(actions(load_policy(run.policy_checkpoint), 2), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@small.every_method
def test_every_policy_can_be_exported(method, tmp_path, monkeypatch):
    _, lines = exported_run(tmp_path / method, monkeypatch, small.tiny_of(method, "cloud"), ("onnxruntime", "openvino"))
    assert all(line.agreement.error < 1e-4 and line.agreement.actions < 1e-3 for line in lines[1:])


@pytest.mark.slow  # a compiler is started
def test_compiled_torch_acts_as_torch_does(tmp_path, monkeypatch):
    if not find_engine("torch-compiled").available:
        pytest.skip("no C++ compiler")
    run, lines = exported_run(tmp_path / "bc", monkeypatch, small.tiny_of("bc"), ("torch-compiled",))
    assert lines[1].agreement.error < 1e-4
    assert choose(run.policy_checkpoint) == REFERENCE, "it would compile for tens of seconds"
    assert load_policy(run.policy_checkpoint, engine="torch-compiled").engine == "torch-compiled"


@pytest.mark.slow  # a compiler is started
@pytest.mark.parametrize("kind", ["short", "long"])
def test_after_an_episode_nothing_is_compiled_any_more(kind, tmp_path, monkeypatch):
    """The first one meets all sizes. Nor is a graph left to torch because it was compiled too often."""
    if not find_engine("torch-compiled").available:
        pytest.skip("no C++ compiler")
    from torch._dynamo.utils import counters

    torch._dynamo.reset()  # what other tests compiled would count
    counters.clear()
    config = small.tiny(kind, "cloud")
    run, lines = exported_run(tmp_path / kind, monkeypatch, config, ("torch-compiled",))
    assert lines[1].agreement.error < 1e-4
    policy = load_policy(run.policy_checkpoint, engine="torch-compiled")

    def compiled(seed: int) -> dict[str, int]:
        """Pieces of code that were tried to compile, and how many could be, after an episode."""
        driver = Driver(policy, [seed])
        for step in range(small.HORIZON + 4):  # beyond the end of the plan
            view = small.frames(config, 1, 1, seed=1000 * seed + step)
            if step % 7 == 6:
                driver.miss(0)
            else:
                driver.see(0, {key: value[0, 0] for key, value in view.items()})
            if driver.due:
                driver.plan()
            driver.take()
        return dict(counters["frames"])

    warm = compiled(0)
    assert warm["total"] == warm["ok"] > 0, "none is left to torch"
    for seed in (1, 2):
        assert compiled(seed) == warm
    assert not [reason for reason in counters["unimplemented"] if "recompile limit" in reason]


def test_shapes_that_a_graph_was_not_written_for_are_left_to_torch():
    class Double(torch.nn.Module):
        @graph
        def forward(self, x):
            return 2 * x

    double = Double()
    stand_in(double, "forward", StandIn(((None, 3),), lambda inputs: [10 * inputs[0]]))
    with torch.no_grad():
        assert double(torch.ones(2, 3)).max() == 10
        assert double(torch.ones(2, 4)).max() == 2
        assert double(torch.ones(3)).max() == 2
    assert double(torch.ones(2, 3)).max() == 2, "a gradient may be wanted: torch computes"


def test_a_seal_of_another_format_is_no_export(copied):
    folder = copied / FOLDER
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").unlink()
    seal(folder, {**{key: value for key, value in meta.items() if key not in ("sha256", "seal")}, "format": 9})
    with pytest.raises(CheckpointError, match="cannot be used"):
        exported(copied)


def test_an_engine_that_is_not_installed_says_what_to_install(monkeypatch, copied):
    absent = replace(find_engine("openvino"), library="no_such")
    monkeypatch.setitem(ENGINES, "openvino", absent)
    with pytest.raises(ConfigError, match=r"needs no-such.*masked-generative-policy\[engines\]"):
        load_policy(copied, engine="openvino")
