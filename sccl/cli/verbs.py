"""The verbs of ``sccl``: their help summaries, and their modules."""

from __future__ import annotations

from typing import NamedTuple


class Verb(NamedTuple):
    """The help entry of a verb, available without loading its module."""

    group: str
    name: str
    home: str
    """The module that holds it, below ``sccl.cli``, under the verb's name."""
    summary: str
    """The first sentence of its own help."""
    example: str


FIND, LOOK, RUN, TRAIN, PROVE, MANAGE = "Find", "Look", "Run", "Train", "Prove", "Manage"

VERBS = (
    Verb(
        FIND,
        "pareto",
        "pareto",
        "Find the Pareto frontier of steps (latency) and R/C (bandwidth), with proofs.",
        "sccl pareto --collective allgather --topo dgx1 --out found",
    ),
    Verb(
        FIND,
        "limits",
        "limits",
        "Compute the lowest R/C for each number of steps, and algorithms that reach it.",
        "sccl limits --collective broadcast --topo dgx1 --max-steps 4",
    ),
    Verb(
        FIND,
        "solve",
        "solve",
        "Decide whether an algorithm with C chunks, S steps, and R rounds exists, and write it.",
        "sccl solve --collective allgather --topo dgx1 --chunks 6 --steps 3 --rounds 7 -o a.json",
    ),
    Verb(
        FIND,
        "tacos",
        "synthesis",
        "Schedule thousands of ranks in seconds: match free links with chunks greedily (TACOS).",
        "sccl tacos --collective allgather --topo torus:10x10x10 --size 1GB",
    ),
    Verb(
        FIND,
        "teccl",
        "synthesis",
        "Find a schedule of few equal chunks for up to some tens of ranks (TE-CCL).",
        "sccl teccl --collective allgather --topo teccl-ndv2x2 --size 64MB",
    ),
    Verb(
        FIND,
        "taccl",
        "synthesis",
        "Find a schedule within a communication sketch, which restricts links and chunks (TACCL).",
        "sccl taccl --collective allgather --topo ndv2x2 --size 1MB",
    ),
    Verb(
        FIND,
        "baseline",
        "baseline",
        "List the classical algorithms, or generate one of them for a machine.",
        "sccl baseline ring --collective allreduce --topo torus:4x4",
    ),
    Verb(
        FIND,
        "compare",
        "compare",
        "Compare schedules of all synthesizers and classical algorithms by buffer size.",
        "sccl compare --collective allreduce --topo torus:4x4x4 --size 1KB..1GB",
    ),
    Verb(
        FIND,
        "bounds",
        "bounds",
        "Compute lower bounds on S and R/C without a search, with proofs to check by hand.",
        "sccl bounds --collective alltoall --topo torus:4x4",
    ),
    Verb(
        FIND,
        "design",
        "design",
        "Find networks on which a collective is fast, for a number of ranks and links per rank.",
        "sccl design --ranks 64 --degree 4 --plot networks.svg",
    ),
    Verb(
        FIND,
        "robust",
        "robust",
        "Compute how much each failed link or rank slows a collective down.",
        "sccl robust --collective allreduce --topo dgx1 --plot failures.svg",
    ),
    Verb(
        LOOK,
        "show",
        "show",
        "Print the sends, the topology matrix, and the link utilization of algorithms.",
        "sccl show found/allgather-dgx1-c2-s2-r3.json",
    ),
    Verb(
        LOOK,
        "plot",
        "plot",
        "Draw a frontier, times by buffer size, an algorithm, a machine, or a training plan.",
        "sccl plot found/allgather-dgx1-c6-s3-r7.json --what arrival -o arrival.pdf",
    ),
    Verb(
        LOOK,
        "explore",
        "explore",
        "Write a page that plays algorithms step by step in any browser.",
        "sccl explore found -o found.html",
    ),
    Verb(
        LOOK,
        "part",
        "part",
        "Extract the transfers of one chunk, one rank, or one time interval from a schedule.",
        "sccl part schedule.json --rank 0 --until-us 100 -o part.json",
    ),
    Verb(
        LOOK,
        "simulate",
        "simulate",
        "Simulate the completion time of algorithms, schedules, and programs link by link.",
        "sccl simulate found/allgather-dgx1-c6-s3-r7.json --size 1KB..1GB",
    ),
    Verb(
        LOOK,
        "sketch",
        "sketch",
        "Check, show, explain, and draw communication sketches.",
        "sccl sketch check sk.json --topo ndv2x2",
    ),
    Verb(
        RUN,
        "codegen",
        "codegen",
        "Generate a C++, CUDA, or HIP project that runs algorithms.",
        "sccl codegen found/allgather-dgx1-c2-s2-r3.json -o project",
    ),
    Verb(
        RUN,
        "run",
        "run",
        "Build one project, check its data at every size, and print the time of its calls.",
        "sccl run project",
    ),
    Verb(
        RUN,
        "bench",
        "run",
        "Compare the times of several projects, or of a project and the MPI library.",
        "sccl bench project --against mpi --sizes 1..64K",
    ),
    Verb(
        RUN,
        "tune",
        "run",
        "Measure every program of a project, and set the buffer size from which each is used.",
        "sccl tune project --sizes 1..4K",
    ),
    Verb(
        RUN,
        "profile",
        "profile",
        "Measure alpha and beta of links between MPI ranks or GPUs, and write a machine.",
        "sccl profile --ranks 4 -o machine.json --plot links.svg",
    ),
    Verb(
        RUN,
        "export",
        "export",
        "Export algorithms and schedules to other runtimes, simulators, and viewers.",
        "sccl export found --format chrome-trace --size 1MB -o trace.json",
    ),
    Verb(
        RUN,
        "import",
        "bring",
        "Convert another tool's algorithm or program into one of sccl's own.",
        "sccl import program.xml -o plan.json",
    ),
    Verb(
        TRAIN,
        "workload",
        "workload",
        "Import, make, and show workloads: computation, collectives, and dependencies of a step.",
        "sccl workload import traces/*.json -o w.json",
    ),
    Verb(
        TRAIN,
        "fabric",
        "fabric",
        "List, show, and check fabrics: the channels over which the ranks of a job move data.",
        "sccl fabric show hgx2x4",
    ),
    Verb(
        TRAIN,
        "plan",
        "plan",
        "Plan a training step: how its collectives are split, routed, and ordered (SYNDICATE).",
        "sccl plan w.json --fabric hgx2x4 -o plan.json",
    ),
    Verb(
        TRAIN,
        "compare-plans",
        "compare_plans",
        "Compare plans of all search methods and of common frameworks for a training step.",
        "sccl compare-plans w.json --fabric hgx2x4 -o compared.svg",
    ),
    Verb(
        TRAIN,
        "motif",
        "motif",
        "Split a collective into motifs (separately scheduled parts) by a recipe.",
        "sccl motif allreduce --recipe 'levels(8).seg(4)' --ranks 32",
    ),
    Verb(
        TRAIN,
        "enforce",
        "enforce",
        'Run a PyTorch job with backend "sccl", and record it or apply a training plan.',
        "sccl enforce --record w.json -- torchrun --nproc-per-node 4 job.py",
    ),
    Verb(
        TRAIN,
        "optimizer",
        "optimizer",
        "Monitor a running job, and propose a plan that is faster.",
        "sccl optimizer --store localhost:29500 --commit plan.json",
    ),
    Verb(
        TRAIN,
        "lab",
        "lab",
        "Run a command on several ranks with an emulated network of the rates you set.",
        "sccl lab --channels fast=100Mb,slow=50Mb --ranks 4 -- python job.py",
    ),
    Verb(
        PROVE,
        "check",
        "check",
        "Verify that algorithms, schedules, plans, and programs are correct (not: optimal).",
        "sccl check found/allgather-dgx1-c2-s2-r3.json",
    ),
    Verb(
        PROVE,
        "verify-certificate",
        "certificate",
        "Verify the proofs of a certificate, such as proofs of optimality, without a solver.",
        "sccl verify-certificate proofs",
    ),
    Verb(
        PROVE,
        "smt2",
        "smt2",
        "Write the problem as SMT-LIB 2 (QF_LIA), the constraints of SCCL section 3.4.",
        "sccl smt2 --collective allgather --topo ring:4 --chunks 1 --steps 2 --rounds 2 -o p.smt2",
    ),
    Verb(
        MANAGE,
        "doctor",
        "doctor",
        "Test the solvers, compilers, MPI, and GPU tools of this machine, with installation hints.",
        "sccl doctor",
    ),
    Verb(MANAGE, "topo", "topo", "Import, list, show, and change machines.", "sccl topo show dgx1"),
    Verb(
        MANAGE,
        "schema",
        "schema",
        "Print the JSON Schema (2020-12) of a verb's --json output or of a file.",
        "sccl schema frontier",
    ),
    Verb(
        MANAGE,
        "store",
        "store",
        "List, export, and delete stored answers, from which sweeps resume.",
        "sccl store ls",
    ),
)
