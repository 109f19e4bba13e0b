"""Convert workloads from files and back."""

from __future__ import annotations

from pathlib import Path

from sccl.core.files.disk import read_text
from sccl.core.files.json_text import parse
from sccl.core.files.outputs import build_output, copy_fields
from sccl.errors import FormatError, ParameterError
from sccl.training.files.workload_shapes import (
    CommOpWire,
    ComputeOpWire,
    HostProgramWire,
    WorkloadWire,
)
from sccl.training.types.workload import Workload
from sccl.training.types.workload_ops import (
    CommOp,
    ComputeOp,
    Dependency,
    HostAction,
    HostEvent,
    HostProgram,
    Role,
)


def load_workload(path: Path) -> Workload:
    """Load a workload from a file.

    Raises:
        InputError: The file cannot be read, contains none, or is inconsistent.
    """
    return workload_from_text(read_text(path), str(path))


def workload_from_text(text: str, where: str) -> Workload:
    """Return the workload in a JSON text.

    Args:
        where: name in messages: its file.

    Raises:
        FormatError: it has another form, is inconsistent, or was edited.
    """
    return workload_from_wire(parse(text, WorkloadWire, where), where)


def workload_from_wire(wire: WorkloadWire, where: str) -> Workload:
    """Return the workload of a file shape.

    Raises:
        FormatError: It is inconsistent.
    """
    try:
        return copy_fields(
            Workload,
            wire,
            roles=tuple(Role(role.name, role.ranks) for role in wire.roles),
            ops=tuple(
                copy_fields(ComputeOp if isinstance(op, ComputeOpWire) else CommOp, op)
                for op in wire.ops
            ),
            deps=tuple(Dependency(dep.before, dep.after, dep.lag) for dep in wire.deps),
            submits=tuple(_program(program) for program in wire.submits),
        )
    except ParameterError as error:
        raise FormatError(f"{where}: {error}") from error


def _program(wire: HostProgramWire) -> HostProgram:
    events = (HostEvent(HostAction(e.action), e.op, e.lag) for e in wire.events)
    return HostProgram(wire.role, tuple(events))


def workload_to_wire(workload: Workload) -> WorkloadWire:
    """Return the file shape of a workload."""
    return build_output(WorkloadWire, workload, ops=map(_op_to_wire, workload.ops))


def _op_to_wire(op: ComputeOp | CommOp) -> ComputeOpWire | CommOpWire:
    if isinstance(op, ComputeOp):
        return build_output(ComputeOpWire, op)
    return build_output(CommOpWire, op)
