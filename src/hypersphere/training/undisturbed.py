"""Looking at modules without leaving a trace in them or in the random numbers that follow."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn


@contextmanager
def undisturbed(modules: Sequence[nn.Module], seed: int = 0) -> Iterator[None]:
    """Inside, no gradient is kept and random numbers start from ``seed``; afterwards random states, the modules' modes
    and their buffers (batch norm's statistics) are what they were."""
    modes = [(module, module.training) for each in modules for module in each.modules()]
    buffers = [
        (module, name, value, value.detach().clone())
        for each in modules
        for module in each.modules()
        for name, value in module._buffers.items()
        if value is not None
    ]
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    try:
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        with torch.no_grad():
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
        if devices:
            torch.cuda.set_rng_state_all(devices)
        with torch.no_grad():
            for module, name, value, kept in buffers:
                value.copy_(kept)
                module._buffers[name] = value
        for module, mode in modes:
            module.training = mode
