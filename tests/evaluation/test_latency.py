import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from toy_robot import ToyEnv, ToyPolicy, make_toy

from mgp.commands import demo
from mgp.commands import eval as eval_command
from mgp.evaluation import Evaluation, Latency, Timing, evaluate, measure, measure_both
from mgp.workflows.evaluate import describe


class Slow(ToyPolicy):
    """5 ms a plan, 200 ms for the first ever."""

    def plan(self, *arguments):
        time.sleep(0.005 if self.frames_seen else 0.2)
        return super().plan(*arguments)


class SlowEyes(ToyEnv):
    def observe(self):
        time.sleep(0.003)
        return super().observe()


def test_latency_of_replan_step_and_sequence():
    latency = measure(Slow(history=2, execution_horizon=5), SlowEyes(horizon=20, reach=9), seed=3, threads=1)
    assert latency.threads == 1
    assert latency.replans == 4  # the whole episode, although it succeeds at once
    assert 5 <= latency.policy.replan < 150  # the warm-up is not in it
    assert latency.policy.replan <= latency.policy.replan_p95
    assert latency.policy.step == latency.policy.replan / 5
    assert latency.policy.sequence >= 4 * 5
    assert latency.with_observation.replan >= 5 + 2 * 3
    assert latency.with_observation.sequence >= latency.policy.sequence + (1 + 3 * 2) * 3


def test_one_thread_and_the_default_are_measured_and_given_back():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert [latency.threads for latency in measure_both(ToyPolicy(), ToyEnv(), 3)] == [1, 2]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_latency_is_plain_data():
    content = measure(ToyPolicy(), ToyEnv(), 3, threads=1).as_dict()
    assert set(content) == {"threads", "replans", "policy", "with_observation", "idle", "others", "engine"}
    assert Latency.from_dict(content).as_dict() == content
    assert not Latency.from_dict({k: v for k, v in content.items() if k not in ("idle", "others")}).idle, "nobody knew"
    assert all(isinstance(value, float) and np.isfinite(value) for value in content["policy"].values())
    assert content["policy"]["step"] == pytest.approx(content["policy"]["replan"] / 5)


class Exported(ToyPolicy):
    """As if another engine than torch computed."""

    engine = "openvino-bf16"


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return evaluate(Exported, "toy/line", "state", {}, [50], [1], workers=1, progress=False, make=make_toy)


def test_what_is_printed_names_the_engine_and_its_latency(evaluation):
    (found,) = evaluation.latency
    plans, looks = found["policy"], found["with_observation"]
    _, line = describe(evaluation).splitlines()
    assert line.removesuffix("; the machine was not seen to be idle: no latency to compare") == (
        f"  openvino-bf16, 1 thread(s): {plans['replan']:.2f} ms a replan, {plans['step']:.2f} a step,"
        f" {plans['sequence']:.0f} a sequence (policy only); with observation {looks['step']:.2f} a step"
    )
    assert len(describe(replace(evaluation, latency=())).splitlines()) == 1, "nothing was measured"


def test_each_number_of_threads_is_printed_and_whether_the_machine_was_idle(evaluation):
    timings = Timing(8.0, 9.0, 1.604, 319.7), Timing(11.0, 12.0, 2.2, 440.0)
    idle = Latency(1, 40, *timings, idle=True).as_dict()
    before = {name: value for name, value in idle.items() if name not in ("idle", "engine")}  # as old records have it
    _, first, second = describe(replace(evaluation, latency=(idle, {**before, "threads": 2}))).splitlines()
    assert first == (
        "  torch, 1 thread(s): 8.00 ms a replan, 1.60 a step, 320 a sequence (policy only);"
        " with observation 2.20 a step"
    )
    assert second == (
        f"{first.replace('1 thread', '2 thread')}; the machine was not seen to be idle: no latency to compare"
    )


def test_the_commands_print_it(evaluation, monkeypatch, capsys, tmp_path):
    args = eval_command.Eval(tmp_path, env="toy/line")
    monkeypatch.setattr(eval_command, "parse", lambda words: (args, SimpleNamespace()))
    monkeypatch.setattr(eval_command, "evaluate_run", lambda *words, **options: evaluation)
    eval_command.main([])
    assert describe(evaluation) in capsys.readouterr().out
    monkeypatch.setattr(demo, "run_demo", lambda *words: iter([evaluation, replace(evaluation, method="other")]))
    monkeypatch.setattr(demo, "write_report", lambda *words: None)
    demo.main(["--output", str(tmp_path)])
    assert capsys.readouterr().out.count("openvino-bf16, 1 thread(s): ") == 2
