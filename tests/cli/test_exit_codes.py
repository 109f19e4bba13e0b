"""The command as a person meets it: every verb, every exit code, every sentence."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from sccl.core.clock import AlphaModel
from sccl.core.files.disk import data_dir
from sccl.core.files.schedules import text_pieces
from tests.kit.commands import sccl
from tests.kit.paths import ROOT
from tests.kit.processes import PATIENCE_S, Pipe
from tests.kit.schedules import around_a_ring

SOLVE = ("solve", "--collective", "allgather", "--topo", "ring:4")


def test_pareto_prints_the_proved_frontier(tmp_path: Path) -> None:
    code, out, _ = sccl(
        "pareto", "--collective", "allgather", "--topo", "dgx1", "--output", tmp_path / "new"
    )
    assert code == 0
    assert re.search(r"2 . 2 . 3 . 3/2 . S, R/C for this S\s+. proved", out)
    assert re.search(r"6 . 3 . 7 . 7/6 . R/C\s+. proved", out)
    assert "7 chunks must enter ranks {0}, at most 6 per round" in out
    assert "0 B to 51.3 KiB: C=2 S=2 R=3" in out
    assert "Complete" in out
    files = sorted(p.name for p in (tmp_path / "new").iterdir())
    assert files == [
        "allgather-dgx1-c2-s2-r3.json",
        "allgather-dgx1-c6-s3-r7.json",
        "allgather-dgx1-frontier.json",
    ]


def test_pareto_compares_by_the_costs_that_are_given(tmp_path: Path) -> None:
    sweep = ("pareto", "--collective", "allgather", "--topo", "dgx1")
    costs = ("--alpha-us", "7", "--gb-per-s", "50")
    code, out, _ = sccl(*sweep, *costs, "--plot", str(tmp_path / "p.svg"))
    assert (code, "alpha 7 us per step, 50 GB/s per lane" in out) == (0, True)
    assert "0 B to 1 MiB" in out
    assert "50 GB/s per lane" in (tmp_path / "p.svg").read_text()
    found = json.loads(sccl(*sweep, *costs, "--json")[1])
    assert (found["alpha_us"], found["gb_per_s"]) == (7.0, 50.0)
    code, _, err = sccl(*sweep, "--gb-per-s", "0")
    assert (code, "gb-per-s is 0.0" in err) == (2, True)


def test_pareto_with_open_candidates_exits_3() -> None:
    code, out, _ = sccl(
        "pareto", "--collective", "alltoall", "--topo", "dgx1", "--timeout", "0.0001",
        "--max-steps", "2", "--k", "1", "--no-store",
    )  # fmt: skip
    assert code == 3
    assert "open: C=8 S=2 R=3" in out
    assert "larger --timeout" in out


def test_solve_sat_writes_what_check_accepts(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    code, out, _ = sccl(*SOLVE, "--chunks", "2", "--steps", "2", "--rounds", "3", "-o", path)
    assert code == 0
    assert "sat" in out
    code, out, _ = sccl("check", path)
    assert (code, "valid" in out) == (0, True)
    code, out, _ = sccl("show", path)
    assert code == 0
    assert re.search(r"^send \d from \d to \d at step 0$", out, re.MULTILINE)
    assert "Link utilization" in out


def test_solve_unsat_and_unknown_write_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    code, out, _ = sccl(*SOLVE, "--chunks", "2", "--steps", "2", "--rounds", "2", "-o", path)
    assert code == 1
    assert "unsat" in out
    code, out, _ = sccl(
        "solve", "--collective", "allgather", "--topo", "torus:4x4", "--chunks", "4", "--steps",
        "15", "--rounds", "15", "--timeout", "0.01", "-o", path, "--json",
    )  # fmt: skip
    assert code == 3
    assert json.loads(out)["answer"] == "unknown"
    assert not path.exists()


SOLVE_RING = "solve --collective allgather --topo ring:4 --chunks 1 --steps 2 --rounds 2"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            "solve --collective allgahter --topo dgx1 --chunks 1 --steps 2 --rounds 2",
            "did you mean 'allgather'",
        ),
        (
            "solve --collective allgather --topo dgx1 --chunks 1 --steps 3 --rounds 2",
            "rounds is 2 and steps is 3",
        ),
        (
            "solve --collective alltoall --topo dgx1 --chunks 9 --steps 2 --rounds 2",
            "multiple of 8",
        ),
        (
            "solve --collective allgather --topo dgx1 --chunks 1 --steps 2 --rounds 2 --solver zz",
            "the solvers are cadical, cpsat, z3",
        ),
        (
            "solve --collective allreduce --topo dgx1 --chunks 8 --steps 3 --rounds 4",
            "half the steps and rounds each",
        ),
        (
            "solve --collective allgather --topo dgx1 --chunks 1 --steps 2 --rounds 2 -o no/x.json",
            "there is no folder no",
        ),
        (
            "solve --collective no.json --topo dgx1 --chunks 1 --steps 2 --rounds 2",
            "cannot read no.json",
        ),
        ("pareto --collective allgather --topo ring:4 --certify new --jobs 0", "jobs is 0"),
        (
            "doctor cache ff --store new.sqlite",
            "has no instance of a digest that starts with 'ff'",
        ),
        ("pareto --collective allgather --topo circulant:8:4", "no path of links leads from"),
        (f"{SOLVE_RING} --seed -1", "seed is -1"),
        ("solve --collective allgather --topo ring:4 --chunks two", "'two' is not a valid int"),
        ("project run", "missing argument 'DIRECTORY'"),
        ("topo edit dgx1 --remove-link 0/7 -o x.json", "not of the form"),
        ("topo edit dgx1 --remove-link 0-3:x -o x.json", "the number of lanes is 'x'"),
        ("topo edit dgx1 -o x.json", "nothing to change"),
        ("topo edit dgx1 --remove-link 0-7 -o x.json", "no link 0->7"),
        ("doctor schema algorthm", "did you mean 'algorithm'"),
        ("certificate verify no-such-proofs", "has no certificate; create one with"),
        ("bound --collective allreduce --topo dgx1 --steps 1", "give at least that many"),
        ("topo edit dgx1 --remove-rank 9 -o x.json", "no rank 9"),
        (
            "solve --smt2 - --collective allgather --topo dgx1 --chunks 1 --steps 2 --rounds 1",
            "is 1",
        ),
        (f"{SOLVE_RING} --smt2 x -o y", "--output and --smt2 are both given"),
        (f"{SOLVE_RING} --solver z3 --symmetry translations", "z3 is asked alone"),
        ("solve", "missing option '--topo' (see 'sccl solve --help')"),
        ("bound --topo dgx1", "no collective is given: name one with --collective"),
        (f"project run {'x' * 300}", "is not a generated project"),
        (f"plot dgx1 -o {'x' * 300}", "it has no suffix"),
        ("pareto --collective", "requires an argument (see 'sccl pareto --help')"),
        ("topo edit dgx1 --bogus", "no such option: --bogus (see 'sccl topo edit --help')"),
        ("train bogus", "no such command 'bogus' (see 'sccl train --help')"),
        ("plot dgx1 --what matrix", "'matrix' is not one of"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    arguments: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = sccl(*arguments.split())
    assert code == 2
    assert says in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert out == ""
    assert list(tmp_path.iterdir()) == []


def test_check_takes_folders_and_passes_over_frontiers(tmp_path: Path) -> None:
    sweep = ("pareto", "--collective", "allgather", "--topo", "ring:4", "--output", tmp_path)
    assert sccl(*sweep)[0] == 0
    code, out, _ = sccl("check", tmp_path)
    assert (code, "1 violation" in out, out.count("valid")) == (0, False, 1)
    assert sccl("check", *sorted(tmp_path.glob("*.json")))[1] == out
    (frontier,) = tmp_path.glob("*-frontier.json")
    code, _, err = sccl("check", frontier)
    assert (code, "only frontiers or claims are given" in err) == (2, True)
    (tmp_path / "cut.json").write_text('{"kind": "algo')
    code, _, err = sccl("check", tmp_path)
    assert (code, "cut.json, line 1 column 10: not JSON" in " ".join(err.split())) == (2, True)


def test_check_says_that_it_looks_at_no_claims(tmp_path: Path) -> None:
    asked = ("limits", "--collective", "allgather", "--topo", "full:2", "--max-steps", "1")
    assert sccl(*asked, "--certify", tmp_path)[0] == 0
    code, out, err = sccl("check", tmp_path)
    assert (code, out.count("valid")) == (0, 1)
    assert f"verify them with: sccl certificate verify {tmp_path}" in err


def test_check_lists_every_violation(tmp_path: Path) -> None:
    path, right = tmp_path / "a.json", tmp_path / "b.json"
    sccl(*SOLVE, "--chunks", "2", "--steps", "2", "--rounds", "3", "-o", path)
    plain = json.loads(path.read_text())
    right.write_text(path.read_text())
    lost = plain["sends"].pop(0)
    path.write_text(json.dumps(plain))
    assert sccl("check", right, path)[0] == 1
    code, out, _ = sccl("check", path)
    assert code == 1
    assert "digest does not match" in out
    assert f"chunk {lost[1]}" in out
    code, out, _ = sccl("check", path, "--json")
    found = json.loads(out)["files"][0]
    assert (code, found["valid"], found["digest_matches"]) == (1, False, False)
    assert {"kind", "message", "step", "chunk", "rank"} < set(found["violations"][0])


def test_check_goes_through_the_times_of_schedules(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text("".join(text_pieces(around_a_ring(AlphaModel.OCCUPIES))))
    code, out, _ = sccl("check", path)
    assert (code, "C=1 of 25 KB, 6 transfers, 1.7 us (alpha occupies): valid" in out) == (
        0,
        True,
    )
    plain = json.loads(path.read_text())
    plain["sends"][0][1] -= 1
    path.write_text(json.dumps(plain))
    code, out, _ = sccl("check", tmp_path, "--json")
    file = json.loads(out)["files"][0]
    assert (code, file["digest_matches"], file["alpha"]) == (1, False, "occupies")
    assert file["finish_us"] == pytest.approx(1.7)
    found = file["violations"][0]
    assert (found["kind"], found["link"], found["tick"]) == ("duration", [0, 1], 0)


def test_check_does_not_take_a_name_for_the_thing(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    sccl(*SOLVE, "--chunks", "1", "--steps", "2", "--rounds", "2", "-o", path)
    plain = json.loads(path.read_text())
    plain["collective"]["post"] = {"relation": "scattered"}
    plain["sends"] = []
    path.write_text(json.dumps(plain))
    code, out, _ = sccl("check", path)
    assert code == 1
    assert "it is called allgather" in out


def test_bounds_explain_themselves() -> None:
    code, out, _ = sccl("bound", "--collective", "alltoall", "--topo", "circulant:8:1,3")
    assert code == 0
    assert "R/C >= 5/16" in out
    assert "every link" in out
    assert "colouring: S = 2, R/C = 5/16, which meets both bounds" in out
    code, out, _ = sccl("bound", "--collective", "reducescatter", "--topo", "ring:8", "--json")
    assert json.loads(out)["attained"] == {"steps": 4, "bandwidth": "7/16", "by": "breadth first"}


def test_too_large_input_gives_one_sentence_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for asked, says in (
        (("bound", "--collective", "alltoall", "--topo", "torus:128x100"), "163840000 chunks"),
        (("pareto", "--collective", "alltoall", "--topo", "torus:128x100"), "163840000 chunks"),
    ):
        code, _, err = sccl(*asked)
        assert code == 2
        assert says in " ".join(err.split())

    words = ("bound", "--collective", "allgather", "--topo", "hypercube:10", "--steps")
    code, _, err = sccl(*words, "40")
    assert code == 2
    assert "a sweep over k work" in " ".join(err.split())

    def slow(*_: object) -> None:
        raise AssertionError("bounds are computed before it is known that a limit is too large")

    monkeypatch.setattr("sccl.view.text.problem_bounds.lower_bounds", slow)
    code, _, err = sccl(*words, "513")
    assert (code, "expected at most 512" in " ".join(err.split())) == (2, True)


def test_symmetries_of_a_file_are_checked_first_and_used_where_they_fit(tmp_path: Path) -> None:
    file = tmp_path / "g.json"
    swapped = {"generators": [{"ranks": [1, 0, 2, 3]}]}
    file.write_text(json.dumps(swapped))
    asked = ("--collective", "allgather", "--topo", "ring:4", "--symmetry", file)
    for command in (("pareto",), ("limits",)):
        code, _, err = sccl(*command, *asked)
        assert code == 2
        assert "does not exist" in " ".join(err.split())
    turned = {"generators": [{"ranks": [1, 2, 3, 0], "turn": 1, "period": 2}]}
    file.write_text(json.dumps(turned))
    for chunks in (1, 2):  # the turn does not fit C = 1
        code, out, _ = sccl("pareto", *asked, "--json", "--no-store", "--max-chunks", str(chunks))
        assert code == 0
        assert [p["chunks"] for p in json.loads(out)["points"]] == [chunks]
    code, _, err = sccl("solve", *asked, "--chunks", "1", "--steps", "2", "--rounds", "2")
    assert code == 2
    assert "multiple of the period" in " ".join(err.split())


def test_allreduce_bounds_name_their_class() -> None:
    code, out, _ = sccl("bound", "--collective", "allreduce", "--topo", "full:4")
    assert code == 0
    assert "every algorithm" in out
    assert "S >= 1: rank 1 needs the contribution of rank 0, 1 link away" in out
    assert "these bounds hold for one family: reducescatter-then-allgather compositions" in out
    assert "allreduce on full:4, composed of equal halves" in out


def test_problem_of_equal_halves_is_reported() -> None:
    asked = ("--topo", "ring:4", "--chunks", "4", "--steps", "4", "--rounds", "4")
    text = sccl("smt2", "--collective", "allreduce", *asked)[1]
    assert text.startswith("; One half of reducescatter-then-allgather compositions of equal")
    assert "S=4 steps and R=4 rounds in all: unsat proves nothing" in text
    assert "One half" not in sccl("smt2", "--collective", "allgather", *asked)[1]


def test_bound_by_the_dual_says_how_its_numbers_become_the_original_s() -> None:
    def told(collective: str) -> str:
        return sccl("bound", "--collective", collective, "--topo", "dgx1")[1]

    assert "per round; for reducescatter, C is 8 times as large as for its dual" in told(
        "reducescatter"
    )
    assert "C is 8 times and R is 2 times as large as for its dual" in told("allreduce")
    assert "times as large" not in told("allgather")


def test_machine_in_place_of_an_algorithm_is_reported(tmp_path: Path) -> None:
    value = json.loads(sccl("topo", "show", "ring:4", "--json")[1])
    for head in ("schema", "kind", "digest"):
        del value[head]
    (tmp_path / "m.json").write_text(json.dumps(value))
    code, _, err = sccl("check", tmp_path / "m.json")
    said = " ".join(err.split())
    assert (code, "it holds a topology; expected an algorithm" in said) == (2, True)
    assert "'sccl topo show' reads the given file" in said


def test_crash_never_looks_like_unsat(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("sccl.view.text.problem_bounds.lower_bounds", crash)
    code, _, err = sccl("bound", "--collective", "allgather", "--topo", "full:4")
    assert code == 4
    assert "RuntimeError: boom" in err
    monkeypatch.setattr("sccl.cli.report.exit_code", lambda: 130)  # and so it broke
    code, _, err = sccl("bound", "--collective", "allgather", "--topo", "full:4")
    assert (code, err) == (130, "interrupted\n")


def test_file_in_the_users_folder_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('ran the file of the user')")
    monkeypatch.chdir(tmp_path)
    arguments = ("--chunks", "1", "--steps", "2", "--rounds", "2", "--solver", "cadical")
    assert sccl(*SOLVE, *arguments)[0] == 0


def test_machines_are_listed_and_shown() -> None:
    assert "z52-pcie" in sccl("topo", "list")[1]
    out = sccl("topo", "show", "z52-pcie")[1]
    assert "diameter: 3" in out
    assert "budget PCIe left socket: 1 chunk per round" in out
    out = sccl("topo", "show", "dgx1")[1]
    assert "lanes out of each rank: 6, 6, 6, 6, 6, 6, 6, 6" in out


def test_kinds_of_schemas_need_no_hyphens() -> None:
    for kind in ("custom-collective", "symmetric-algorithm"):
        assert sccl("doctor", "schema", kind.replace("-", "")) == sccl("doctor", "schema", kind)


def test_files_satisfy_the_published_schemas(tmp_path: Path) -> None:
    schema = json.loads(sccl("doctor", "schema", "topology")[1])
    for path in sorted(data_dir("topologies").glob("*.json")):
        jsonschema.validate(json.loads(path.read_text()), schema)
    path = tmp_path / "a.json"
    sccl(*SOLVE, "--chunks", "1", "--steps", "2", "--rounds", "2", "-o", path)
    of_algorithms = json.loads(sccl("doctor", "schema", "algorithm")[1])
    algorithm = json.loads(path.read_text())
    jsonschema.validate(algorithm, of_algorithms)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**algorithm, "sends": [[0, 0, 0]]}, of_algorithms)


def test_degraded_machine_is_ready_for_synthesis(tmp_path: Path) -> None:
    path = tmp_path / "degraded.json"
    code, out, _ = sccl(
        "topo", "edit", "dgx1", "--remove-link", "0-4", "--remove-rank", "3", "-o", path
    )  # fmt: skip
    assert code == 0
    assert "4 is now 3" in out
    code, out, _ = sccl("pareto", "--collective", "allgather", "--topo", path, "--json", "--k", "3")
    found = json.loads(out)
    assert code == 0
    assert found["topology"] == "dgx1-without-0to4-4to0-rank3"
    assert found["points"]
    code, out, _ = sccl("topo", "edit", "line:3", "--remove-link", "0>1", "-o", path)
    assert "no path leads from rank 0 to 1" in out


def test_custom_collectives_from_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "allgatherv.json"
    post = [[c, r] for c in range(3) for r in range(4)]
    path.write_text(
        json.dumps({"name": "gv", "ranks": 4, "pre": [[0, 0], [1, 0], [2, 1]], "post": post})
    )
    arguments = ("--topo", "ring:4", "--max-steps", "5", "--json")
    code, out, _ = sccl("pareto", "--collective", path, *arguments)
    found = json.loads(out)
    assert (code, found["collective"], found["open"]) == (0, "gv", [])
    assert [p["bandwidth_cost"] for p in found["points"]] == ["2", "7/4", "5/3"]


def test_smt2_goes_to_stdout_or_a_file(tmp_path: Path) -> None:
    arguments = ("smt2", "--collective", "allgather", "--topo", "ring:4", "--chunks", "1",
                 "--steps", "2", "--rounds", "2")  # fmt: skip
    code, out, _ = sccl(*arguments)
    assert code == 0
    assert out.rstrip().endswith("(check-sat)")
    sccl(*arguments, "-o", tmp_path / "p.smt2")
    assert (tmp_path / "p.smt2").read_text() == out
    assert sccl("solve", *arguments[1:], "--smt2", tmp_path / "q.smt2")[0] == 0
    assert (tmp_path / "q.smt2").read_text() == out


def test_version_is_printed() -> None:
    assert sccl("--version")[1].startswith("sccl 0.")


@pytest.mark.parametrize("verb", ["solve", "pareto"])
def test_ctrl_c_exits_130_and_leaves_no_file(verb: str, tmp_path: Path) -> None:
    arguments = {
        "solve": ["solve", "--collective", "allgather", "--topo", "mesh:5x5", "--chunks", "9",
                  "--steps", "8", "--rounds", "108", "-o", str(tmp_path / "x.json")],
        "pareto": ["pareto", "--collective", "alltoall", "--topo", "torus:4x4", "--k", "20",
                   "--solver", "z3", "--symmetry", "none", "--json"],
    }[verb]  # fmt: skip
    pipe = Pipe(tmp_path / "pipe")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.programs.at_work", str(pipe.path), *arguments, "--no-store"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    assert pipe.line() == "at work"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    assert list(tmp_path.iterdir()) == [pipe.path]
    if verb == "pareto":
        found = json.loads(out)
        assert found["stopped"] == "interrupted"
        assert found["complete"] is False
        assert found["open"]
    else:
        assert "interrupted" in err


def test_terminal_text_of_names_is_not_markup(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    links = [{"src": 0, "dst": 1, "both_ways": True}]
    path.write_text(
        json.dumps({"name": "[red]x[/]", "ranks": 2, "alpha_us": 1, "gb_per_s": 1, "links": links})
    )
    assert "[red]x[/]: 2 ranks" in sccl("topo", "show", path)[1]
    out = sccl("pareto", "--collective", "allgather", "--topo", path)[1]
    assert "allgather on [red]x[/]" in out


def test_topo_show_escapes_what_would_forge_lines_or_move_the_cursor(tmp_path: Path) -> None:
    value = json.loads(sccl("topo", "show", "ring:3", "--json")[1])
    del value["digest"]
    value |= {"name": "m\nn", "source": "s\x1b[2J\nt", "labels": ["a\nb", "\x9b", "c"]}
    path = tmp_path / "m.json"
    path.write_text(json.dumps(value))
    out = sccl("topo", "show", path)[1]
    assert "m\\nn: 3 ranks" in out
    assert "source: s\\x1b[2J\\nt" in out
    assert "labels: rank 0 is a\\nb, rank 1 is \\x9b, rank 2 is c" in out
    text = sccl("topo", "show", path, "--json")[1]
    assert text.isascii()
    assert json.loads(text)["labels"] == value["labels"]


def test_show_and_plot_refuse_more_sends_than_they_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    question = ("--collective", "allgather", "--topo", "ring:4", "--chunks", "1", "--steps", "2")
    assert sccl("solve", *question, "--rounds", "2", "-o", path)[0] == 0
    for module in ("text.shown_plans", "charts.chart_sources"):
        monkeypatch.setattr(f"sccl.view.{module}.MAX_SENDS", 11)
    for verb, *more in (("show",), ("show", "--json"), ("plot", "-o", str(tmp_path / "a.svg"))):
        code, _, err = sccl(verb, path, *more)
        assert code == 2
        assert f"{path} has 12 sends" in err
        assert "at most 11" in err
