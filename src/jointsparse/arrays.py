"""The types of arrays, under the names that the rest of the package uses."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = Any  # an array of any namespace: NumPy, PyTorch, CuPy
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
