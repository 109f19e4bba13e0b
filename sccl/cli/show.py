"""``sccl show``: an algorithm as SCCL's artifact prints it (appendix A.5.1)."""

from __future__ import annotations

from sccl.cli import options
from sccl.cli.report import named, out, print_output, reported
from sccl.core.algorithm import Algorithm
from sccl.judge import violations
from sccl.tasks.answers import ShownPart, ShowOutput, StepPart
from sccl.tasks.files import Loaded, load_algorithms
from sccl.tasks.outputs import algorithm_digests
from sccl.topo.symmetry.expand import expand
from sccl.view.text.show import print_algorithm, utilisation


@reported
def show(files: options.Algorithms, json: options.Json = False) -> None:
    """Print the sends, the topology matrix and the link utilisation of algorithms."""
    loaded = [(one, expand(one.algorithm)) for one in load_algorithms(files)]
    if json:
        inputs = algorithm_digests({str(one.file): one.algorithm for one, _ in loaded})
        parts = tuple(_part(one, algorithm) for one, algorithm in loaded)
        print_output(ShowOutput(inputs=inputs, files=parts))
        return
    console = out()
    for i, (one, algorithm) in enumerate(loaded):
        if len(loaded) > 1:
            console.print(
                f"{chr(10) if i else ''}# {named(one.file)}", markup=False, soft_wrap=True
            )
        print_algorithm(console, algorithm, intact=one.intact)


def _part(one: Loaded, algorithm: Algorithm) -> ShownPart:
    a, wrong = algorithm, len(violations(algorithm))
    return ShownPart(
        file=str(one.file),
        digest_matches=one.intact,
        violations=wrong,
        topology=a.topology.name,
        collective=a.collective.name,
        chunks=a.collective.chunks,
        steps=a.steps,
        rounds=a.rounds,
        rounds_per_step=a.rounds_per_step,
        bandwidth_cost=str(a.bandwidth_cost),
        proved=a.proved if one.intact and not wrong else (),
        scope=a.scope,
        sends=tuple((s.step, s.chunk, s.src, s.dst, int(s.reduce)) for s in a.sends),
        utilisation=tuple(
            StepPart(
                step=step if isinstance(step, int) else None,
                rounds=rounds,
                sends=sends,
                utilisation=share,
            )
            for step, rounds, sends, share in utilisation(a)
        ),
    )
