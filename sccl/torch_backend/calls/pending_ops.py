"""Operations of a plan, each of one call, or of several that are carried as one."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sccl.torch_backend.calls.carried_work import Restore
from sccl.torch_backend.calls.device_calls import DeviceCall
from sccl.torch_backend.calls.planned_calls import PlannedCall
from sccl.torch_backend.gloo_types import convert_call
from sccl.torch_backend.script import ScriptOp
from sccl.torch_backend.tensor_rows import MergedRow, OpRow, Row


class PendingOp:
    """An operation of an iteration, with its calls.

    It is done when all of its motifs are. Then all of its calls are.

    Attributes:
        group: Ranks of the operation, including this one.
        calls: Calls by number.
        done: For each motif whether it is done.
    """

    def __init__(self, op: ScriptOp, group: tuple[int, ...], rank: int) -> None:
        self.op, self.group = op, group
        self.calls: dict[int, PlannedCall | DeviceCall] = {}
        self.done = [threading.Event() for _ in op.motifs]
        self._place = group.index(rank)
        self._lock = threading.Lock()
        self._row: Row | None = None
        self._restores: list[Restore] = []
        self._to_issue = self._left = len(op.motifs)

    @property
    def planned(self) -> list[PlannedCall]:
        """Return calls of tensors on the CPU, in the order of their numbers."""
        return [call for _, call in sorted(self.calls.items()) if isinstance(call, PlannedCall)]

    @property
    def elsewhere(self) -> list[DeviceCall]:
        """Return the others, likewise."""
        return [call for _, call in sorted(self.calls.items()) if isinstance(call, DeviceCall)]

    @property
    def as_told(self) -> bool:
        """Return whether all of its calls are there, and as large as the plan has them."""
        calls, counts = self.planned, self.op.counts
        if len(calls) < len(counts):
            return False
        return self.op.collective != "alltoall" or not any(map(_is_uneven, calls, counts))

    @property
    def as_made(self) -> bool:
        """Return whether its calls go one by one, as they are made.

        So do those of which some are missing, or elsewhere.
        """
        is_incomplete = len(self.planned) < len(self.op.counts)
        return self.op.as_made or is_incomplete or (self.op.keeps_blocks and not self.as_told)

    @property
    def row(self) -> Row:
        """Return the row of the operation, laid out when it is first used."""
        with self._lock:
            if self._row is None:
                converted, ranks = [], (self.group, self._place)
                for call in self.planned:
                    described, restores = convert_call(call.described)
                    converted.append(described)
                    self._restores += restores
                if self.op.merged:
                    self._row = MergedRow(self.op, converted, *ranks)
                else:
                    self._row = OpRow(self.op, converted[0], *ranks)
            return self._row

    def count_issued(self) -> bool:
        """Count a motif that is issued; return whether it is the last."""
        self._to_issue -= 1
        if self._to_issue:
            return False
        for call in self.planned:
            call.issued.set()
        return True

    def run(self, motif: int, job: Callable[[], None]) -> None:
        """Execute a motif after its dependencies. Waits raise any error."""
        try:
            for earlier in self.op.motifs[motif].after:
                self.done[earlier].wait()
            if all(call.error is None for call in self.planned):
                job()
        except BaseException as error:  # noqa: BLE001 - told to who waits
            self._fail(error)
        self.done[motif].set()
        with self._lock:
            self._left -= 1
            last = not self._left
        if last:
            self._finish()

    def _finish(self) -> None:
        calls = self.planned
        try:
            if self._row is not None and all(call.error is None for call in calls):
                averages = len(self.group) if calls[0].described.reduce == "avg" else 1
                self._row.finish(divide_by=averages)
                for restore in self._restores:
                    restore()
        except BaseException as error:  # noqa: BLE001 - told to who waits
            self._fail(error)
        for call in calls:
            call.end()

    def _fail(self, error: BaseException) -> None:
        for call in self.planned:
            call.error = call.error or error


def _is_uneven(call: PlannedCall, count: int) -> bool:
    described = call.described
    return bool(described.gives or described.gets) or described.elements_given != count
