"""Machines in NCCL's XML, drawn and written."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from hypothesis import strategies as st

from sccl.core.ids import Edge
from sccl.core.topology import Topology

SLOT = 'link_speed="16.0 GT/s PCIe" link_width="16"'
SWITCHES = ("0000:f1:00.0", "0000:f2:00.0")


@dataclass(frozen=True, slots=True)
class Machine:
    """GPUs by rank: links of pairs, links to each of two switches, the place of each in it."""

    lanes: dict[Edge, int]
    to_switches: int
    at: tuple[int, ...]

    @property
    def gpus(self) -> int:
        """Return how many there are."""
        return len(self.at)


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Draw machines of links, of switches or of PCIe alone."""
    gpus = draw(st.integers(2, 6))
    at = tuple(draw(st.permutations(range(gpus))))
    if draw(st.booleans()):
        return Machine({}, draw(st.integers(1, 9)), at)
    pairs = [(a, b) for a in range(gpus) for b in range(a + 1, gpus)]
    lanes = draw(st.dictionaries(st.sampled_from(pairs), st.integers(1, 4)))
    return Machine(lanes, 0, at)


def bus_id(rank: int) -> str:
    """Return where the GPU of a rank is."""
    return f"0000:{rank + 16:02x}:00.0"


def check_topology(machine: Machine, topology: Topology) -> None:
    """Check that a topology has the bus ids, the links, and the limits of a machine."""
    assert topology.pci_bus_ids == tuple(bus_id(rank) for rank in range(machine.gpus))
    island = list(range(machine.gpus))
    for a, b in machine.lanes:
        island = [island[a] if i == island[b] else i for i in island]
    for a, b in combinations(range(machine.gpus), 2):
        if machine.to_switches:
            assert topology.lanes()[a, b] == topology.lanes()[b, a] == 2 * machine.to_switches
        elif island[a] == island[b]:
            assert topology.lanes().get((a, b), 0) == machine.lanes.get((a, b), 0)
        else:
            assert (a, b) in topology.edges  # of PCIe
    if machine.to_switches and machine.gpus > 2:
        assert {b.chunks_per_round for b in topology.budgets} == {2 * machine.to_switches}
        assert len(topology.budgets) == 2 * machine.gpus


def written(machine: Machine, newline: str = "\n") -> str:
    """Return the machine as NCCL writes it, two GPUs at each of its NUMA nodes."""
    lines = ["<!-- a", "comment -->", '<system version="1">']
    order = sorted(range(machine.gpus), key=lambda rank: machine.at[rank])
    for numa in range(0, len(order), 2):
        lines.append(f'<cpu numaid="{numa}">')
        for rank in order[numa : numa + 2]:
            lines += _device(machine, rank)
        lines.append("</cpu>")
    return newline.join([*lines, "</system>", ""])


def _device(machine: Machine, rank: int) -> list[str]:
    ends = [
        (bus_id(a + b - rank), n, "0x030200")
        for (a, b), n in machine.lanes.items()
        if rank in (a, b)
    ]
    ends += [
        (switch, machine.to_switches, "0x068000") for switch in SWITCHES if machine.to_switches
    ]
    return [
        f'<pci busid="{bus_id(rank)}" class="0x030200" {SLOT}>',
        f'<gpu dev="{machine.at[rank]}" sm="80" rank="{rank}" gdr="1">',
        *(f'<nvlink target="{to}" count="{n}" tclass="{kind}"/>' for to, n, kind in ends),
        "</gpu>",
        "</pci>",
    ]
