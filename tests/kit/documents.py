"""One command line per verb with ``--json``, and the folder of inputs that these commands read."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from sccl.cli.main import app
from sccl.core.files.json_text import to_text
from sccl.runtime.machine_profile import save_measurements
from sccl.topo import importers
from sccl.training.files.workloads import workload_to_wire
from sccl.training.traces.readers import recording
from tests.kit.profiles import measured
from tests.kit.scripts import scripted_tool
from tests.kit.traces import PREFETCHING, profile
from tests.kit.workloads import prefetching

QUESTION = ("--collective", "allgather", "--topo", "ring:4")
SIZE = ("--chunks", "1", "--steps", "2", "--rounds", "2")
RECORDED = f"""import os, pathlib
for rank in (b"0", b"1"):
    text = {recording.EXAMPLE!r}.replace(b'"rank":0', b'"rank":' + rank)
    pathlib.Path(os.environ["SCCL_RECORD"], f"rank-{{int(rank)}}.json").write_bytes(text)
print("what the job prints goes elsewhere")
"""


def run(*words: str | Path) -> tuple[int, Any]:
    """Run the command in this process and return its exit code and document."""
    done = CliRunner().invoke(app, [*map(str, words), "--json"])
    return done.exit_code, json.loads(done.stdout)


def make_inputs(folder: Path) -> Path:
    """Write a sweep, its certificate, a store, a schedule, and a project into ``folder``."""
    sweep = ("pareto", *QUESTION, "--store", folder / "store.sqlite")
    assert run(*sweep, "--output", folder / "found", "--certify", folder / "proofs")[0] == 0
    theirs = importers.load_importer("msccl-topology").EXAMPLE
    (folder / "theirs.json").write_text(theirs)
    (folder / "sketch.json").write_text('{"nnodes": 1, "intranode_sketch": {"strategy": "none"}}')
    scripted_tool(
        folder / "tools", "nvidia-smi", {"topo": importers.load_importer("nvidia-smi").EXAMPLE}
    )
    save_measurements(measured({(0, 1): (1.0, 50.0)}, 2, "json"), folder / "timings.json")
    (folder / "job.py").write_text(RECORDED)
    (folder / "rank0.json").write_bytes(profile(0, PREFETCHING))
    (folder / "prefetching.json").write_text(to_text(workload_to_wire(prefetching())))
    assert run("synth", "tacos", *QUESTION, "--size", "1MB", "-o", folder / "schedule.json")[0] == 0
    assert run("project", "new", folder / "found", "-o", folder / "project")[0] == 0
    plan = folder / "found" / "allgather-ring-4-c2-s2-r3.json"
    program = ("--format", "msccl-xml", "-o", folder / "program.xml")
    assert run("export", plan, *program)[0] == 0
    return folder


def stored_instance(folder: Path) -> str:
    """Return the digest of a satisfiable instance in the store."""
    rows = run("doctor", "cache", "list", "--store", folder / "store.sqlite")[1]["verdicts"]
    return str(next(row["instance"] for row in rows if row["answer"] == "sat"))


CASES: dict[str, tuple[str, Callable[[Path], list[str | Path]]]] = {
    "pareto": ("frontier", lambda _: [*QUESTION, "--no-store", "--timeout", "60"]),
    "limits": ("frontier", lambda _: [*QUESTION]),
    "topo design": ("design", lambda _: ["--ranks", "8", "--degree", "2"]),
    "topo robust": ("robust", lambda _: [*QUESTION, "--no-store", "--timeout", "60"]),
    "solve": ("solve", lambda d: [*QUESTION, *SIZE, "--no-store", "-o", d / "a.json"]),
    "synth tacos": ("tacos", lambda _: [*QUESTION, "--size", "1MB"]),
    "synth teccl": ("teccl", lambda _: [*QUESTION, "--size", "1MB"]),
    "synth taccl": ("taccl", lambda _: [*QUESTION, "--size", "1MB", "--chunks", "1"]),
    "train plan": (
        "plan",
        lambda d: [d / "prefetching.json", "--fabric", "hgx2", "--budget", "0"],
    ),
    "train compare": (
        "compare-plans",
        lambda d: [d / "prefetching.json", "--fabric", "hgx2", "--budget", "0"],
    ),
    "synth fastest": ("time-limit", lambda _: [*QUESTION, "--size", "1KB"]),
    "synth list": ("baseline", lambda _: []),
    "synth ring": ("baseline", lambda d: [*QUESTION, "-o", d / "ring.json"]),
    "compare": (
        "compare",
        lambda d: [
            *QUESTION,
            "--size",
            "1KB..4KB",
            "--only",
            "ring,c-cube,tacos",
            "-o",
            d / "best",
        ],
    ),
    "bound": ("bounds", lambda _: [*QUESTION, "--steps", "2"]),
    "show": ("show", lambda d: [d / "found"]),
    "show --rank 0": ("part", lambda d: [d / "schedule.json", "-o", d / "part.json"]),
    "simulate": ("simulate", lambda d: [d / "found", "--size", "1KB..4KB"]),
    "plot": ("plot", lambda d: [d / "found", "-o", d / "p.html"]),
    "synth sketch": (
        "sketch-explain",
        lambda d: [d / "sketch.json", "--topo", "ring:4", "--plot", d / "sketch.html"],
    ),
    "synth sketch --output": ("sketch", lambda d: ["-", d / "sketch.json"]),
    "train show hgx2": ("fabric", lambda _: []),
    "train motif": ("motif", lambda _: ["allreduce", "--recipe", "levels(4).seg(2)"]),
    "explore": ("explore", lambda d: [d / "found", "-o", d / "e.html"]),
    "export": (
        "export",
        lambda d: [d / "schedule.json", "--format", "chrome-trace", "-o", d / "trace.json"],
    ),
    "import": ("import", lambda d: [d / "program.xml", "-o", d / "imported.json"]),
    "project new": ("codegen", lambda d: [d / "found", "-o", d / "again"]),
    "check": ("check", lambda d: [d / "found"]),
    "certificate verify": ("verify-certificate", lambda d: [d / "proofs"]),
    "solve --smt2 -": ("smt2", lambda _: [*QUESTION, *SIZE]),
    "doctor test": ("doctor", lambda _: []),
    "doctor schema": ("schema", lambda _: []),
    "topo import": ("topo-import", lambda d: [d / "theirs.json", "-o", d / "ours.json"]),
    "topo import --tools": ("topo-import", lambda d: [d / "tools", "-o", d / "this.json"]),
    "topo profile": (
        "profile",
        lambda d: ["--measurements", d / "timings.json", "-o", d / "p.json", "--plot", d / "p.svg"],
    ),
    "train run": (
        "enforce",
        lambda d: ["--record", d / "job.json", "--json", "--", sys.executable, d / "job.py"],
    ),
    "topo list": ("topo-list", lambda _: []),
    "topo show": ("topology", lambda _: ["dgx1"]),
    "topo edit --remove-rank 3": ("topo-without", lambda d: ["dgx1", "-o", d / "m.json"]),
    "topo edit --add-link 0-5": ("topo-with", lambda d: ["dgx1", "-o", d / "n.json"]),
    "train import": (
        "workload-import",
        lambda d: [d / "rank0.json", "--alike", "-o", d / "w.json"],
    ),
    "train make": (
        "workload-make",
        lambda d: [
            "transformer",
            *["--layers", "2", "--hidden", "8", "--heads", "2", "--dp", "2", "-o"],
            d / "t.json",
        ],
    ),
    "train show": ("workload-show", lambda d: [d / "prefetching.json"]),
    "train show --json": ("fabric-list", lambda _: []),
    "doctor cache": ("store-ls", lambda d: ["--store", d / "store.sqlite"]),
    "doctor cache --json": (
        "store-show",
        lambda d: [stored_instance(d), "--store", d / "store.sqlite"],
    ),
    "doctor cache --output": (
        "store-export",
        lambda d: [d / "exported.json", stored_instance(d), "--store", d / "store.sqlite"],
    ),
    "doctor cache --delete-unknown": ("store-gc", lambda d: ["--store", d / "store.sqlite"]),
}
