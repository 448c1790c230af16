"""How evaluations are called on the page, in one place: a success from oracle clouds never stands without that word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mgp.evaluation.calibration_record import Calibration
from mgp.evaluation.confidence_record import ConfidenceStudy
from mgp.evaluation.episode import EpisodeResult
from mgp.evaluation.record import Evaluation

NONE = "\N{EN DASH}"
MODES = {"rgb": "pictures", "depth": "depth pictures"}
CLOUDS = {"camera": "camera clouds", "oracle": "oracle clouds", "paper": "clouds by DP3's recipe"}


def seen(observation: str, cloud: str) -> str:
    """What a policy saw, e.g. "oracle clouds"; `cloud` as of `Evaluation.cloud`."""
    if not cloud:
        return MODES.get(observation, observation)
    clouds = CLOUDS.get(cloud, f"{cloud} clouds")
    return clouds if observation == "cloud" else f"{observation} ({clouds})"


def seen_by(one: Evaluation) -> str:
    return seen(one.observation, one.cloud)


def seen_in(study: ConfidenceStudy | Calibration) -> str:
    return seen("cloud", study.cloud) if study.cloud else "state"


def episode_name(one: Evaluation, episode: EpisodeResult) -> str:
    return f"{one.method} on {one.task}, {seen_by(one)}, seed {episode.seed}"


def with_sight(title: str, evaluations: Sequence[Evaluation]) -> str:
    """The heading of a section that shows successes: "Success from oracle clouds"."""
    kinds = unique(map(seen_by, evaluations))
    return f"{title} from {listed(kinds)}" if kinds else title


def options(one: Evaluation) -> str:
    parts = [f"{name.replace('_', ' ')} {value}" for name, value in one.variant.items()]
    if one.missing:
        parts.append(f"{one.missing:.0%} of observations missing")
    return ", ".join(parts)


def task(one: Evaluation) -> str:
    return one.task.removeprefix("metaworld/")


def unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))


def listed(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]
