"""A run folder made up of seeded numbers, in the layout of `mgp train` and `mgp eval`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from mgp.evaluation import EpisodeResult, Evaluation
from mgp.policies.base import PlanTrace


def write_run(folder: Path, method: str = "MGP-Long", rate: float = 0.9, seed: int = 0, size: int = 64) -> Path:
    generator = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    config = {
        "method": "mgp-long",
        "task": {"name": "metaworld/assembly", "observation": "cloud"},
        "seed": seed,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "summary.json").write_text(json.dumps({"training_minutes": 8.31}))
    lines = ["stage,step,seconds,loss,rate"]
    for stage, start, end, steps in (("tokenizer", 0.4, 0.004, 2000), ("policy", 6.9, 0.35, 4000)):
        for step in range(0, steps, 10):
            loss = end + (start - end) * np.exp(-6 * step / steps) * generator.lognormal(0, 0.1)
            lines.append(f"{stage},{step},{step * 0.05:.2f},{loss:.6f},0.001")
    (folder / "metrics.csv").write_text("\n".join(lines) + "\n")
    checks = [f"{step},{rate * (1 - np.exp(-step / 900)):.2f},20" for step in range(500, 4001, 500)]
    (folder / "evals.csv").write_text("step,success,episodes\n" + "\n".join(checks) + "\n")
    evaluation(method, rate, generator, size).save(folder / "eval" / f"{method.replace('/', '')}.json")
    return folder


def evaluation(method: str, rate: float, generator: np.random.Generator, size: int) -> Evaluation:
    episodes = []
    for number in range(20):
        success = number < round(20 * rate)
        steps = int(generator.integers(60, 150)) if success else 200
        recorded = number == 0
        at = (*range(0, steps, 8), steps)
        episodes.append(
            EpisodeResult(
                seed=10_000 + number,
                success=success,
                success_step=steps if success else None,
                steps=steps,
                replans=-(-steps // 12),
                pictures=np.stack([picture(step / steps, size) for step in at]) if recorded else None,
                picture_steps=at if recorded else (),
                trace=trace(-(-steps // 12), 50, generator) if recorded and "Short" not in method else None,
            )
        )
    timing = {"replan": 7.91, "replan_p95": 9.4, "step": 0.659, "sequence": 134.5}
    looking = {"replan": 31.2, "replan_p95": 36.0, "step": 2.6, "sequence": 530.4}
    latency = [{"threads": n, "replans": 17, "policy": timing, "with_observation": looking} for n in (1, 2)]
    return Evaluation(
        method=method,
        task="metaworld/assembly",
        observation="cloud",
        episodes=tuple(episodes),
        preset="metaworld-long",
        training_seed=0,
        training_minutes=8.31,
        demonstrations=10,
        latency=tuple(latency),
        seeds_checked=True,
        commit="0123456789ab",
        machine="A processor, 2 cores",
    )


def picture(progress: float, size: int) -> np.ndarray:
    """A dot that comes to a ring."""
    image = Image.new("RGB", (size, size), (226, 228, 232))
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, size * 0.7, size, size), fill=(176, 150, 120))
    ring = size * 0.72
    draw.ellipse((ring - 9, size * 0.5 - 9, ring + 9, size * 0.5 + 9), outline=(30, 140, 60), width=3)
    x, y = size * (0.15 + 0.57 * progress), size * (0.2 + 0.3 * progress)
    draw.line((size / 2, 0, x, y), fill=(160, 50, 50), width=4)
    draw.ellipse((x - 6, y - 6, x + 6, y + 6), fill=(200, 40, 40))
    return np.asarray(image)


def trace(replans: int, tokens: int, generator: np.random.Generator) -> PlanTrace:
    """Confidence dips in the middle of the plan; the least confident 70 % are masked once, half of these twice."""
    executed = np.minimum(np.arange(replans) * 3, tokens)
    shape = 1 - 0.75 * np.exp(-(((np.arange(tokens) - 22) / 7) ** 2))
    confidence = np.clip(shape + generator.normal(0, 0.12, (replans, tokens)), 0.02, 1)
    masked = np.zeros((replans, tokens), int)
    for step, done in enumerate(executed):
        order = done + np.argsort(confidence[step, done:])
        count = int(0.7 * (tokens - done))
        masked[step, order[:count]] = 1
        masked[step, order[: count // 2]] = 2
    return PlanTrace(executed, generator.integers(0, 1024, (replans, tokens)), confidence, masked)
