"""Which of NCCL's algorithms for which sizes, as its tuner reads them: ``sccl compare --tuner``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from shlex import quote
from typing import Annotated

from msgspec import Meta

from sccl.core.clock import AlphaModel
from sccl.core.cost import bytes_text
from sccl.core.files.disk import write_bytes_atomically
from sccl.core.files.fields import FileText, Part
from sccl.core.words import counted
from sccl.errors import CollectiveError, InputError
from sccl.formats import SizedPlan, WrittenFiles
from sccl.formats.tuner_csv import COLLECTIVES, MAX_SIZE, OWN_CHANNELS, Rule, text_of
from sccl.synth.baselines.nccl import nodes_of
from sccl.tasks.compare import Comparison, System, compare
from sccl.tasks.entrants import Contest
from sccl.tasks.sizes import sizes_of
from sccl.tasks.subject import spec_of
from sccl.tasks.taking_part import entrants_of

OURS = {"multi-ring": "ring", "double-binary-tree": "tree", "pat": "pat"}
"""NCCL's names of classical algorithms."""

ASSUMED = (
    "times come from sccl's model with optimal pipelining; NCCL divides and pipelines differently",
    "tree: two binary trees of all ranks; NCCL's are chains within a node",
    "protocol: simple, the only one that modelled times describe",
    f"channels: {OWN_CHANNELS}, which leaves NCCL its own number, as -1 does not",
    "not compared: nvls and collnet, which need switches that add up",
)


_PERF = {
    "allgather": "all_gather",
    "allreduce": "all_reduce",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "reducescatter": "reduce_scatter",
}
"""Names of collectives in nccl-tests."""


class TunerPart(Part, frozen=True, kw_only=True):
    """Rules for NCCL's tuner."""

    file: FileText
    command: Annotated[str, Meta(description="Command that uses them, with nccl-tests.")]
    notes: Annotated[tuple[str, ...], Meta(description="Assumptions, and faster contenders.")]


@dataclass(frozen=True, slots=True)
class Tuned:
    """Rules, and notes on them."""

    rules: tuple[Rule, ...]
    notes: tuple[str, ...]


def check_tunable(collective: str) -> None:
    """Check that NCCL's tuner is asked about a collective.

    Raises:
        CollectiveError: it is not.
    """
    if collective not in COLLECTIVES:
        raise CollectiveError(
            f"--tuner: NCCL's tuner is not asked about {collective}: give one of "
            f"{', '.join(COLLECTIVES)}"
        )


def tuned(found: Comparison) -> Tuned:
    """Return which of NCCL's algorithms is the fastest at each size that was compared.

    A size stands for all up to the next. The first also for smaller, the last for larger ones.

    Raises:
        InputError: no algorithm of NCCL's was compared at all sizes.
    """
    topology, spec = found.contest.topology, found.contest.spec
    nodes = nodes_of(topology)
    usable = {
        one.name: one
        for one in found.systems
        if one.what == "baseline" and _has(one.name, spec.name, nodes, topology.ranks)
    }
    whole = [one for one in usable.values() if set(found.sizes) <= one.rows.keys()]
    if not whole:
        raise InputError(
            f"--tuner: none of {', '.join(OURS)} was compared at all sizes: name them with --only, "
            "or leave --only and --without out"
        )
    factor = topology.ranks if spec.name == "allgather" else 1  # NCCL counts the larger buffer
    best = [(size, min(whole, key=lambda one: one.rows[size].us)) for size in found.sizes]
    spans = [(name, [size for size, _ in own]) for name, own in groupby(best, lambda x: x[1].name)]
    begins = [0, *(sizes[0] * factor for _, sizes in spans[1:])]
    ends = [*(begin - 1 for begin in begins[1:]), MAX_SIZE]
    rules = tuple(
        Rule(spec.name, low, high, OURS[name], "simple", OWN_CHANNELS, nodes, topology.ranks)
        for (name, _), low, high in zip(spans, begins, ends, strict=True)
    )
    between = "; where they change is known up to the next size that was compared"
    sizes = f"compared: {', '.join(sorted(OURS[one.name] for one in whole))} at "
    sizes += f"{counted(len(found.sizes), 'size')} of a rank's buffer" + between
    return Tuned(rules, (sizes, *ASSUMED, *_faster(found, dict(best))))


def _has(name: str, collective: str, nodes: int, ranks: int) -> bool:
    """Return whether NCCL has an algorithm for a collective on such a machine."""
    match OURS.get(name):
        case None:
            return False
        case "tree":
            return collective == "allreduce"
        case "pat":
            return nodes == ranks  # of one GPU a node
    return True


def _faster(found: Comparison, best: dict[int, System]) -> Iterator[str]:
    """Yield who beats all of NCCL's at which sizes, and by how much at most."""
    winners = [(size, found.winner(size)) for size in found.sizes]
    for name, own in groupby(winners, lambda pair: pair[1].name if pair[1] else ""):
        sizes = [(size, winner) for size, winner in own if winner]
        gains = [
            1 - float(w.rows[s].us / best[s].rows[s].us) for s, w in sizes if best[s].rows[s].us
        ]
        if not gains or max(gains) <= 0:
            continue
        span = " to ".join(dict.fromkeys(bytes_text(sizes[i][0]) for i in (0, -1)))
        yield f"at {span} {name} takes up to {max(gains):.0%} less than these"


def rules_of(found: Comparison, made_by: str) -> WrittenFiles:
    """Return the file of a comparison's rules.

    Args:
        made_by: the command, for the file's first line.

    Raises:
        InputError: there are none.
    """
    made = tuned(found)
    about = f"{found.contest.spec.name} on {found.contest.topology.name}, by {made_by}"
    about = "".join(c if c.isprintable() else "?" for c in about)
    content = text_of(made.rules, (about, *made.notes)).encode()
    return WrittenFiles({"rules.csv": content}, _command(found.contest), made.notes)


def _command(contest: Contest) -> str:
    """Return the command that runs NCCL with rules: one process per node, or one per GPU."""
    told = "NCCL_TUNER_PLUGIN=libnccl-tuner-example.so NCCL_TUNER_CONFIG_FILE={path}"
    program = f"{_PERF[contest.spec.name]}_perf -b 1K -e 1G -f 4"
    ranks = contest.topology.ranks
    if nodes_of(contest.topology) == 1:
        return f"{told} {program} -g {ranks}"
    return f"mpirun -np {ranks} env {told} {program} -g 1"


def write_tuner(found: Comparison, file: Path) -> TunerPart:
    """Write rules, and return notes on them.

    Raises:
        InputError: There are none, or the file cannot be written.
    """
    made = rules_of(found, "sccl compare --tuner")
    (content,) = made.files.values()
    write_bytes_atomically(file, content)
    command = made.command.replace("{path}", quote(str(file)))
    return TunerPart(file=str(file), command=command, notes=made.notes)


def rules_beside(plans: Sequence[SizedPlan], size_bytes: int | None) -> WrittenFiles:
    """Return the rules for the machine and the collective of some plans, and where these win.

    Args:
        size_bytes: that is compared. None: 1 KB to 1 GB.

    Raises:
        InputError: there are none.
        KeyboardInterrupt: it was interrupted.
    """
    topology, collective = plans[0].plan.topology, plans[0].plan.collective
    check_tunable(collective.name)
    spec = spec_of(topology, collective.name, collective.root)
    contest = Contest(topology, spec, AlphaModel.TRAVELS)
    nodes = nodes_of(topology)
    names = [name for name in OURS if _has(name, spec.name, nodes, topology.ranks)]
    given = {one.name: one.plan for one in plans}
    sizes = sizes_of("1KB..1GB") if size_bytes is None else (size_bytes,)
    entrants = entrants_of(contest, names, given, lambda _: None)
    found = compare(contest, entrants, sizes, times_alone=True)
    if found.ended:
        raise KeyboardInterrupt
    return rules_of(found, "sccl export")
