"""The output of ``sccl pareto`` and ``sccl limits``: files, text, a certificate, a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sccl.cli import options
from sccl.cli.report import ExitCode, err, out, print_json
from sccl.cli.signals import exit_code
from sccl.core.cost import Costs
from sccl.core.files.disk import check_can_create
from sccl.core.files.outputs import output_head, question_digests
from sccl.core.frontier import Frontier
from sccl.synth.common.problem import CollectiveProblem
from sccl.view.text.frontier_text import print_frontier

if TYPE_CHECKING:
    from sccl.synth.allreduce.certify import WrittenCertificate
    from sccl.synth.common.algorithm_folder import AlgorithmFolder

OutDir = Annotated[Path | None, typer.Option("-o", "--output", help="Folder for the algorithms.")]
CertifyDir = Annotated[
    Path | None,
    typer.Option(
        "--certify",
        help="Folder for a certificate: proofs that 'sccl certificate verify' checks without a "
        "solver. For allreduce they cover compositions (a reducescatter, then an allgather), "
        "bounds for all algorithms, and with 'sccl limits' also trees.",
    ),
]
Plot = Annotated[
    Path | None,
    "Picture of the frontier and of times by buffer size: .html, .svg, .png, .pdf (more charts: "
    "'sccl plot').",
]


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """The outputs of a frontier, and the costs by which its points are compared."""

    out_dir: OutDir = None
    certify_dir: CertifyDir = None
    plot: Plot = None
    alpha_us: options.AlphaUs = None
    gb_per_s: options.GbPerS = None


@dataclass(frozen=True, slots=True)
class OutputTargets:
    """The outputs of a search.

    Attributes:
        subject: Collective and machine.
        folder: Folder for the algorithms. None: none.
        plot: File for the picture. None: none.
        certificate: Folder for the proofs. None: none.
        costs: Costs by which algorithms are compared.
        json: Whether only JSON is printed.
    """

    subject: CollectiveProblem
    folder: AlgorithmFolder | None
    plot: Path | None
    certificate: Path | None
    costs: Costs
    json: bool

    @classmethod
    def from_options(
        cls,
        output_options: OutputOptions,
        subject: CollectiveProblem,
        max_steps: int | None,
        *,
        json: bool,
    ) -> OutputTargets:
        """Return the outputs, after checking that they can be written.

        Raises:
            InputError: A file or folder cannot be written, or nothing can be certified.
        """
        topology, spec = subject.topology, subject.spec
        costs = Costs.from_topology(topology, output_options.alpha_us, output_options.gb_per_s)
        if output_options.plot:
            from sccl.view.charts import check_picture  # noqa: PLC0415 - few ask for a picture

            check_picture(output_options.plot)
        folder: AlgorithmFolder | None = None
        if output_options.out_dir:
            from sccl.synth.common.algorithm_folder import AlgorithmFolder  # noqa: PLC0415 - few keep algorithms

            check_can_create(output_options.out_dir)
            folder = AlgorithmFolder(output_options.out_dir)
        if output_options.certify_dir:
            from sccl.synth.allreduce.certify import require_certifiable  # noqa: PLC0415 - few certify
            from sccl.synth.common.claims import check_can_certify  # noqa: PLC0415

            require_certifiable(topology, spec, max_steps)
            check_can_certify(output_options.certify_dir, topology, spec)
        plot, certificate = output_options.plot, output_options.certify_dir
        return cls(subject, folder, plot, certificate, costs, json)


def write_outputs(
    frontier: Frontier,
    outputs: OutputTargets,
    write: Callable[[Path, Callable[[str], None]], WrittenCertificate],
) -> None:
    """Save, print, certify and draw a frontier.

    Args:
        write: Function that writes the certificate into a folder, and reports progress to its
            second argument.

    Raises:
        Exit: the search was interrupted. Then nothing is certified.
        InputError: an output cannot be written.
    """
    priced_frontier = replace(frontier, costs=outputs.costs)
    head = output_head("frontier", question_digests(outputs.subject.topology, outputs.subject.spec))
    if outputs.folder:
        outputs.folder.save_frontier(priced_frontier, head)
    if outputs.json:
        from sccl.core.files.frontiers import frontier_to_plain  # noqa: PLC0415 - tables need no shapes of files

        print_json(head | frontier_to_plain(priced_frontier))
    else:
        print_frontier(out(), priced_frontier, outputs.subject.spec)
    interrupted = priced_frontier.is_interrupted
    if outputs.certificate and not interrupted:
        from sccl.cli.certify import write_and_report  # noqa: PLC0415 - few certify

        write_and_report(write, outputs.certificate, quiet=outputs.json)
    if outputs.plot:
        from sccl.cli.plot import draw_frontier  # noqa: PLC0415 - few ask for a picture
        from sccl.synth.packing.by_time.time_bound import lower_bound_function  # noqa: PLC0415 - loads NumPy

        subject = outputs.subject
        lower_bound = lower_bound_function(subject.topology, subject.spec, outputs.costs)
        draw_frontier(priced_frontier, outputs.plot, lower_bound, quiet=outputs.json)
    if interrupted:
        if outputs.certificate:
            err().print("interrupted: no certificate is written")
        raise typer.Exit(exit_code() or ExitCode.INTERRUPTED)
