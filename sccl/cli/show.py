"""``sccl show``: an algorithm as SCCL's artifact prints it (appendix A.5.1)."""

from __future__ import annotations

from sccl.cli import options
from sccl.cli.report import on_a_line, out, print_output, reported
from sccl.tasks.files import load_algorithms
from sccl.tasks.show import show_output
from sccl.topo.symmetry.expand import expand
from sccl.view.text.show import print_algorithm


@reported
def show(files: options.Algorithms, json: options.Json = False) -> None:
    """Print the sends, the topology matrix and the link utilisation of algorithms."""
    loaded = [(one, expand(one.algorithm)) for one in load_algorithms(files)]
    if json:
        print_output(show_output(loaded))
        return
    console = out()
    for i, (one, algorithm) in enumerate(loaded):
        if len(loaded) > 1:
            console.print(
                f"{chr(10) if i else ''}# {on_a_line(one.file)}", markup=False, soft_wrap=True
            )
        print_algorithm(console, algorithm, intact=one.intact)
