"""Claims that several certificates have in common, and the file that lists them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from sccl.collectives import Spec, dual_of
from sccl.core.bound import CountProof
from sccl.core.files.algorithms import algorithm_to_wire
from sccl.core.files.claims import (
    CLAIMS,
    AlgorithmClaimWire,
    AllreduceBoundWire,
    BandwidthWire,
    CertificateWire,
    Claim,
    LimitClaimWire,
    LimitPointWire,
    ScheduleClaimWire,
    StepsWire,
    UnsatWire,
)
from sccl.core.files.collectives import collective_to_wire
from sccl.core.files.disk import (
    check_can_create,
    make_directory,
    read_text,
    slugify,
    translate_write_errors,
    write_atomically,
)
from sccl.core.files.json_text import to_text
from sccl.core.files.topologies import topology_to_wire
from sccl.core.frontier import Frontier
from sccl.core.step_limit import LimitProof, StepLimit
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology, constraint_name
from sccl.errors import InputError
from sccl.prove.bounds.any_class import covering_constraints
from sccl.prove.bounds.lower_bounds import bandwidth_bound, farthest_pair
from sccl.prove.check.coverage import Coverage
from sccl.synth.limits import MAX_CUT_RANKS
from sccl.topo.symmetry.group_choice import translation_groups


def file_prefix(topology: Topology, spec: Spec) -> str:
    """Return the common prefix of the names of a certificate's files."""
    return slugify(f"{spec.name}-{topology.name}").lower()


def bound_claims(topology: Topology, spec: Spec) -> Iterator[Claim]:
    """Yield both lower bounds, the one on bandwidth for each machine on which a phase is solved."""
    dual = dual_of(spec)
    unit = dual.spec.at(dual.spec.unit)
    phases = dual.phases_on(topology)
    steps = max(farthest_pair(phase.topology, unit).steps for phase in phases)
    yield StepsWire(at_least=steps * dual.phases)
    for phase in phases:
        proof = bandwidth_bound(phase.topology, unit)
        yield BandwidthWire(
            at_least=str(dual.bandwidth(proof.value / unit.chunks)),
            machine=phase.number,
            prices=tuple((constraint_name(key), str(price)) for key, price in proof.prices),
            cuts=tuple((cut.ranks, str(cut.weight)) for cut in proof.cuts),
        )


def any_family_claim(proof: LimitProof) -> AllreduceBoundWire:
    """Return the claim of a lower bound for every allreduce of any family with S steps."""
    return AllreduceBoundWire(
        steps=proof.steps,
        at_least=str(proof.bound),
        prices=tuple((constraint_name(key), s, str(price)) for key, s, price in proof.prices),
        cuts=tuple((cut.labels, str(cut.weight)) for cut in proof.cuts),
        root=proof.roots[0] if len(proof.roots) == 1 else None,
        roots=proof.roots if len(proof.roots) > 1 else (),
        on_reversed=proof.on_reversed,
    )


def limit_claims(
    limit: StepLimit, spec: Spec, *, trees: bool = False
) -> Iterator[LimitClaimWire | AllreduceBoundWire]:
    """Yield the claims of a limit of R/C, for each machine.

    There are none if the bandwidth bound is as strong. If cuts bound trees up and down, they bound
    every allreduce, and the claim states this.
    """
    dual = dual_of(spec)
    for number, proof in enumerate(limit.proofs):  # phases in order
        if trees and proof.cuts:
            yield any_family_claim(proof)
        elif proof.prices or proof.cuts:
            yield LimitClaimWire(
                steps=limit.steps,
                at_least=str(proof.bound if trees else dual.bandwidth(proof.bound)),
                machine=number,
                prices=tuple(
                    (constraint_name(key), s, str(price)) for key, s, price in proof.prices
                ),
                trees=trees,
                cuts=tuple((cut.labels, str(cut.weight)) for cut in proof.cuts),
            )


def algorithm_claim(
    folder: Path, topology: Topology, spec: Spec, algorithm: AnyAlgorithm, suffix: str = ""
) -> AlgorithmClaimWire:
    """Write an algorithm into the folder and return the claim that it exists."""
    chunks, steps = algorithm.collective.chunks, algorithm.steps
    file = f"{file_prefix(topology, spec)}-c{chunks}-s{steps}{suffix}.json"
    write_atomically(folder / file, to_text(algorithm_to_wire(algorithm)))
    return AlgorithmClaimWire(chunks=chunks, steps=steps, rounds=algorithm.rounds, file=file)


def composition_claims(
    folder: Path,
    topology: Topology,
    spec: Spec,
    claims: Sequence[Claim],
    algorithms: Iterable[AnyAlgorithm],
) -> Iterator[Claim]:
    """Yield claims on compositions of any two halves, for every k and C.

    Args:
        folder: Folder of the certificate.
        topology: The machine.
        spec: The allreduce.
        claims: Earlier claims, with the limits of phases.
        algorithms: Compositions. Those without a provable claim are left out.
    """
    covered = Coverage.from_claims(claims, spec, dual_of(spec).phases_on(topology))
    triples = {(c.chunks, c.steps, c.rounds) for c in claims if isinstance(c, AlgorithmClaimWire)}
    for algorithm in algorithms:
        triple = (algorithm.collective.chunks, algorithm.steps, algorithm.rounds)
        bound, fewer = (covered.lower_bound(s, equal=False) for s in (triple[1], triple[1] - 1))
        cost = algorithm.bandwidth_cost
        if (bound is not None and bound < cost) or (fewer is not None and fewer <= cost):
            continue
        if triple not in triples:
            yield algorithm_claim(folder, topology, spec, algorithm, "-halves")
        chunks, steps, rounds = triple
        yield LimitPointWire(chunks=chunks, steps=steps, rounds=rounds, halves="any")


def any_family_bound_claims(topology: Topology, over: Frontier) -> Iterator[Claim]:
    """Yield lower bounds for every allreduce of any family, for any S and for each S.

    Args:
        topology: The machine.
        over: The frontier over all families.
    """
    assert over.bounds is not None
    sends = over.bounds.evidence
    assert isinstance(sends, CountProof)
    singletons = tuple((rank,) for rank in range(topology.ranks))
    groups = (sends.ranks,) if sends.ranks else sends.groups or singletons
    yield AllreduceBoundWire(
        steps=None,
        at_least=str(over.bounds.bandwidth),
        groups=groups,
        prices=tuple((name, 0, "1") for name in covering_constraints(topology, groups)),
    )
    proofs = (limit.proofs[0] for limit in over.any_class_limits)
    yield from dict.fromkeys(any_family_claim(x) for x in proofs if x.prices or x.cuts)


def any_family_optimum_claims(
    folder: Path, topology: Topology, spec: Spec, claims: Sequence[Claim], over: Frontier
) -> Iterator[Claim]:
    """Yield the points that no allreduce of any family dominates, with their algorithms.

    Args:
        folder: Folder of the certificate.
        topology: The machine.
        spec: The allreduce.
        claims: Earlier claims.
        over: The frontier over all families.
    """
    triples = {(c.chunks, c.steps, c.rounds) for c in claims if isinstance(c, AlgorithmClaimWire)}
    for point in over.points:
        algorithm = point.algorithm
        of_it = (
            algorithm is not None and point.is_attained and algorithm.collective.name == spec.name
        )
        if algorithm is None or not of_it or not over.is_undominated(point):
            continue
        triple = (algorithm.collective.chunks, algorithm.steps, algorithm.rounds)
        if triple not in triples:
            yield algorithm_claim(folder, topology, spec, algorithm, "-every")
        chunks, steps, rounds = triple
        yield LimitPointWire(chunks=chunks, steps=steps, rounds=rounds, every=True)


def check_can_certify(folder: Path, topology: Topology, spec: Spec) -> None:
    """Check that a certificate can be written into a folder, before any work is done.

    Raises:
        InputError: The folder cannot be created, or has the certificate of another question.
    """
    check_can_create(folder)
    if (folder / CLAIMS).exists() and _stored_claims(folder, topology, spec) is None:
        raise InputError(
            f"{folder / CLAIMS} is not a certificate of {spec.name} on {topology.name}, and would "
            "be lost; give another folder"
        )


def write_claims(
    folder: Path, topology: Topology, spec: Spec, make: Callable[[Path], Sequence[Claim]]
) -> Path:
    """Write a certificate, completely or not at all, and return the file that lists its claims.

    Files of an earlier certificate that are no longer claimed are removed. After any interruption,
    every file is named by a list of claims.

    Args:
        folder: The folder.
        topology: The machine.
        spec: The collective.
        make: Function that returns the claims, and writes their files into the folder it receives.

    Raises:
        InputError: The folder cannot be written, or contains another certificate.
    """
    existed = folder.exists()
    check_can_certify(folder, topology, spec)
    make_directory(folder)
    try:
        with translate_write_errors(folder):
            place = tempfile.TemporaryDirectory(prefix=".unfinished-", dir=folder)
        with place as unfinished:
            claims = make(Path(unfinished))
            with translate_write_errors(folder):
                return _publish(Path(unfinished), folder, topology, spec, claims)
    except BaseException:
        if not existed:
            with suppress(OSError):  # another process may have written into it
                folder.rmdir()
        raise


def _publish(
    unfinished: Path, folder: Path, topology: Topology, spec: Spec, claims: Sequence[Claim]
) -> Path:
    """Move the claimed files to the folder, then write the list of claims."""
    after = set(_claimed_files(claims))
    ours = after | _listed_files(folder, topology, spec)
    text = msgspec.json.format(
        msgspec.json.encode(_certificate_wire(topology, spec, claims)), indent=1
    )
    try:
        for name in sorted(after):
            (unfinished / name).replace(folder / name)
        write_atomically(folder / CLAIMS, text.decode() + "\n")
    finally:  # the list of claims decides which files stay, even after an interruption
        base = file_prefix(topology, spec)
        for name in ours - _listed_files(folder, topology, spec):
            if name.startswith(f"{base}-"):  # the list may have been edited
                with suppress(OSError):  # it may be another process's folder of that name
                    (folder / name).unlink()
    return folder / CLAIMS


def _certificate_wire(topology: Topology, spec: Spec, claims: Sequence[Claim]) -> CertificateWire:
    return CertificateWire(
        topology=topology_to_wire(topology),
        collective=collective_to_wire(spec.at(spec.unit)),
        claims=tuple(claims),
        symmetries=_translations(topology, spec) if claims else (),
    )


def _translations(topology: Topology, spec: Spec) -> tuple[tuple[int, ...], ...]:
    """Return translations of a machine that is too large to be checked rank by rank."""
    if topology.ranks <= MAX_CUT_RANKS or spec.name not in {"allgather", "alltoall"}:
        return ()
    unit = spec.at(spec.unit)
    for group in translation_groups(topology, unit):
        return tuple(symmetry.ranks for symmetry in group.generators)
    return ()


def _listed_files(folder: Path, topology: Topology, spec: Spec) -> set[str]:
    """Return the names of the files in the folder's list of claims."""
    return set(_claimed_files(_stored_claims(folder, topology, spec) or ()))


def _stored_claims(folder: Path, topology: Topology, spec: Spec) -> Sequence[Claim] | None:
    """Return the claims of a folder for a question. None: it has no such certificate."""
    try:
        certificate = msgspec.json.decode(read_text(folder / CLAIMS), type=CertificateWire)
    except (InputError, msgspec.MsgspecError, RecursionError):
        return None
    ours = _certificate_wire(topology, spec, ())
    is_same = (certificate.topology, certificate.collective) == (ours.topology, ours.collective)
    return certificate.claims if is_same else None


def _claimed_files(claims: Sequence[Claim]) -> Iterator[str]:
    """Yield the names of the files that claims refer to."""
    for claim in claims:
        if isinstance(claim, AlgorithmClaimWire | ScheduleClaimWire):
            yield claim.file
        elif isinstance(claim, UnsatWire):
            for vector in claim.vectors:
                yield from (name for name in (vector.cnf, vector.drat) if name)
