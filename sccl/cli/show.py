"""``sccl show``: an algorithm as SCCL's artifact prints it (appendix A.5.1)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from sccl.cli.report import out, reported
from sccl.cli.tables import matrix
from sccl.core.algorithm import Algorithm
from sccl.core.codec import load_algorithm
from sccl.transform import expand
from sccl.verify import describe, violations


@reported
def show(file: Annotated[Path, typer.Argument(help="Algorithm file.")]) -> None:
    """Print the sends, the topology matrix and the link utilisation of an algorithm."""
    loaded, intact = load_algorithm(file)
    a, console = expand(loaded), out()
    console.print(
        f"{a.collective.name} on {a.topology.name}: C={a.collective.chunks} S={a.steps} "
        f"R={a.rounds}, R/C={a.bandwidth_cost}",
        style="bold",
        markup=False,
    )
    if wrong := len(violations(a)):
        console.print(f"[red]the judge rejects it: {wrong} violation(s)[/], see 'sccl check'")
    elif a.proved and intact:
        console.print(f"proved optimal: {', '.join(a.proved)}; class: {a.scope}", markup=False)
    elif a.proved:
        console.print("edited since sccl wrote it: what it claims is not repeated here")
    for send in a.sends:
        console.print(describe(send), markup=False)
    lanes = a.topology.lanes()
    nodes = a.topology.ranks + len(a.topology.switches)
    console.print("\nTopology: chunks per round, from row to column", style="bold")
    console.print(matrix(nodes, lanes))
    for step, rounds in enumerate(a.rounds_per_step):
        load = Counter(s.edge for s in a.sends if s.step == step)
        used = {edge: n / rounds for edge, n in load.items()} if rounds > 0 else {}
        console.print(
            f"Step {step}, {rounds} round(s): chunks per round, from row to column", style="bold"
        )
        console.print(matrix(nodes, used))
    console.print(_utilisation(a))


def _utilisation(algorithm: Algorithm) -> Table:
    """Return how much of what the links could carry each step, and all of them, used."""
    capacity = sum(algorithm.topology.lanes().values())
    sends: Counter[int] = Counter(s.step for s in algorithm.sends)
    table = Table("Step", "Rounds", "Sends", "Link utilisation", title="Utilisation")
    for step, rounds in enumerate(algorithm.rounds_per_step):
        share = sends[step] / (capacity * rounds) if rounds > 0 else 0.0
        table.add_row(str(step), str(rounds), str(sends[step]), f"{share:.1%}")
    whole = capacity * algorithm.rounds
    total = len(algorithm.sends)
    share = total / whole if whole > 0 else 0.0
    table.add_row("all", str(algorithm.rounds), str(total), f"{share:.1%}", style="bold")
    return table
