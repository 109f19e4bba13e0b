"""The nouns as the shapes of files, and back, where they check themselves."""

from __future__ import annotations

import re
from dataclasses import asdict
from itertools import permutations
from pathlib import Path

import msgspec

from sccl.core.algorithm import Algorithm, send
from sccl.core.answer import Answer, Sat, Unknown, Unsat, verdict
from sccl.core.collective import MAX_CHUNKS, Collective, Relation, RelationKind
from sccl.core.files.disk import read_text
from sccl.core.files.shapes import (
    AlgorithmWire,
    AnswerWire,
    BudgetWire,
    CollectiveWire,
    CustomCollectiveWire,
    GeneratorWire,
    InstanceWire,
    LinkWire,
    RelationWire,
    SwitchWire,
    SymmetricAlgorithmWire,
    TopologyWire,
)
from sccl.core.files.text import digest, parse
from sccl.core.ids import Rank
from sccl.core.instance import Instance
from sccl.core.symmetric import AnyAlgorithm, SymmetricAlgorithm, Symmetry
from sccl.core.topology import (
    MAX_PAIRED,
    MAX_RANKS,
    Budget,
    Link,
    Switch,
    Topology,
    as_ranks,
    per_rank_budgets,
)
from sccl.errors import FormatError, InputError, ParameterError, TooLargeError

_MAX_UNSENT = 2**18
"""Pairs of chunk and rank that a file may speak of without a line for each of them."""
_MAX_UNLINKED = 2**10
"""Ranks that a machine may have beside those that its links can lead to."""
_PER_LINE = 16
"""And so many more for each line: files that exhaust memory have to be as large as that."""

_SYMMETRIC = re.compile(r'"kind"\s*:\s*"symmetric-algorithm"')


# --- topology ------------------------------------------------------------------------------------


def topology_to_wire(topology: Topology) -> TopologyWire:
    """Return the file shape of a topology."""
    t = topology
    return TopologyWire(
        name=t.name,
        source=t.source,
        ranks=t.ranks,
        alpha_us=t.alpha_us,
        gb_per_s=t.gb_per_s,
        links=tuple(
            LinkWire(
                src=k.src,
                dst=k.dst,
                lanes=k.lanes,
                alpha_us=None if k.alpha_us == t.alpha_us else k.alpha_us,
                gb_per_s=None if k.gb_per_s == t.gb_per_s else k.gb_per_s,
            )
            for k in t.links
        ),
        budgets=tuple(
            BudgetWire(
                name=b.name,
                edges=b.edges,
                chunks_per_round=b.chunks_per_round,
                gb_per_s=b.gb_per_s,
            )
            for b in t.budgets
        ),
        switches=tuple(map(_switch_to_wire, t.switches)),
        chassis=t.chassis,
        labels=t.labels,
    )


def topology_of_wire(wire: TopologyWire, where: str) -> Topology:
    """Return the topology of a file shape.

    Raises:
        FormatError: it contradicts itself, or has very many ranks that no link can lead to.
    """
    try:
        links = _every_link_of_wire(wire)
        _check_linked(wire.ranks, len(links))
        budgets = [Budget(b.name, b.edges, b.chunks_per_round, b.gb_per_s) for b in wire.budgets]
        return Topology(
            name=wire.name,
            source=wire.source,
            ranks=wire.ranks,
            alpha_us=wire.alpha_us,
            gb_per_s=wire.gb_per_s,
            links=links,
            budgets=(*budgets, *_sides_of_wire(wire, links)),
            switches=tuple(map(_switch_of_wire, wire.switches)),
            chassis=wire.chassis,
            labels=wire.labels,
        )
    except InputError as error:
        raise FormatError(f"{where}: {error}") from error


def _switch_to_wire(switch: Switch) -> str | SwitchWire:
    return switch.name if switch.plain else SwitchWire(**asdict(switch))


def _switch_of_wire(wire: str | SwitchWire) -> Switch:
    return Switch(wire) if isinstance(wire, str) else Switch(*msgspec.structs.astuple(wire))


def _every_link_of_wire(wire: TopologyWire) -> tuple[Link, ...]:
    """Return the links of a file; with no list of them, but 'egress', those of a switch."""
    if wire.links or wire.egress is None:
        return tuple(link for k in wire.links for link in _links_of_wire(k, wire))
    if not 2 <= wire.ranks <= MAX_PAIRED:
        raise ParameterError(
            f"topology {wire.name!r}: 'egress' without 'links' joins every rank to every other, "
            f"and ranks is {wire.ranks}, expected 2 to {MAX_PAIRED}"
        )
    lanes = min(_sides(wire))
    pairs = permutations(range(wire.ranks), 2)
    return tuple(Link(u, v, lanes, wire.alpha_us, wire.gb_per_s) for u, v in pairs)


def _sides_of_wire(wire: TopologyWire, links: tuple[Link, ...]) -> list[Budget]:
    """Return what 'egress' and 'ingress' say as budgets."""
    if wire.egress is None and wire.ingress is None:
        return []
    if wire.switches:
        raise ParameterError(
            f"topology {wire.name!r}: 'egress' and 'ingress' are about links between ranks; of "
            "ranks at switches the lanes of their links say it, so leave them out"
        )
    return per_rank_budgets([link.edge for link in links], *_sides(wire))


def _sides(wire: TopologyWire) -> tuple[int, int]:
    """Return egress and ingress, each as the other if it alone is given.

    Raises:
        ParameterError: one is below 1.
    """
    given = [n for n in (wire.egress, wire.ingress) if n is not None]
    for n in given:
        if n < 1:
            raise ParameterError(
                f"topology {wire.name!r}: 'egress' and 'ingress' are chunks per round, expected at "
                f"least 1, not {n}"
            )
    return given[0], given[-1]


def _check_linked(ranks: int, links: int) -> None:
    most = _MAX_UNLINKED + 2 * links
    if most < ranks <= MAX_RANKS:  # the topology itself complains of more
        raise TooLargeError(
            f"{ranks} ranks and {links} links, so that most ranks have none; with so few, this "
            f"version reads up to {most} ranks: leave the others out"
        )


def _links_of_wire(wire: LinkWire, topology: TopologyWire) -> tuple[Link, ...]:
    alpha = topology.alpha_us if wire.alpha_us is None else wire.alpha_us
    bandwidth = topology.gb_per_s if wire.gb_per_s is None else wire.gb_per_s
    there = Link(wire.src, wire.dst, wire.lanes, alpha, bandwidth)
    back = Link(wire.dst, wire.src, wire.lanes, alpha, bandwidth)
    return (there, back) if wire.both_ways else (there,)


# --- collective ----------------------------------------------------------------------------------


def _relation_to_wire(relation: Relation) -> RelationWire:
    return RelationWire(
        relation=relation.kind.value,
        root=relation.root,
        period=len(relation.pattern) or None,
        pairs=tuple((c, r) for c, ranks in enumerate(relation.pattern) for r in sorted(ranks)),
    )


def _relation_of_wire(wire: RelationWire, where: str) -> Relation:
    kind = RelationKind(wire.relation)
    if (wire.root is not None) != (kind is RelationKind.ROOT):
        raise FormatError(f"{where}: 'root' goes with the relation 'root', and only with it")
    if kind is not RelationKind.PAIRS:
        if wire.pairs or wire.period is not None:
            raise FormatError(f"{where}: 'pairs' and 'period' go with the relation 'pairs' only")
        return Relation(kind, root=wire.root)
    longest = min(MAX_CHUNKS, _bounded(len(wire.pairs)))
    if wire.period is None or wire.period > longest:
        raise FormatError(
            f"{where}: 'period', the number of chunks that {len(wire.pairs)} 'pairs' are about, is "
            f"{wire.period}, expected 1 to {longest}"
        )
    return Relation(kind, pattern=pattern_of_pairs(wire.pairs, wire.period, where))


def _bounded(lines: int) -> int:
    """Return how many pairs of chunk and rank a file with so many lines may speak of."""
    return _MAX_UNSENT + _PER_LINE * lines


def pattern_of_pairs(
    pairs: tuple[tuple[int, int], ...], chunks: int, where: str
) -> tuple[frozenset[Rank], ...]:
    """Return, for each of ``chunks`` chunks, the ranks that ``pairs`` of (chunk, rank) give it.

    Raises:
        FormatError: a pair names a chunk outside the range, or stands twice.
    """
    ranks: list[set[int]] = [set() for _ in range(chunks)]
    for position, (chunk, rank) in enumerate(pairs):
        if chunk >= chunks:
            raise FormatError(
                f"{where}[{position}]: chunk {chunk} does not exist, expected 0 to {chunks - 1}"
            )
        if rank in ranks[chunk]:
            raise FormatError(f"{where}[{position}]: the pair [{chunk}, {rank}] stands twice")
        ranks[chunk].add(rank)
    return tuple(as_ranks(r) for r in ranks)


def collective_to_wire(collective: Collective) -> CollectiveWire:
    """Return the file shape of a collective."""
    return CollectiveWire(
        name=collective.name,
        ranks=collective.ranks,
        chunks=collective.chunks,
        num_chunks=collective.num_chunks,
        pre=_relation_to_wire(collective.pre),
        post=_relation_to_wire(collective.post),
        combining=collective.combining,
        root=collective.root,
    )


def collective_of_wire(wire: CollectiveWire, where: str) -> Collective:
    """Return the collective of a file shape.

    Raises:
        FormatError: it contradicts itself.
    """
    try:
        return Collective(
            name=wire.name,
            ranks=wire.ranks,
            chunks=wire.chunks,
            num_chunks=wire.num_chunks,
            pre=_relation_of_wire(wire.pre, f"{where}, $.collective.pre"),
            post=_relation_of_wire(wire.post, f"{where}, $.collective.post"),
            combining=wire.combining,
            root=wire.root,
        )
    except FormatError:
        raise
    except InputError as error:
        raise FormatError(f"{where}: {error}") from error


# --- algorithm, instance, answer -----------------------------------------------------------------


def algorithm_to_wire(algorithm: Algorithm) -> AlgorithmWire:
    """Return the file shape of an algorithm."""
    return AlgorithmWire(
        collective=collective_to_wire(algorithm.collective),
        topology=topology_to_wire(algorithm.topology),
        scope=algorithm.scope,
        proved=algorithm.proved,
        rounds_per_step=algorithm.rounds_per_step,
        sends=tuple((s.step, s.chunk, s.src, s.dst, 1 if s.reduce else 0) for s in algorithm.sends),
    )


def algorithm_of_wire(wire: AlgorithmWire, where: str) -> Algorithm:
    """Return the algorithm of a file shape: still a candidate that the judge has to see.

    Raises:
        FormatError: its topology or collective contradicts itself, or they do not fit.
    """
    topology = topology_of_wire(wire.topology, f"{where}, $.topology")
    collective = collective_of_wire(wire.collective, where)
    if collective.ranks != topology.ranks:
        raise FormatError(
            f"{where}: the collective is for {collective.ranks} ranks and the topology has "
            f"{topology.ranks}, expected the same number"
        )
    if collective.size > (most := _bounded(len(wire.sends))):
        raise TooLargeError(
            f"{where}: {len(wire.sends)} sends for {collective.num_chunks} chunks on "
            f"{collective.ranks} ranks, with {collective.size} pairs of a chunk and a rank that "
            f"holds or wants it; with so few sends, this version reads up to {most}"
        )
    return Algorithm(
        topology=topology,
        collective=collective,
        rounds_per_step=wire.rounds_per_step,
        sends=tuple(send(c, u, v, s, reduce=bool(red)) for s, c, u, v, red in wire.sends),
        scope=wire.scope,
        proved=wire.proved,
    )


def symmetric_to_wire(algorithm: SymmetricAlgorithm) -> SymmetricAlgorithmWire:
    """Return the file shape of a symmetric algorithm."""
    return SymmetricAlgorithmWire(
        collective=collective_to_wire(algorithm.collective),
        topology=topology_to_wire(algorithm.topology),
        scope=algorithm.scope,
        proved=algorithm.proved,
        rounds_per_step=algorithm.rounds_per_step,
        symmetries=tuple(
            GeneratorWire(ranks=s.ranks, turn=s.turn, period=s.period) for s in algorithm.symmetries
        ),
        num_sends=algorithm.num_sends,
        sends=tuple((s.step, s.chunk, s.src, s.dst) for s in algorithm.sends),
    )


def symmetric_of_wire(wire: SymmetricAlgorithmWire, where: str) -> SymmetricAlgorithm:
    """Return the symmetric algorithm of a file shape: a candidate that the judge has to see.

    Raises:
        FormatError: its parts contradict themselves, or a symmetry is no permutation of the ranks.
    """
    topology = topology_of_wire(wire.topology, f"{where}, $.topology")
    collective = collective_of_wire(wire.collective, where)
    if collective.ranks != topology.ranks:
        raise FormatError(
            f"{where}: the collective is for {collective.ranks} ranks and the topology has "
            f"{topology.ranks}, expected the same number"
        )
    for i, generator in enumerate(wire.symmetries):
        if sorted(generator.ranks) != list(range(topology.ranks)):
            raise FormatError(
                f"{where}, $.symmetries[{i}].ranks: expected each rank from 0 to "
                f"{topology.ranks - 1} once"
            )
    for i, (_, chunk, src, dst) in enumerate(wire.sends):
        fits = 0 <= chunk < collective.num_chunks
        if not (fits and 0 <= src < topology.ranks and 0 <= dst < topology.ranks):
            raise FormatError(f"{where}, $.sends[{i}]: that chunk or rank does not exist")
    return SymmetricAlgorithm(
        topology=topology,
        collective=collective,
        rounds_per_step=wire.rounds_per_step,
        symmetries=tuple(Symmetry(g.ranks, g.turn % g.period, g.period) for g in wire.symmetries),
        sends=tuple(send(c, u, v, s) for s, c, u, v in wire.sends),
        num_sends=wire.num_sends,
        scope=wire.scope,
        proved=wire.proved,
    )


def any_algorithm_to_wire(algorithm: AnyAlgorithm) -> AlgorithmWire | SymmetricAlgorithmWire:
    """Return the file shape of an algorithm, symmetric or not."""
    if isinstance(algorithm, SymmetricAlgorithm):
        return symmetric_to_wire(algorithm)
    return algorithm_to_wire(algorithm)


def instance_to_wire(instance: Instance) -> InstanceWire:
    """Return the file shape of an instance."""
    return InstanceWire(
        topology=topology_to_wire(instance.topology),
        collective=collective_to_wire(instance.collective),
        steps=instance.steps,
        rounds=instance.rounds,
    )


def instance_of_wire(wire: InstanceWire, where: str) -> Instance:
    """Return the instance of a file shape.

    Raises:
        FormatError: a part contradicts itself.
        InputError: the parts do not make an instance.
    """
    return Instance(
        topology_of_wire(wire.topology, f"{where}, $.topology"),
        collective_of_wire(wire.collective, where),
        wire.steps,
        wire.rounds,
    )


def answer_to_wire(answer: Answer) -> AnswerWire:
    """Return the file shape of an answer."""
    algorithm, symmetric, reason = None, None, ""
    match answer:
        case Sat(Algorithm() as found):
            algorithm = algorithm_to_wire(found)
        case Sat(SymmetricAlgorithm() as found):
            symmetric = symmetric_to_wire(found)
        case Unsat(evidence):
            reason = evidence
        case Unknown(why):
            reason = why
    return AnswerWire(
        answer=verdict(answer),
        solver=answer.solver,
        seconds=answer.seconds,
        reason=reason,
        algorithm=algorithm,
        symmetric=symmetric,
    )


def answer_of_wire(wire: AnswerWire, where: str) -> Answer:
    """Return the answer of a file shape.

    Raises:
        FormatError: it says "sat" and carries no algorithm, or the algorithm contradicts itself.
    """
    if wire.answer == "unsat":
        return Unsat(wire.reason, wire.solver, wire.seconds)
    if wire.answer == "unknown":
        return Unknown(wire.reason, wire.solver, wire.seconds)
    if wire.symmetric is not None:
        found = symmetric_of_wire(wire.symmetric, f"{where}, $.symmetric")
        return Sat(found, wire.solver, wire.seconds)
    if wire.algorithm is None:
        raise FormatError(f"{where}: the answer is 'sat' and has no 'algorithm'")
    algorithm = algorithm_of_wire(wire.algorithm, f"{where}, $.algorithm")
    return Sat(algorithm, wire.solver, wire.seconds)


# --- whole files ---------------------------------------------------------------------------------


def load_topology(path: Path) -> Topology:
    """Return the topology in a file.

    Raises:
        InputError: the file cannot be read, or is not a topology.
    """
    where = str(path)
    return topology_of_wire(parse(read_text(path), TopologyWire, where), where)


def load_custom_collective(path: Path) -> CustomCollectiveWire:
    """Return the shape of a custom collective's file; :mod:`sccl.collectives` gives it meaning.

    Raises:
        InputError: the file cannot be read, or is not a custom collective.
    """
    return parse(read_text(path), CustomCollectiveWire, str(path))


def load_algorithm(path: Path) -> tuple[AnyAlgorithm, bool]:
    """Return the algorithm in a file, and whether its content still has the digest it states.

    Raises:
        InputError: the file cannot be read, or is not an algorithm.
    """
    where = str(path)
    text = read_text(path)
    if _SYMMETRIC.search(text[:400]):
        symmetric = parse(text, SymmetricAlgorithmWire, where)
        intact = symmetric.digest in (None, digest(symmetric))
        return symmetric_of_wire(symmetric, where), intact
    wire = parse(text, AlgorithmWire, where)
    return algorithm_of_wire(wire, where), wire.digest in (None, digest(wire))
