"""The explorer's page as text, and the command that writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.core.algorithm import Algorithm, make_send
from sccl.core.formatting import format_count
from sccl.errors import ParameterError
from sccl.formats.files.plans import write_plan
from sccl.view.completeness import BoundSummary
from sccl.view.explorer import page_html
from sccl.view.explorer.explorer_data import ExplorerAlgorithm, page_data
from sccl.view.explorer.page_html import render_page
from tests.kit.commands import sccl
from tests.kit.easy_algorithms import frontier
from tests.kit.frontiers import known
from tests.kit.nightly import times

BOUNDS = BoundSummary(2, Fraction(7, 6), ("because",))


def shown(*algorithms: Algorithm) -> list[ExplorerAlgorithm]:
    return [ExplorerAlgorithm(a, f"{i}.json", True, BOUNDS) for i, a in enumerate(algorithms)]


def block_of(text: str) -> str:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    return str(found)


def data_of(text: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(block_of(text))
    return loaded


# --- without a browser ---------------------------------------------------------------------------


def test_same_algorithms_make_the_same_bytes() -> None:
    found = frontier("dgx1", "allgather")
    assert render_page(shown(*found)) == render_page(shown(*found))


def test_nothing_is_loaded_from_elsewhere() -> None:
    text = render_page(shown(*frontier("ring:4", "allreduce")))
    policy = re.findall(r'Content-Security-Policy" content="(.*?)"', text)[0]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    outside = set(re.findall(r"https?://[^\"'\s]+", text)) - {"http://www.w3.org/2000/svg"}
    assert outside == set()


@given(st.text(min_size=1, alphabet=st.sampled_from("</scripte>!-&\"'\\\u2028\u2029\x00 ]")))
@settings(max_examples=times(50))
def test_any_name_stays_in_its_place(name: str) -> None:
    (a,) = frontier("full:4", "allgather")[:1]
    labels = (name, "1", "2", "3")
    ends = f"{name}</title><script>"
    hostile = replace(a, topology=replace(a.topology, name=ends, labels=labels))
    text = render_page(
        [ExplorerAlgorithm(hostile, name, True, BoundSummary(1, Fraction(1), (name,)))]
    )
    assert text.count("<script") == text.count("</script>") == 2
    assert not set("<>&\u2028\u2029") & set(block_of(text))
    data = data_of(text)
    assert data["topologies"][0]["labels"][0] == name
    assert data["algorithms"][0]["file"] == name
    assert data["algorithms"][0]["reasons"] == [name]


def test_sends_and_links_are_those_of_the_algorithm() -> None:
    a = frontier("dgx1", "allreduce")[0]
    data = page_data(shown(a), [], frontier=False)
    links = [(k["src"], k["dst"]) for k in data["topologies"][0]["links"]]
    found = []
    for step, flat in enumerate(data["algorithms"][0]["sends"]):
        for chunk, link in zip(flat[::2], flat[1::2], strict=True):
            src, dst = links[-1 - link if link < 0 else link]
            found.append(make_send(chunk, src, dst, step, reduce=link < 0))
    assert tuple(sorted(found)) == a.sends


def test_claims_of_an_edited_file_are_not_repeated() -> None:
    a = replace(frontier("ring:4", "allgather")[0], proved=("latency", "pareto"))
    for intact, expected in ((True, ["latency", "pareto", "class"]), (False, ["edited"])):
        data = page_data([ExplorerAlgorithm(a, "a.json", intact, BOUNDS)], [], frontier=False)
        words = [word for word, _ in data["algorithms"][0]["claims"]]
        assert words == expected


@pytest.mark.parametrize(
    ("limit", "most", "says"),
    [
        ("MAX_LINKS", 7, "0.json has 8 links, .*at most 7"),
        ("MAX_SENDS", 3, "0.json has 4 chunks, .*at most 3"),
        ("MAX_SENDS", 11, "0.json has 12 sends, .*at most 11"),
        ("MAX_SENDS", 12, r"1.json has 24 sends with the files before it, .*at most 12"),
        ("MAX_USES", 15, "0.json has 16 links times steps, .*at most 15"),
    ],
)
def test_too_large_page_error_has_its_size(
    limit: str, most: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = next(a for a in frontier("ring:4", "allgather") if a.collective.chunks == 1)
    render_page(shown(a, a))
    monkeypatch.setattr(page_html, limit, most)
    with pytest.raises(ParameterError, match=says):
        render_page(shown(a, a))


def test_frontier_is_of_one_question() -> None:
    gather, ring = frontier("dgx1", "allgather"), frontier("ring:4", "allgather")
    sweeps = [
        known(("dgx1", "allgather", None), refuted=((1, 2, 2, "no"),)),
        known(("dgx1", "allgather", 3), is_complete=False),  # of another root
    ]
    data = page_data(shown(*gather, *ring), sweeps, frontier=True)
    first, second = data["frontiers"]
    assert first["points"] == list(range(len(gather)))
    assert len(first["refuted"]) == 1
    assert first["summary"].startswith("Complete for every k")
    assert "Not the end" not in first["summary"]
    assert second["topology"] == "ring:4"
    assert second["summary"] == ""


def test_frontier_has_one_point_per_cost() -> None:
    a, b = (replace(x, proved=("pareto",)) for x in frontier("dgx1", "allgather")[:2])
    most = replace(a, proved=("latency", "pareto"))
    sweep = known(("dgx1", "allgather", None))
    data = page_data(shown(a, b, most, b), [sweep, sweep], frontier=True)
    assert data["frontiers"][0]["points"] == [2, 1]
    assert data["frontiers"][0]["summary"].count("Complete") == 1
    assert len(data["algorithms"]) == 4


def test_claim_for_one_family_is_not_shown_for_all() -> None:
    a, b = frontier("dgx1", "allreduce")[0], frontier("dgx1", "allreduce")[0]
    found = shown(replace(a, scope="compositions"), replace(b, scope="trees"))
    question = ("dgx1", "allreduce", None)
    sweep = known(question, limits=((4, Fraction(3, 8)),))
    trees: dict[str, Any] = {"scope": "trees", "steps": 4, "bandwidth": Fraction(7, 24)}
    of_trees = known(
        question, limits=((4, Fraction(1, 3)),), bounds=None, is_complete=False, **trees
    )
    (one,) = page_data(found, [sweep, of_trees], frontier=False)["frontiers"]
    assert one == page_data(found, [sweep], frontier=False)["frontiers"][0]
    assert (one["limits"], one["bounds"]) == ([[4, "3/8"]], {"steps": 2, "bandwidth": "7/6"})


# --- the command ---------------------------------------------------------------------------------


def save(a: Algorithm, path: Path) -> Path:
    write_plan(path, a)
    return path


def test_sweep_becomes_a_page(tmp_path: Path) -> None:
    sweep = ("pareto", "--collective", "allgather", "--topo", "dgx1", "--max-steps", "2")
    code, printed, _ = sccl(*sweep, "--output", tmp_path / "found", "--json")
    assert code == 0
    code, said, _ = sccl("explore", tmp_path / "found", "-o", tmp_path / "page.html")
    assert (code, "1 algorithm " in said) == (0, True)
    data = data_of((tmp_path / "page.html").read_text())
    assert data["start"] == "frontier"
    (found,) = data["frontiers"]
    swept = json.loads(printed)
    assert len(found["refuted"]) == len(swept["unsat"]) > 0
    assert found["limits"] == [[x["steps"], x["lower"]] for x in swept["limits"]]
    assert found["bounds"] == {"steps": 2, "bandwidth": swept["bounds"]["bandwidth"]}
    assert "more steps" in found["summary"]


def test_limits_of_every_class_are_on_the_page(tmp_path: Path) -> None:
    sweep = ("limits", "--collective", "allreduce", "--topo", "ring:4")
    code, printed, _ = sccl(*sweep, "--output", tmp_path, "--json")
    assert code == 0
    assert sccl("explore", tmp_path, "-o", tmp_path / "page.html")[0] == 0
    (found,) = data_of((tmp_path / "page.html").read_text())["frontiers"]
    swept = json.loads(printed)
    names = [one["class"] for one in swept["classes"]]
    assert names == ["composed", "trees", "exchanged", "gathered"]
    assert [(one["name"], one["limits"]) for one in found["classes"]] == [
        (one["class"], [[x["steps"], x["lower"]] for x in one["limits"]])
        for one in swept["classes"]
    ]
    assert all(one["summary"].startswith("Complete") for one in found["classes"])
    assert found["bounds"] == {"steps": 2, "bandwidth": "3/4"}


def test_undecided_candidates_are_open_on_the_page(tmp_path: Path) -> None:
    sweep = (
        "pareto",
        "--collective",
        "alltoall",
        "--topo",
        "dgx1",
        "--output",
        tmp_path,
        "--k",
        "1",
    )
    assert sccl(*sweep, "--no-store")[0] == 0
    gave_up = (*sweep, "--no-store", "--timeout", "0.0001", "--max-steps", "3")
    assert sccl(*gave_up)[0] == 3
    assert sccl("explore", tmp_path, "-o", tmp_path / "page.html")[0] == 0
    (found,) = data_of((tmp_path / "page.html").read_text())["frontiers"]
    assert (8, 2, 3) in [(c["chunks"], c["steps"], c["rounds"]) for c in found["open"]]
    assert all(c["reason"] for c in found["open"])
    assert format_count(len(found["open"]), "candidate") in found["summary"]


def test_sweep_writes_the_same_frontier_again(tmp_path: Path) -> None:
    on = ("--collective", "broadcast", "--topo", "ring:4", "--root", "2")
    for verb, name in (("limits", "limits"), ("pareto", "frontier")):
        texts = []
        for _ in range(2):
            assert sccl(verb, *on, "--output", tmp_path)[0] == 0
            texts.append((tmp_path / f"broadcast-root2-ring-4-{name}.json").read_text())
        assert texts[0] == texts[1]
    assert sccl("explore", tmp_path, "-o", tmp_path / "page.html")[0] == 0


def test_custom_collective_has_its_bounds(tmp_path: Path) -> None:
    (a,) = frontier("ring:4", "gather")[:1]
    a = replace(a, collective=replace(a.collective, name="mine"))
    assert sccl("explore", save(a, tmp_path / "a.json"), "-o", tmp_path / "page.html")[0] == 0
    data = data_of((tmp_path / "page.html").read_text())
    assert data["algorithms"][0]["bounds"]["steps"] == 2


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda d: write(d / "a.json", "{"), "not JSON"),
        (
            lambda d: write(d / "a.json", '{"kind": "frontier", "x": 1}'),
            "expected a frontier as 'sccl pareto --json' prints it",
        ),
        (lambda d: save(lacking(), d / "a.json"), "this algorithm fails verification"),
    ],
)
def test_bad_input_gives_one_sentence(
    make: Callable[[Path], str | Path], says: str, tmp_path: Path
) -> None:
    place = tmp_path / "in"
    place.mkdir()
    code, _, said = sccl("explore", make(place), "-o", tmp_path / "page.html")
    assert (code, says in said) == (2, True), said
    assert not (tmp_path / "page.html").exists()


def test_frontier_of_another_shape_is_rejected(tmp_path: Path) -> None:
    a = save(frontier("ring:4", "allgather")[0], tmp_path / "a.json")
    other = write(tmp_path / "f.json", '{"kind": "frontier", "topology": 3}')
    code, _, said = sccl("explore", a, other, "-o", tmp_path / "page.html")
    assert (code, "expected a frontier as 'sccl pareto --json' prints it" in said) == (2, True)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def lacking() -> Algorithm:
    a = frontier("ring:4", "allgather")[0]
    return replace(a, sends=a.sends[1:])
