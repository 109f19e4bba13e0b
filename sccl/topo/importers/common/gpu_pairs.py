"""Build the machine of the GPUs of one computer, from the links of each pair.

Fast links (NVLink, xGMI) become links with that number of lanes. If a GPU has more of them than its
model allows, they lead to switches that connect any pair at the full rate: links between all such
pairs, with budgets for the traffic out of and into each GPU, as in the catalogue's DGX-2, DGX A100
and DGX H100. Switch nodes would be equivalent, but not every synthesizer supports them.

PCIe joins every pair. A machine gets PCIe links only between GPUs that no path of fast links joins:
beside fast links PCIe adds little bandwidth, and many budgets. Traffic through a slot, a PCIe
switch, a host bridge or the link between sockets shares a budget in each direction, as far as the
paths determine which GPUs are behind the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from sccl.core.formatting import format_count
from sccl.core.graphs import connected_components
from sccl.core.ids import Edge
from sccl.core.topology import Budget, Link, Topology
from sccl.errors import FormatError, InputError, TooLargeError
from sccl.topo.chassis_network import Nic
from sccl.topo.importers.common.contract import Hints
from sccl.topo.importers.common.gpus import (
    ALPHA_US,
    PCIE,
    SOCKET_GB_PER_S,
    describe_alpha,
    pcie_gb_per_s,
)

MAX_GPUS = 64
"""Maximum number of GPUs of a computer. Every pair may be a link."""

MAX_CARDS = 1024
"""Maximum number of network cards, each of which is compared with each GPU."""

SWITCH, SWITCHES, BRIDGE, NODE, SOCKETS = range(5)
"""Distance classes of PCIe paths: one PCIe switch, several switches, a host bridge, several host
bridges of one NUMA node, another socket. ``nvidia-smi`` calls these PIX, PXB, PHB, NODE and SYS.
"""

_PLACE_NAMES = ("PCIe switch", "PCIe switches", "host bridge", "socket")


@dataclass(frozen=True, slots=True)
class GpuPairs:
    """The links and paths of each pair of GPUs, each pair with the lower number first.

    Attributes:
        lanes: number of fast links, for pairs that have any.
        paths: distance class of the PCIe path of a pair, if known.
        sockets: key of the NUMA node of each GPU. Empty: unknown.
    """

    gpus: int
    lanes: Mapping[Edge, int]
    paths: Mapping[Edge, int]
    sockets: tuple[str, ...]

    def count_links(self, gpu: int) -> int:
        """Return the number of fast links of a GPU if the links of its pairs are all separate."""
        return sum(lanes for pair, lanes in self.lanes.items() if gpu in pair)

    def max_links(self, to_switches: Mapping[int, int]) -> int:
        """Return the maximum number of fast links of a GPU, from its links to switches if known."""
        if len(to_switches) > 1:
            return max(to_switches.values())
        return max(self.count_links(gpu) for gpu in range(self.gpus))

    def switched_gpus(self, links: int) -> frozenset[int]:
        """Return the GPUs whose fast links lead to switches, if a GPU has ``links`` fast links."""
        return frozenset(
            gpu
            for island in self.islands()
            if any(self.count_links(gpu) > links for gpu in island)
            for gpu in island
        )

    def islands(self) -> tuple[tuple[int, ...], ...]:
        """Return the sets of GPUs that are connected by fast links, including single GPUs."""
        return _connected_gpus(self.gpus, self.lanes)

    def groups_behind(self, reach: int) -> tuple[tuple[int, ...], ...]:
        """Return the sets of GPUs that share the path to all others, at a distance class."""
        near = [pair for pair, path in self.paths.items() if path <= reach]
        if reach >= NODE:
            hidden = (pair for pair in combinations(range(self.gpus), 2) if pair not in self.paths)
            near += [(a, b) for a, b in hidden if self.sockets[a] == self.sockets[b] != ""]
        return _connected_gpus(self.gpus, near)


@dataclass(frozen=True, slots=True)
class Speeds:
    """The rates of the links of a computer per direction, 10^9 bytes per second.

    Attributes:
        kind: name of the fast links.
        lane_gb_per_s: rate of one fast link.
        links: maximum number of fast links of a GPU.
        pcie: PCIe generation.
    """

    kind: str
    lane_gb_per_s: float
    links: int
    pcie: int

    @property
    def slot_gb_per_s(self) -> float:
        """Return the rate of a PCIe slot and of a switch's uplink."""
        return pcie_gb_per_s(self.pcie)

    @property
    def socket_gb_per_s(self) -> float:
        """Return the rate between sockets, at most that of a slot."""
        return min(self.slot_gb_per_s, SOCKET_GB_PER_S[self.pcie])


@dataclass(frozen=True, slots=True)
class BuiltMachine:
    """A machine, and the notes on its construction."""

    topology: Topology
    understood: tuple[str, ...]
    assumed: tuple[str, ...]


def check_gpus(count: int) -> None:
    """Check the limit on GPUs, whose pairs are all compared.

    Raises:
        TooLargeError: There are too many GPUs.
    """
    if count > MAX_GPUS:
        raise TooLargeError(f"it has {count} GPUs, and files are read to {MAX_GPUS}")


def check_cards(count: int) -> None:
    """Check the limit on network cards.

    Raises:
        TooLargeError: There are too many cards.
    """
    if count > MAX_CARDS:
        raise TooLargeError(f"it has more than {MAX_CARDS} network cards, the most that are read")


def merge_switch_links(
    direct: Mapping[Edge, int], to_switches: Mapping[int, int]
) -> dict[Edge, int]:
    """Return lanes per pair of GPUs, where links to switches join all GPUs with such links."""
    lanes = dict(direct)
    for a, b in combinations(sorted(to_switches), 2):
        lanes[a, b] = lanes.get((a, b), 0) + min(to_switches[a], to_switches[b])
    return lanes


def nearest_nics(
    cards: Sequence[tuple[str, float | None, Sequence[tuple[int, ...]]]],
) -> tuple[Nic, ...]:
    """Return network cards, each with the GPUs that have no nearer card, perhaps none.

    Args:
        cards: Name, 10^9 bytes per second, and distances from each GPU (comparable tuples).
    """
    nearest = [min(far) for far in zip(*(far for *_, far in cards), strict=True)]
    return tuple(
        Nic(
            " ".join(name.split())[:40] or "NIC",
            tuple(gpu for gpu, path in enumerate(far) if path == nearest[gpu]),
            speed,
            None,
        )
        for name, speed, far in cards
    )


def build_machine(pairs: GpuPairs, speeds: Speeds, hints: Hints, about: str) -> BuiltMachine:
    """Build the machine from the links of pairs of GPUs.

    Raises:
        InputError: There is one GPU only, or no link at all.
    """
    if pairs.gpus < 2:
        raise FormatError("it shows 1 GPU, expected at least 2")
    switched = pairs.switched_gpus(speeds.links)
    fast = _fast_links(pairs, speeds, hints)
    slow = _pcie_links(pairs, speeds, hints)
    if not fast and not slow:
        raise InputError("it shows no connection between the GPUs: expected a table of links")
    budgets = (*_switch_budgets(pairs, switched), *_pcie_budgets(pairs, speeds, slow))
    topology = Topology(
        name=hints.name,
        ranks=pairs.gpus,
        links=(*fast, *slow),
        alpha_us=(fast or slow)[0].alpha_us,
        gb_per_s=(fast or slow)[0].gb_per_s,
        budgets=budgets,
        source=f"imported: {about}",
    )
    return BuiltMachine(
        topology,
        _understood_notes(pairs, speeds, slow),
        _assumption_notes(speeds, fast, slow, hints),
    )


def _fast_links(pairs: GpuPairs, speeds: Speeds, hints: Hints) -> list[Link]:
    alpha_us = ALPHA_US[speeds.kind] if hints.alpha_us is None else hints.alpha_us
    return [
        Link(src, dst, lanes, alpha_us, speeds.lane_gb_per_s)
        for (a, b), lanes in pairs.lanes.items()
        for src, dst in ((a, b), (b, a))
    ]


def _pcie_links(pairs: GpuPairs, speeds: Speeds, hints: Hints) -> list[Link]:
    """Return the PCIe links between GPUs that fast links do not connect."""
    island = {gpu: i for i, gpus in enumerate(pairs.islands()) for gpu in gpus}
    alpha_us = ALPHA_US[PCIE] if hints.alpha_us is None else hints.alpha_us
    return [
        Link(
            src,
            dst,
            1,
            alpha_us,
            speeds.socket_gb_per_s if path == SOCKETS else speeds.slot_gb_per_s,
        )
        for (a, b), path in pairs.paths.items()
        if island[a] != island[b]
        for src, dst in ((a, b), (b, a))
    ]


def _switch_budgets(pairs: GpuPairs, switched: frozenset[int]) -> Iterable[Budget]:
    for side, end in (("egress", 0), ("ingress", 1)):
        for gpu in sorted(switched):
            joined = [(pair, lanes) for pair, lanes in pairs.lanes.items() if gpu in pair]
            edges = [(gpu, sum(pair) - gpu) for pair, _ in joined]
            shared = edges if end == 0 else [(b, a) for a, b in edges]
            yield Budget(f"{side} of GPU {gpu}", tuple(shared), max(n for _, n in joined))


def _pcie_budgets(pairs: GpuPairs, speeds: Speeds, slow: list[Link]) -> list[Budget]:
    """Return the budgets of slots, switches, host bridges and sockets, without repeats.

    If several budgets cover the same links, the slowest is kept. A limit on a single link is
    omitted, since it is the link's rate.
    """
    edges = [link.edge for link in slow]
    budgets: dict[tuple[Edge, ...], Budget] = {}
    for name, gpus, speed in _shared_exits(pairs, speeds):
        inside = set(gpus)
        leave = tuple(e for e in edges if e[0] in inside and e[1] not in inside)
        enter = tuple((b, a) for a, b in leave)
        for direction, shared in (("out of", leave), ("into", enter)):
            budget = budgets.get(shared)
            if len(shared) > 1 and (budget is None or (budget.gb_per_s or 0.0) > speed):
                budgets[shared] = Budget(f"{direction} {name}", shared, 1, speed)
    return list(budgets.values())


def _shared_exits(pairs: GpuPairs, speeds: Speeds) -> Iterable[tuple[str, tuple[int, ...], float]]:
    """Yield, for each shared exit, its name, its GPUs, and its rate."""
    for gpu in range(pairs.gpus):
        yield f"PCIe slot of GPU {gpu}", (gpu,), speeds.slot_gb_per_s
    for reach, place in enumerate(_PLACE_NAMES):
        for gpus in pairs.groups_behind(reach):
            yield (
                f"{place} of {gpus_text(gpus)}",
                gpus,
                speeds.socket_gb_per_s if reach == NODE else speeds.slot_gb_per_s,
            )


def describe_links(
    kind: str, direct: Mapping[Edge, int], to_switches: Mapping[int, int]
) -> list[str]:
    """Describe the links between pairs of GPUs, and from GPUs to switches."""
    lines = []
    if direct:
        total = format_count(sum(direct.values()), kind)
        lines.append(f"{total} between {format_count(len(direct), 'pair')} of GPUs")
    if to_switches:
        each = " or ".join(map(str, sorted(set(to_switches.values()))))
        lines.append(
            f"{format_count(len(to_switches), 'GPU')} with {each} {kind}s to switches each"
        )
    return lines


def describe_nics(cards: Iterable[Nic]) -> Iterable[str]:
    """Describe the nearest GPUs of network cards."""
    near, far = [], []
    for card in cards:
        speed = "" if card.gb_per_s is None else f" of {card.gb_per_s:g} GB/s"
        if card.ranks:
            near.append(f"{card.name}{speed} ({gpus_text(card.ranks)})")
        else:
            far.append(card.name)
    if near:
        yield f"{format_count(len(near), 'NIC')}; nearest NIC by GPU: {', '.join(near)}"
    if far:
        yield f"{format_count(len(far), 'NIC')} not nearest to any GPU: {', '.join(far)}"


def gpus_text(gpus: Iterable[int]) -> str:
    """Return the text for GPUs: ``GPUs 0 1 2``."""
    numbers = [str(gpu) for gpu in gpus]
    return f"GPU{'s' * (len(numbers) > 1)} {' '.join(numbers)}"


def _understood_notes(pairs: GpuPairs, speeds: Speeds, slow: list[Link]) -> tuple[str, ...]:
    lines, kind = [], speeds.kind
    if switched := pairs.switched_gpus(speeds.links):
        gpus = "all GPUs" if len(switched) == pairs.gpus else gpus_text(sorted(switched))
        lines.append(
            f"the {kind}s of {gpus} lead to switches: each pair shows all links of a GPU, so "
            "egress and ingress of each GPU have that budget"
        )
    if slow and pairs.lanes:
        islands = "; ".join(gpus_text(gpus) for gpus in pairs.islands())
        lines.append(f"{kind} connects {islands}; the links between them are PCIe")
    elif slow:
        without = "" if kind == PCIE else f": the output has no {kind} between them"
        lines.append(f"all GPUs are joined by PCIe{without}")
    elif others := sum(pair not in pairs.lanes for pair in pairs.paths):
        lines.append(
            f"{format_count(others, 'pair')} without {kind} got no link of PCIe: paths of {kind} "
            "join "
            "all GPUs"
        )
    return tuple(lines)


def _assumption_notes(
    speeds: Speeds, fast: list[Link], slow: list[Link], hints: Hints
) -> tuple[str, ...]:
    lines = []
    if slow:
        lines.append(
            f"PCIe carries {speeds.slot_gb_per_s:g} GB/s per direction for each GPU, as 16 lanes "
            "of "
            f"generation {speeds.pcie} do, and for all that passes a PCIe switch or a host bridge"
        )
    if any(link.gb_per_s == speeds.socket_gb_per_s != speeds.slot_gb_per_s for link in slow):
        lines.append(
            f"between sockets go {speeds.socket_gb_per_s:g} GB/s per direction (after NVIDIA/nccl, "
            "src/graph/topo.h)"
        )
    if hints.alpha_us is None:
        kinds = [speeds.kind] * bool(fast) + [PCIE] * bool(slow)
        lines += [describe_alpha(kind) for kind in kinds]
    return tuple(lines)


def _connected_gpus(gpus: int, joined: Iterable[Edge]) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, connected_components(range(gpus), joined).values()))
