"""The verbs of ``sccl``: their help summaries, and their modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Verb(NamedTuple):
    """The help entry of a verb, available without loading its module."""

    panel: str
    name: str
    """Its words after ``sccl``."""
    home: str
    """Its module below ``sccl.cli``, and its function there."""
    summary: str
    """The first sentence of its own help."""
    examples: tuple[str, ...]


class GroupHelp(NamedTuple):
    """The help entry of a group of verbs."""

    panel: str
    summary: str
    default: str | None = None
    """The verb of the group that runs if none is named."""


FIND, INSPECT, RUN, PLAN, TRUST = (
    "Find",
    "Inspect",
    "Run",
    "Machines and training",
    "Proofs and tools",
)

GROUPS = {
    "synth": GroupHelp(
        FIND, "Generate a plan by one method: fastest, tacos, teccl, taccl, ring, ..."
    ),
    "project": GroupHelp(RUN, "Generate, run, and tune a C++, CUDA, or HIP project."),
    "topo": GroupHelp(PLAN, "List, show, change, import, and measure machines."),
    "train": GroupHelp(
        PLAN, "Plan the collectives of a training step, and run jobs with the plan."
    ),
    "certificate": GroupHelp(TRUST, "Verify proofs of optimality without a solver."),
    "doctor": GroupHelp(
        TRUST, "Test tools, list or delete stored answers, and print JSON schemas.", "test"
    ),
}
"""Groups by their words, in addition to the verbs that stand alone."""


def _parse_verbs(panel: str, text: str) -> Iterator[Verb]:
    """Yield the verbs of paragraphs: name and home, summary, and one example per line."""
    for paragraph in text.strip().split("\n\n"):
        head, summary, *examples = paragraph.split("\n")
        name, home = head.split(": ")
        yield Verb(panel, name, home, summary, tuple(examples))


VERBS = (
    *_parse_verbs(
        FIND,
        """
pareto: pareto.pareto
Find the Pareto frontier of steps (latency) and R/C (bandwidth), with proofs.
sccl pareto --collective allgather --topo dgx1 --output found
sccl pareto --collective allreduce --topo ring:4 --plot frontier.svg
sccl pareto --collective alltoall --topo torus:4x4 --certify proofs --json

limits: limits.limits
Compute the lowest R/C for each number of steps, and algorithms that reach it.
sccl limits --collective broadcast --topo dgx1 --max-steps 4
sccl limits --collective allgather --topo torus:4x4 --output found
sccl limits --collective allreduce --topo ring:8 --certify proofs

solve: solve.solve
Decide whether an algorithm with C chunks, S steps, and R rounds exists, and write it.
sccl solve --collective allgather --topo dgx1 --chunks 6 --steps 3 --rounds 7
sccl solve --collective gather --topo ring:4 --chunks 1 --steps 2 --rounds 2
sccl solve --collective gather --topo ring:4 --chunks 1 --steps 2 --rounds 2 --smt2 -

synth fastest: synth.fastest.fastest
Find the fastest schedule with any chunks, and a lower bound for every schedule.
sccl synth fastest --collective allreduce --topo dgx1 --size 1MB -o plan.json
sccl synth fastest --collective allgather --topo ndv2x2 --size 1KB..1GB -o plans
sccl synth fastest --collective alltoall --topo torus:4x4 --size 64KB --gap 0.05

synth tacos: synth.methods.tacos
Schedule thousands of ranks in seconds: match free links with chunks greedily (TACOS).
sccl synth tacos --collective allgather --topo torus:10x10x10 --size 1GB
sccl synth tacos --collective allreduce --topo mesh:8x8 --size 64MB -o plan.json
sccl synth tacos --collective alltoall --topo dgx2 --size 1MB --chunks 4

synth teccl: synth.methods.teccl
Find a schedule of few equal chunks for up to some tens of ranks (TE-CCL).
sccl synth teccl --collective allgather --topo teccl-ndv2x2 --size 64MB
sccl synth teccl --collective alltoall --topo dgx1 --size 1MB --model lp
sccl synth teccl --collective allgather --topo ndv2x2 --size 1MB --budget 4

synth taccl: synth.methods.taccl
Find a schedule within a communication sketch, which restricts links and chunks (TACCL).
sccl synth taccl --collective allgather --topo ndv2x2 --size 1MB
sccl synth taccl --collective alltoall --topo ndv2x2 --size 1MB --sketch sk.json
sccl synth taccl --collective allreduce --topo ndv2x2 --size 1GB -o plan.json

synth sketch: synth.sketch.sketch
Check a communication sketch, and show its rules, links, and symmetries.
sccl synth sketch sk.json --topo ndv2x2 --collective allgather
sccl synth sketch sk.json --topo ndv2x2 --plot sk.svg
sccl synth sketch taccl-sketch.json --output sk.json

synth list: synth.classical.list_methods
List the classical algorithms, each of which is a method: 'sccl synth ring ...'.
sccl synth list
sccl synth list --json

synth NAME: synth.classical.classical
Generate a classical algorithm for a machine: ring, swing, ... (see 'sccl synth list').
sccl synth ring --collective allreduce --topo torus:4x4
sccl synth halving-doubling --collective allreduce --topo hypercube:3 --size 1GB
sccl synth direct --collective alltoall --topo dgx1 -o direct.json

bound: bound.bound
Compute lower bounds on S and R/C without a search, with proofs to check by hand.
sccl bound --collective alltoall --topo torus:4x4
sccl bound --collective allgather --topo dgx1 --steps 3
sccl bound --collective allreduce --topo dgx1 --size 1MB

compare: compare.compare
Compare schedules of all synthesizers and classical algorithms by buffer size.
sccl compare --collective allreduce --topo torus:4x4x4 --size 1KB..1GB
sccl compare --collective allgather --topo dgx1 --size 1MB --plot compared.svg
sccl compare --collective alltoall --topo dgx1 --size 1MB --only tacos,direct
""",
    ),
    *_parse_verbs(
        INSPECT,
        """
check: check.check
Verify the correctness (not the optimality) of algorithms, schedules, and programs.
sccl check found/allgather-dgx1-c2-s2-r3.json
sccl check found
sccl check program.xml --json

simulate: simulate.simulate
Simulate the completion time of algorithms, schedules, and programs link by link.
sccl simulate found/allgather-dgx1-c6-s3-r7.json --size 1KB..1GB
sccl simulate plan.json --plot times.svg
sccl simulate found --size 1MB

show: show.show
Print the sends, the topology matrix, and the link utilization of algorithms.
sccl show found/allgather-dgx1-c2-s2-r3.json
sccl show schedule.json
sccl show schedule.json --rank 0 --until-us 100 -o part.json

plot: plot.plot
Draw a frontier, times by buffer size, an algorithm, a machine, or a training plan.
sccl plot found/allgather-dgx1-c6-s3-r7.json --what arrival -o arrival.pdf
sccl plot found -o frontier.svg
sccl plot dgx1 -o machine.svg

explore: explore.explore
Write a page that plays algorithms step by step in any browser.
sccl explore found -o found.html
sccl explore plan.json -o plan.html
""",
    ),
    *_parse_verbs(
        RUN,
        """
export: export.export
Export algorithms and schedules to other runtimes, simulators, and viewers.
sccl export found --format chrome-trace --size 6MB -o trace.json
sccl export plan.json --format mscclpp -o plans
sccl export plan.json --format msccl-xml -o program.xml

import: import_plan.import_
Convert another tool's algorithm or program into one of sccl's own.
sccl import program.xml -o plan.json
sccl import program.xml --topo dgx1 -o plan.json

project new: project.new.codegen
Generate a C++, CUDA, or HIP project that runs algorithms.
sccl project new found/allgather-dgx1-c2-s2-r3.json -o project
sccl project new found --target cuda -o project
sccl project new found --target hip --topo dgx1 -o project

project run: project.run.run
Build one project, check its data at every size, and print the time of its calls.
sccl project run project
sccl project run project --size 1..64K
sccl project run project --ranks 8 --json

project bench: project.run.bench
Compare the times of several projects, or of a project and the MPI library.
sccl project bench project --against mpi --size 1..64K
sccl project bench first second --repeat 20
sccl project bench project -o times.csv

project tune: project.run.tune
Measure every program of a project, and set the buffer size from which each is used.
sccl project tune project --size 1..4K
sccl project tune project --repeat 20
sccl project tune project --topo dgx1
""",
    ),
    *_parse_verbs(
        PLAN,
        """
topo list: topo.machines.list_topologies
List the machines of the catalogue and the generators.
sccl topo list
sccl topo list --json

topo show: topo.machines.show
Show a machine: its links with their lanes, diameter, degrees, budgets, and costs.
sccl topo show dgx1
sccl topo show torus:4x4@50,25GB
sccl topo show my.json --json

topo edit: topo.machines.edit
Write a machine with links, lanes, or ranks removed or added.
sccl topo edit dgx1 --remove-link 0-4 --remove-rank 3 -o degraded.json
sccl topo edit dgx1 --remove-link 0-3:1 -o slower.json
sccl topo edit dgx1 --add-link 0-5:2 -o more.json

topo import: topo.machines.import_
Read a machine from its vendor's tools, or from the files of other tools.
sccl topo import topo.txt -o my.json
sccl topo import -o this-machine.json
sccl topo import topo.txt --nodes 4 --network network.json -o cluster.json

topo profile: topo.profile.profile
Measure alpha and beta of links between MPI ranks or GPUs, and write a machine.
sccl topo profile --ranks 4 -o machine.json --plot links.svg
sccl topo profile --gpus -o machine.json
sccl topo profile --measurements measured.json --topo dgx1 -o machine.json

topo robust: topo.robust.robust
Compute how much each failed link or rank slows a collective down.
sccl topo robust --collective allreduce --topo dgx1 --plot failures.svg
sccl topo robust --collective allgather --topo ring:8 --part ranks
sccl topo robust --collective allgather --topo torus:3x3 --jobs 2

topo design: topo.design.design
Find networks on which a collective is fast, for a number of ranks and links per rank.
sccl topo design --ranks 64 --degree 4 --plot networks.svg
sccl topo design --ranks 12 --degree 3 --collective allgather
sccl topo design --ranks 16 --degree 4 -o machines

train import: train.workload.import_
Make a workload of one step of a training job, from traces of its ranks.
sccl train import rank0.json rank1.json -o w.json
sccl train import traces --step 12 -o w.json
sccl train import et.json --ranks 8 --alike -o w.json

train make: train.workload.make
Make a workload of one training step from the formulas of a model.
sccl train make transformer --layers 8 --hidden 1024 --heads 16 --dp 16 --zero 3
sccl train make moe --layers 8 --hidden 1024 --heads 16 --experts 8 --ep 8 --dp 16
sccl train make dlrm --preset A1 -o w.json

train show: train.workload.show
Show a workload (its collectives, computation, and dependencies), or fabrics.
sccl train show w.json
sccl train show
sccl train show hgx2x4

train plan: train.plan.plan
Plan a training step: how its collectives are split, routed, and ordered (SYNDICATE).
sccl train plan w.json --fabric hgx2x4 -o plan.json
sccl train plan w.json --fabric hgx2x4 --search fifo
sccl train plan w.json --fabric my-fabric.json --budget 30 -o plan.json

train compare: train.plan.compare_plans
Compare plans of all search methods and of common frameworks for a training step.
sccl train compare w.json --fabric hgx2x4 -o compared.svg
sccl train compare w.json --fabric hgx2x4 --budget 10
sccl train compare w.json --fabric my-fabric.json --json

train motif: train.motif.motif
Split a collective into motifs (separately scheduled parts) by a recipe.
sccl train motif allreduce --recipe 'levels(8).seg(4)' --ranks 32
sccl train motif alltoall --size 64MB
sccl train motif allgather --recipe 'seg(2)' --json

train run: train.run.train_run
Run a PyTorch job with backend "sccl", and record it or apply a training plan.
sccl train run --record w.json -- torchrun --nproc-per-node 4 job.py
sccl train run --plan plan.json -- torchrun --nproc-per-node 4 job.py

train control: train.control.train_control
Monitor a running job, and propose a plan that is faster.
sccl train control --store localhost:29500 --commit plan.json
sccl train control --store localhost:29500 --status
sccl train control --store localhost:29500 --serve --log decisions.jsonl
""",
    ),
    *_parse_verbs(
        TRUST,
        """
certificate verify: certificate.verify_certificate
Verify the proofs of a certificate, such as proofs of optimality, without a solver.
sccl certificate verify proofs
sccl certificate verify 'proofs*' --json

doctor test: doctor.tools.doctor
Test the solvers, compilers, MPI, and GPU tools of this machine, with installation hints.
sccl doctor
sccl doctor --json

doctor cache: doctor.cache.cache
List the stored answers of solvers; print, export, or delete some.
sccl doctor cache
sccl doctor cache 3f2a -o algorithm.json
sccl doctor cache --delete-older-than-days 30

doctor schema: doctor.schema.schema
Print the JSON Schema (2020-12) of a verb's --json output or of a file.
sccl doctor schema frontier
sccl doctor schema
""",
    ),
)
"""All verbs, in the order of the help. The word NAME stands for any other word."""
