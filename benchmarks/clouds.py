"""Camera clouds against the oracle's and against a GL depth render: `python -m benchmarks.clouds`.

Ways to 512 points of one workspace, taking turns on frames of an expert's episode; medians of the process's CPU time
(the software renderer has threads), and how many distinct points the cloud has:

- camera: `mgp.envs.camera_cloud`, what collecting and evaluating cast by default;
- oracle: `mgp.envs.oracle`, aimed and shared out by the simulator's segmentation;
- GL: depth of 128 x 128 pixels of the whole scene with the fast flags, back-projected, cropped, farthest points: what
  DP3 does. `paper` is the same by rays.

The last lines are the ratios that matter, camera / oracle, means over the tasks: of a cloud, of collecting (every step
is looked at) and of evaluating MGP-Short (two steps in five are), the simulator's and the expert's time included.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from mgp.envs.gl import GLRenderer
from mgp.envs.metaworld import CAMERA, MetaWorldEnv
from mgp.envs.metaworld_cloud import metaworld_look
from mgp.envs.thin import thin
from mgp.errors import SimulationError

TASKS = ("assembly", "disassemble", "stick-push", "push", "drawer-open", "shelf-place", "door-close", "plate-slide")
SIZE, POINTS, FRAMES = 128, 512, 20
LOOKED = {"collecting": (0, 1, 2, 3, 4), "evaluating": (0, 4)}  # which of five steps are looked at
ROUTES = ("camera", "oracle", "paper", "GL")

Route = Callable[[], np.ndarray]


def ray_route(env: MetaWorldEnv, kind: str) -> Route:
    """The cloud of the present state by rays."""
    look = metaworld_look(kind, env._scene, env._camera, POINTS, 0.0, 0.0)
    return lambda: look(env._sim.data, env.robot_state()[:3], (0, 0))


def gl_route(env: MetaWorldEnv) -> Route:
    """The cloud of the present state by way of OpenGL."""
    renderer = GLRenderer(env._sim.model, CAMERA, SIZE)
    directions, origin = env._camera.image(SIZE), env._camera.position

    def look() -> np.ndarray:
        depth = renderer.depth(env._sim.data).ravel()
        points = (origin + directions * depth[:, None]).astype(np.float32)
        points = points[env._scene.inside(points)]
        return points[thin(points, POINTS)]

    return look


def measure(task: str) -> dict[str, tuple[float, float]]:
    """Route: median milliseconds and distinct points. Rays only if there is no GL."""
    env = MetaWorldEnv(task, "cloud", points=POINTS)
    routes = {kind: ray_route(env, kind) for kind in ROUTES[:3]}
    try:
        routes["GL"] = gl_route(env)
    except SimulationError as error:
        print(error, file=sys.stderr)
    times: dict[str, list[float]] = {name: [] for name in routes}
    distinct: dict[str, list[int]] = {name: [] for name in routes}
    env.reset(seed=0)
    expert = env.expert()
    for step in range(env.horizon):
        if step % (env.horizon // FRAMES) == 0:
            for name, route in routes.items():
                start = time.process_time()
                cloud = route()
                times[name].append(1e3 * (time.process_time() - start))
                distinct[name].append(len(np.unique(cloud, axis=0)))
        env.advance(expert())
    return {name: (float(np.median(times[name])), float(np.median(distinct[name]))) for name in routes}


def whole(task: str, steps: int) -> dict[str, dict[str, float]]:
    """Way of working: CPU seconds of an expert's episode with each kind of cloud; they take turns of five steps."""
    spent = {way: dict.fromkeys(ROUTES[:2], 0.0) for way in LOOKED}
    for way, looked in LOOKED.items():
        envs = {kind: MetaWorldEnv(task, "cloud", points=POINTS, cloud=kind) for kind in ROUTES[:2]}
        experts = {}
        for kind, env in envs.items():
            env.reset(seed=0)
            experts[kind] = env.expert()
        for _ in range(steps // 5):
            for kind, env in envs.items():
                start = time.process_time()
                for step in range(5):
                    if step in looked:
                        env.observe()
                    env.advance(experts[kind]())
                spent[way][kind] += time.process_time() - start
    return spent


def run(tasks: tuple[str, ...] = TASKS, steps: int = 100) -> dict[str, dict[str, tuple[float, float]]]:
    print(f"CPU ms (distinct points) a cloud of {POINTS}")
    print(f"{'task':20s}", *(f"{name:>13s}" for name in ROUTES), "  camera/oracle")
    results = {}
    for task in tasks:
        result = results[task] = measure(task)
        columns = [f"{ms:7.2f} ({points:3.0f})" for ms, points in result.values()]
        print(f"{task:20s}", *(f"{text:>13s}" for text in columns), f"{_ratio(result):8.2f}")
    print(f"camera/oracle, a cloud: {np.mean([_ratio(result) for result in results.values()]):.2f}")
    spent = [whole(task, steps) for task in tasks]
    for way in LOOKED:
        ratio = np.mean([one[way]["camera"] / one[way]["oracle"] for one in spent])
        print(f"camera/oracle, {way}: {ratio:.2f}")
    return results


def _ratio(result: dict[str, tuple[float, float]]) -> float:
    return result["camera"][0] / result["oracle"][0]


if __name__ == "__main__":
    run(tuple(sys.argv[1:]) or TASKS)
