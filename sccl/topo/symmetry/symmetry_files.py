"""Symmetries that a user gives in a file, as permutations or as offsets of TACCL's sketches."""

from __future__ import annotations

from pathlib import Path

from sccl.core.collective import Collective
from sccl.core.files.disk import read_text
from sccl.core.files.json_text import parse
from sccl.core.files.shapes import SymmetryWire
from sccl.core.symmetric import Symmetry
from sccl.core.topology import Topology
from sccl.errors import FormatError
from sccl.topo.symmetry.automorphisms import check_symmetry
from sccl.topo.symmetry.group import Group


def load_group(path: Path, topology: Topology, collective: Collective) -> Group:
    """Return the group of a file, whose symmetries preserve the machine and the demand.

    Raises:
        ParameterError: they do not.
        FormatError: the file is none of symmetries, or they are for another number of ranks.
    """
    wire = parse(read_text(path), SymmetryWire, str(path))
    group = []
    for i, generator in enumerate(wire.generators):
        if len(generator.ranks) != topology.ranks:
            raise FormatError(
                f"{path}, $.generators[{i}].ranks has {len(generator.ranks)} images, expected one "
                f"for each of {topology.ranks} ranks"
            )
        group.append(Symmetry(generator.ranks, generator.turn % generator.period, generator.period))
    for i, (offset, size) in enumerate(wire.offsets):
        if not 1 <= size <= topology.ranks or topology.ranks % size:
            raise FormatError(
                f"{path}, $.offsets[{i}]: the size {size} does not divide {topology.ranks} ranks"
            )
        ranks = range(topology.ranks)
        group.append(Symmetry(tuple((r % size + offset) % size + r // size * size for r in ranks)))
    for symmetry in group:
        check_symmetry(topology, collective, symmetry.ranks)
    if not group:
        raise FormatError(f"{path}: no symmetry is given, expected 'generators' or 'offsets'")
    return Group(path.name, tuple(group))
