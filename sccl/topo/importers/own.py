"""Read topologies of sccl, so that copies of any machine can be joined."""

from __future__ import annotations

from sccl.core.files.json_text import parse
from sccl.core.files.shapes import TopologyWire
from sccl.core.files.topologies import topology_from_wire
from sccl.core.topology import MAX_RANKS
from sccl.errors import TooLargeError
from sccl.topo.importers.common.contract import Hints, Imported

NAME = "own"
ABOUT = "topology of sccl, as 'sccl topo show NAME --json' prints it"
SOURCE = "docs/reference/files.md"
EXAMPLE = """{"name": "pair", "ranks": 2, "alpha_us": 0.7, "gb_per_s": 25,
 "links": [{"src": 0, "dst": 1, "both_ways": true}]}
"""


def sniff(text: str) -> bool:
    """Return whether a text has the fields of such a topology."""
    head = text[:65536]
    return all(f'"{name}"' in head for name in ("ranks", "alpha_us", "gb_per_s", "name"))


def read(text: str, hints: Hints) -> Imported:  # noqa: ARG001 - the text says it all
    """Return the machine that a text describes.

    Raises:
        InputError: The text is no such topology.
    """
    wire = parse(text, TopologyWire, "the topology")
    if wire.ranks > MAX_RANKS:
        raise TooLargeError(f"{wire.ranks} ranks, expected at most {MAX_RANKS}")
    machine = topology_from_wire(wire, "the topology")
    understood = (
        f"{machine.ranks} ranks, {len(machine.links)} links, {len(machine.budgets)} budgets"
    )
    return Imported(machine, (understood,), ())
