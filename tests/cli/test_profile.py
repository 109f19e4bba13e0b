"""``sccl topo profile``: from measurements to machines, and bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from sccl.cli.topo.profile import _ALIKE, _MISFIT
from sccl.core.files.topologies import load_topology
from sccl.runtime.machine_profile import save_measurements
from sccl.topo.profiles.measured_machine import MAX_MISFIT, SAME_COST_TOLERANCE
from sccl.topo.profiles.measurement_files import load_measurements
from sccl.topo.profiles.measurements import LinkTiming, Measurements, Pacing
from tests.kit.commands import sccl
from tests.kit.profiles import measured
from tests.kit.projects import mpich

TWO_KINDS = {(u, v): (0.7, 40.0) if u // 2 == v // 2 else (2.0, 100.0)
             for u, v in permutations(range(4), 2)}  # fmt: skip


def kept(folder: Path, measurements: Measurements) -> Path:
    file = folder / "measurements.json"
    save_measurements(measurements, file)
    return file


def test_file_of_measurements_becomes_a_machine(tmp_path: Path) -> None:
    file = kept(tmp_path, measured(TWO_KINDS, 4, "cli", 0.02))
    output, picture = tmp_path / "machine.json", tmp_path / "links.svg"
    code, said, _ = sccl("topo", "profile", "--measurements", file, "-o", output, "--plot", picture)
    assert code == 0
    assert "cost 1: alpha 0.7 us, 25 GB/s (4 links)" in said
    assert "cost 2: alpha 2 us, 10 GB/s (8 links)" in said
    machine = load_topology(output)
    costs = {k.edge: (k.alpha_us, k.gb_per_s) for k in machine.links}
    assert costs == {e: (0.7, 25.0) if e[0] // 2 == e[1] // 2 else (2.0, 10.0) for e in TWO_KINDS}
    drawn = picture.read_text()
    assert "4 links: 0.7 µs, 25 GB/s" in drawn
    assert "one after another" in drawn
    first = output.read_bytes(), picture.read_bytes()
    assert sccl("topo", "profile", "--measurements", file, "-o", output, "--plot", picture)[0] == 0
    assert (output.read_bytes(), picture.read_bytes()) == first


def test_median_is_fitted_where_it_is_asked_for(tmp_path: Path) -> None:
    made = measured({(0, 1): (1.0, 50.0)}, 2, "take")
    slow = tuple(replace(t, us=(t.us[0], 3 * t.us[0], 3 * t.us[0])) for t in made.timings)
    words = (
        "topo",
        "profile",
        "--measurements",
        kept(tmp_path, replace(made, timings=slow)),
        "--json",
    )
    least, median = (json.loads(sccl(*words, "--take", take)[1]) for take in ("least", "median"))
    assert (least["take"], least["costs"]) == (
        "least",
        [{"alpha_us": 1, "gb_per_s": 20, "links": 1}],
    )
    assert (median["take"], median["costs"][0]["alpha_us"]) == ("median", 3)


def test_measurements_come_back_from_their_file(tmp_path: Path) -> None:
    made = measured({(0, 1): (1.0, 50.0)}, 2, "file", 0.1)
    assert load_measurements(kept(tmp_path, made)) == made


def test_few_links_have_a_line_each(tmp_path: Path) -> None:
    file = kept(tmp_path, measured({(0, 1): (1.0, 50.0), (1, 0): (1.0, 90.0)}, 2, "lines"))
    picture = tmp_path / "links.svg"
    assert sccl("topo", "profile", "--measurements", file, "--plot", picture)[0] == 0
    assert "link 0-&gt;1" in picture.read_text()


def test_very_many_costs_leave_some_out_of_the_picture(tmp_path: Path) -> None:
    costs = {(u, v): (1.0, 10 * 1.5 ** (4 * u + v)) for u, v in permutations(range(4), 2)}
    file, picture = kept(tmp_path, measured(costs, 4, "many")), tmp_path / "links.svg"
    assert sccl("topo", "profile", "--measurements", file, "--plot", picture)[0] == 0
    assert "(4 costs of few links left out)" in picture.read_text()


def test_known_machine_keeps_its_links(tmp_path: Path) -> None:
    file = kept(tmp_path, measured(TWO_KINDS, 4, "known", 0.02))
    output = tmp_path / "machine.json"
    code, said, _ = sccl(
        "topo", "profile", "--measurements", file, "--topo", "ring:4", "-o", output
    )
    assert code == 0
    assert "0->2" not in said  # not a link of a ring
    machine = load_topology(output)
    assert {k.edge: k.gb_per_s for k in machine.links if k.src == 0} == {(0, 1): 25, (0, 3): 10}
    code, said, _ = sccl("topo", "profile", "--measurements", file, "--topo", "ring:4", "--json")
    assert set(json.loads(said)["inputs"]) == {"measurements", "topology"}


def test_two_ranks_are_measured_and_fitted(tmp_path: Path) -> None:
    """How long anything takes is the machine's affair, so any misfit is taken."""
    raw, output = tmp_path / "raw.json", tmp_path / "machine.json"
    words = (
        "topo",
        "profile",
        "--ranks",
        "2",
        "--mpi",
        mpich().folder,
        "--size",
        "64K..4M",
        "--repeat",
        "2",
    )
    code, _, said = sccl(*words, "--max-misfit", "10", "--save", raw, "-o", output)
    assert code == 0, said
    assert "measuring 2 links between 2 MPI ranks" in said
    machine = load_topology(output)
    assert machine.edges == {(0, 1), (1, 0)}
    assert len(load_measurements(raw).timings) == 2 * 7 * 5
    again = tmp_path / "again.json"
    fit = ("topo", "profile", "--measurements", raw, "--max-misfit", "10", "-o", again)
    assert sccl(*fit)[0] == 0
    assert load_topology(again) == machine


def test_measurements_that_fit_nothing_leave_nothing_written(tmp_path: Path) -> None:
    falling = tuple(
        LinkTiming(0, 1, Pacing.IN_TURN, 1, size, (1e6 / size,)) for size in (1024, 2048, 4096)
    )
    file = kept(tmp_path, Measurements("odd", 2, falling))
    output, picture = tmp_path / "machine.json", tmp_path / "links.svg"
    code, said, why = sccl(
        "topo", "profile", "--measurements", file, "-o", output, "--plot", picture
    )
    assert (code, said) == (2, "")
    assert why == (
        "error: measurements 'odd' fit no alpha and beta: link 0->1 takes no longer for more "
        "bytes; measure again on a machine that does nothing else, or other sizes\n"
    )
    assert not output.exists()
    assert not picture.exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "nothing to measure: give --ranks N, --gpus, a machine as --topo, or a file of"),
        (["--ranks", "1"], "ranks is 1, expected 2 to 64"),
        (["--ranks", "3", "--topo", "ring:4"], "ranks is 3, but topology 'ring:4' has 4"),
        (["--topo", "rail:2x2"], "has switches as nodes"),
        (["--ranks", "2", "--size", "4K..7K"], "expected at least two, each twice the one before"),
        (["--ranks", "2", "--chunks", "1,x"], "chunks is '1,x', expected numbers such as 1,2,8"),
        (["--ranks", "2", "--chunks", "0,1"], "chunks is '0,1', expected numbers from 1 to 1024"),
        (["--ranks", "2", "--size", "1K..1G", "--chunks", "8"], "8 chunks of the largest of"),
        (["--ranks", "2", "--repeat", "0"], "repeat is 0, expected 1 to 1000"),
        (["--measurements", "FILE", "--ranks", "2"], "--ranks sets a measurement"),
        (["--measurements", "FILE", "--topo", "dgx1"], "'dgx1' has 8 ranks, measurements 'known'"),
        (["--measurements", "FILE", "--alike", "-1"], "alike is -1.0, expected a number from 0"),
        (["--measurements", "FILE", "--max-misfit", "0"], "max_misfit is 0.0, expected a number"),
        (["--measurements", "FILE", "--plot", "x.gif"], "cannot draw x.gif"),
        (["--ranks", "2", "--name", ""], "name is '': give one"),
        (["--measurements", "FILE", "-o", "FILE"], "--measurements and --output are both"),
    ],
)
def test_bad_input_gives_one_sentence(words: list[str], says: str, tmp_path: Path) -> None:
    file = kept(tmp_path, measured({(0, 1): (1.0, 50.0)}, 2, "bad"))
    before = file.read_bytes()
    code, said, why = sccl(
        "topo", "profile", *(str(file) if word == "FILE" else word for word in words)
    )
    assert (code, said) == (2, "")
    assert says in why
    assert why.count("\n") == 1
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"ranks": 1}, "ranks"),
        ({"timings": []}, "$.timings"),
        ({"timings": [{"us": [-1.0]}]}, "has -1, expected numbers from 1e-06 to"),
        ({"timings": [{"us": [1e-160]}]}, "has 1e-160, expected numbers from 1e-06 to 1e+12"),
        ({"timings": [{"us": [1e300]}]}, "has 1e+300, expected"),
        ({"timings": [{"us": []}]}, "$.timings[0].us"),
        ({"timings": [{"dst": 0}]}, "a link joins two different ranks"),
        ({"timings": [{"dst": 7}]}, "there are 2 ranks, expected 0 to 1"),
        ({"timings": [{}, {}]}, "is there twice: give all its us in one row"),
        ({"timings": [{"pacing": "later"}]}, "expected at-once or in-turn"),
        ({"timings": [{"chunks": 2**30}]}, "chunks is 1073741824"),
        ({"timings": [{"chunk_bytes": 2**50}]}, "chunk_bytes is"),
        ({"name": " "}, "the measurements have no name"),
    ],
)
def test_broken_file_is_told_by_its_field(
    change: dict[str, object], says: str, tmp_path: Path
) -> None:
    row = {"src": 0, "dst": 1, "pacing": "in-turn", "chunks": 1, "chunk_bytes": 8, "us": [1.0]}
    fields = {"kind": "measurement", "name": "m", "ranks": 2, "timings": [{}]} | change
    rows = fields["timings"]
    assert isinstance(rows, list)
    file = tmp_path / "m.json"
    file.write_text(json.dumps(fields | {"timings": [row | one for one in rows]}))
    code, _, why = sccl("topo", "profile", "--measurements", file)
    assert code == 2
    assert str(file) in why
    assert says in why


def test_defaults_are_those_of_the_fit() -> None:
    assert (_ALIKE, _MISFIT) == (SAME_COST_TOLERANCE, MAX_MISFIT)
