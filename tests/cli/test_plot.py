"""``sccl plot`` and ``sccl pareto --plot`` as a person meets them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sccl.formats.files.plans import write_plan
from tests.kit.commands import sccl
from tests.kit.symmetric import symmetric

ALLGATHER = ("pareto", "--collective", "allgather", "--topo", "ring:4")
FRONTIER = {
    "kind": "frontier",
    "topology": "x",
    "collective": "y",
    "points": [],
    "bounds": {"steps": 1, "bandwidth": "1"},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a frontier, its limits, its algorithms and a topology."""
    folder = tmp_path_factory.mktemp("made")
    sweep = (*ALLGATHER, "--output", folder / "found")
    limits = ("limits", "--collective", "allgather", "--topo", "ring:4")
    for name, words in (("sweep", sweep), ("limits", limits)):
        code, out, _ = sccl(*words, "--json")
        assert code == 0
        (folder / f"{name}.json").write_text(out)
    code, _, _ = sccl("topo", "edit", "ring:4", "--remove-link", "0-1", "-o", folder / "line.json")
    assert code == 0
    return folder


def test_sweep_draws_its_frontier_and_times(tmp_path: Path) -> None:
    path = tmp_path / "p.svg"
    code, out, err = sccl(*ALLGATHER, "--plot", path)
    assert (code, f"picture: {path}" in err) == (0, True)
    text = path.read_text()
    assert "allgather on ring:4: latency against bandwidth" in text
    assert "allgather on ring:4: time by buffer size" in text
    limits = ("limits", "--collective", "allgather", "--topo", "ring:4")
    code, out, err = sccl(*limits, "--plot", path, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["points"]


def test_other_classes_of_allreduce_are_overlaid(tmp_path: Path) -> None:
    path = tmp_path / "p.svg"
    limits = ("limits", "--collective", "allreduce", "--topo", "ring:3")
    assert sccl(*limits, "--plot", path)[0] == 0
    assert all(f">{name}<" in path.read_text() for name in ("composed", "trees", "gathered"))


@pytest.mark.parametrize(
    ("sources", "what", "says"),
    [
        ("sweep.json", None, "latency against bandwidth"),
        ("limits.json", "frontier", "latency against bandwidth"),
        ("sweep.json limits.json", "time", "Time by buffer size"),
        ("found", None, "latency against bandwidth"),
        ("found/allgather-ring-4-c1-s2-r2.json", None, "link utilization"),
        ("found/allgather-ring-4-c1-s2-r2.json", "arrival", "arrival of chunks"),
        ("found/allgather-ring-4-c1-s2-r2.json", "topology", "4 ranks, 8 links"),
        ("found/allgather-ring-4-c1-s2-r2.json", "time", "time by buffer size"),
        ("line.json", None, "4 ranks, 6 links"),
        ("dgx1 torus:3x3", None, "9 ranks, 36 links"),
    ],
)
def test_chart_kind_follows_from_the_file(
    sources: str,
    what: str | None,
    says: str,
    made: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if (made / "found").is_dir():
        names = sorted(p.name for p in (made / "found").iterdir())
        sources = sources.replace("allgather-ring-4-c1-s2-r2.json", names[0])
    monkeypatch.chdir(made)
    path = tmp_path / "p.svg"
    more = ("--what", what) if what else ()
    code, out, _ = sccl("plot", *sources.split(), *more, "-o", path)
    assert code == 0
    assert str(path) in out
    assert says in path.read_text()


def test_folder_is_drawn_with_what_its_sweep_knew(made: Path, tmp_path: Path) -> None:
    (tmp_path / "only").mkdir()
    (frontier,) = (made / "found").glob("*-frontier.json")
    (tmp_path / "only" / frontier.name).write_text(frontier.read_text())
    pictures = []
    for source in (made / "found", made / "sweep.json", tmp_path / "only"):
        pictures.append(tmp_path / f"{source.name}.svg")
        assert sccl("plot", source, "-o", pictures[-1])[0] == 0
    assert len({picture.read_text() for picture in pictures}) == 1


def test_sweep_and_its_limits_are_two_frontiers(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.svg"
    assert sccl("plot", made / "sweep.json", made / "limits.json", "-o", path)[0] == 0
    legend = re.findall(r">((?:\d: )?allgather on ring:4[^<]*)<", path.read_text())
    assert len(set(legend)) == 2
    assert any(name.endswith(", limits") for name in legend)


def test_file_is_named_by_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = sccl("plot", "torus:3x3", "--json")
    assert code == 0
    said = json.loads(out)
    assert (said["what"], said["file"]) == ("topology", "torus-3x3-topology.svg")
    assert [p.name for p in tmp_path.iterdir()] == ["torus-3x3-topology.svg"]


def test_symmetric_algorithm_is_written_out_first(tmp_path: Path) -> None:
    algorithm = symmetric()
    path, picture = tmp_path / "a.json", tmp_path / "p.svg"
    write_plan(path, algorithm)
    assert '"symmetric-algorithm"' in path.read_text()
    assert sccl("plot", path, "--what", "arrival", "-o", picture)[0] == 0
    assert picture.read_text().count(">start<") == algorithm.collective.num_chunks


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("plot dgx1 -o p.jpg", "expected .html, .svg, .png or .pdf"),
        ("plot dgx1 -o no/p.svg", "there is no folder no"),
        ("plot .", "holds no algorithm"),
        ("plot dgx1 --what frontier", "a topology is neither"),
        ("plot dgx1 --what arrival", "is a topology"),
        ("plot dgx1 --alpha-us 1", "apply to the time chart only"),
        ("pareto --collective allgather --topo dgx1 --plot p.gif", "expected .html"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    arguments: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = sccl(*arguments.split())
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[]", "Expected `object`, got `array`; expected a topology"),
        ('{"kind": "answer"}', "it holds an answer; expected an algorithm, a frontier"),
        ('{"kind": "frontier", "points": []}', "missing required field"),
        (
            json.dumps(FRONTIER | {"bounds": {"steps": 1, "bandwidth": "1/0"}}),
            "expected a fraction such as 7/6",
        ),
        (json.dumps(FRONTIER), "there is no point to draw"),
    ],
)
def test_frontier_from_a_file_is_checked(
    content: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.json").write_text(content)
    code, _, err = sccl("plot", "f.json", "-o", "p.svg")
    assert code == 2
    assert says in err
    assert not Path("p.svg").exists()
