"""What is what in a Meta-World model: backdrop, robot, objects and goal markers."""

from __future__ import annotations

import mujoco
import numpy as np

from mgp.envs.camera import CORNERS
from mgp.envs.depth import BACKDROP_GROUP, LINK_GROUP  # free in Meta-World's models: 0 and 1 are seen, 4 touches

TABLE = ("tablelink", "")  # the slab with the hole of pick-out-of-hole has no name
SCENERY = ("world", "RetainingWall")
ROBOT = "base"
# The flange (right_hand) is left out: a mesh that cost half of all the ray casting, to show what the state says.
HAND = ("hand", "rightclaw", "rightpad", "leftclaw", "leftpad")

# Points are kept in this box: the hand and all objects and goals of the 50 tasks are inside.
LOW, HIGH = (-0.6, 0.3, 0.0), (0.7, 1.1, 0.8)  # metres; z = 0 is 3 mm above the table top
HOLE_LOW = -0.06  # lowest z where the table has a hole (hand-insert, sweep-into, pick-out-of-hole)


class Scene:
    """The things in a model whose points are wanted, each a rigid part: the gripper, a drawer, its case, a puck.

    Thing 0 is all goal markers together. Building a scene moves the backdrop's and the arm's geoms into groups of their
    own, since groups are all that mj_multiRay can be told.
    """

    def __init__(self, model: mujoco.MjModel):
        self.model = model
        roots = _roots(model, model.geom_bodyid)
        names = np.array([model.body(b).name for b in model.geom_bodyid])
        seen = np.isin(model.geom_group, (0, 1))
        table = np.isin(roots, TABLE)
        slabs = table & seen & (model.geom_type == mujoco.mjtGeom.mjGEOM_BOX)
        # A whole table can be left out, since whatever is under it is below the crop. One built of slabs around a hole
        # must be cast, to hide what it hides; its points are dropped.
        with_hole = bool(np.count_nonzero(slabs) > 1)
        backdrop = np.isin(roots, SCENERY) | (table & ~slabs if with_hole else table)
        model.geom_group[backdrop & seen] = BACKDROP_GROUP
        arm = (roots == ROBOT) & ~np.isin(names, HAND)
        model.geom_group[arm & seen] = LINK_GROUP
        backdrop |= arm

        alpha = np.where(model.geom_matid >= 0, model.mat_rgba[model.geom_matid, 3], model.geom_rgba[:, 3])
        self.geoms = np.flatnonzero(seen & ~backdrop & ~table & (alpha > 0))  # (G,)
        self.robot = np.flatnonzero(seen & (roots == ROBOT) & (alpha > 0))  # (L,) the arm, the hand and its fingers
        self.slabs = np.flatnonzero(slabs)  # the table's top, in one piece or several
        self.boxes = model.geom_aabb[self.geoms].reshape(-1, 2, 3)  # (G, 2, 3) centre and half size in the geom's frame
        on_robot = np.isin(_roots(model, model.site_bodyid), (ROBOT, "mocap"))
        # sites of half a millimetre and less mark corners for the reward, not for the eye
        self.markers = np.flatnonzero(~on_robot & (model.site_rgba[:, 3] > 0) & (model.site_size[:, 0] > 1e-3))  # (S,)
        self.radii = model.site_size[self.markers, 0]

        bodies = model.geom_bodyid[self.geoms]
        fixed = model.body_weldid[bodies] == 0
        part = np.where(fixed, -model.body_rootid[bodies], model.body_weldid[bodies])
        part[roots[self.geoms] == ROBOT] = model.nbody  # hand and fingers are one thing
        parts, thing = np.unique(part, return_inverse=True)
        self.things = len(parts) + 1
        self.thing = np.full(model.ngeom, -1)  # (ngeom,) -1: not wanted
        self.thing[self.geoms] = thing + 1
        self.box_thing = np.concatenate([thing + 1, np.zeros(len(self.markers), int)])  # (G + S,), see `corners`

        self.low, self.high = np.array(LOW), np.array(HIGH)
        if with_hole:
            self.low[2] = HOLE_LOW

    def corners(self, data: mujoco.MjData) -> np.ndarray:
        """Corners (G + S, 8, 3) in the world of boxes around each wanted geom and marker, cut to the workspace."""
        local = self.boxes[:, None, 0] + CORNERS * self.boxes[:, None, 1]
        rotation = data.geom_xmat[self.geoms].reshape(-1, 3, 3).transpose(0, 2, 1)
        geoms = local @ rotation + data.geom_xpos[self.geoms, None]
        markers = data.site_xpos[self.markers, None] + CORNERS * self.radii[:, None, None]
        return np.clip(np.concatenate([geoms, markers]), self.low, self.high)

    def inside(self, points: np.ndarray) -> np.ndarray:
        """Which of the points (M, 3) are in the workspace, (M,) bool."""
        return np.all((points > self.low) & (points < self.high), axis=1)


def _roots(model: mujoco.MjModel, bodies: np.ndarray) -> np.ndarray:
    """The name of the top-level body each body belongs to."""
    return np.array([model.body(model.body_rootid[b]).name for b in bodies])
