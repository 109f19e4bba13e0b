"""The machine that is synthesised for: lanes of one speed, and links instead of switches.

A round is the time in which a lane carries one chunk, so synthesis needs equally fast lanes on the
whole machine. Their speed is the greatest common divisor of the stated speeds, taken as written
decimals: lanes of 100, 25 and 12.5 GB/s are 8, 2 and 1 of 12.5 GB/s. The replacement is exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from sccl.core.topology import Topology, link_name
from sccl.errors import TopologyError
from sccl.topo.switches import expand_switches

MAX_LANES = 10_000
"""Limit for a link or a budget: 900 and 1.25 GB/s need 720. Unrounded speeds need more, and then
algorithms have too many chunks for any solver.
"""


@dataclass(frozen=True, slots=True)
class MachineModel:
    """The machine model that synthesis, bounds and limits use.

    Attributes:
        topology: The model, which is the machine itself if all lanes are equally fast and it has
            no switches.
        notes: Description of the changes, which is also in its ``source``.
    """

    topology: Topology
    notes: tuple[str, ...]


def machine_model(topology: Topology) -> MachineModel:
    """Return the model of a machine for k-synchronous synthesis, with exactly the same rates.

    Raises:
        TopologyError: links with lanes of one speed and budgets cannot model the machine.
    """
    even, speeds = unify_lane_speeds(topology)
    direct, switches = expand_switches(even)
    return MachineModel(direct, tuple(filter(None, (speeds, switches))))


def unify_lane_speeds(topology: Topology) -> tuple[Topology, str]:
    """Return the machine with equally fast lanes, and a note on the change (empty: none).

    A budget counts chunks of the speed that it states, else of its links' speed, or, if these
    differ, of the speed of the machine.

    Raises:
        TopologyError: the lanes would be more than :data:`MAX_LANES`.
    """
    stated = set(_stated_speeds(topology))
    if len(stated) == 1:
        return topology, ""
    of_budgets = topology.budget_speeds()
    unit = _common_divisor(map(_parse_decimal, stated.union(of_budgets)))
    fits = _LaneCounts(topology, unit)
    links = tuple(
        replace(k, lanes=fits.lanes(k.lanes, k.gb_per_s), gb_per_s=float(unit))
        for k in topology.links
    )
    budgets = tuple(
        replace(b, chunks_per_round=fits.lanes(b.chunks_per_round, speed), gb_per_s=None)
        for b, speed in zip(topology.budgets, of_budgets, strict=True)
    )
    note = _lanes_note(unit, stated) + _mixed_budgets_note(topology)
    source = f"{topology.source}; {note}" if topology.source else note
    made = replace(topology, links=links, budgets=budgets, gb_per_s=float(unit), source=source)
    return made, note


def _stated_speeds(topology: Topology) -> dict[float, str]:
    """Return every speed that a link or a budget states, and the first of those that do."""
    speeds: dict[float, str] = {}
    for link in topology.links:
        speeds.setdefault(link.gb_per_s, link_name(link.edge))
    for budget in topology.budgets:
        if budget.gb_per_s is not None:
            speeds.setdefault(budget.gb_per_s, f"budget {budget.name!r}")
    return speeds


def _parse_decimal(speed: float) -> Fraction:
    """Return the number that was written: 12.1 is 121/10, not the nearest double."""
    return Fraction(str(speed))


def _common_divisor(values: Iterable[Fraction]) -> Fraction:
    """Return the largest number that all of the values are multiples of."""
    divisor = Fraction(0)
    for value in values:
        scale = math.lcm(divisor.denominator, value.denominator)
        divisor = Fraction(math.gcd(int(divisor * scale), int(value * scale)), scale)
    return divisor


class _LaneCounts:
    """Numbers of lanes of a machine in lanes of the unit, as far as they are not too many."""

    def __init__(self, topology: Topology, unit: Fraction) -> None:
        self._topology = topology
        self._unit = unit

    def lanes(self, lanes: int, speed: float) -> int:
        """Return how many lanes of the unit make up some of another speed."""
        count = lanes * _parse_decimal(speed) / self._unit
        if count > MAX_LANES:
            raise TopologyError(self._refusal())
        return int(count)

    def _refusal(self) -> str:
        stated = _stated_speeds(self._topology)
        slow, fast = _incommensurable_pair(stated)
        return (
            f"topology {self._topology.name!r}: a lane of {stated[slow]} has "
            f"{format_number(slow)} GB/s, one of {stated[fast]} {format_number(fast)} GB/s; in "
            "lanes of one "
            f"speed, {format_number(float(self._unit))} GB/s, some link or budget would have more "
            "than "
            f"{MAX_LANES}, the most that is taken: round gb_per_s so that each is a small multiple "
            "of the same number, as in 100, 25 and 12.5"
        )


def _incommensurable_pair(speeds: Iterable[float]) -> tuple[float, float]:
    """Return two speeds that have no small common divisor: the pair that has the least."""
    ascending = sorted(speeds)
    pairs = [(a, b) for a in ascending[:64] for b in ascending[-64:] if a < b]
    return min(pairs, key=lambda pair: _common_divisor(map(_parse_decimal, pair)))


def _lanes_note(unit: Fraction, stated: Iterable[float]) -> str:
    each = [
        f"{'a lane' if i == 0 else 'one'} of {format_number(speed)} GB/s is "
        f"{_parse_decimal(speed) / unit}"
        for i, speed in enumerate(sorted(stated, reverse=True))
    ]
    shown = each if len(each) <= 6 else [*each[:5], f"and {len(each) - 5} more speeds"]
    return f"lanes of {format_number(float(unit))} GB/s: {', '.join(shown)}"


def _mixed_budgets_note(topology: Topology) -> str:
    """Return a note on the speed assumed for budgets over links of different speeds, or empty."""
    speeds = {link.edge: link.gb_per_s for link in topology.links}
    silent = [b for b in topology.budgets if b.gb_per_s is None]
    mixed = [b for b in silent if len({speeds[edge] for edge in b.edges}) > 1]
    if not mixed:
        return ""
    which = "a budget" if len(mixed) == 1 else "budgets"
    return (
        f"; {which} over links of different speed in chunks of {format_number(topology.gb_per_s)} "
        f"GB/s"
    )


def format_number(value: float) -> str:
    """Return a number as short as it can be written and read back."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else str(value)
