"""Projects in one run: what their benchmark is told, what it says, and how it may fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sccl.emit import generate, write_project
from sccl.errors import InputError, ParameterError, ToolError
from sccl.runtime import Mpi, Project, Timing, Trial, load_project, timed
from sccl.tasks.run import timings_of
from tests.kit.found import frontier

ROW = {"collective": "allgather", "size": 4, "us": [2.0, 1.0, 4.0]}
TRIAL = Trial((4, 8), 3, ("allgather",))


def script(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def mpi(folder: Path) -> Mpi:
    """Return an MPI that starts one rank, whatever it is told."""
    script(folder / "mpi" / "mpirun", 'shift 2; exec "$@"')
    return Mpi(folder / "mpi", open_mpi=False)


def project(folder: Path, bench: str, machine: str = "ring:4") -> Project:
    """Return a project whose benchmark is a script, and is not built."""
    write_project(folder, generate(frontier(machine, "allgather"), "host"))
    script(folder / "bench", bench)
    return load_project(folder)


def test_rows_are_timings_of_the_projects_they_are_of(tmp_path: Path) -> None:
    rows = "\n".join(json.dumps(ROW | {"contender": who}) for who in ("sccl", "with-1", "mpi"))
    ours = project(tmp_path / "ours", f"echo \"$@\" > told\ncat <<'.'\n{rows}\n.")
    other = project(tmp_path / "other", "")
    found = list(timed([ours, other], mpi(tmp_path), TRIAL))
    names = [str(ours.directory), str(other.directory), "mpi"]
    assert found == [Timing("allgather", 4, name, (2.0, 1.0, 4.0)) for name in names]
    assert found[0].median_us == 2.0
    told = (tmp_path / "ours" / "told").read_text().split()
    assert told == ["allgather", "--json", "--repeat", "3", "--sizes", "4:8", "--with",
                    str(tmp_path / "other" / "libsccl.so")]  # fmt: skip


@pytest.mark.parametrize(
    ("bench", "says"),
    [
        ("echo {}", "bench printed '{}.n', expected a line of JSON"),
        ("echo 'rank 1: WRONG' >&2; exit 3", "exit code 3:\nrank 1: WRONG"),
    ],
)
def test_wrong_data_and_other_output_are_failures(bench: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=says):
        list(timed([project(tmp_path / "p", bench)], mpi(tmp_path), TRIAL))


def test_what_does_not_compare_is_refused(tmp_path: Path) -> None:
    four, three = (project(tmp_path / m[-1], "", m) for m in ("ring:4", "ring:3"))
    with pytest.raises(InputError, match=r"/3 is for 3 ranks \(host\), .*/4 for 4"):
        list(timed([four, three], mpi(tmp_path), TRIAL))
    with pytest.raises(ParameterError, match=r"sizes is '4\.\.8', of which none was measured"):
        list(timings_of([four], mpi(tmp_path), TRIAL))
