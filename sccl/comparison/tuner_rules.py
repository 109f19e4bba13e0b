"""Choose NCCL's algorithm for each size, as rules for NCCL's tuner (``sccl compare --tuner``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from shlex import quote
from typing import Annotated

from sccl.comparison.comparison import Comparison, ContenderResult, compare
from sccl.comparison.contender_selection import build_contenders
from sccl.comparison.contenders import ComparisonProblem
from sccl.core.clock import AlphaModel
from sccl.core.cost import format_bytes
from sccl.core.files.disk import write_bytes_atomically
from sccl.core.files.shapes import FileText, Part
from sccl.core.formatting import format_count
from sccl.core.sizes import parse_sizes
from sccl.errors import CollectiveError, InputError
from sccl.formats.common.contract import SizedPlan, WrittenFiles
from sccl.formats.tuner_csv import COLLECTIVES, DEFAULT_CHANNELS, MAX_SIZE, TunerRule, format_rules
from sccl.synth.baselines.nccl import count_nodes
from sccl.synth.common.problem import build_spec

NCCL_ALGORITHMS = {"multi-ring": "ring", "double-binary-tree": "tree", "pat": "pat"}
"""NCCL's names of the classical algorithms that it has."""

ASSUMPTIONS = (
    "times come from sccl's model with optimal pipelining; NCCL divides and pipelines differently",
    "tree: two binary trees of all ranks; NCCL's are chains within a node",
    "protocol: simple, the only one that modeled times describe",
    f"channels: {DEFAULT_CHANNELS}, which lets NCCL choose the number (-1 does not)",
    "not compared: nvls and collnet, which need switches that reduce",
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
    command: Annotated[str, "Command that uses them, with nccl-tests."]
    notes: Annotated[tuple[str, ...], "Assumptions, and faster contenders."]


@dataclass(frozen=True, slots=True)
class TunerRules:
    """Rules for NCCL's tuner, with notes."""

    rules: tuple[TunerRule, ...]
    notes: tuple[str, ...]


def check_tunable(collective: str) -> None:
    """Check that NCCL's tuner supports a collective.

    Raises:
        CollectiveError: It does not.
    """
    if collective not in COLLECTIVES:
        raise CollectiveError(
            f"NCCL's tuner does not support {collective}: give one of {', '.join(COLLECTIVES)}"
        )


def choose_rules(comparison: Comparison) -> TunerRules:
    """Return rules that select NCCL's fastest algorithm at each compared size.

    The choice at a size applies up to the next compared size. The first choice also applies to
    smaller sizes, and the last to larger ones.

    Raises:
        InputError: None of NCCL's algorithms was compared at all sizes.
    """
    topology, spec = comparison.problem.topology, comparison.problem.spec
    nodes = count_nodes(topology)
    usable = {
        system.name: system
        for system in comparison.systems
        if system.kind == "baseline" and _is_in_nccl(system.name, spec.name, nodes, topology.ranks)
    }
    complete_systems = [
        system for system in usable.values() if set(comparison.sizes) <= system.measurements.keys()
    ]
    if not complete_systems:
        raise InputError(
            f"no rules for NCCL's tuner: none of {', '.join(NCCL_ALGORITHMS)} was compared at all "
            "sizes: name them with 'only', or leave 'only' and 'without' out"
        )
    factor = topology.ranks if spec.name == "allgather" else 1  # NCCL counts the larger buffer
    best = [
        (size, min(complete_systems, key=lambda system: system.measurements[size].us))
        for size in comparison.sizes
    ]
    spans = [
        (name, [size for size, _ in group]) for name, group in groupby(best, lambda x: x[1].name)
    ]
    begins = [0, *(sizes[0] * factor for _, sizes in spans[1:])]
    ends = [*(begin - 1 for begin in begins[1:]), MAX_SIZE]
    rules = tuple(
        TunerRule(
            spec.name,
            low,
            high,
            NCCL_ALGORITHMS[name],
            "simple",
            DEFAULT_CHANNELS,
            nodes,
            topology.ranks,
        )
        for (name, _), low, high in zip(spans, begins, ends, strict=True)
    )
    between = "; switch points are known up to the next compared size"
    names = sorted(NCCL_ALGORITHMS[system.name] for system in complete_systems)
    sizes = f"compared: {', '.join(names)} at "
    sizes += f"{format_count(len(comparison.sizes), 'size')} of a rank's buffer" + between
    return TunerRules(rules, (sizes, *ASSUMPTIONS, *_faster_systems(comparison, dict(best))))


def _is_in_nccl(name: str, collective: str, nodes: int, ranks: int) -> bool:
    """Return whether NCCL has an algorithm for a collective on a machine of this shape."""
    match NCCL_ALGORITHMS.get(name):
        case None:
            return False
        case "tree":
            return collective == "allreduce"
        case "pat":
            return nodes == ranks  # one GPU per node
    return True


def _faster_systems(comparison: Comparison, best: dict[int, ContenderResult]) -> Iterator[str]:
    """Yield a note for each system and range of sizes in which it beats NCCL's algorithms."""
    winners = [(size, comparison.winner(size)) for size in comparison.sizes]
    for name, group in groupby(winners, lambda pair: pair[1].name if pair[1] else ""):
        sizes = [(size, winner) for size, winner in group if winner]
        gains = [
            1 - float(w.measurements[s].us / best[s].measurements[s].us)
            for s, w in sizes
            if best[s].measurements[s].us
        ]
        if not gains or max(gains) <= 0:
            continue
        span = " to ".join(dict.fromkeys(format_bytes(sizes[i][0]) for i in (0, -1)))
        yield f"at {span} {name} takes up to {max(gains):.0%} less time than NCCL's algorithms"


def rules_file(comparison: Comparison, made_by: str) -> WrittenFiles:
    """Return the file with the rules of a comparison.

    Args:
        comparison: Comparison.
        made_by: Command, for the first line of the file.

    Raises:
        InputError: There are no rules.
    """
    rules = choose_rules(comparison)
    about = f"{comparison.problem.spec.name} on {comparison.problem.topology.name}, by {made_by}"
    about = "".join(c if c.isprintable() else "?" for c in about)
    content = format_rules(rules.rules, (about, *rules.notes)).encode()
    return WrittenFiles({"rules.csv": content}, _nccl_command(comparison.problem), rules.notes)


def _nccl_command(problem: ComparisonProblem) -> str:
    """Return the command that runs NCCL with rules: one process per node, or one per GPU."""
    variables = "NCCL_TUNER_PLUGIN=libnccl-tuner-example.so NCCL_TUNER_CONFIG_FILE={path}"
    program = f"{_PERF[problem.spec.name]}_perf -b 1K -e 1G -f 4"
    ranks = problem.topology.ranks
    if count_nodes(problem.topology) == 1:
        return f"{variables} {program} -g {ranks}"
    return f"mpirun -np {ranks} env {variables} {program} -g 1"


def write_tuner(comparison: Comparison, file: Path) -> TunerPart:
    """Write the rules of a comparison, and return the file, the NCCL command, and notes.

    Raises:
        InputError: There are no rules, or the file cannot be written.
    """
    written = rules_file(comparison, "sccl compare --tuner")
    (content,) = written.files.values()
    write_bytes_atomically(file, content)
    command = written.command.replace("{path}", quote(str(file)))
    return TunerPart(file=str(file), command=command, notes=written.notes)


def rules_for_plans(plans: Sequence[SizedPlan], size_bytes: int | None) -> WrittenFiles:
    """Return the rules for the machine and collective of plans; notes list the sizes they win.

    Args:
        plans: Plans for the same machine and collective.
        size_bytes: Size to compare. None: 1 KB to 1 GB.

    Raises:
        InputError: There are no rules.
        KeyboardInterrupt: The user interrupted.
    """
    topology, collective = plans[0].plan.topology, plans[0].plan.collective
    check_tunable(collective.name)
    spec = build_spec(topology, collective.name, collective.root)
    problem = ComparisonProblem(topology, spec, AlphaModel.TRAVELS)
    nodes = count_nodes(topology)
    names = [
        name for name in NCCL_ALGORITHMS if _is_in_nccl(name, spec.name, nodes, topology.ranks)
    ]
    plan_by_name = {sized_plan.name: sized_plan.plan for sized_plan in plans}
    sizes = parse_sizes("1KB..1GB") if size_bytes is None else (size_bytes,)
    contenders = build_contenders(problem, names, plan_by_name, lambda _: None)
    comparison = compare(problem, contenders, sizes, times_alone=True)
    if comparison.end_reason:
        raise KeyboardInterrupt
    return rules_file(comparison, "sccl export")
