"""What the verbs that ask take alike: a question, and how it is answered."""

from __future__ import annotations

from pathlib import Path

from sccl.cli import options
from sccl.cli.report import err
from sccl.collectives import Spec
from sccl.core.topology import Topology
from sccl.errors import ParameterError
from sccl.synth.cluster import Cluster
from sccl.synth.ksync import backends
from sccl.synth.settings import Settings, checked_effort
from sccl.tasks.asked import asked
from sccl.topo import resolve as resolve_topology


def asked_for(question: options.QuestionOptions) -> tuple[Topology, Spec]:
    """Return the machine as it is modelled, and the collective; say what was done to the machine.

    Raises:
        InputError: one of them does not exist, or they do not fit.
    """
    found = asked(resolve_topology(question.topo), question.collective, question.root)
    for note in found.notes:
        err().print(f"{found.topology.name}: {note}", markup=False, soft_wrap=True)
    return found.topology, found.spec


def settings_of(
    search: options.SearchOptions,
    timeout: float | None,
    kept: options.KeptOptions | None = None,
    workers: options.WorkersOptions | None = None,
) -> Settings:
    """Return how a question is answered.

    Raises:
        InputError: there is no such solver, or a number makes no sense.
    """
    kept, workers = kept or options.KeptOptions(), workers or options.WorkersOptions()
    return Settings(
        backends.check_name(search.solver),
        checked_effort(timeout, search.seed),
        search.symmetry,
        workers.jobs,
        _cluster(workers.cluster, workers.tls_ca, workers.tls_cert, workers.tls_key),
        kept.store,
        kept.no_store,
    )


def _cluster(address: str | None, *tls: Path | None) -> Cluster | None:
    if any(tls) and not address:
        raise ParameterError("TLS files are given, but no --cluster that they are for")
    return Cluster(address, *tls) if address else None
