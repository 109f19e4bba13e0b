"""What can go wrong, named by what it means to the user.

Every error a caller may want to catch derives from :class:`ScclError`. :class:`InputError` and its
children say that something given to sccl cannot be used: the command line prints their one sentence
and exits with code 2, before anything has been solved or written.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ScclError(Exception):
    """Base of every error sccl raises on purpose."""


class InputError(ScclError, ValueError):
    """Something given to sccl cannot be used. The message says what, where, and what to do."""


class ScclWarning(UserWarning):
    """Something does not work as it should, and sccl goes on without it."""


class UnknownNameError(InputError):
    """A topology, collective or solver of that name does not exist."""


class ParameterError(InputError):
    """A number (chunks, steps, rounds, root, ...) is outside what the problem allows."""


class TooLargeError(InputError):
    """What is asked for exists, and is larger than this version computes or writes down."""


class TopologyError(InputError):
    """A topology contradicts itself or cannot serve the purpose asked of it."""


class CollectiveError(InputError):
    """A collective contradicts itself or does not fit its topology."""


class UnreachableError(InputError):
    """A chunk is wanted on a rank that no path from any of its sources reaches."""


class FormatError(InputError):
    """A file cannot be read as what it should be. The message gives the field and its position."""


class NotInvertibleError(InputError):
    """An algorithm has no inverse because some chunk starts or ends on several ranks."""


class SolverError(ScclError):
    """A solver is not installed, or it broke while it was working."""


class ToolError(ScclError):
    """A compiler, MPI, a cluster or the system itself does not give what is needed."""


class JudgeError(ScclError):
    """A result failed the independent judge: a defect of sccl or of a solver, never the user's."""


class ContradictionError(ScclError):
    """A result is below a proved lower bound: a defect of sccl, never the user's.

    Args:
        conflict: Both values and what they are, as a clause.
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
    """Return the error for a name that does not exist, with the nearest names that do.

    Args:
        kind: what was looked up, as the user would call it (``"topology"``).
        name: what was given.
        names: the names that exist.
        hint: what to do to see all of them, as a clause.
    """
    by_lower = {candidate.lower(): candidate for candidate in sorted(names, reverse=True)}
    near = difflib.get_close_matches(name.lower(), sorted(by_lower), n=2, cutoff=0.5)
    near = [by_lower[candidate] for candidate in near]
    nearest = f"did you mean {' or '.join(repr(n) for n in near)}? " if near else ""
    return UnknownNameError(f"unknown {kind} {name!r}: {nearest}{hint}")
