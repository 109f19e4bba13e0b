"""Selection: the program of a bundle that serves each size."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sccl.errors import ParameterError

_SWITCH = r"\d+=\d+[adep]"
_ENTRY = rf"[a-z0-9_]+:{_SWITCH}(,{_SWITCH})*"
_TEXT = re.compile(rf"{_ENTRY}(;{_ENTRY})*")


@dataclass(frozen=True, slots=True)
class SwitchPoint:
    """The smallest block size that a program serves, up to the next switch point.

    Attributes:
        from_bytes: Smallest size of a block.
        index: Number of the algorithm in its collective.
        protocol: ``e`` for the eager program, ``d`` for the direct one, ``a`` for the faster of
            these on the machine (host), ``p`` for the eager one in packets (kernels of GPU
            targets).
    """

    from_bytes: int
    index: int
    protocol: str

    @classmethod
    def for_program(cls, program: str, from_bytes: int) -> SwitchPoint:
        """Build the switch point to a program by its name, such as ``"0e"``."""
        return cls(from_bytes, int(program[:-1]), program[-1])

    def __str__(self) -> str:
        return f"{self.from_bytes}={self.index}{self.protocol}"


@dataclass(frozen=True, slots=True)
class Selection:
    """Switch points of each collective, by its identifier."""

    switches: Mapping[str, tuple[SwitchPoint, ...]]

    @classmethod
    def parse(cls, text: str) -> Selection:
        """Parse a selection.

        Raises:
            ParameterError: The text is not of the form ``collective:from=program,...``.
        """
        if not _TEXT.fullmatch(text):
            raise ParameterError(
                f"select is {text!r}, expected collective:from=program,..., such as "
                "'allgather:0=0e,65536=1d;allreduce:0=0e'"
            )
        entries = (entry.split(":") for entry in text.split(";"))
        return cls(
            {name: tuple(map(_parse_switch, several.split(","))) for name, several in entries}
        )

    def entries(self) -> list[str]:
        """Format the switch points of each collective as ``"allgather:0=0e,65536=1d"``."""
        return [f"{name}:{','.join(map(str, s))}" for name, s in self.switches.items()]

    def __str__(self) -> str:
        """Format it for generated code, ``program.json`` and ``SCCL_SELECT``."""
        return ";".join(self.entries())


def _parse_switch(text: str) -> SwitchPoint:
    from_bytes, program = text.split("=")
    return SwitchPoint.for_program(program, int(from_bytes))
