"""The coloured clouds of the SO-101 environments: `camera`, `oracle` and `paper`, all from one camera."""

from __future__ import annotations

import numpy as np

from mgp.envs.camera_cloud import CameraCloud
from mgp.envs.checks import Look
from mgp.envs.depth import BACKDROP_GROUP, LINK_GROUP, DepthCamera, Sight
from mgp.envs.selffilter import SelfFilter
from mgp.envs.so101.arm import FINGERS
from mgp.envs.so101.cloud import ColourCaster
from mgp.envs.workspace import Workspace

PAPER_STRIDE = 7  # 128 x 128 pixels, as DP3 has on Meta-World


def so101_look(kind: str, oracle: ColourCaster, workspace: Workspace, noise: float, shift: float) -> Look:
    """`paper` is DP3's recipe in this scene: the arm left in, and plain farthest points of 128 x 128 pixels."""
    model, camera, points = oracle.model, oracle.camera, oracle.points
    if kind == "oracle":
        return lambda data, hand, moment: oracle(data)
    bodies = np.array([model.body(body).name for body in model.geom_bodyid])
    roots = model.body_rootid[model.geom_bodyid]
    shown = np.isin(model.geom_group, (0, 1, 2))
    fingers = np.isin(bodies, FINGERS)
    links = shown & (roots == model.body("base").rootid) & ~fingers  # what it stands on is the robot's too
    backdrop = shown & (bodies == "world") & np.array([_is_backdrop(model.geom(g).name) for g in range(model.ngeom)])
    # groups are all that mj_multiRay can be told
    model.geom_group[fingers & shown] = 1
    model.geom_group[links] = LINK_GROUP
    model.geom_group[backdrop] = BACKDROP_GROUP
    sight = Sight(model, np.flatnonzero(shown & ~links & ~backdrop), workspace.table, *workspace.box)
    paper = kind == "paper"
    sensor = DepthCamera(sight, camera, oracle.colours, noise=noise, shift=shift, exhaustive=paper)
    robot = SelfFilter(model, np.flatnonzero(links))
    return CameraCloud(sensor, workspace, points, None if paper else robot, PAPER_STRIDE if paper else None)


def _is_backdrop(name: str) -> bool:
    return name in ("table", "plate") or name.startswith("rail")
