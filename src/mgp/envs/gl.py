"""Images by OpenGL, for the rgb and depth observations. Nothing here is imported unless one of them is asked for."""

from __future__ import annotations

import importlib
import os
import weakref
from typing import Any

import mujoco
import numpy as np

from mgp.errors import SimulationError

BACKENDS = ("egl", "osmesa")  # both work without a display; MUJOCO_GL chooses another or one of them


class GLRenderer:
    """RGB and depth of one fixed camera, without shadows, reflections or multisampling (15 times as fast)."""

    def __init__(self, model: mujoco.MjModel, camera: str, size: int, groups: tuple[int, ...] = (0, 1, 2, 5)):
        self.model, self.size = model, size
        self._context = _context(size)
        self._context.make_current()
        model.vis.global_.offwidth = model.vis.global_.offheight = size
        model.vis.quality.offsamples = 0
        self._scene = mujoco.MjvScene(model, maxgeom=1000)
        for flag in (mujoco.mjtRndFlag.mjRND_SHADOW, mujoco.mjtRndFlag.mjRND_REFLECTION):
            self._scene.flags[flag] = False
        self._option = mujoco.MjvOption()
        self._option.geomgroup[:] = [group in groups for group in range(6)]
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._camera.fixedcamid = model.camera(camera).id
        self._viewport = mujoco.MjrRect(0, 0, size, size)
        self._mjr = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        # zero is far: near the far plane floats are then as fine as near the near one
        self._mjr.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._mjr)
        # also when nobody closes it: at interpreter exit OpenGL's own destructors come too late
        self.close = weakref.finalize(self, _free, self._mjr, self._context)

    def rgb(self, data: mujoco.MjData) -> np.ndarray:
        """(size, size, 3) uint8."""
        image = np.empty((self.size, self.size, 3), np.uint8)
        self._render(data, image, None)
        return np.ascontiguousarray(image[::-1])  # OpenGL counts rows from the bottom

    def depth(self, data: mujoco.MjData) -> np.ndarray:
        """(size, size) float32 metres along the camera's axis."""
        image = np.empty((self.size, self.size), np.float32)
        self._render(data, None, image)
        extent = self.model.stat.extent
        near, far = self.model.vis.map.znear * extent, self.model.vis.map.zfar * extent
        return (near * far / (near + image[::-1].astype(np.float64) * (far - near))).astype(np.float32)

    def _render(self, data: mujoco.MjData, rgb: np.ndarray | None, depth: np.ndarray | None) -> None:
        self._context.make_current()
        everything = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(self.model, data, self._option, None, self._camera, everything, self._scene)
        mujoco.mjr_render(self._viewport, self._scene, self._mjr)
        mujoco.mjr_readPixels(rgb, depth, self._viewport, self._mjr)


def _free(mjr: mujoco.MjrContext, context: Any) -> None:
    context.make_current()
    mjr.free()
    context.free()


def _context(size: int) -> Any:
    asked = os.environ.get("MUJOCO_GL", "").lower()
    failures = []
    for backend in (asked,) if asked else BACKENDS:
        try:
            return importlib.import_module(f"mujoco.{backend}").GLContext(size, size)
        except Exception as error:  # a missing library shows as any of ImportError, AttributeError, OpenGL's own
            failures.append(f"{backend}: {error}")
            if not asked:
                os.environ.pop("PYOPENGL_PLATFORM", None)  # set by the backend that failed; the next would refuse it
    raise SimulationError(
        f"rgb and depth observations need OpenGL, and none could be started ({'; '.join(failures)}). Install libegl1 "
        "or libosmesa6, set MUJOCO_GL to egl or osmesa, or use observation='cloud', which needs no OpenGL"
    )
