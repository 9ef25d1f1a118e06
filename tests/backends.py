"""The array libraries that are installed, each on each of its devices.

A test that asks for the fixture ``backend`` runs on all of them, one that asks for ``tensors`` on
all but NumPy, whose answers it compares with.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace


@dataclass(frozen=True)
class Backend:
    """A library and a device."""

    name: str
    library: Any
    device: Any = None

    def array(self, values):
        """Return an array of this library on this device."""
        if self.library is np:
            return np.asarray(values)
        if self.device is None:
            return self.library.asarray(values)
        return self.library.as_tensor(np.array(values), device=self.device)

    def owns(self, array):
        """Whether an array is of this library, on this device."""
        if not isinstance(array, type(self.array(np.zeros(1)))):
            return False
        return self.device is None or array.device.type == self.device

    @property
    def xp(self):
        """Its functions, with the names of the array standard."""
        return array_namespace(self.array(np.zeros(1)))


def installed():
    """Return what is there to be tested."""
    found = [Backend("numpy", np)]
    try:
        import torch
    except ImportError:
        pass
    else:
        found.append(Backend("torch", torch, "cpu"))
        if torch.cuda.is_available():
            found.append(Backend("torch on a GPU", torch, "cuda"))
    try:
        import cupy
    except ImportError:
        pass
    else:
        if cupy.cuda.is_available():
            found.append(Backend("cupy", cupy))
    return found
