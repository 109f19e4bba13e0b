"""The verbs of ``sccl``: what its help says of each, and which module holds it."""

from __future__ import annotations

from typing import NamedTuple


class Verb(NamedTuple):
    """What ``sccl --help`` says of a verb: no module that holds one is loaded for that."""

    group: str
    name: str
    home: str
    """The module that holds it, below ``sccl.cli``, under the verb's name."""
    summary: str
    """The first sentence of its own help."""
    example: str


FIND, LOOK, RUN, PROVE, MANAGE = "Find", "Look", "Run", "Prove", "Manage"

VERBS = (
    Verb(
        FIND,
        "pareto",
        "pareto",
        "Sweep the Pareto frontier of k-synchronous algorithms and prove its points.",
        "sccl pareto --collective allgather --topo dgx1 --out found",
    ),
    Verb(
        FIND,
        "limits",
        "limits",
        "The frontier over all k and all C: for every S the infimum of R/C, and what attains it.",
        "sccl limits --collective broadcast --topo dgx1 --max-steps 4",
    ),
    Verb(
        FIND,
        "solve",
        "solve",
        "Is there an algorithm of C chunks, S steps and R rounds?",
        "sccl solve --collective allgather --topo dgx1 --chunks 6 --steps 3 --rounds 7 -o a.json",
    ),
    Verb(
        FIND,
        "tacos",
        "tacos",
        "Match links with chunks as time goes on: a schedule for thousands of ranks in seconds.",
        "sccl tacos --collective allgather --topo torus:10x10x10 --size 1GB",
    ),
    Verb(
        FIND,
        "teccl",
        "teccl",
        "Schedule chunks over links by models of all that can be sent when: few ranks, near the "
        "best.",
        "sccl teccl --collective allgather --topo teccl-ndv2x2 --size 64MB",
    ),
    Verb(
        FIND,
        "taccl",
        "taccl",
        "Plan within a communication sketch: routes, then orders on links, then exact times.",
        "sccl taccl --collective allgather --topo ndv2x2 --size 1MB",
    ),
    Verb(
        FIND,
        "baseline",
        "baseline",
        "List the classical algorithms, or make one of them for a machine.",
        "sccl baseline ring --collective allreduce --topo torus:4x4",
    ),
    Verb(
        FIND,
        "compare",
        "compare",
        "Compare all synthesisers and classical algorithms by size: who is fastest where.",
        "sccl compare --collective allreduce --topo torus:4x4x4 --size 1KB..1GB",
    ),
    Verb(
        FIND,
        "bounds",
        "bounds",
        "Lower bounds on steps and on R/C, with proofs to check by hand.",
        "sccl bounds --collective alltoall --topo torus:4x4",
    ),
    Verb(
        FIND,
        "design",
        "design",
        "Find networks of so many ranks and links of each that a collective is fast on.",
        "sccl design --ranks 64 --degree 4 --plot networks.svg",
    ),
    Verb(
        FIND,
        "robust",
        "robust",
        "What a machine still reaches for each link or rank that may fail, and how soon.",
        "sccl robust --collective allreduce --topo dgx1 --plot failures.svg",
    ),
    Verb(
        FIND,
        "plan",
        "plan",
        "Plan a training step: how collectives are split, what carries them, and in which order.",
        "sccl plan w.json --fabric hgx2x4 -o plan.json",
    ),
    Verb(
        FIND,
        "compare-plans",
        "compare_plans",
        "Plan a training step by every search, and by what frameworks do, on the same options.",
        "sccl compare-plans w.json --fabric hgx2x4 -o compared.svg",
    ),
    Verb(
        LOOK,
        "show",
        "show",
        "Print the sends, the topology matrix and the link utilisation of algorithms.",
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
        "Write a page that shows algorithms step by step: one file, to be opened in any browser.",
        "sccl explore found -o found.html",
    ),
    Verb(
        LOOK,
        "part",
        "part",
        "Take some transfers of a schedule, of one chunk, one rank or some time, as a schedule.",
        "sccl part schedule.json --rank 0 --until-us 100 -o part.json",
    ),
    Verb(
        LOOK,
        "simulate",
        "simulate",
        "Simulate algorithms, schedules and programs link by link: their time, and what takes it.",
        "sccl simulate found/allgather-dgx1-c6-s3-r7.json --size 1KB..1GB",
    ),
    Verb(
        LOOK,
        "sketch",
        "sketch",
        "Check, show, explain and draw communication sketches, which plans keep to.",
        "sccl sketch check sk.json --topo ndv2x2",
    ),
    Verb(
        LOOK,
        "motif",
        "motif",
        "Split a collective into motifs, which are scheduled one by one, by a recipe.",
        "sccl motif allreduce --recipe 'levels(8).seg(4)' --ranks 32",
    ),
    Verb(
        LOOK,
        "workload",
        "workload",
        "Import, make and show workloads: what a training job computes, calls and waits for.",
        "sccl workload import traces/*.json -o w.json",
    ),
    Verb(
        RUN,
        "codegen",
        "codegen",
        "Generate a project that runs algorithms: C++ for MPI processes, CUDA or HIP.",
        "sccl codegen found/allgather-dgx1-c2-s2-r3.json -o project",
    ),
    Verb(
        RUN,
        "run",
        "run",
        "Build a project and run its benchmark, which checks the data of every size.",
        "sccl run project",
    ),
    Verb(
        RUN,
        "bench",
        "run",
        "Compare projects, and the MPI library, in one interleaved run.",
        "sccl bench project --against mpi --sizes 1..64K",
    ),
    Verb(
        RUN,
        "tune",
        "run",
        "Measure every program of a project and set its switch points accordingly.",
        "sccl tune project --sizes 1..4K",
    ),
    Verb(
        RUN,
        "enforce",
        "enforce",
        'Run a PyTorch job that says init_process_group("sccl"), and record it, or keep it to a '
        "plan.",
        "sccl enforce --record w.json -- torchrun --nproc-per-node 4 job.py",
    ),
    Verb(
        RUN,
        "profile",
        "profile",
        "Measure alpha and beta of links between MPI ranks or GPUs, and write them as a machine.",
        "sccl profile --ranks 4 -o machine.json --plot links.svg",
    ),
    Verb(
        RUN,
        "lab",
        "lab",
        "Run a command on ranks that have a network of a known rate for every channel.",
        "sccl lab --channels fast=100Mb,slow=50Mb --ranks 4 -- python job.py",
    ),
    Verb(
        RUN,
        "optimizer",
        "optimizer",
        "Propose plans to a running job, watch it, and plan anew when that is worth it.",
        "sccl optimizer --store localhost:29500 --commit plan.json",
    ),
    Verb(
        RUN,
        "export",
        "export",
        "Write algorithms and schedules in the formats that others run, simulate and draw.",
        "sccl export found --format chrome-trace --size 1MB -o trace.json",
    ),
    Verb(
        RUN,
        "import",
        "bring",
        "Read an algorithm or a program of somebody else, and write it as an algorithm of sccl's "
        "own.",
        "sccl import program.xml -o plan.json",
    ),
    Verb(
        PROVE,
        "check",
        "check",
        "Re-execute algorithms, schedules, plans and programs of others, list every violation.",
        "sccl check found/allgather-dgx1-c2-s2-r3.json",
    ),
    Verb(
        PROVE,
        "verify-certificate",
        "certificate",
        "Check every claim of a certificate, without trusting any solver.",
        "sccl verify-certificate proofs",
    ),
    Verb(
        PROVE,
        "smt2",
        "smt2",
        "Write the problem as SMT-LIB 2 (QF_LIA), constraints C1 to C6 of SCCL section 3.4.",
        "sccl smt2 --collective allgather --topo ring:4 --chunks 1 --steps 2 --rounds 2 -o p.smt2",
    ),
    Verb(
        MANAGE,
        "doctor",
        "doctor",
        "Try the solvers, compilers, MPI and GPU tools of this machine, and say how to get the "
        "rest.",
        "sccl doctor",
    ),
    Verb(MANAGE, "topo", "topo", "List, show and change topologies.", "sccl topo show dgx1"),
    Verb(
        MANAGE,
        "fabric",
        "fabric",
        "List, show and check fabrics: the channels over which the ranks of a job move data.",
        "sccl fabric show hgx2x4",
    ),
    Verb(
        MANAGE,
        "schema",
        "schema",
        "Print the JSON Schema (2020-12) of what a verb prints with --json, or of a kind of file.",
        "sccl schema frontier",
    ),
    Verb(
        MANAGE,
        "store",
        "store",
        "What sweeps and queries have kept, to go on from.",
        "sccl store ls",
    ),
)
