"""NumPy array types by element type."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
AnyIntArray = NDArray[np.integer[Any]]
Int32Array = NDArray[np.int32]
UInt64Array = NDArray[np.uint64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
