"""Generated text: of hard algorithms, golden files, hostile names, bad input."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sccl.cli.main import app
from sccl.codegen.bundle import build_bundle, c_identifier
from sccl.codegen.program_file import PROGRAM_FILE
from sccl.codegen.project_writer import generate, targets, write_project
from sccl.codegen.protocol import PROTOCOL, SendStage, Stage
from sccl.codegen.switch_points import Selection, longest_block
from sccl.codegen.targets import rendering
from sccl.codegen.targets.codegen_options import TRANSPORTS, CodegenOptions
from sccl.core.algorithm import Algorithm
from sccl.core.files.algorithms import algorithm_to_wire
from sccl.core.files.json_text import parse, to_text
from sccl.core.files.programs import ProjectWire, project_text
from sccl.core.topology import ASCENDING, BusIds
from sccl.errors import FormatError, ParameterError, UnknownNameError
from sccl.formats.files.plans import write_plan
from sccl.runtime.measure import (
    ContenderTiming,
    fastest_contenders,
    geometric_speedup,
    tune_selection,
)
from sccl.runtime.project import load_project, write_selection
from sccl.transform import prune
from tests.kit import once
from tests.kit.easy_algorithms import frontier
from tests.kit.hard_algorithms import EIGHT, FOUR, Hard, load, load_all
from tests.kit.paths import GOLDEN
from tests.kit.processes import PATIENCE_S, run_with_other_hashes
from tests.kit.projects import tool
from tests.kit.scripts import script

_FILES = {PROGRAM_FILE, "Makefile", "README.md", "sccl.h", "selection.hpp", "steps.hpp"}
"""Files of every project."""


def check_target(name: str) -> None:
    """Check the contract of a target: complete projects with its name, and reproducible bytes.

    Raises:
        AssertionError: The target violates the contract.
    """
    assert name in targets()
    for options in (CodegenOptions(transport=transport) for transport in TRANSPORTS):
        files = generate(algorithms(), name, options)
        check_project(name, files)
        assert generate(list(algorithms()), name, options) == files
        if options == CodegenOptions():
            check_same_bytes(name, files)


def check_project(name: str, files: dict[str, str]) -> None:
    """Check that a project is complete and names its algorithms."""
    assert files.keys() >= _FILES
    assert all(text.endswith("\n") and text.isascii() for text in files.values())
    program = parse(files[PROGRAM_FILE], ProjectWire, PROGRAM_FILE)
    assert project_text(program) == files[PROGRAM_FILE]
    assert program.target == name
    assert sum(len(entry.algorithms) for entry in program.collectives) == len(algorithms())


def check_same_bytes(name: str, files: dict[str, str]) -> None:
    """Check that it writes the same where sets of strings have another order."""
    texts = [to_text(algorithm_to_wire(algorithm)) for algorithm in algorithms()]
    program = partial(run_with_other_hashes, "tests.programs.emitted", texts)
    assert once.value("projects for all targets, with other hashes", program)[name] == files


def algorithms() -> list[Algorithm]:
    """Return algorithms of two collectives, one of which reduces."""
    return [*frontier("ring:4", "allreduce"), *frontier("ring:4", "alltoall")]


@pytest.mark.parametrize("hard", [*FOUR, *EIGHT[2:5]], ids=str)
def test_every_hard_algorithm_is_emitted(hard: Hard) -> None:
    algorithm = load(hard)
    needed = algorithm if algorithm.collective.combining else prune(algorithm)
    for target in targets():
        files = generate([algorithm], target)
        program = json.loads(files["program.json"])
        (entry,) = program["collectives"]
        (listed,) = entry["algorithms"]
        assert (listed["chunks"], listed["rounds"]) == (hard.shape[0], hard.shape[2])
        assert f"sccl_{entry['identifier']}(" in files["sccl.h"]
        steps = files["steps.hpp"]
        assert len(re.findall("// program .*, (eager|direct)\n", steps)) == 2
        sends = re.findall(r"{Code::(?:recv_reduce_)?send,", steps)
        assert len(sends) == 2 * len(needed.sends)


def test_rows_of_older_files_are_read(tmp_path: Path) -> None:
    """Instructions of ten fields. `load_project` rejects files without a program."""
    write_project(tmp_path / "p", generate(frontier("line:3", "allgather"), "host"))
    file = tmp_path / "p" / PROGRAM_FILE
    text, short = re.subn(r",null,null,\[\]\](?=[\],])", "]", file.read_text())
    assert short
    file.write_text(text)
    assert load_project(tmp_path / "p").ranks == 3
    file.write_text(text.replace('"send",0', '"sent",0', 1))
    with pytest.raises(FormatError, match="'sent'"):
        load_project(tmp_path / "p")


def test_numbers_that_no_instruction_holds_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    algorithms = frontier("ring:4", "allgather")
    for name, says in (
        ("MAX_NUMBER", "flag ., and generated code counts to 3"),
        ("INDEX_BITS", "slot "),
    ):
        with monkeypatch.context() as smaller:
            smaller.setattr(rendering, name, 3 if name == "MAX_NUMBER" else 1)
            with pytest.raises(ParameterError, match=says):
                generate(algorithms, "cuda")


@pytest.mark.parametrize("target", targets())
def test_golden_files(target: str, request: pytest.FixtureRequest) -> None:
    files = generate(frontier("line:3", "allreduce"), target)
    for name in ("steps.hpp", "tables.hpp", "selection.hpp", "sccl.h", "Makefile", "README.md"):
        golden = GOLDEN / target / name
        if request.config.getoption("--update-golden"):
            golden.parent.mkdir(parents=True, exist_ok=True)
            golden.write_text(files[name])
        assert files[name] == golden.read_text(), f"{golden}: see 'pytest --update-golden'"


def test_all_targets_share_the_steps() -> None:
    texts = {t: generate(load_all(DGX1_ALLGATHER), t)["steps.hpp"] for t in targets()}
    assert texts["cuda"] == texts["hip"]
    calls = {t: set(re.findall(r"{Code::(\w+),", text)) for t, text in texts.items()}
    assert calls["host"] <= calls["cuda"]  # ranks that are one thread need no marks
    assert texts["host"].count("{Code::send,") == texts["cuda"].count("{Code::send,")
    loops = {t: text[text.index("void run_lines") :] for t, text in texts.items()}
    assert loops["host"] == loops["cuda"]


KERNEL_STAGES = {
    Stage.LEAVE: "->finished[n",
    Stage.CLEAR: "clear_packets();",
    Stage.OFFER: "->offered[",
    Stage.ANNOUNCE: "control(peer)->entered[",
}
HOST_STAGES = {Stage.OFFER: "header->out.store(", Stage.ANNOUNCE: "header->entered,"}
KERNEL_SEND = {
    SendStage.CREDIT: "credit >= 0",
    SendStage.WRITE: "copy_bytes(",
    SendStage.FLAG: "announce(",
}


def test_machines_keep_to_the_order_of_the_protocol() -> None:
    """The properties of the model are those of the generated code."""
    machine = generate(frontier("ring:4", "allgather"), "cuda")["machine.hpp"]
    enter, send = (
        re.split(rf"\n  SCCL_CALLED \w+ {name}\(", machine)[1].split("\n  }\n")[0]
        for name in ("next", "send")
    )
    host = generate(frontier("ring:4", "allgather"), "host")["machine.hpp"]
    begin = host.split("\n  void begin(")[1].split("\n  }\n")[0]
    for body, words in (
        (begin, [HOST_STAGES[stage] for stage in PROTOCOL.entry if stage in HOST_STAGES]),
        (enter, [KERNEL_STAGES[stage] for stage in PROTOCOL.entry]),
        (send, [KERNEL_SEND[stage] for stage in PROTOCOL.send if stage in KERNEL_SEND]),
    ):
        there = [body.index(word) for word in words if word in body]
        assert len(there) >= 2
        assert there == sorted(there)


@pytest.mark.parametrize("target", targets())
def test_every_target_keeps_to_its_contract(target: str) -> None:
    check_target(target)


DGX1_ALLGATHER = [
    Hard("dgx1", "allgather", (2, 2, 3)),
    Hard("dgx1", "allgather", (6, 3, 7)),
]

HOSTILE = [
    '"; system("touch owned"); //',
    "a\n#include <evil>\n",
    "$(shell touch owned)",
    "*/ int x; /*",
    "`touch owned`' \\",
    "{{ 7 * 7 }}{% raw %}",
]


INJECTED = ("system(", "#include <evil", "$(shell touch", "*/ int", "touch owned", "49", "`")


@cache
def clean_files(target: str) -> dict[str, str]:
    """Return the files of the same algorithms with harmless names."""
    return generate(with_names("ring-4", "mine"), target)


def with_names(machine: str, collective: str) -> list[Algorithm]:
    """Return an allgather on a machine of a name, and a custom collective of a name."""
    gather, custom = (frontier("ring:4", name)[0] for name in ("allgather", "alltoall"))
    return [
        replace(gather, topology=replace(gather.topology, name=machine)),
        replace(custom, collective=replace(custom.collective, name=collective)),
    ]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_do_not_reach_code(name: str, tmp_path: Path) -> None:
    algorithms = with_names(name, f"mine {name}")
    for target in targets():
        clean = clean_files(target)
        for file, text in generate(algorithms, target).items():
            if file == "program.json":
                assert json.loads(text)["collectives"][0]["algorithms"][0]["topology"] == name
                continue
            for bad in INJECTED:
                assert text.count(bad) == clean[file].count(bad), f"{file} has {bad!r}"
    write_project(tmp_path / "p", generate(algorithms, "host"))
    shown = subprocess.run(
        [tool("make", "install it"), "-n", "-C", str(tmp_path / "p"), "MPICXX=true"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "owned" not in shown.stdout
    assert not list(tmp_path.rglob("owned"))


def of_gpus(bus_ids: BusIds) -> Algorithm:
    (algorithm, *_) = frontier("ring:4", "allgather")
    machine = replace(algorithm.topology, name=f"with {bus_ids or 'none'}", pci_bus_ids=bus_ids)
    return replace(algorithm, topology=machine)


def test_bundles_say_which_gpu_each_rank_is() -> None:
    up, down = (tuple(f"{bus}:00.0" for bus in order) for order in ("6789", "9876"))
    said: dict[tuple[BusIds, ...], tuple[str, str]] = {
        ((),): ("unstated", "{}"),
        (ASCENDING,): ("ascending", "{}"),
        ((), down): ("bus_ids", '{"0000:09:00.0", "0000:08:00.0"'),
        (ASCENDING, (), up): ("bus_ids", '{"0000:06:00.0"'),
    }
    for machines, (numbering, ids) in said.items():
        algorithms = [of_gpus(bus_ids) for bus_ids in machines]
        for target in targets():
            text = generate(algorithms, target)["tables.hpp"]
            assert f"NUMBERING = Numbering::{numbering};" in text
            assert f"BUS_IDS[RANKS] = {ids}" in text
    for other in (up, ASCENDING):
        with pytest.raises(ParameterError, match="contradict one another"):
            generate([of_gpus(other), of_gpus(down)], "cuda")


def test_identifiers_are_of_c() -> None:
    for name in [*HOSTILE, "allgather", "Große Sammlung", ""]:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", c_identifier(name))
    assert c_identifier("allgather") == "allgather"
    assert c_identifier("Allgather") != "allgather"
    long = [f"alltoall@{'/'.join(f'{i},{i + n}' for i in range(n))}" for n in (16, 17)]
    assert len({c_identifier(name) for name in long}) == 2
    assert all(len(c_identifier(name)) == len("custom_") + 40 for name in long)


def test_switch_points_come_from_the_cost_model() -> None:
    """As the sweep prints: C=2 S=2 R=3 up to 51.3 KiB, then C=6 S=3 R=7.

    Thread blocks have more instructions for more chunks, so that fewer chunks serve longer.
    """
    made = build_bundle(load_all(DGX1_ALLGATHER), serial=True, protocols=[("e", 0), ("d", 1 << 20)])
    turn = (3 - 2) / (Fraction(3, 2) - Fraction(7, 6)) * 700 * 25  # ns times bytes per ns
    assert round(turn / 1024, 1) == Fraction("51.3")
    assert str(made.selection()) == f"allgather:0=0e,{int(turn)}=1e,{6 << 20}=1d"  # in 6 parts
    small = build_bundle(
        load_all(DGX1_ALLGATHER), serial=False, protocols=[("p", 0), ("e", 1 << 12), ("d", 1 << 20)]
    )
    short, long = (longest_block(one.eager) for one in small.entries[0].algorithms)
    turn += (long - short) * 500 * 25 / (Fraction(3, 2) - Fraction(7, 6))  # 500 ns each
    assert str(small.selection()) == f"allgather:0=0p,{2 << 12}=0e,{int(turn)}=1e,{6 << 20}=1d"


def test_switch_points_are_in_bytes_of_a_block() -> None:
    """A call of reducescatter has the bytes of one rank's block, and all of them cross the ring."""
    few, many = found = frontier("ring:4", "reducescatter")
    made = build_bundle(found, serial=True, protocols=[("e", 0), ("d", 1 << 40)])
    saved = few.bandwidth_cost - many.bandwidth_cost
    alpha, beta = Fraction(str(few.topology.alpha_us)), 1000 * Fraction(str(few.topology.gb_per_s))
    turn = (many.steps - few.steps) * alpha * beta / saved
    assert str(made.selection()) == f"reducescatter:0=0e,{int(turn / 4)}=1e,{2 << 40}=1d"


def save(algorithm: Algorithm, path: Path) -> str:
    write_plan(path, algorithm)
    return str(path)


def refused(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 2, done.output
    return " ".join(done.output.split())


def test_bad_input_gives_one_sentence(tmp_path: Path) -> None:
    four = frontier("ring:4", "allgather")[0]
    good = save(four, tmp_path / "good.json")
    bad = save(replace(four, sends=four.sends[1:]), tmp_path / "bad.json")
    three = save(frontier("line:3", "allgather")[0], tmp_path / "three.json")
    out = str(tmp_path / "out")
    assert "this algorithm fails verification" in refused("project", "new", bad, "-o", out)
    assert "are for 3 and 4 ranks" in refused("project", "new", good, three, "-o", out)
    assert "unknown target 'cudda'" in refused(
        "project", "new", good, "--target", "cudda", "-o", out
    )
    assert "blocks-per-link is 0" in refused(
        "project", "new", good, "--blocks-per-link", "0", "-o", out
    )
    assert "expected collective:from" in refused(
        "project", "new", good, "--select", 'x"', "-o", out
    )
    assert "names alltoall, but" in refused(
        "project", "new", good, "--select", "alltoall:0=0e", "-o", out
    )
    assert "only kernels of GPU targets" in refused(
        "project", "new", good, "--select", "allgather:0=0p", "-o", out
    )
    assert "beyond the last" in refused(
        "project", "new", good, "--select", "allgather:0=9e", "-o", out
    )
    assert not Path(out).exists()  # nothing half-written
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "precious").write_text("mine")
    assert "not a project of sccl" in refused("project", "new", good, "-o", str(tmp_path / "other"))
    assert "it is a file" in refused("project", "new", good, "-o", good)
    assert "is not a generated project" in refused("project", "run", str(tmp_path))
    assert CliRunner().invoke(app, ["project", "new", good, "-o", out]).exit_code == 0
    assert "for 4 ranks" in refused("project", "run", out, "--ranks", "8")
    assert "from 4M to less, 1: expected from..to, such as 1..4M" in refused(
        "project", "bench", out, "--size", "4M..1"
    )
    assert "has no 'allreduce'" in refused("project", "tune", out, "--collective", "allreduce")
    assert "expected 'mpi'" in refused("project", "bench", out, "--against", "nccl")
    (Path(out) / "program.json").write_text("{}")
    assert "expected a program file" in refused("project", "run", out)


def test_missing_tools_say_what_to_install(tmp_path: Path) -> None:
    good = save(frontier("ring:4", "allgather")[0], tmp_path / "good.json")
    out = str(tmp_path / "out")
    CliRunner().invoke(app, ["project", "new", good, "-o", out])
    done = CliRunner().invoke(app, ["project", "run", out, "--mpi", str(tmp_path)])
    assert done.exit_code == 4
    assert "pip install 'sccl[mpi]'" in " ".join(done.output.split())
    for target, words in (("host", "no nompi: install an MPI"), ("cuda", "no nonvcc: install")):
        write_project(tmp_path / target, generate(frontier("ring:4", "allgather"), target))
        compilers = ["MPICXX=nompi"] if target == "host" else ["MPICXX=true", "GPUCXX=nonvcc"]
        failed = subprocess.run(
            [tool("make", "install it"), "-C", str(tmp_path / target), *compilers],
            capture_output=True,
            text=True,
            check=False,
        )
        assert failed.returncode
        assert words in failed.stderr


@pytest.mark.parametrize("target", targets())
def test_make_compiles_on_all_cores_by_itself(target: str, tmp_path: Path) -> None:
    """By a compiler that ends the one file only when it has begun the other."""
    write_project(tmp_path / "p", generate(frontier("ring:4", "allgather"), target))
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    script(tmp_path / "nproc", "echo 2")
    waits = f'case "$*" in *api.cpp*) echo >"{fifo}";; *preload.cpp*) cat "{fifo}";; esac'
    compiler = script(tmp_path / "compiler", waits)
    compilers = [f"MPICXX={compiler}", f"GPUCXX={compiler}"]
    done = subprocess.run(
        [tool("make", "install it"), "-C", str(tmp_path / "p"), *compilers, "api.o", "preload.o"],
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "MAKELEVEL": "0"},
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr


def test_switch_points_can_be_given() -> None:
    files = generate(frontier("ring:4", "allgather"), "host", select="allgather:64=0d,0=0e")
    assert '"allgather:0=0e,64=0d"' in files["selection.hpp"]
    assert json.loads(files["program.json"])["selection"] == "allgather:0=0e,64=0d"


def test_errors_of_the_api() -> None:
    with pytest.raises(UnknownNameError, match="the transports are kernel, dma"):
        generate(frontier("ring:4", "allgather"), "cuda", CodegenOptions(transport="tcp"))
    with pytest.raises(ParameterError, match="no algorithm is given"):
        generate([], "host")
    with pytest.raises(UnknownNameError, match="did you mean 'host'"):
        generate(frontier("ring:4", "allgather"), "hosts")
    twice = [
        replace(a, collective=replace(a.collective, name=name))
        for name in ("my one", "my-one")
        for a in frontier("ring:4", "alltoall")
    ]
    with pytest.raises(ParameterError, match="have the same C name custom_my_one"):
        generate(twice, "host")


def timing(size: int, name: str, us: float) -> ContenderTiming:
    return ContenderTiming("allgather", size, name, (us, us, us))


def test_tuning_takes_the_fastest_and_ignores_noise() -> None:
    rows = [timing(1, "0e", 1.0), timing(1, "0d", 2.0), timing(2, "0e", 1.0), timing(2, "0d", 0.99)]
    rows += [timing(4, "0e", 4.0), timing(4, "0d", 2.0)]
    for current, best in (
        ("allgather:0=0e;alltoall:0=0e,8=0d", "allgather:0=0e,4=0d;alltoall:0=0e,8=0d"),
        ("allgather:0=1e,0=0e,9=1d", "allgather:0=0e,0=1e,4=0d,9=1d"),  # rows are of algorithm 0
    ):
        assert str(tune_selection(rows, Selection.parse(current))) == best
    sizes = {t.size_bytes: {} for t in rows}  # type: ignore[var-annotated]
    for row in rows:
        sizes[row.size_bytes][row.contender] = row
    assert fastest_contenders(sizes, ["0e", "0d"]) == [(1, "0e"), (4, "0d")]
    assert geometric_speedup(sizes, "0e", "0d") == pytest.approx((2 * 0.99 * 0.5) ** (1 / 3))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("{", "{,"), r"line 1 column 2: not JSON"),
        (
            ('"schema":1', '"schema":2'),
            r"value 2 - at `\$\.schema`, expected 1; expected a program",
        ),
        (('"kind":"program"', '"kind":"answer"'), r"it holds an answer; expected a program file"),
        (('"target"', '"targte"'), r"did you mean `target`\?"),
        (('"recv"', '"receive"'), r"Invalid enum value 'receive' - at .*instructions"),
        (('"input:0"', '"input"'), r"matching regex .*instructions"),
        (("allgather:0=", "allgather:"), r"\$\.selection: select is 'allgather:0a"),
    ],
    ids=lambda change: change[0] if isinstance(change, tuple) else "",
)
def test_damaged_program_file_is_rejected_in_one_sentence(
    tmp_path: Path, change: tuple[str, str], says: str
) -> None:
    files = generate(frontier("ring:4", "allgather"), "host")
    write_project(tmp_path / "p", files | {PROGRAM_FILE: files[PROGRAM_FILE].replace(*change, 1)})
    with pytest.raises(FormatError, match=says) as error:
        load_project(tmp_path / "p")
    assert str(error.value).startswith(str(tmp_path / "p" / PROGRAM_FILE))
    assert "\n" not in str(error.value)


def test_program_file_of_an_older_version_is_read(tmp_path: Path) -> None:
    """It does not say the digests of its algorithms."""
    files = generate(frontier("ring:4", "allgather"), "host")
    older = re.sub(r'"digest":"[^"]*",', "", files[PROGRAM_FILE])
    assert older != files[PROGRAM_FILE]
    write_project(tmp_path / "p", files | {PROGRAM_FILE: older})
    project = load_project(tmp_path / "p")
    write_selection(project, Selection.parse("allgather:0=0d"))
    assert str(load_project(tmp_path / "p").selection) == "allgather:0=0d"
