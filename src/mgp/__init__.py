"""Masked Generative Policy: robot imitation learning with discrete action tokens."""

import os

# Idle OpenMP threads that spin make a forward pass ten times slower on a busy machine. Set before torch loads.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "0")

__version__ = "0.1.0"
