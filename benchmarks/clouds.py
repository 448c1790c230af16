"""Ray-cast clouds against clouds from a GL depth render: `python -m benchmarks.clouds`.

Three ways to 512 points of one workspace, taking turns on frames of an expert's episode; medians of the process's CPU
time (the software renderer has threads), and how many distinct points the cloud has:

- rays: `mgp.envs.clouds`;
- GL: depth of 128 x 128 pixels of the whole scene with the fast flags, back-projected, cropped, farthest points: what
  DP3 does;
- GL-: the same with the backdrop hidden that the rays leave out, the least a renderer can do. It is cheap because few
  of its pixels show anything.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from mgp.envs.clouds import farthest
from mgp.envs.gl import GLRenderer
from mgp.envs.metaworld import CAMERA, MetaWorldEnv
from mgp.errors import SimulationError

TASKS = ("assembly", "disassemble", "stick-push", "push", "drawer-open", "shelf-place", "door-close", "plate-slide")
SIZE, POINTS, FRAMES = 128, 512, 20

Route = Callable[[], np.ndarray]


def gl_route(env: MetaWorldEnv, groups: tuple[int, ...]) -> Route:
    """The cloud of the present state by way of OpenGL."""
    renderer = GLRenderer(env._sim.model, CAMERA, SIZE, groups)
    directions, origin = env._camera.image(SIZE), env._camera.position

    def look() -> np.ndarray:
        depth = renderer.depth(env._sim.data).ravel()
        points = (origin + directions * depth[:, None]).astype(np.float32)
        points = points[env._scene.inside(points)]
        return points[np.resize(farthest(points, min(POINTS, len(points))), POINTS)]

    return look


def measure(task: str) -> dict[str, tuple[float, float]]:
    """Route: median milliseconds and distinct points. Rays only if there is no GL."""
    env = MetaWorldEnv(task, "cloud", points=POINTS)
    routes: dict[str, Route] = {"rays": lambda: env._cast(env._sim.data)}
    try:
        routes |= {"GL": gl_route(env, (0, 1, 2)), "GL-": gl_route(env, (0, 1))}
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


def run(tasks: tuple[str, ...] = TASKS) -> dict[str, dict[str, tuple[float, float]]]:
    print(f"CPU ms (distinct points) a cloud of {POINTS}")
    print(f"{'task':20s} {'rays':>12s} {'GL':>12s} {'GL-':>12s} {'rays/GL':>8s} {'rays/GL-':>8s}")
    results = {}
    for task in tasks:
        result = results[task] = measure(task)
        columns = [f"{ms:6.2f} ({points:3.0f})" for ms, points in result.values()]
        ratios = [f"{result['rays'][0] / result[name][0]:8.2f}" for name in ("GL", "GL-") if name in result]
        print(f"{task:20s} " + " ".join(f"{text:>12s}" for text in columns), *ratios)
    return results


if __name__ == "__main__":
    run(tuple(sys.argv[1:]) or TASKS)
