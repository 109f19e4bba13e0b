"""Errors of sccl.

Every error that a caller may want to catch derives from :class:`ScclError`. :class:`InputError` and
its subclasses report unusable input. The command line prints their one sentence and exits with
code 2, before it solves or writes anything.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ScclError(Exception):
    """Base class of all errors that sccl raises on purpose.

    Examples:
        >>> import sccl
        >>> try:
        ...     sccl.topology("dgx1x")
        ... except sccl.ScclError as error:
        ...     print(type(error).__name__)
        UnknownNameError
    """


class InputError(ScclError, ValueError):
    """Unusable input. The message names the input, its place, and a remedy.

    Examples:
        >>> import sccl
        >>> try:
        ...     sccl.pareto("allgather", "dgx1", k=-1)
        ... except sccl.InputError as error:
        ...     print(error)
        k is -1, expected 0 to 1000000 (R is at most S + k)
    """


class ScclWarning(UserWarning):
    """A feature does not work, and sccl continues without it."""


class MachineNote(UserWarning):
    """A machine is solved as an equivalent model, such as one with links instead of switches."""


class UnknownNameError(InputError):
    """A topology, collective or solver of that name does not exist."""


class ParameterError(InputError):
    """A number (chunks, steps, rounds, root, ...) is outside what the problem allows."""


class TooLargeError(InputError):
    """The requested result exists, but is larger than this version computes or writes."""


class TopologyError(InputError):
    """A topology contradicts itself or cannot serve the purpose asked of it."""


class CollectiveError(InputError):
    """A collective contradicts itself or does not fit its topology."""


class UnreachableError(InputError):
    """A rank demands a chunk, but no path from the chunk's sources reaches it."""


class FormatError(InputError):
    """A file does not have the expected format. The message gives the field and its position."""


class NotInvertibleError(InputError):
    """An algorithm has no inverse because some chunk starts or ends on several ranks."""


class SolverError(ScclError):
    """A solver is not installed, or it failed during a solve."""


class ToolError(ScclError):
    """A compiler, MPI, a cluster or the system lacks a required feature."""


class JudgeError(ScclError):
    """A result failed verification, which is a defect of sccl or of a solver, never the user's."""


class ContradictionError(ScclError):
    """A result is below a proved lower bound: a defect of sccl, never the user's.

    Args:
        conflict: Both values and their meanings, as a clause.
    """

    def __init__(self, conflict: str) -> None:
        super().__init__(conflict)
        self.conflict = conflict

    def __str__(self) -> str:
        return (
            f"{self.conflict}: one of the two is wrong, which is a defect of sccl; please report "
            "it with the command you ran"
        )


def unknown_name(kind: str, name: str, names: Iterable[str], hint: str) -> UnknownNameError:
    """Return the error for an unknown name, with the nearest existing names.

    Args:
        kind: Kind of the name for the message (``"topology"``).
        name: The unknown name.
        names: All existing names.
        hint: Instruction to list them, as a clause.
    """
    by_lower = {candidate.lower(): candidate for candidate in sorted(names, reverse=True)}
    near = difflib.get_close_matches(name.lower(), sorted(by_lower), n=2, cutoff=0.5)
    near = [by_lower[candidate] for candidate in near]
    nearest = f"did you mean {' or '.join(repr(n) for n in near)}? " if near else ""
    return UnknownNameError(f"unknown {kind} {name!r}: {nearest}{hint}")
