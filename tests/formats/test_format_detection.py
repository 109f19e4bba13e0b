"""``sccl check`` on foreign files: their kind, their faults, their runtimes."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from sccl import formats
from sccl.core.files import disk
from sccl.errors import FormatError
from sccl.formats.common import contract as format_contract
from sccl.formats.files import foreign
from sccl.formats.files.plans import write_plan
from sccl.topo import importers
from sccl.training.traces import trace_files
from tests.kit.commands import sccl
from tests.kit.easy_algorithms import frontier
from tests.kit.samples import sample


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return a program for RCCL: allgather on a ring of four."""
    plan = tmp_path / "plan.json"
    write_plan(plan, frontier("ring:4", "allgather")[0])
    path = tmp_path / "plan.xml"
    assert sccl("export", plan, "--format", "msccl-xml", "-o", path)[0] == 0
    return path


def test_programs_are_checked_next_to_plans(program: Path) -> None:
    code, out, err = sccl("check", program, program.with_suffix(".json"))
    assert (code, err) == (0, "")
    assert out.count("valid") == 2
    assert "an MSCCL program of 4 ranks, allgather" in out
    packed = program.with_suffix(".gz")
    packed.write_bytes(gzip.compress(program.read_bytes()))
    assert sccl("check", packed)[0] == 0


def test_packed_plans_are_read_whole_or_refused(program: Path) -> None:
    content = program.read_bytes()
    packed = gzip.compress(content)
    file = program.with_suffix(".gz")
    middle = len(content) // 2
    members = gzip.compress(content[:middle]) + gzip.compress(content[middle:])
    for whole in (packed, members, packed + b"\0" * 512):
        file.write_bytes(whole)
        assert sccl("check", file)[0] == 0
    for wrong, says in (
        (packed + b"rest", "other bytes follow its packed content"),
        (packed + b"\n", "other bytes follow its packed content"),
        (packed[:-10], "it is cut off, as its packed content does not end"),
        (packed[:5], "it is cut off, as its packed content does not end"),
        (members[:-10], "it is cut off, as its packed content does not end"),
        (packed[:-6] + b"\0" * 6, "the file is damaged (gzip: "),
    ):
        file.write_bytes(wrong)
        code, _, err = sccl("check", file)
        assert (code, says in err) == (2, True), err


def test_packed_plans_that_are_too_large_are_rejected(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "MAX_BYTES", 2**21)
    file = program.with_suffix(".gz")
    file.write_bytes(gzip.compress(b"x" * 2**26))
    code, _, err = sccl("check", file)
    assert (code, "is longer than 2 MiB" in err) == (2, True)


def test_fault_is_named(program: Path) -> None:
    lines = program.read_text().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if 'type="rcs"' in line)
    program.write_text("".join([*lines[:at], lines[at].replace("rcs", "r"), *lines[at + 1 :]]))
    code, out, _ = sccl("check", program, "--json")
    (file,) = json.loads(out)["files"]
    assert (code, file["valid"], file["format"]) == (1, False, "msccl-xml")
    (first, *_) = file["violations"]
    assert first["kind"] == "deadlock"
    assert None not in (first["rank"], first["block"], first["step"])


def test_program_that_no_runtime_accepts_is_faulty(program: Path) -> None:
    program.write_text('<?xml version="1.0"?>\n' + program.read_text())
    code, out, _ = sccl("check", program)
    assert code == 1
    assert "no runtime takes it" in out
    assert "valid" not in out
    assert "refused: msccl, azure, rccl: it begins with an XML declaration" in out


@pytest.mark.parametrize("content", [b"<algo", b"<algo/>", b"<algo>" * 9, b"\x1f\x8b123", b"<x/>"])
def test_unreadable_file_gives_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.xml"
    path.write_bytes(content)
    code, out, err = sccl("check", path)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


@pytest.mark.parametrize("form", ["msccl-xml", "mscclpp"])
def test_programs_come_back_as_what_they_were_made_of(tmp_path: Path, form: str) -> None:
    """In no more steps, and right on the machine that they were made for."""
    for algorithm in frontier("star:4", "allreduce"):
        plan, program, back = (tmp_path / name for name in ("a.json", "a.program", "b.json"))
        write_plan(plan, algorithm)
        assert sccl("export", plan, "--format", form, "-o", program)[0] == 0
        words = ("import", program, "-o", back, "--topo", "star:4", "--json")
        code, out, err = sccl(*words)
        assert (code, err) == (0, "")
        assert json.loads(out)["steps"] <= algorithm.steps
        assert sccl("check", back)[0] == 0


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("allreduce", (16, 1)),
        ("allreduce_packet", (4, 2)),
        ("exec_reduce", (4, 2)),
        ("exec_reduce_nvls", (2, 1)),
        ("exec_reduce_pack", (2, 2)),
        ("exec_multi_node_transfer", (2, 1)),
    ],
)
def test_plans_of_mscclpp_become_algorithms(
    tmp_path: Path, name: str, shape: tuple[int, int]
) -> None:
    """However ranks reach one another: by puts, gets, packets, through switches or the network."""
    path = sample(f"mscclpp_json/plan_2025/{name}.json")
    code, out, err = sccl("import", path, "-o", tmp_path / "a.json", "--json")
    assert (code, err) == (0, "")
    assert (json.loads(out)["chunks"], json.loads(out)["steps"]) == shape
    assert sccl("check", tmp_path / "a.json")[0] == 0


@pytest.mark.parametrize(
    ("verb", "suffix"),
    [
        *(("show", ""), ("show", ".json"), ("simulate", ".json"), ("codegen", "")),
        *(("plot", ".json"), ("explore", ""), ("export", ".json")),
    ],
)
def test_other_verbs_say_what_to_do_with_them(tmp_path: Path, verb: str, suffix: str) -> None:
    path = tmp_path / f"plan{suffix}"
    (algorithm, *_) = frontier("star:4", "allgather")
    write_plan(tmp_path / "a.json", algorithm)
    assert sccl("export", tmp_path / "a.json", "--format", "msccl++", "-o", path)[0] == 0
    words = {"show": (), "simulate": (), "codegen": ("-o", tmp_path / "p")}
    rest = words.get(verb, ("-o", tmp_path / "p.html"))
    code, out, err = sccl(verb, path, *rest, *(("--format", "csv") if verb == "export" else ()))
    assert (code, out) == (2, "")
    file = path if suffix else path / "a.json"
    assert f"{file}: it is in the format mscclpp" in err
    assert f"'sccl import {file} -o ours.json'" in err
    assert not (tmp_path / "p").exists()
    assert not (tmp_path / "p.html").exists()


def test_schedules_of_te_ccl_become_algorithms(tmp_path: Path) -> None:
    for name, says in (
        ("schedules/mesh_4", "allgather of 16 GPUs, 240 transfers"),
        ("schedules/ndv2_schedule", "allgather of 15 GPUs, 210 transfers"),
        ("schedules/fork_nvswitch16_64MB_schedule", "allgather of 16 GPUs, 240 transfers"),
        ("outputs/DGX2__2_chassis__AllGather__Slow__64KB", "allgather of 32 GPUs, 992 transfers"),
        ("outputs/NDv2__2_chassis__AllGather__Fast__1MB", "allgather of 15 GPUs, 210 transfers"),
        ("outputs/NDv2__2_chassis__AlltoAll__Slow__16KB", "alltoall of 15 GPUs, 475 transfers"),
    ):
        code, out, err = sccl("import", sample(f"teccl/{name}.json"), "-o", tmp_path / "a.json")
        assert (code, err) == (0, ""), name
        assert says in out
        assert sccl("check", tmp_path / "a.json")[0] == 0


def test_file_of_unknown_format_is_not_imported(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("hello")
    code, out, err = sccl("import", path, "-o", tmp_path / "b.json")
    assert (code, out, (tmp_path / "b.json").exists()) == (2, "", False)
    assert "unknown format, expected a plan in one of: forestcoll, msccl-json" in err


NCCL = importers.load_importer("nccl-xml").EXAMPLE


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (" \n", "it is empty, expected a plan"),
        (
            NCCL,
            "it describes a machine \\(nccl-xml\\), not a plan: 'sccl topo import .*' reads it",
        ),
        ("rank 0 {", "unknown format, expected a plan in one of: forestcoll"),
    ],
)
@pytest.mark.parametrize("verb", ["check", "import"])
def test_file_without_plan_is_reported(tmp_path: Path, verb: str, content: str, says: str) -> None:
    path = tmp_path / "file.txt"
    path.write_text(content)
    rest = ("-o", tmp_path / "a.json") if verb == "import" else ()
    code, out, err = sccl(verb, path, *rest)
    assert (code, out) == (2, "")
    assert re.search(says, err), err


def test_one_plan_is_imported_of_a_folder(tmp_path: Path, program: Path) -> None:
    program.with_suffix(".json").unlink()
    assert sccl("import", tmp_path, "-o", tmp_path / "a.gz")[0] == 0
    (tmp_path / "second.xml").write_bytes(program.read_bytes())
    code, out, err = sccl("import", tmp_path, "-o", tmp_path / "a.json")
    assert (code, out) == (2, "")
    assert "holds 2 plans, expected one: name it" in err


def test_collective_that_nobody_knows_is_not_judged(tmp_path: Path) -> None:
    (algorithm, *_) = frontier("ring:4", "allgather")
    write_plan(tmp_path / "a.json", algorithm)
    path = tmp_path / "plan.json"
    assert sccl("export", tmp_path / "a.json", "--format", "msccl++", "-o", path)[0] == 0
    path.write_text(path.read_text().replace('"allgather"', '"allgater"'))
    code, out, _ = sccl("check", path)
    assert code == 0
    assert "note: its final state is not given: verified are termination" in out


def test_sent_chunks_are_the_demand(tmp_path: Path) -> None:
    flow = "Chunk {} from 0 traveled over 0->1 in epoch 0"
    demands: dict[str, list[str]] = {"Demand at 1 for chunk 5 from 0 met by epoch 0": []}
    demands["Demand at 0 for chunk 0 from 1 met by epoch 0"] = []
    path = tmp_path / "s.json"
    path.write_text(
        json.dumps({"1-Epoch_Duration": 1, "7-Flows": [flow.format(0)], "8-Chunk paths": demands})
    )
    code, _, err = sccl("import", path, "-o", tmp_path / "a.json")
    assert code == 2
    assert "chunk 0 of 0 is sent, but no rank demands it" in err


@pytest.mark.parametrize(
    ("volume", "says"),
    [
        ("1", ""),
        ("1.0", ""),
        ("0.9999999999999999", ""),
        ("1.0000000000000002", ""),
        ("0.5", "flow 0 carries 0.5 of a chunk"),
        ("1e-05", "flow 0 carries 1e-05 of a chunk"),
        ("2.0", "flow 0 carries 2.0 of a chunk"),
        ("1.0.0", "expected a transfer"),
    ],
)
def test_teccl_takes_volumes_that_round_to_one_for_whole_chunks(volume: str, says: str) -> None:
    """Two nodes exchange a chunk."""
    pairs = ((0, 1), (1, 0))
    flow = "Chunk 0 from {0} traveled over {0}->{1} with volume {2} in epoch 0"
    file = {
        "1-Epoch_Duration": 1,
        "7-Flows": [flow.format(a, b, volume) for a, b in pairs],
        "8-Chunk paths": {
            f"Demand at {b} for chunk 0 from {a} met by epoch 0": [] for a, b in pairs
        },
    }
    content = json.dumps(file).encode()
    if says:
        with pytest.raises(FormatError, match=says):
            formats.load("teccl").read(content, "file")
    else:
        assert "of 2 GPUs, 2 transfers" in formats.load("teccl").read(content, "file").about


def test_teccl_lists_unused_fields() -> None:
    """Two nodes exchange chunks, and the file has an unknown field."""
    pairs = ((0, 1), (1, 0))
    file = {
        "1-Epoch_Duration": 1,
        "6-Flows": [f"Chunk 0 from {a} traveled over {a}->{b} in epoch 0" for a, b in pairs],
        "7-chunk paths": {
            f"Demand at {b} for chunk 0 from {a} met by epoch 0": [] for a, b in pairs
        },
        "9-Weights\x1b": [2],
    }
    found = formats.load("teccl").read(json.dumps(file).encode(), "file")
    assert "not used: 1-Epoch_Duration, '9-Weights\\x1b'" in found.notes


def test_formats_of_one_direction_are_known_without_loading_them() -> None:
    for form in map(formats.load, formats.names()):
        assert bool(form.TAKES) == (form.NAME in formats.writable_names()), form.NAME
        only = form.read.__module__ == format_contract.__name__
        assert only == (form.NAME not in formats.readable_names()), form.NAME


def test_schedule_without_a_size_has_its_own(tmp_path: Path) -> None:
    plan, goal = tmp_path / "s.json", tmp_path / "s.goal"
    words = ("--collective", "allgather", "--topo", "ring:4", "--size", "1MB", "-o", plan)
    assert sccl("synth", "tacos", *words)[0] == 0
    assert sccl("export", plan, "--format", "goal", "-o", goal)[0] == 0
    assert "send 1000000b" in goal.read_text()
    code, _, err = sccl("export", plan, "--format", "goal", "--size", "3MB", "-o", tmp_path / "t")
    assert code == 2
    assert "it is a schedule of 1000000 bytes, and size is 3000000: leave --size out" in err


def test_words_that_an_option_may_have_are_listed(tmp_path: Path) -> None:
    words = ("--format", "msccl++", "--set", "protocol=LL64", "-o", tmp_path / "p")
    write_plan(tmp_path / "a.json", frontier("ring:4", "allgather")[0])
    code, _, err = sccl("export", tmp_path / "a.json", *words)
    assert code == 2
    assert "expected Simple or LL; give another value" in err


def test_listing_is_no_machine_yet(tmp_path: Path) -> None:
    path = tmp_path / "topo.txt"
    path.write_text(importers.load_importer("nvidia-smi").EXAMPLE)
    code, _, err = sccl("topo", "show", path)
    assert code == 2
    assert f"'sccl topo import {path} -o my.json' converts" in err


def test_plan_is_no_machine(program: Path) -> None:
    code, _, err = sccl("topo", "import", program)
    assert code == 2
    assert f"it is a plan (msccl-xml), not a machine: verify it with 'sccl check {program}'" in err
    program.write_text("")
    assert "it is empty, expected a description of a machine" in sccl("topo", "import", program)[2]


def test_unreadable_file_does_not_hide_other_verdicts(tmp_path: Path, program: Path) -> None:
    (tmp_path / "broken.xml").write_text(program.read_text()[:300])
    code, out, err = sccl("check", tmp_path)
    assert code == 2
    assert out.count("valid") == 2  # the plan and its program
    assert "broken.xml" in err
    (tmp_path / "other.xml").write_text(program.read_text()[:200])
    assert "(and 1 file more cannot be read)" in sccl("check", tmp_path)[2]
    program.with_suffix(".json").unlink()
    program.unlink()
    code, out, _ = sccl("check", tmp_path)
    assert (code, out) == (2, "")


def test_broken_plan_keeps_no_other_of_its_folder_from_its_verdict(tmp_path: Path) -> None:
    question = ("--collective", "allgather", "--topo", "ring:3", "--chunks", "1", "--steps", "1")
    whole = tmp_path / "whole.json"
    assert sccl("solve", *question, "--rounds", "1", "-o", whole)[0] == 0
    (tmp_path / "cut.json").write_text(whole.read_text()[:200])
    (tmp_path / "wrong.json").write_text('{"schema": 1, "kind": "algorithm", "collective": 3}')
    files = [tmp_path / name for name in ("cut.json", "whole.json", "wrong.json")]
    for words in ([tmp_path], [tmp_path / "*.json"], files):
        code, out, err = sccl("check", *words)
        assert code == 2
        assert "whole.json: allgather on ring:3" in out
        assert "cut.json" in err
        assert "(and 1 file more cannot be read)" in err


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("verb", ["check", "show", "topo import", "workload import"])
def test_files_of_blanks_are_rejected_at_their_first_piece(
    verb: str, packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    check = disk.check_nonblank

    def counting(piece: bytes, where: str) -> None:
        read.append(len(piece))
        check(piece, where)

    for module in (disk, foreign, trace_files):
        monkeypatch.setattr(module, "check_nonblank", counting)
    path = tmp_path / "blanks.json"
    content = b" " * 2**23
    path.write_bytes(gzip.compress(content) if packed else content)
    code, _, err = sccl(*verb.split(), path)
    assert code == 2
    if not packed or verb in {"check", "workload import"}:
        assert "contain only blanks or zeros" in err
        assert (
            sum(read) <= 4 * disk.PIECE_BYTES
        )  # a few readers look at it, each at its first piece
