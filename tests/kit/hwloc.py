"""Machines in hwloc's XML, written."""

from __future__ import annotations

from itertools import product

from tests.kit.nccl import SWITCHES, Machine, bus_id

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">'
SLOT = 'pci_link_speed="31.507692"'
SOCKET, BRIDGE, SWITCH, GPU, PART = 100, 200, 300, 400, 500
"""First numbers of the objects of each kind."""


def pci(rank: int, inside: str = "") -> str:
    """Return the PCI device that the GPU of a rank is."""
    return (
        f'<object type="PCIDev" gp_index="{GPU + rank}" pci_busid="{bus_id(rank)}" '
        f'pci_type="0302 [10de:20b0] [10de:134f] a1 00" {SLOT}>{inside}</object>'
    )


def part(rank: int) -> str:
    """Return NVML's attributes of a rank's GPU."""
    return (
        f'<object type="OSDev" gp_index="{PART + rank}" name="nvml{rank}" subtype="NVML">'
        '<info name="GPUModel" value="NVIDIA A100-SXM4-40GB"/></object>'
    )


def written(machine: Machine, newline: str = "\n") -> str:
    """Return the machine as hwloc writes it, two GPUs at each socket, NVSwitches at the first."""
    lines = [*HEAD.split("\n"), '<topology version="2.0">', '<object type="Machine" gp_index="1">']
    order = sorted(range(machine.gpus), key=lambda rank: machine.at[rank])
    for first in range(0, len(order), 2):
        lines.append(f'<object type="Package" gp_index="{SOCKET + first}">')
        lines.append(f'<object type="Bridge" gp_index="{BRIDGE + first}" bridge_type="0-1">')
        lines += [pci(rank, part(rank)) for rank in order[first : first + 2]]
        if not first and machine.to_switches:
            lines += [
                f'<object type="PCIDev" subtype="NVSwitch" gp_index="{SWITCH + i}" '
                f'pci_busid="{bus}" pci_type="0680 [10de:1af1] [10de:0000] a1 00"/>'
                for i, bus in enumerate(SWITCHES)
            ]
        lines += ["</object>", "</object>"]
    lines += ["</object>", *_matrix(machine), "</topology>", ""]
    return newline.join(lines)


def _matrix(machine: Machine) -> list[str]:
    """Return the NVLinks in rows of ten, like hwloc, and nothing without NVLinks."""
    if not machine.lanes and not machine.to_switches:
        return []
    objects: list[tuple[str, int]] = [("OSDev", rank) for rank in range(machine.gpus)]
    if machine.to_switches:
        objects += [("PCIDev", i) for i in range(len(SWITCHES))]
    values = [_value(machine, one, other) for one, other in product(objects, repeat=2)]
    number = {"OSDev": PART, "PCIDev": SWITCH}
    gp = [(kind, number[kind] + i) for kind, i in objects]
    if machine.to_switches:
        head, indexes = "distances2hetero", [f"{kind}:{i}" for kind, i in gp]
    else:
        head, indexes = 'distances2 type="OSDev" indexing="gp"', [str(i) for _, i in gp]
    lines = [f'<{head} nbobjs="{len(objects)}" kind="25" name="NVLinkBandwidth">']
    for tag, words in (("indexes", indexes), ("u64values", list(map(str, values)))):
        for i in range(0, len(words), 10):
            text = " ".join(words[i : i + 10]) + " "
            lines.append(f'<{tag} length="{len(text)}">{text}</{tag}>')
    return [*lines, f"</{head.split()[0]}>"]


def _value(machine: Machine, one: tuple[str, int], other: tuple[str, int]) -> int:
    if one == other:
        return 1_000_000
    if one[0] != other[0]:
        return 25_000 * machine.to_switches
    pair = min(one[1], other[1]), max(one[1], other[1])
    return 25_000 * machine.lanes.get(pair, 0) if one[0] == "OSDev" else 0
