"""``sccl show``: an algorithm as SCCL's artifact prints it (appendix A.5.1)."""

from __future__ import annotations

from sccl.cli import options
from sccl.cli.report import out, reported
from sccl.tasks.files import load_algorithms
from sccl.tasks.show import print_algorithm
from sccl.transform import expand


@reported
def show(files: options.Algorithms) -> None:
    """Print the sends, the topology matrix and the link utilisation of algorithms."""
    console = out()
    loaded = [(one, expand(one.algorithm)) for one in load_algorithms(files)]
    for i, (one, algorithm) in enumerate(loaded):
        if len(loaded) > 1:
            console.print(f"{chr(10) if i else ''}# {one.file}", markup=False, soft_wrap=True)
        print_algorithm(console, algorithm, intact=one.intact)
