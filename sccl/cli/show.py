"""``sccl show``: an algorithm as SCCL's artifact prints it (appendix A.5.1), or a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sccl.cli import options
from sccl.cli.report import on_a_line, out, print_output, reported
from sccl.core.algorithm import KSynchronous
from sccl.tasks.files import load_plans
from sccl.tasks.show import show_output
from sccl.topo.symmetry.expand import expand
from sccl.view.text.show import print_algorithm

if TYPE_CHECKING:
    from rich.console import Console

    from sccl.tasks.files import LoadedPlan


@reported
def show(files: options.Plans, json: options.Json = False) -> None:
    """Print the sends, the topology matrix and the link utilisation of algorithms.

    Of schedules: the transfers with their times, and what the busiest links do.
    """
    loaded = load_plans(files)
    if json:
        print_output(show_output(loaded))
        return
    console = out()
    for i, one in enumerate(loaded):
        if len(loaded) > 1:
            console.print(
                f"{chr(10) if i else ''}# {on_a_line(one.file)}", markup=False, soft_wrap=True
            )
        _print(console, one)


def _print(console: Console, one: LoadedPlan) -> None:
    if isinstance(one.plan, KSynchronous):
        print_algorithm(console, expand(one.plan), intact=one.intact)
        return
    from sccl.view.text.schedule import print_schedule  # noqa: PLC0415 - NumPy is slow to load

    print_schedule(console, one.plan, intact=one.intact)
