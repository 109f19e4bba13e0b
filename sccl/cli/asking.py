"""What the verbs that ask take alike: a question."""

from __future__ import annotations

from sccl.cli import options
from sccl.cli.report import err
from sccl.collectives import Spec
from sccl.core.topology import Topology
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
