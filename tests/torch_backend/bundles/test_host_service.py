"""Bundles in real jobs: served calls next to gloo, carriers, and ends of vain waits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sccl.errors import InputError
from sccl.torch_backend.bundles.host_bundles import find_bundle
from tests.kit.commands import sccl
from tests.kit.torch_jobs import finished, run_job

ONE_CALL = (
    "import sccl.torch, torch, torch.distributed as d; d.init_process_group('sccl'); "
    "t = torch.ones(3); d.all_reduce(t); assert t.eq(2).all(); d.broadcast(t, 1); d.barrier(); "
    "d.destroy_process_group()"
)


def said(env: dict[str, str], ranks: int = 2) -> str:
    done = run_job("oldest", ranks, "run_code.py", ONE_CALL, env={"SCCL_DEBUG": "1", **env})
    finished(done)
    return done.stderr


@pytest.mark.parametrize(
    ("release", "ranks"),
    [
        ("newest", 3),
        pytest.param("newest", 2, marks=pytest.mark.nightly),
        pytest.param("oldest", 4, marks=pytest.mark.nightly),
    ],
)
def test_bundles_compute_the_results_of_gloo(release: str, ranks: int) -> None:
    lines = finished(run_job(release, ranks, "torch_hosted.py"))
    assert lines == sorted(f"{r}: {n}" for r in range(ranks) for n in (461, 18))


def test_bundles_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="9 ranks, more than the 8 that bundles are made for"):
        find_bundle(9, "")
    words = ["synth", "ring", "--topo", "ring:4", "--collective", "allgather"]
    assert sccl(*words, "-o", tmp_path / "a.json")[0] == 0
    project = tmp_path / "project"
    assert sccl("project", "new", tmp_path / "a.json", "--target", "cuda", "-o", project)[0] == 0
    with pytest.raises(InputError, match="is a project for cuda, expected one for host"):
        find_bundle(4, str(project))


OVERTAKING = """
import datetime, sys
import sccl.torch, torch, torch.distributed as d
d.init_process_group('sccl', timeout=datetime.timedelta(seconds=20))
rank, store = d.get_rank(), d.distributed_c10d._get_default_store()
total, out = torch.ones(3), torch.zeros(2)
parts = None if rank else [torch.ones(2), torch.ones(2)]
if rank:
    store.wait(['called'])
works = [d.all_reduce(total, async_op=not rank)]
works += [d.barrier(async_op=True), d.scatter(out, parts, async_op=True)]
if not rank:
    store.set('called', '1')
[work.wait() for work in works if work]
sys.stdout.write(f'{total.tolist()} {out.tolist()}\\n')
d.destroy_process_group()
"""


def test_gloo_call_overtakes_no_barrier() -> None:
    """One rank is busy when it calls the barrier, the other is not: both scatter after it."""
    told = finished(run_job("oldest", 2, "run_code.py", OVERTAKING))
    assert told == ["[2.0, 2.0, 2.0] [1.0, 1.0]"] * 2


def test_bundle_is_kept_for_the_next_job(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    told = said(env)
    assert "rank 0: bundles serve ranks 0, 1\n" in told
    assert "rank 1: all_reduce: bundle\n" in told
    assert "rank 0: barrier: gloo\n" in told
    (folder,) = (tmp_path / "sccl" / "bundles").iterdir()
    assert sorted(part.name for part in folder.iterdir()) == ["libsccl-plain.so", "program.json"]
    assert b"PMPI_" not in (folder / "libsccl-plain.so").read_bytes()
    made = (folder / "libsccl-plain.so").stat().st_mtime_ns
    said(env)
    assert (folder / "libsccl-plain.so").stat().st_mtime_ns == made
    assert list((tmp_path / "sccl" / "bundles").iterdir()) == [folder]


def test_gloo_serves_all_where_there_is_no_bundle(tmp_path: Path) -> None:
    told = said({"SCCL_BUNDLES": "0"})
    assert "rank 1: bundles serve ranks 0, 1: no, SCCL_BUNDLES is 0\n" in told
    assert "rank 0: all_reduce: gloo\n" in told
    told = said({"CXX": "no-such-compiler", "XDG_CACHE_HOME": str(tmp_path)})
    assert "rank 1: bundles serve ranks 0, 1: no, no no-such-compiler: install a C++" in told
    assert "rank 1: all_reduce: gloo\n" in told
    told = said({"SCCL_BUNDLES": str(tmp_path)})
    assert "is not a generated project (it has no program.json)" in told
    assert "rank 0: all_reduce: gloo\n" in told


def test_bundles_serve_calls_that_are_recorded(tmp_path: Path) -> None:
    told = said({"SCCL_RECORD": str(tmp_path)})
    assert "rank 0: bundles serve ranks 0, 1\n" in told
    assert "rank 1: all_reduce: bundle\n" in told
    assert "SCCL_BUNDLES" not in told
    events = json.loads((tmp_path / "rank-1.json").read_bytes())["events"]
    assert "allreduce" in {event.get("collective") for event in events}


def test_projects_that_are_named_serve_what_they_have(tmp_path: Path) -> None:
    words = ["synth", "recursive-doubling", "--topo", "full:2", "--collective", "allreduce"]
    algorithm, project = tmp_path / "allreduce.json", tmp_path / "project"
    assert sccl(*words, "-o", algorithm)[0] == 0
    assert sccl("project", "new", algorithm, "-o", project)[0] == 0
    told = said({"SCCL_BUNDLES": str(project)})
    assert "served by allreduce-full-2-c2-s1-r2" in told
    assert "rank 0: all_reduce: bundle\n" in told
    assert "rank 0: broadcast: gloo\n" in told


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ("dies", {"0": "gone: rank", "2": "gone: rank"}),  # a leaving rank may be reported, too
        ("stands", {"0": "all_reduce of 3 float32 by ranks 0, 1, 2 failed"}),
        pytest.param(
            "dies-within",
            {"0": "all_reduce of 4194304 float32 by ranks 0, 1, 2 failed, rank"},
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            "interrupts",
            {"0": "KeyboardInterrupt", "1": "has left", "2": "KeyboardInterrupt"},
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_waits_in_vain_end_in_a_sentence(how: str, wanted: dict[str, str]) -> None:
    lines = finished(run_job("oldest", 3, "torch_hosted_failing.py", how))
    for rank, text in wanted.items():
        assert any(line.startswith(rank) and text in line for line in lines), lines
    assert [line[0] for line in lines] == list("0022" if how != "interrupts" else "00122")
    assert all("CallError: all_reduce of " in line or "KeyboardInterrupt" in line for line in lines)
    if how == "stands":
        assert any("no end after 4 s" in line for line in lines), lines
        assert any("these ranks have not made the call: 1" in line for line in lines), lines
