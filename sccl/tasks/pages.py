"""What the explorer's page is given."""

from __future__ import annotations

from pathlib import Path

from sccl.collectives import Spec, misnamed, named, names
from sccl.core.collective import Collective
from sccl.core.symmetric import AnyAlgorithm
from sccl.core.topology import Topology
from sccl.tasks.judged import judged
from sccl.view.shown import Bounds, Shown
from sccl.view.text.reasons import bounds_of


def shown(
    file: str,
    loaded: AnyAlgorithm,
    intact: bool,
    known: dict[tuple[Topology, Spec], Bounds],
) -> Shown:
    """Return what the page shows of a file.

    Args:
        file: what it is called.
        known: bounds by question; what is missing is added.

    Raises:
        InputError: the judge rejects the algorithm; what is wrong moves nowhere on a page.
    """
    algorithm = judged(loaded, file)
    question = (algorithm.topology, spec_of(algorithm.collective))
    if question not in known:
        known[question] = bounds_of(*question)
    return Shown(algorithm, Path(file).name, intact, known[question])


def spec_of(collective: Collective) -> Spec:
    """Return what was asked for, at any number of chunks."""
    c = collective
    if c.name in names() and not misnamed(c):
        return named(c.name, c.ranks, c.root)
    per_unit = c.num_chunks // c.chunks
    return Spec(c.name, c.ranks, 1, per_unit, c.pre, c.post, c.combining, c.root)
