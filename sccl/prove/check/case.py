"""The problem of a certificate: its machine and its collective, and checks of both."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from math import gcd
from pathlib import Path
from typing import Any

from sccl.collectives import (
    Dual,
    DualPhase,
    Spec,
    collective_names,
    dual_of,
    misnaming_reason,
    recover_spec,
)
from sccl.core.collective import Collective, Relation, RelationKind
from sccl.core.files.claims import (
    CLAIMS,
    CertificateWire,
    Claim,
    ScheduleClaimWire,
    TimePointWire,
    TimeWire,
)
from sccl.core.files.collectives import collective_from_wire, collective_to_wire
from sccl.core.files.disk import path_exists, read_text
from sccl.core.files.json_text import digest, parse
from sccl.core.files.topologies import topology_from_wire, topology_to_wire
from sccl.core.formatting import format_count, printable
from sccl.core.topology import Topology
from sccl.errors import FormatError, InputError
from sccl.topo.catalogue import catalogue_names, resolve_topology, topology_makers
from sccl.topo.expansions import expansions
from sccl.topo.generators import generators

_ROUND_DESCRIPTION = (
    "in a round each lane carries one chunk, independent of its bandwidth, so claims about R "
    "prove nothing about time"
)

_TimedClaim = TimeWire | ScheduleClaimWire | TimePointWire


@dataclass(frozen=True, slots=True)
class Case:
    """A certificate's machine, collective and claims.

    Attributes:
        phases: The solved phases, each with its machine.
        symmetries: Claimed translations, which are not checked yet.
        origin: Whether the machine is sccl's machine of its name, in words.
        is_named: Whether the collective is one of sccl's named collectives.
    """

    folder: Path
    topology: Topology
    spec: Spec
    dual: Dual
    phases: tuple[DualPhase, ...]
    claims: tuple[Claim, ...]
    symmetries: tuple[tuple[int, ...], ...]
    origin: str
    is_named: bool

    @property
    def is_timed(self) -> bool:
        """Return whether all claims concern times, with individual alphas and speeds of links."""
        return all(isinstance(c, _TimedClaim) for c in self.claims)

    @property
    def unit(self) -> Collective:
        """Return the solved collective at its smallest C."""
        return self.dual.spec.at(self.dual.spec.unit)

    def machine(self, number: int) -> Topology:
        """Return the machine of a phase by its number in claims.

        Raises:
            ValueError: There is no such phase.
        """
        if not 0 <= number < len(self.phases):
            raise ValueError(f"machine {number} does not exist")
        return self.phases[number].topology

    def as_json(self) -> dict[str, Any]:
        """Return the machine and the collective as plain values."""
        t, c = self.topology, self.spec.at(self.spec.unit)
        return {
            "machine": {
                "name": t.name,
                "ranks": t.ranks,
                "links": len(t.links),
                "lanes": sum(link.lanes for link in t.links),
                "budgets": len(t.budgets),
                "digest": digest(topology_to_wire(t)),
                "origin": self.origin,
                "rounds": "" if self.is_timed or t.has_uniform_lanes else _ROUND_DESCRIPTION,
            },
            "collective": {
                "name": c.name,
                "root": c.root,
                "custom": not self.is_named,
                "unit": c.chunks,
                "digest": digest(collective_to_wire(c)),
            },
        }

    def description_lines(self) -> list[str]:
        """Return the machine and the collective in words."""
        about = self.as_json()
        m, c = about["machine"], about["collective"]
        links = f"{format_count(m['links'], 'link')}, {format_count(m['lanes'], 'lane')}"
        budgets = f", {format_count(m['budgets'], 'budget')}" if m["budgets"] else ""
        root = f" with root {c['root']}" if c["root"] is not None else ""
        definition = f"custom, {c['digest']}" if c["custom"] else f"as sccl defines it{root}"
        multiple = f", C a multiple of {c['unit']}" if c["unit"] > 1 else ""
        machine = f"{printable(m['name'])}: {format_count(m['ranks'], 'rank')}, {links}{budgets}"
        if m["rounds"]:
            machine += f"; its links differ in speed: {m['rounds']}"
        return [
            f"machine     {machine}; {m['origin']}, {m['digest']}",
            f"collective  {printable(c['name'])}: {definition}{multiple}",
        ]


def read_case(folder: Path) -> Case:
    """Load the problem and the claims of the certificate in a folder.

    Raises:
        InputError: The folder contains no certificate, it cannot be read, or its collective does
            not match its name or is not at its smallest C.
    """
    path = folder / CLAIMS
    where = str(path)
    if not path_exists(path):
        raise InputError(
            f"cannot read {path}: {folder} has no certificate; create one with 'sccl pareto "
            "--certify FOLDER'"
        )
    wire = parse(read_regular(path), CertificateWire, where)
    topology = topology_from_wire(wire.topology, f"{where}, $.topology")
    timed = any(isinstance(claim, _TimedClaim) for claim in wire.claims)
    if topology.switches and not all(isinstance(claim, _TimedClaim) for claim in wire.claims):
        raise FormatError(
            f"{where}: its topology has switch nodes, for which only time claims are supported"
        )
    collective = collective_from_wire(wire.collective, where)
    if collective.ranks != topology.ranks:
        raise FormatError(f"{where}: collective and topology have different numbers of ranks")
    spec = _collective_spec(collective, where)
    dual = dual_of(spec)
    return Case(
        folder,
        topology,
        spec,
        dual,
        dual.phases_on(topology),
        wire.claims,
        wire.symmetries,
        _machine_origin(topology, timed=timed),
        spec.name in collective_names(),
    )


def read_regular(path: Path) -> str:
    """Return the text of a regular file, and never wait for a pipe or device.

    Raises:
        InputError: The file cannot be read.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"cannot read {path}: it is not a regular file; check the path")
    return read_text(path)


def _collective_spec(collective: Collective, where: str) -> Spec:
    """Return the collective for every number of chunks.

    Raises:
        FormatError: The collective is not at its smallest C, or does not match its name.
    """
    c = collective
    if wrong := misnaming_reason(c):
        raise FormatError(f"{where}, $.collective: {wrong}; nothing is checked")
    spec = recover_spec(c)
    if c.chunks != (min_chunks := _smallest_spec(spec)):
        raise FormatError(
            f"{where}, $.collective: it has {c.chunks} chunks, expected {min_chunks}, the smallest "
            "possible number: claims would hold for its multiples only; nothing is checked"
        )
    for label, relation in (("pre", c.pre), ("post", c.post)):
        if c.num_chunks % _period(relation, c.ranks):
            raise FormatError(
                f"{where}, $.collective.{label}: its period is {_period(relation, c.ranks)} "
                f"chunks and it has {c.num_chunks}, so more chunks would change the demand"
            )
    return spec


def _smallest_spec(spec: Spec) -> int:
    """Return the smallest C, below a spec's unit if its pattern repeats."""
    solved = dual_of(spec).spec
    return spec.unit // gcd(solved.at(solved.unit).class_size_divisor, spec.unit)


def _period(relation: Relation, ranks: int) -> int:
    match relation.kind:
        case RelationKind.SCATTERED:
            return ranks
        case RelationKind.TRANSPOSE:
            return ranks * ranks
        case RelationKind.PAIRS:
            return len(relation.pattern)
        case _:
            return 1


def _machine_origin(topology: Topology, *, timed: bool) -> str:
    """Describe whether a machine is sccl's machine of its name.

    Args:
        timed: Whether alphas and speeds matter.
    """
    name = topology.name
    if name in catalogue_names():
        reference: Topology | None = resolve_topology(name)
        owner = "the catalogue's"
    else:
        reference, owner = _generated_machine(topology), "the generator's"
        if reference is None and name.partition(":")[0] not in {m.name for m in topology_makers()}:
            return "custom: sccl knows no machine of this name"
    is_same = reference is not None and reference.same_capacities(topology)
    if timed and is_same and reference is not None and not reference.same_timing(topology):
        return f"custom: links as {owner}, alphas or speeds NOT"
    return (
        f"links and budgets as {owner}" if is_same else f"custom: NOT {owner} machine of this name"
    )


def _generated_machine(topology: Topology) -> Topology | None:
    """Return the generated machine of a topology's name, None if it cannot match."""
    name, _, arguments = topology.name.partition(":")
    if name in {e.name for e in expansions()}:
        return _expanded_machine(topology)
    make = {g.name: g.make for g in generators()}.get(name)
    size = re.match(r"[0-9]{1,9}", arguments)  # the first number never exceeds the ranks
    if make is None or size is None or int(size[0]) > topology.ranks:
        return None
    try:
        wiring = make(arguments.partition("@")[0])
    except (ValueError, InputError):
        return None
    pairs = list(islice(wiring.pairs, len(topology.links) + 1))
    if wiring.ranks != topology.ranks or len(pairs) > len(topology.links):
        return None
    return resolve_topology(topology.name) if not topology.name.endswith(".json") else None


def _expanded_machine(topology: Topology) -> Topology | None:
    """Return the machine of a topology's name by expansion, None if it contains a file or fails."""
    if ".json" in topology.name:
        return None
    try:
        return resolve_topology(topology.name)
    except InputError:
        return None
