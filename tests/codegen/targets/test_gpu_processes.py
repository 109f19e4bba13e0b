"""CUDA projects on emulated GPUs, with a process for each rank: the library is that of GPUs."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sccl.codegen.project_writer import generate, write_project
from sccl.codegen.targets.codegen_options import TRANSPORTS, CodegenOptions
from sccl.core.algorithm import Algorithm
from sccl.core.topology import ASCENDING
from tests.kit import once
from tests.kit.easy_algorithms import frontier, hop
from tests.kit.hard_algorithms import SHORT, load_all
from tests.kit.nightly import times
from tests.kit.paths import PROGRAMS
from tests.kit.projects import (
    UNOPTIMISED,
    emulation,
    launch,
    loopback,
    make,
    mpich,
    tool,
    with_small_slots,
)

COLLECTIVES = ("allgather", "allreduce", "alltoall", "gather")

RING = "0-1,1-2,2-3,3-0"


@pytest.fixture(autouse=True)
def _one_thread_per_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Emulate blocks of one thread, as waiting threads take turns on few cores.

    Tests of the data itself set two, and those of races in test_gpu.py three.
    """
    monkeypatch.setenv("SCCL_EMULATED_THREADS", "1")


def algorithms() -> list[Algorithm]:
    """Return algorithms of a ring, and one that needs all links. Ranks ascend with bus ids."""
    found = [frontier("ring:4", name)[0] for name in COLLECTIVES]
    others = ("broadcast", "reduce", "reducescatter", "scatter")
    found += [frontier("ring:4", name)[0] for name in others]
    found += [hop(), frontier("full:4", "alltoall")[0]]
    return [replace(a, topology=replace(a.topology, pci_bus_ids=ASCENDING)) for a in found]


def emulated(
    transport: str = "kernel", slices: int = 1, flags: str = UNOPTIMISED, target: str = "cuda"
) -> Path:
    """Return their emulated library, its bench, and programs of users."""

    def fill(directory: Path) -> None:
        files = generate(algorithms(), target, CodegenOptions(slices, transport))
        write_project(directory, with_small_slots(files, 16384))
        # Slices are few for short calls, as they are for users.
        make(directory, "emulated", emulation(4096, flags))
        source = str(PROGRAMS / "on_emulated_gpus.cpp")
        own = [*flags.split(), "-std=c++17", "-DSCCL_EMULATED", "-rdynamic", "-pthread"]
        into = str(directory / "emulated" / "user")
        library = ["-L", str(directory / "emulated"), "-lsccl", "-Wl,-rpath,$ORIGIN"]
        words = [mpich().compiler, *own, "-I", str(directory), source, *library, "-o", into]
        subprocess.run(words, check=True)

    tool("make", "install it")
    return once.folder(f"emulated-{target}-{transport}-{slices}-{flags}", fill) / "emulated"


def user(
    name: str,
    transport: str = "kernel",
    slices: int = 1,
    target: str = "cuda",
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run a program of a user on four ranks of a ring, with the library before MPI's."""
    settings = {"SCCL_DEBUG": "1", "SCCL_EMULATED_LINKS": RING, **environment}
    program = emulated(transport, slices, target=target) / "user"
    return launch(mpich(), 4, [str(program), name], **settings)


@pytest.mark.parametrize(
    "transport", [pytest.param(t, marks=[pytest.mark.nightly] * (t == "dma")) for t in TRANSPORTS]
)
def test_every_program_between_processes(transport: str) -> None:
    """The runtime numbers GPUs in an order of its own: bench takes them by bus ids."""
    words = [str(emulated(transport) / "bench"), "--each", "--repeat", "0", "--counts", "17,20001"]
    settings = {"SCCL_EMULATED_DEVICES": "3,1,2,0", "SCCL_EMULATED_THREADS": "2"}
    done = launch(mpich(), 4, words, **settings)
    assert done.returncode == 0, done.stderr
    assert "WRONG" not in done.stderr
    for name in COLLECTIVES:
        assert f"# sccl {name}, 4 ranks" in done.stdout
    if transport == "dma":
        captured = user("no_replays", transport)
        assert captured.returncode == 0, captured.stderr


def test_flags_are_set_by_streams_or_by_small_kernels() -> None:
    """If streams do not set and await flags themselves, kernels do.

    In both cases a wait for a dead peer ends.
    """
    few = ("allgather", "--counts", "1,1000")
    by_kernels = "flags are set and awaited by small kernels"
    for streams in "10":
        settings = {"SCCL_STREAM_OPS": streams, "SCCL_DEBUG": "1"}
        done = loopback(emulated("dma"), *few, **settings)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count(by_kernels) == int(streams == "0")
        dead = {"SCCL_TIMEOUT": "0.01", "SCCL_EMULATED_DEAD": "0"}
        done = loopback(emulated("dma"), *few, **settings, **dead)
        assert done.returncode == 1
        assert re.search(r"rank [123] waited for a peer for longer than SCCL_TIMEOUT", done.stderr)


@pytest.mark.parametrize("landing", "ed")
def test_preloaded_library_serves_gpu_memory(landing: str) -> None:
    """Buffers are freed and allocated again, at addresses and under handles that were known.

    An algorithm that needs a link which is not there is left out.
    """
    done = user("plain_mpi", SCCL_SELECT=";".join(f"{c}:0=0{landing}" for c in COLLECTIVES))
    assert done.returncode == 0, done.stderr
    assert "plain_mpi is done" in done.stdout
    for name in COLLECTIVES:
        assert f"{name} of 4 bytes served by {name}-ring-4" in done.stderr
    assert ("allgather-ring-4-c1-s2-r2, direct" in done.stderr) == (landing == "d")
    lacking = "GPU 0000:01:00.0 of rank 0 cannot reach the memory of GPU 0000:03:00.0 of rank 2"
    assert f"1 of 10 algorithms are left out: {lacking} (no peer access)" in done.stderr


COUNTED = ("allgather", "alltoall", "gather", "reducescatter", "scatter")


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("slices", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_counts_are_given_at_run_time(slices: int, transport: str) -> None:
    """By algorithms that forward blocks whose lengths only their ends know from the caller."""
    done = user("counts_vary", transport, slices, CALLS=str(times(200, by_day=12)))
    assert done.returncode == 0, done.stderr
    assert "counts_vary is done" in done.stdout
    for name in COUNTED:
        assert re.search(rf"{name}v of \d+ bytes at most served by {name}-ring-4", done.stderr)
    assert "passed on" not in done.stderr


@pytest.mark.nightly
def test_ranks_need_not_be_in_the_order_of_their_gpus_for_counts() -> None:
    done = user("counts_vary", SCCL_EMULATED_DEVICES="0,2,3,1")
    assert done.returncode == 0, done.stderr
    assert "counts_vary is done" in done.stdout


def test_counts_are_copied_from_pinned_memory() -> None:
    done = user("counts_in_a_row")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_counts_that_do_not_fit_together_are_rejected_by_all(transport: str) -> None:
    """No deadline is set: all hear of it from hosts, and the next call is served."""
    done = user("counts_unlike", transport)
    assert done.returncode == 0, done.stderr
    said = "rank 1 has 12 bytes for rank 2, which counts on 8"
    assert sorted(done.stdout.splitlines()) == [
        "counts_unlike is done",
        said,
        "there are no counts",
    ]


def test_ranks_play_those_whose_gpus_they_have() -> None:
    """Bus ids identify GPUs under every numbering of the runtime, and a root is still MPI's."""
    for devices, landing in (("2,0,3,1", "e"), ("3,2,1,0", "d")):
        select = ";".join(f"{c}:0=0{landing}" for c in COLLECTIVES)
        done = user("plain_mpi", SCCL_EMULATED_DEVICES=devices, SCCL_SELECT=select)
        assert done.returncode == 0, done.stderr
        for name in ("allgather", "allreduce", "alltoall"):
            assert f"{name} of 4 bytes served by" in done.stderr
        roots = set(re.findall(r"no algorithm of gather .* has root (\d)", done.stderr))
        assert roots == {"0", "1", "2", "3"} - {str(devices.split(",").index("0"))}


@pytest.mark.parametrize(
    ("landing", "slices"),
    [("p", 1), *(pytest.param(x, 2, marks=pytest.mark.nightly) for x in "epd")],
)
def test_calls_in_a_row_do_not_meet(landing: str, slices: int) -> None:
    select = f"allgather:0=0{landing},4000=0e;broadcast:0=0{landing},4000=0e"
    settings = {"SCCL_DEBUG": "0", "SCCL_EMULATED_THREADS": "2"}
    done = user("calls_in_a_row", slices=slices, SCCL_SELECT=select, **settings)
    assert done.returncode == 0, done.stderr
    assert "calls_in_a_row is done" in done.stdout


def seeing_one_gpu_each(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a program as under CUDA_VISIBLE_DEVICES, with the library preloaded.

    Only opening a peer GPU's memory shows whether it is reachable.
    """
    own = f"SCCL_EMULATED_DEVICES=$MPI_LOCALRANKID LD_PRELOAD={emulated() / 'libsccl.so'}"
    shell = ["sh", "-c", f'{own} exec "$@"', "sh", *words]
    return launch(mpich(), 4, shell, SCCL_DEBUG="1", SCCL_EMULATED_LINKS=RING)


def test_processes_that_see_a_gpu_each() -> None:
    done = seeing_one_gpu_each(str(emulated() / "user"), "plain_mpi")
    assert done.returncode == 0, done.stderr
    for name in COLLECTIVES:
        assert f"{name} of 4 bytes served by" in done.stderr


@pytest.mark.nightly
def test_memory_of_the_host_is_passed_on_by_all() -> None:
    program = str(PROGRAMS / "collectives_under_preload.py")
    done = seeing_one_gpu_each(sys.executable, program, "10")
    assert done.returncode == 0, done.stderr
    assert "all right" in done.stdout
    assert "served by" not in done.stderr
    assert "passed on: its buffers are not on a GPU" in done.stderr


def test_context_of_the_users_own_stays_current() -> None:
    done = user("own_context")
    assert done.returncode == 0, done.stderr
    assert "allgather of 4 bytes served by" in done.stderr


def test_thread_that_uses_no_gpu_keeps_off_all() -> None:
    done = user("thread_without_context", SCCL_SELECT="allgather:0=0d")
    assert done.returncode == 0, done.stderr
    assert "allgather of 400 bytes served by allgather-ring-4-c1-s2-r2, direct" in done.stderr


def test_pointers_that_do_not_matter_may_be_anything() -> None:
    done = user("unused_pointers")
    assert done.returncode == 0, done.stderr
    assert "reduce of 400 bytes served by" in done.stderr


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_capture_may_begin_during_a_call_without_a_stream(transport: str) -> None:
    done = user("capture_begins_meanwhile", transport)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_call_without_a_stream_follows_the_default_streams(transport: str) -> None:
    """Work in this queue runs as late as some wait needs it."""
    done = user("default_streams", transport)
    assert done.returncode == 0, done.stderr


MEETINGS = {
    "eager": 0,
    "eager, no stream": 0,
    "eager, MPI": 1,
    "direct": 1,
    "direct, MPI": 1,
    "registered": 0,
}
"""Meetings of hosts in a call that was made before. Any rank may pass host memory to MPI."""

RUNTIME_CALLS = {"eager": 9, "eager, no stream": 16, "registered": 10}
"""Most calls of the GPU's runtime: of pointers, the capture, one event each way, and the launch.
Without a stream default streams are followed, too."""


def test_calls_cost_little_on_hosts() -> None:
    done = user("costs_of_a_call")
    assert done.returncode == 0, done.stderr
    costs = dict(line.split(": ") for line in done.stdout.splitlines() if ": " in line)
    counts = {name: [int(n) for n in re.findall(r"\d+", cost)] for name, cost in costs.items()}
    assert {name: met for name, (met, *_) in counts.items()} == MEETINGS
    for name, most in RUNTIME_CALLS.items():
        assert sum(counts[name][1:]) <= most, costs[name]


def test_process_has_two_gpus() -> None:
    done = user("two_gpus")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("devices", ["0", "2,1", "0,1,2"])
def test_ranks_share_gpus_for_tests(devices: str) -> None:
    """One GPU is as good as any: ranks keep their order, also where bus ids would permute them."""
    words = [str(emulated(slices=2) / "bench"), "--each", "--repeat", "0", "--counts", "17,20001"]
    sharing = {"SCCL_EMULATED_DEVICES": devices, "SCCL_SHARE_GPU": "1", "SCCL_DEBUG": "1"}
    done = launch(mpich(), 4, words, **sharing)
    assert done.returncode == 0, done.stderr
    assert "# data of all sizes right" in done.stdout
    assert "passed on" not in done.stderr


def test_ranks_share_a_gpu_only_if_all_may() -> None:
    allowed = 'SCCL_SHARE_GPU=$((MPI_LOCALRANKID != 2)) exec "$0" --counts 1'
    words = ["sh", "-c", allowed, str(emulated(slices=2) / "bench")]
    done = launch(mpich(), 4, words, SCCL_EMULATED_DEVICES="0")
    why = "rank 1 uses GPU 0000:01:00.0, and so does rank 0: each rank needs its own GPU"
    assert done.returncode == 1
    assert done.stderr == f"bench: sccl cannot serve these ranks: {why}\n"


CROWDED = re.compile(r"GPU 0000:01:00.0 of rank 0 runs only (\d) of (\d) thread blocks of a rank")


@pytest.mark.parametrize(
    ("resident", "sharing", "served"),
    [
        (2, {}, {"allreduce"}),
        (3, {}, {"allgather", "allreduce", "alltoall", "gather"}),
        (2, {"SCCL_EMULATED_DEVICES": "0", "SCCL_SHARE_GPU": "1"}, {"allreduce"}),
        (
            11,
            {"SCCL_EMULATED_DEVICES": "0", "SCCL_SHARE_GPU": "1", "SCCL_EMULATED_MPS": "1"},
            {"allreduce"},
        ),
        (7, {"SCCL_EMULATED_DEVICES": "0", "SCCL_SHARE_GPU": "1", "SCCL_EMULATED_MPS": "1"}, set()),
    ],
)
def test_calls_whose_thread_blocks_do_not_fit_are_passed_on(
    resident: int, sharing: dict[str, str], served: set[str]
) -> None:
    """Thread blocks wait for one another, so those of a call run together or not at all."""
    done = user("plain_mpi", slices=2, SCCL_EMULATED_RESIDENT=str(resident), **sharing)
    assert done.returncode == 0, done.stderr
    found = set(re.findall(r"(\w+) of \d+ bytes served by", done.stderr))
    assert found - {"scatter", "reducescatter"} == served
    room = resident // (4 if "SCCL_EMULATED_MPS" in sharing else 1)
    for line in done.stderr.splitlines():
        if crowded := CROWDED.search(line):
            assert int(crowded[1]) == room < int(crowded[2])
    passed = set(re.findall(r"(\w+) passed on: .*runs only", done.stderr))  # alltoall lacks a link
    others = {"alltoall", "scatter", "reducescatter"}
    assert passed - others == {"allgather", "allreduce", "gather"} - served


def test_copy_engines_need_no_room_for_thread_blocks() -> None:
    sharing = {"SCCL_EMULATED_DEVICES": "0", "SCCL_SHARE_GPU": "1", "SCCL_EMULATED_MPS": "1"}
    unknown = {"HSA_CU_MASK": "0:0-3", "SCCL_EMULATED_RESIDENT": "1"}
    done = user("plain_mpi", "dma", 1, "cuda", **unknown, **sharing)
    assert done.returncode == 0, done.stderr
    assert not re.search("runs only|left out|HSA_CU_MASK", done.stderr)


@pytest.mark.parametrize(("target", "fit"), [("cuda", "some"), ("hip", "1")])
def test_call_that_does_not_fit_its_stream_is_rejected(target: str, fit: str) -> None:
    """A launch of CUDA reports it, for HIP the stream's mask of processors is read before."""
    done = user("masked_stream", target=target)
    assert done.returncode == 0, done.stderr
    assert f"its stream runs only {fit} of 3 thread blocks at the same time\n" in done.stdout


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_copies_of_a_refused_call_are_followed(target: str) -> None:
    done = user("refused_in_place", target=target, SCCL_EMULATED_LAZY="1")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("landing", "ed")
def test_ranks_that_meet_on_hosts_hear_of_a_refusal(landing: str, transport: str) -> None:
    names = ("allgather", "gather", "custom_hop")
    select = ";".join(f"{name}:0=0{landing}" for name in names)
    done = user("refused_by_one", transport, SCCL_SELECT=select)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_ranks_that_meet_on_hosts_hear_of_any_earlier_refusal(transport: str) -> None:
    done = user("refused_twice", transport, SCCL_SELECT="allgather:0=0d")
    assert done.returncode == 0, done.stderr


def test_windows_of_a_communicator_that_failed_stay() -> None:
    done = user("made_too_late", SCCL_TIMEOUT="0.5")
    assert done.returncode in {0, signal.SIGKILL}, done.stderr  # ranks end without MPI_Finalize
    assert "made_too_late is done" in done.stdout, done.stderr


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_call_in_place_does_not_wait_for_the_one_before(transport: str) -> None:
    done = user("grows_in_place", transport, SCCL_SELECT="alltoall:0=0e")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_ranks_register_the_same_buffers_or_none(transport: str) -> None:
    done = user("registered_by_one", transport)
    assert done.returncode == 0, done.stderr


def test_hosts_that_meet_for_different_calls_hear_of_it() -> None:
    done = user("meetings_differ")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_one_way_link_is_not_used(transport: str) -> None:
    """Rank 1 cannot open the memory of rank 2. Refusals wait for neighbors, without a deadline."""
    lacks = "[ $MPI_LOCALRANKID != 1 ] || export SCCL_EMULATED_LINKS=0-1,2-3,3-0"
    words = ["sh", "-c", f'{lacks}; exec "$@"', "sh", str(emulated(transport) / "user"), "one_way"]
    done = launch(mpich(), 4, words, SCCL_DEBUG="1", SCCL_EMULATED_LINKS=RING)
    assert done.returncode == 0, done.stderr
    assert "gather of 4 bytes served by" in done.stderr


def test_ranks_that_share_a_gpu_in_loopback_have_to_fit() -> None:
    done = loopback(emulated(), "allgather", "--counts", "1", SCCL_EMULATED_RESIDENT="11")
    assert done.returncode == 1
    assert "this GPU runs only 11 of 12 thread blocks at the same time" in done.stderr


NO_LINK = (
    "GPU 0000:01:00.0 of rank 0 cannot reach the memory of GPU 0000:04:00.0 of rank 3 "
    "(no peer access)"
)
OTHER_LINK = (
    "its algorithms cannot run: GPU 0000:02:00.0 of rank 1 cannot reach "
    "the memory of GPU 0000:03:00.0 of rank 2 (no peer access)"
)
NEWER = (
    "rank 0 cannot take part: its GPU 0000:01:00.0 has an architecture that libsccl.so was not "
    "compiled for (see ARCHS in its Makefile)"
)
NO_LAUNCH = (
    "rank 0 cannot take part: its GPU does not launch the kernel: unspecified launch failure"
)
UNFIT = {
    "fewer ranks": (3, {}, "the communicator has 3 ranks, this project is for 4"),
    "more ranks": (5, {}, "the communicator has 5 ranks, this project is for 4"),
    "no GPU": (4, {"SCCL_EMULATED_DEVICES": ""}, "rank 0 cannot take part: it sees no GPU"),
    "fewer GPUs": (
        4,
        {"SCCL_EMULATED_DEVICES": "0,1"},
        "rank 2 uses GPU 0000:01:00.0, and so does rank 0: each rank needs its own GPU",
    ),
    "no peer access": (4, {"SCCL_EMULATED_LINKS": "0-1,1-2,2-3"}, NO_LINK),
    "no link that it needs": (  # broadcast has all that it needs, and alltoall lacks others, too
        4,
        {"SCCL_EMULATED_LINKS": "0-1,2-3,3-0"},
        OTHER_LINK,
    ),
    "a launch that fails": (4, {"SCCL_EMULATED_NO_LAUNCH": "1"}, NO_LAUNCH),
    "room that is not known": (
        4,
        {"HSA_CU_MASK": "0:0-3"},
        "rank 0 cannot take part: HSA_CU_MASK is set",
    ),
    "another architecture": (4, {"SCCL_EMULATED_NEWER": "1"}, NEWER),
}
"""Ranks, their environment, and the expected error."""


@pytest.mark.parametrize("case", UNFIT)
def test_unfit_call_gives_one_sentence_and_is_passed_on(case: str) -> None:
    ranks, environment, why = UNFIT[case]
    settings = {"SCCL_DEBUG": "1", "SCCL_EMULATED_LINKS": RING} | environment
    done = launch(mpich(), ranks, [str(emulated() / "user"), "refused"], **settings)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{why}\nrefused is done\n"
    said = {line for line in done.stderr.splitlines() if "allreduce" in line}
    assert said == {f"sccl: allreduce passed on: {why}"}


@pytest.mark.parametrize("case", ["no GPU", "no peer access"])
def test_bench_reports_unfit_arguments_on_one_rank(case: str) -> None:
    _, environment, why = UNFIT[case]
    done = launch(mpich(), 4, [str(emulated() / "bench"), "--repeat", "0"], **environment)
    assert done.returncode == 1
    assert done.stderr == f"bench: sccl cannot serve these ranks: {why}\n"


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("landing", "ed")
def test_c_api_takes_memory_of_its_gpu_alone(landing: str, transport: str) -> None:
    """The hosts do not ask each other: a rank that rejects a call notifies those that make it.

    No deadline is set.
    """
    for name in ("unlike_memory", "unlike_on_streams"):
        select = f"allreduce:0=0{landing};broadcast:0=0{landing}"
        done = user(name, transport, SCCL_SELECT=select)
        assert done.returncode == 0, done.stderr
        assert f"{name} is done" in done.stdout


def test_ranks_agree_on_what_is_passed_on() -> None:
    """One rank's buffers are elsewhere: nobody waits for it in a kernel."""
    done = user("mixed_memory")
    assert done.returncode == 0, done.stderr
    for why in (
        "its buffers are not on a GPU",
        "one of its buffers is on a GPU and the other is not",
        "its buffers are on another GPU than its communicator",
        "its buffers are not aligned to their elements",
        "another rank cannot take it",
    ):
        assert f"passed on: {why}" in done.stderr, why


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_ranks_that_disagree_about_a_call_get_no_data(transport: str) -> None:
    """No deadline is set, because the messages at the beginning suffice."""
    select = ";".join(f"{name}:0=0e" for name in COLLECTIVES)
    done = user("calls_differ", transport, SCCL_SELECT=select)
    assert done.returncode == 0, done.stderr
    assert "calls_differ is done" in done.stdout
    assert "ranks must make the same calls" in done.stderr


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_ranks_that_count_differently_get_no_data(transport: str) -> None:
    done = user("counts_differ", transport)
    assert done.returncode == 0, done.stderr
    assert "counts_differ is done" in done.stdout


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("name", ["told_in_a_call", "told_when_freed"])
def test_ranks_that_wait_on_hosts_hear_of_the_end(name: str, transport: str) -> None:
    """No deadline is set, because only the notification ends their waits."""
    done = user(name, transport, SCCL_SELECT="allgather:0=0e;alltoall:0=0e")
    ended = sorted(re.findall(r"rank (\d) has ended", done.stdout))
    assert ended == ["0", "1", "2", "3"], done.stderr


@pytest.mark.parametrize(
    ("name", "transport"),
    [
        ("failure_of_a_stream", "kernel"),
        ("failure_of_a_stream", "dma"),
        ("failure_of_replays", "kernel"),
    ],
)
def test_call_without_elements_reports_earlier_failures(name: str, transport: str) -> None:
    done = user(name, transport, SCCL_SELECT="allgather:0=0e;alltoall:0=0e")
    assert done.returncode == 0, done.stderr
    assert f"{name} is done" in done.stdout


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_rank_that_waits_to_map_outputs_hears_of_the_end(transport: str) -> None:
    select = "allgather:0=0d;allreduce:0=0e;alltoall:0=0e"
    done = user("told_while_mapping", transport, SCCL_SELECT=select)
    ended = sorted(re.findall(r"rank (\d) has ended", done.stdout))
    assert ended == ["0", "1", "2", "3"], done.stderr


def test_memory_stays_mapped_if_replays_may_go_on() -> None:
    done = user("freed_on_a_broken_gpu", SCCL_SELECT="allgather:0=0e")
    ended = sorted(re.findall(r"rank (\d) has ended", done.stdout))
    assert ended == ["0", "1", "2", "3"], done.stderr


def test_call_without_memory_for_copies_goes_to_mpi() -> None:
    done = user("no_memory_for_copies")
    assert done.returncode == 0, done.stderr
    assert "passed on: no memory on the GPU for a packed copy: out of memory" in done.stderr
    assert "passed on: another rank cannot take it" in done.stderr


def test_selection_is_the_same_throughout_a_call() -> None:
    done = user("selected_meanwhile", SCCL_SELECT="allgather:0=0d")
    assert done.returncode == 0, done.stderr


def test_captured_call_is_replayed() -> None:
    """As often as one likes, since calls are numbered on the GPU: 1,000 times at night."""
    done = user("replays", REPLAYS=str(times(100)))
    assert done.returncode == 0, done.stderr


def test_replays_follow_refused_calls() -> None:
    done = user("replays_follow_refusals")
    assert done.returncode == 0, done.stderr


def test_refused_calls_follow_replays() -> None:
    name = "refusals_follow_replays"
    for done in (user(name), user(name, SCCL_EMULATED_LAZY="1")):
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_calls_of_all_kinds_follow_one_another(transport: str) -> None:
    for seed in range(1, 1 + times(3, by_day=1)):
        done = user("calls_of_all_kinds", transport, SCCL_DEBUG="0", SEED=str(seed))
        assert done.returncode == 0, done.stderr


def test_calls_spare_a_capture_of_another_stream() -> None:
    """Allocations and looks at events end a capture, unless the thread is let do so."""
    done = user("during_a_capture")
    assert done.returncode == 0, done.stderr


def test_outputs_that_graphs_use_stay_mapped() -> None:
    done = user("captured_outputs")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("landing", "transport"),
    [("p", "kernel"), ("e", "kernel"), ("d", "kernel"), ("e", "dma"), ("d", "dma")],
)
def test_hip_flushes_what_it_writes_over_pcie(landing: str, transport: str) -> None:
    """Behind the data and before the flag, or behind packets, so that it arrives."""
    select = ";".join(f"{name}:0=0{landing}" for name in COLLECTIVES)
    done = user(
        *("over_pcie", transport),
        target="hip",
        SCCL_EMULATED_PCIE="0-1,2-3",
        SCCL_TIMEOUT="60",
        SCCL_SELECT=select,
    )
    assert done.returncode == 0, done.stderr
    assert "over_pcie is done" in done.stdout


def test_hip_asks_for_the_links_of_the_gpus_that_it_sees() -> None:
    """Whether a link of a hidden GPU is PCIe, and where its register is, is not known."""
    shell = 'SCCL_EMULATED_DEVICES=$MPI_LOCALRANKID exec "$@"'
    words = ["sh", "-c", shell, "sh", str(emulated(target="hip") / "user"), "refused"]
    done = launch(mpich(), 4, words, SCCL_DEBUG="1", SCCL_EMULATED_LINKS=RING)
    assert done.returncode == 0, done.stderr
    why = "cannot reach the memory of GPU 0000:02:00.0 of rank 1 (hidden by HIP_VISIBLE_DEVICES"
    assert why in done.stdout


@pytest.mark.parametrize("name", ["outputs_come_and_go", "outputs_take_turns"])
def test_few_outputs_are_mapped(name: str) -> None:
    """A call whose output would have to take the place of another one copies through scratch."""
    done = user(name)
    assert done.returncode == 0, done.stderr
    hint = "outputs change often, so some calls use scratch memory: register them"
    assert done.stderr.count(f"{hint} (sccl_register)") == 1


def test_rank_that_refused_a_call_does_not_wait_for_its_own_kernel() -> None:
    done = user("refused_before_hosts_meet", SCCL_TIMEOUT="20", SCCL_SELECT="allreduce:0=0e")
    assert done.returncode == 0, done.stderr


def test_hip_refuses_to_be_captured() -> None:
    """It launches plainly, too: a cooperative launch of HIP is no part of a capture."""
    done = user("no_replays", target="hip")
    assert done.returncode == 0, done.stderr
    files = {target: generate(algorithms(), target)["gpu.hpp"] for target in ("cuda", "hip")}
    assert "cudaLaunchCooperativeKernel(code" in files["cuda"]
    assert "LaunchCooperativeKernel" not in files["hip"]


def test_registered_memory_gives_no_message() -> None:
    done = user("registered")
    assert done.returncode == 0, done.stderr
    assert "registered is done" in done.stdout


def test_output_lies_in_the_first_of_overlapping_registrations() -> None:
    done = user("registrations_overlap")
    assert done.returncode == 0, done.stderr


def test_communicator_is_freed_when_the_last_stream_is_done_with_it() -> None:
    done = user("freed_at_work")
    assert done.returncode == 0, done.stderr


def left(folder: Path, name: str, into: Path, **settings: str) -> list[str]:
    """Return the output of the remaining ranks after rank 2 has been killed.

    The launcher of MPI, which would end them all, sees shells that stay until all have printed.
    """
    wait = 'until [ -e "$TOLD/0" ] && [ -e "$TOLD/1" ] && [ -e "$TOLD/3" ]; do :; done'
    words = ["sh", "-c", f'"$0" "$1"; {wait}', str(folder / "user"), name]
    settings |= {"SCCL_EMULATED_LINKS": RING, "TOLD": str(into)}
    done = launch(mpich(), 4, words, **settings)
    assert "WARNING: ThreadSanitizer" not in done.stderr
    told = {file.name: file.read_text() for file in into.iterdir()}
    assert sorted(told) == ["0", "1", "3"], done.stderr
    assert all("the communicator cannot be used any more" in why for why in told.values())
    return list(told.values())


IN_A_CALL = "waited for a peer for longer than SCCL_TIMEOUT"
BEFORE_IT = "some rank did not make a call of all ranks within SCCL_TIMEOUT"
TOLD_OF_IT = re.compile(r"rank \d could not make its call")


@pytest.mark.parametrize(
    ("name", "why", "transport"),
    [*(("killed", IN_A_CALL, t) for t in TRANSPORTS), ("killed_between", BEFORE_IT, "kernel")],
)
def test_rank_that_dies_is_no_end_of_waiting(
    name: str, why: str, transport: str, tmp_path: Path
) -> None:
    """Those that are left get an error each, in a kernel or on a stream, and before one."""
    told = left(emulated(transport), name, tmp_path, SCCL_TIMEOUT="0.2")
    first = [said for said in told if why in said]
    assert first
    assert all(why == BEFORE_IT and TOLD_OF_IT.search(said) for said in told if said not in first)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_stream_waiter_without_peers_is_released(transport: str, tmp_path: Path) -> None:
    """One rank gives up and notifies those that would wait for ten minutes."""
    told = left(emulated(transport), "let_go", tmp_path)
    assert all(f"rank 1 {IN_A_CALL}" in said for said in told)


@pytest.mark.nightly
def test_dgx1_reaches_along_its_links_only(tmp_path: Path) -> None:
    write_project(tmp_path, generate(load_all(SHORT), "cuda", CodegenOptions(1)), force=True)
    assert "{0, 1, 1, 1, 1, 0, 0, 0}" in (tmp_path / "tables.hpp").read_text()
    make(tmp_path, "emulated", emulation())
    words = [str(tmp_path / "emulated" / "bench"), "--each", "--repeat", "0", "--counts", "17,5001"]
    done = launch(mpich(), 8, words, SCCL_DEBUG="1")
    assert done.returncode == 0, done.stderr
    assert "passed on" not in done.stderr
    assert "left out" not in done.stderr


RACES = {
    "kernel": ("plain_mpi", "counts_vary", "replays", "freed_at_work", "registered"),
    "dma": ("plain_mpi", "counts_vary", "no_replays", "calls_in_a_row"),
}


@pytest.mark.nightly
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_streams_and_graphs_of_processes_have_no_race(transport: str, tmp_path: Path) -> None:
    folder = emulated(transport, flags="-O0 -g1 -fsanitize=thread")
    for name in RACES[transport]:
        settings = {"UCX_MEM_EVENTS": "no", "REPLAYS": "20", "SCCL_EMULATED_LINKS": RING}
        done = launch(mpich(), 4, [str(folder / "user"), name], **settings)
        assert done.returncode == 0, done.stderr
        assert "WARNING: ThreadSanitizer" not in done.stderr
    left(folder, "let_go", tmp_path, UCX_MEM_EVENTS="no")
