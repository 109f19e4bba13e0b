"""Calls whose tensors gloo refuses or gets wrong: methods of torch.distributed, and operations."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from sccl.training.types.workload_ops import COMBINING, ROOTED, CommOp

COUNT = 12
"""Elements of a block."""

INTEGERS = ("int16", "uint16", "uint32", "uint64")
FLOATS = ("float8-e4m3", "float8-e5m2")

COLLECTIVES = {
    "all_gather": "allgather",
    "all_gather_into_tensor": "allgather",
    "all_reduce": "allreduce",
    "all_to_all": "alltoall",
    "all_to_all_single": "alltoall",
    "broadcast": "broadcast",
    "gather": "gather",
    "reduce": "reduce",
    "reduce_scatter": "reducescatter",
    "reduce_scatter_tensor": "reducescatter",
    "scatter": "scatter",
}


class TypedCall(NamedTuple):
    """A call.

    Attributes:
        shape: Shape of a rank's input and output: ``flat``, ``rows`` (one for each rank, for a
            vector), ``flattened`` (a vector for matrices), ``scalars`` (a vector for numbers of
            ranks), ``strided`` (not contiguous), or ``aliased`` (in shared memory).
    """

    method: str
    dtype: str
    reduce: str = ""
    shape: str = "flat"

    @property
    def shown(self) -> str:
        """Return its name."""
        return " ".join(filter(None, self))

    @property
    def block(self) -> int:
        """Return the elements of a block."""
        return 1 if self.shape == "scalars" else COUNT

    def op(self, ranks: int) -> CommOp:
        """Return its operation."""
        collective = COLLECTIVES[self.method]
        return CommOp(
            id=self.shown,
            collective=collective,
            group=tuple(range(ranks)),
            count=self.block * ranks,
            dtype=self.dtype,
            root=0 if collective in ROOTED else None,
            reduce=self.reduce if collective in COMBINING else None,
        )


_REDUCTIONS = [name for name, one in COLLECTIVES.items() if one in COMBINING]
_MOVES = [name for name in COLLECTIVES if name not in _REDUCTIONS]

SERVED = [
    *(TypedCall(*one) for one in itertools.product(_MOVES, (*INTEGERS, *FLOATS))),
    *(TypedCall(*one) for one in itertools.product(["all_reduce"], INTEGERS, ("prod", "min"))),
    *(TypedCall(*one) for one in itertools.product(_REDUCTIONS, INTEGERS, ("sum", "max"))),
    *(
        TypedCall("all_gather_into_tensor", dtype, "", shape)
        for dtype in ("float32", "int16")
        for shape in ("rows", "flattened", "scalars")
    ),
    *(
        TypedCall("reduce_scatter_tensor", dtype, "sum", shape)
        for dtype in ("int32", "int16")
        for shape in ("rows", "flattened", "scalars")
    ),
    *(TypedCall(method, "float32", "", "strided") for method in _MOVES),
    *(TypedCall(method, "int32", "sum", "strided") for method in _REDUCTIONS),
    TypedCall("all_gather_into_tensor", "float32", "", "aliased"),
    TypedCall("all_to_all_single", "float32", "", "aliased"),
    TypedCall("reduce_scatter_tensor", "int32", "sum", "aliased"),
]
"""Calls that every mode serves."""

REFUSED = [TypedCall(*one) for one in itertools.product(_REDUCTIONS, FLOATS, ("sum",))]
"""Calls that no mode serves."""
