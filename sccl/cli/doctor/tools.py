"""``sccl doctor``: the parts of this machine that sccl can use."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sccl.cli import options
from sccl.cli.report import ExitCode, err, out, print_output, report_errors
from sccl.runtime.doctor import ToolResults, doctor_output, examine_tools, is_usable
from sccl.runtime.tool_checks import ToolState

_COLORS = {ToolState.OK: "green", ToolState.MISSING: "yellow", ToolState.BROKEN: "red"}


@report_errors
def doctor(json: options.Json = False) -> None:
    """Test the solvers, compilers, MPI, and GPU tools of this machine, with installation hints.

    Exit code 0: the main job ('sccl pareto') works, 1: it does not.
    """
    with err().status("testing tools"):
        results = examine_tools()
    if json:
        print_output(doctor_output(results))
    else:
        _print(out(), results)
    raise typer.Exit(ExitCode.OK if is_usable(results) else ExitCode.NO)


def _print(console: Console, results: ToolResults) -> None:
    table = Table("", "State", "Version", "For, or how to get it", box=None, pad_edge=False)
    group = ""
    for tool, result in results:
        if tool.group != group:
            group = tool.group
            table.add_row(f"\n[bold]{group}[/]")
        state, works = result.state, result.state is ToolState.OK
        text = (
            tool.purpose if works else "; ".join(filter(None, [result.problem, tool.install_hint]))
        )
        mark = f"[{_COLORS[state]}]{state.value}[/]"
        table.add_row(f"  {tool.name}", mark, escape(result.version), escape(text))
    console.print(table)
    console.print(
        "\n[green]The main job can be done:[/] sccl pareto --collective allgather --topo dgx1"
        if is_usable(results)
        else "\n[red]The main job can't be done:[/] cpsat does not work, see above"
    )
