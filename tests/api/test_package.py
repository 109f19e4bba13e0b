"""``import sccl``: light, documented by examples that run, and safe to display with any names."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, assert_type

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sccl
from sccl.core.topology import Topology as Machine
from sccl.errors import InputError, ParameterError, ToolError
from sccl.view.text.markup import table
from tests.kit.nightly import times

MODULES = sorted(
    {"sccl", "sccl.errors"}
    | {f"sccl.api.{path.stem}" for path in (Path(sccl.__file__).parent / "api").glob("[!_]*.py")}
)
HEAVY = {"altair", "flint", "igraph", "jinja2", "msgspec", "networkx", "numpy", "ortools", "pandas"}
HEAVY |= {"pysat", "pysmt", "rich", "typer", "vl_convert", "z3"}


def printed_by(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


# --- the module ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_their_output(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def entry_points() -> Iterator[tuple[str, object]]:
    """Yield the public functions and classes, and the public methods of the classes."""
    for name in sccl.__all__:
        value = getattr(sccl, name)
        yield name, value
        if inspect.isclass(value):
            inherited = dir(value.__base__) if issubclass(value, Exception) else ()
            for method, member in inspect.getmembers(value, inspect.isroutine):
                if not method.startswith("_") and method not in inherited:
                    yield f"{name}.{method}", member


def test_entry_points_have_examples() -> None:
    for name, value in entry_points():
        _, heading, block = (inspect.getdoc(value) or "").partition("\nExamples:\n")
        assert heading, f"sccl.{name} has no section Examples"
        assert block.startswith("    >>> import "), f"the example of sccl.{name} imports nothing"


def test_dir_lists_public_names() -> None:
    assert set(sccl.__all__) <= set(dir(sccl))


def test_unknown_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="'sccl' has no attribute 'paretto'"):
        sccl.paretto  # noqa: B018


def test_importing_loads_nothing_heavy() -> None:
    loaded = printed_by("import sys, sccl; print(*sys.modules)").split()
    assert not {name.split(".")[0] for name in loaded} & HEAVY
    assert not any(name.startswith("sccl.") for name in loaded)


def test_results_have_types(frontier: sccl.Frontier) -> None:
    assert_type(sccl.pareto("allgather", "ring:3", progress=False), sccl.Frontier)
    assert_type(frontier.points[0].algorithm, sccl.Algorithm | None)
    assert_type(sccl.solve("allgather", "ring:3", chunks=1, steps=1, rounds=1), sccl.Answer)


# --- questions -----------------------------------------------------------------------------------


def test_frontier_has_points_and_what_was_refuted(frontier: sccl.Frontier) -> None:
    assert [(p.chunks, p.steps, p.rounds) for p in frontier.points] == [(2, 2, 3), (6, 3, 7)]
    assert [p.bandwidth_cost for p in frontier.points] == [Fraction(3, 2), Fraction(7, 6)]
    assert (frontier.complete, frontier.open) == (True, ())
    assert all(c.candidate.steps >= frontier.bounds.steps for c in frontier.refuted)
    assert frontier.topology == sccl.topology("dgx1")
    assert "complete for every k" in repr(frontier)


def test_limits_have_other_classes(limits: sccl.LimitFrontier) -> None:
    assert limits.complete
    assert len(limits.others) == 3
    assert all(p.algorithm and not p.algorithm.violations() for p in limits.points if p.attained)
    assert limits.value.is_multiclass


def test_solve_says_why() -> None:
    sat = sccl.solve("allgather", "ring:4", chunks=2, steps=2, rounds=3, store=False)
    assert sat.verdict == "sat"
    assert sat.algorithm is not None
    assert sat.algorithm.bandwidth_cost == Fraction(3, 2)
    unsat = sccl.solve("allgather", "ring:4", chunks=2, steps=2, rounds=2, store=False)
    assert (unsat.verdict, unsat.algorithm) == ("unsat", None)
    assert unsat.reason in unsat._repr_html_()


def any_(value: Any) -> Any:
    """Return a value whose type is not checked before it runs."""
    return value


def test_numbers_of_other_libraries_are_numbers() -> None:
    chunks = pd.Series([2])[0]
    assert type(chunks) is not int
    found = sccl.solve("allgather", "ring:4", chunks=chunks, steps=2, rounds=3, store=False)
    assert found.algorithm is not None
    assert type(found.algorithm.chunks) is int


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: sccl.pareto("allgather", "dgx1", root=1), "has no root"),
        (lambda: sccl.pareto(sccl.collective("allgather", 4), "dgx1"), "4 ranks"),
        (lambda: sccl.load("missing.json"), "cannot read missing.json"),
        (lambda: sccl.Topology.of("empty", {}), "has 0 ranks"),
        (lambda: sccl.topology("ring:4").with_link(0, 9), "node 9 does not exist"),
        (lambda: sccl.topology("ring:4").with_link(0, 2, lanes=0), "expected at least 1"),
        (lambda: sccl.collective("allgather", 0), "ranks is 0"),
        (
            lambda: any_(sccl.pareto)("allgather", "dgx1", k="a"),
            "k is 'a', expected a whole",
        ),
        (lambda: any_(sccl.pareto)("allgather", None), "topology is None, expected a text"),
        (lambda: any_(sccl.pareto)("allgather", "dgx1", jobs=True), "jobs is True"),
        (lambda: any_(sccl.limits)("allgather", "dgx1", progress=3), "or a function"),
        (lambda: any_(sccl.load)(3), "load: path is 3, expected a text or a path"),
        (lambda: any_(sccl.topology("ring:4").with_link)(0, None), "dst is None"),
        (lambda: any_(sccl.topology("ring:4").without)(3), "links is 3"),
        (lambda: any_(sccl.topology("ring:4").plot()).save(None), "path is None"),
        (lambda: any_(sccl.Topology.of)(["x" * 99], {}), "name is a list, expected a text"),
        (lambda: any_(sccl.Topology.of)("x", {(0, 1): 1.5}), "lanes is 1.5"),
        (lambda: sccl.Topology.of("x", {(0, 1): 0}), "lanes is 0"),
        (lambda: any_(sccl.Topology.of)("x", {"ab": 1}), "a link is 'ab'"),
        (lambda: any_(sccl.topology("ring:4").without)(ranks=["a"]), "unknown rank 'a'"),
        (lambda: any_(sccl.Topology)("dgx1"), "use sccl.topology"),
        (lambda: any_(sccl.Algorithm)("a.json"), "use sccl.Algorithm.load"),
        (lambda: any_(sccl.Frontier)(3, None), "sccl.Frontier is given 3"),
        (lambda: any_(sccl.LimitFrontier)("x", None), "use sccl.limits"),
        (lambda: any_(sccl.SavedFrontier)("x", []), "use sccl.load"),
        (lambda: any_(sccl.Chart)(3, "x"), "expected a chart of Altair"),
        (lambda: any_(sccl.pareto("allgather", "ring:4").plot)(5), "sccl.Frontier.plot: others"),
        (lambda: any_(sccl.Topology.of)(3, {}), "sccl.Topology.of: name is 3"),
        (lambda: sccl.pareto(sccl.collective("reduce", 8, 2), "dgx1", root=3), "leave root out"),
        (lambda: sccl.load("a\0b"), "embedded null"),
        (lambda: sccl.topology("ring:4").save("a\0b"), "embedded null"),
        (sccl.check, "sccl.check is given no file"),
        (sccl.plot, "sccl.plot is given no source"),
        (lambda: sccl.plot("dgx1", what="arrival"), "'dgx1' is a topology"),
        (lambda: sccl.explore(path="page.html"), "sccl.explore is given no file"),
        (lambda: sccl.explore("a.json", path="page.txt"), "give one that ends in .html"),
        (lambda: sccl.export(format="csv", path="a.csv"), "sccl.export is given no file"),
        (lambda: sccl.fastest("allgather", "ring:4", size="1KB", gap=-1), "gap is -1.0"),
        (lambda: sccl.fastest("broadcast", "ring:4", size="1KB", root=9), "root is 9"),
    ],
)
def test_bad_input_gives_one_sentence(ask: Any, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)) as caught:
        ask()
    assert "\n" not in str(caught.value)


def test_call_that_fits_no_function_names_it() -> None:
    ring = any_(sccl.topology("ring:4"))
    wrong: tuple[tuple[Any, str], ...] = (
        (lambda: any_(sccl.pareto)("allgather"), "sccl.pareto: missing a required argument"),
        (lambda: any_(sccl.solve)("allgather", ring, c=1), "see help(sccl.solve)"),
        (lambda: ring.with_link(0), "sccl.Topology.with_link: missing a required argument"),
    )
    for ask, says in wrong:
        with pytest.raises(TypeError, match=re.escape(says)):
            ask()


def test_progress_is_told_to_a_function() -> None:
    said: list[str] = []
    sccl.pareto("allgather", "ring:3", progress=said.append, store=False)
    assert said[0].startswith("bounds: S >= 1")
    assert any(line.startswith("found: ") for line in said)
    sccl.limits("allgather", "ring:3", progress=said.append)
    assert any("the limit of R/C is" in line for line in said)


# --- machines ------------------------------------------------------------------------------------


def test_link_fails_or_is_added() -> None:
    ring = sccl.topology("ring:4")
    line = ring.without(links=[(3, 0)])
    assert set(ring.links) - set(line.links) == {(0, 3), (3, 0)}
    assert set(ring.links) - set(ring.without(links=[(3, 0)], both_ways=False).links) == {(3, 0)}
    assert line.with_link(3, 0).links == ring.links
    assert ring.with_link(0, 1, lanes=2, both_ways=False).links[0, 1] == 3
    assert ring.without(ranks=[0]).ranks == 3


@given(st.integers(3, 6), st.data())
@settings(max_examples=times(20))
def test_adding_and_taking_out_are_inverses(ranks: int, data: st.DataObject) -> None:
    whole = sccl.topology(f"full:{ranks}")
    edge = data.draw(st.sampled_from(sorted(whole.links)))
    again = whole.without(links=[edge]).with_link(*edge, lanes=whole.links[edge])
    assert again.links == whole.links
    assert again.name != whole.name


def test_files_come_back(tmp_path: Path, frontier: sccl.Frontier) -> None:
    machine = sccl.topology("dgx1")
    assert sccl.load(machine.save(tmp_path / "m.json")) == machine
    algorithm = frontier.points[0].algorithm
    assert algorithm is not None
    again = sccl.load(algorithm.save(tmp_path / "a.json"))
    assert again == algorithm
    edited = (tmp_path / "a.json").read_text().replace('"latency"', '"bandwidth"')
    (tmp_path / "a.json").write_text(edited)
    assert sccl.Algorithm.load(tmp_path / "a.json").claims == ()
    assert algorithm.claims != ()


# --- displayed and written results ---------------------------------------------------------------


def test_frontier_is_kept_and_read_again(tmp_path: Path, frontier: sccl.Frontier) -> None:
    for found in (frontier, sccl.limits("allgather", "ring:4", progress=False)):
        again = sccl.load(found.save(tmp_path / "kept"))
        assert isinstance(again, sccl.SavedFrontier)
        assert (again.name, again.summary) == (found.name, found.summary)
        assert repr(again).partition("(")[2] == repr(found).partition("(")[2]
        assert again.plot()._repr_html_() == found.plot()._repr_html_()
        assert again.explore(tmp_path / "again.html").read_text() == (
            found.explore(tmp_path / "page.html").read_text()
        )


def test_charts_are_drawn_and_written(tmp_path: Path, frontier: sccl.Frontier) -> None:
    algorithm = frontier.points[0].algorithm
    assert algorithm is not None
    charts = [frontier.plot(), frontier.plot(sccl.pareto("allgather", "ring:8", progress=False))]
    charts += [frontier.plot_times(), frontier.plot_times(alpha_us=5.0, gb_per_s=10.0)]
    charts += [algorithm.plot(), algorithm.plot("arrival"), algorithm.plot("topology")]
    for chart in charts:
        path = chart.save(tmp_path / "c.svg")
        assert path.read_text().startswith("<svg")
    with pytest.raises(ParameterError, match="no chart 'heat'"):
        algorithm.plot("heat")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="suffix"):
        charts[0].save(tmp_path / "c.gif")


def test_certificate_is_written_and_checked(tmp_path: Path, limits: sccl.LimitFrontier) -> None:
    limits.certify(tmp_path / "limits")
    found = sccl.check_certificate(tmp_path / "limits")
    assert found.holds
    assert repr(found) == f"Certificate({len(found.claims)} claims: {len(found.claims)} ok)"
    ring = sccl.pareto("broadcast", "ring:4", progress=False)
    ring.certify(tmp_path / "ring")
    assert sccl.check_certificate(tmp_path / "ring").holds


def test_project_is_written(tmp_path: Path, frontier: sccl.Frontier) -> None:
    algorithm = frontier.points[0].algorithm
    assert algorithm is not None
    assert (algorithm.codegen(tmp_path / "p") / "Makefile").exists()
    with pytest.raises(InputError, match="target"):
        algorithm.codegen(tmp_path / "q", target="tpu")
    assert not (tmp_path / "q").exists()


def test_faulty_algorithm_is_rejected_and_not_explored(
    tmp_path: Path, frontier: sccl.Frontier
) -> None:
    algorithm = frontier.points[0].algorithm
    assert algorithm is not None
    wrong = sccl.Algorithm(replace(algorithm.value, sends=algorithm.value.sends[1:]))
    assert wrong.violations()
    with pytest.raises(InputError, match="fails verification"):
        wrong.explore(tmp_path / "p.html")
    assert list(tmp_path.iterdir()) == []


def test_text_is_printed(capsys: pytest.CaptureFixture[str], frontier: sccl.Frontier) -> None:
    algorithm = frontier.points[0].algorithm
    assert algorithm is not None
    algorithm.show()
    frontier.topology.show()
    said = capsys.readouterr().out
    assert "Link utilization" in said
    assert "dgx1: 8 ranks, 32 links" in said


def test_points_become_a_table_of_pandas(frontier: sccl.Frontier) -> None:
    found = frontier.to_dataframe()
    assert list(found["steps"]) == [2, 3]
    assert list(found["exact"]) == ["3/2", "7/6"]


def test_without_pandas_one_is_told_how_to_get_it(
    frontier: sccl.Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ToolError, match=r"pip install 'sccl\[notebook\]'"):
        frontier.to_dataframe()


def test_frontier_shows_itself(frontier: sccl.Frontier, limits: sccl.LimitFrontier) -> None:
    shown = frontier._repr_html_()
    assert "<td" in shown
    for text in ("allgather on dgx1", "7/6", "S, R/C for this S", "proved", "Complete for every k"):
        assert text in shown
    assert "by timed trees" in limits._repr_html_()


@given(st.text(min_size=1).filter(str.strip))
@settings(max_examples=times(25, by_day=12))
def test_names_are_only_names(name: str) -> None:
    hostile = f"</td><script>{name}</script>"
    for shown in (
        table((hostile,), [(hostile,)]),
        _named(hostile)._repr_html_(),
        sccl.Algorithm(_algorithm(hostile))._repr_html_(),
    ):
        assert "<script" not in shown
        assert "</td><s" not in shown


def _named(name: str) -> sccl.Topology:
    return sccl.Topology(replace(sccl.topology("ring:3").value, name=name))


def _algorithm(name: str) -> Any:
    point = sccl.pareto("allgather", "ring:3", progress=False).points[0]
    assert point.algorithm is not None
    machine: Machine = _named(name).value
    return replace(point.algorithm.value, topology=machine, scope=name, proved=(name,))


def test_hostile_frontier_is_only_text() -> None:
    shown = sccl.pareto("allgather", _named("<script>x</script>"), progress=False, store=False)
    assert "<script" not in shown._repr_html_()
    assert "<script" not in shown.plot()._repr_html_()
