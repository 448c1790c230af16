from __future__ import annotations

import os
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: the test processes share the cores

import pytest
import torch

torch.set_num_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started the tests in the background


@pytest.fixture(autouse=True)
def _fixed_global_seed():
    """Nothing may depend on the global generator; a fixed state makes what does so at least repeatable."""
    torch.manual_seed(0)
