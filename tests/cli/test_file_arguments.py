"""Verbs take files, patterns and folders alike, and write over nothing that is not theirs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sccl.cli.main import app
from sccl.core.files import disk as core_files
from sccl.core.files.algorithms import algorithm_to_wire
from sccl.core.files.json_text import to_text
from sccl.errors import InputError
from sccl.formats.files.plans import algorithm_files
from tests.kit.easy_algorithms import frontier


def sccl(*arguments: str | Path) -> tuple[int, str, str]:
    """Run the command in this process and return (exit code, stdout, stderr)."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of two sweeps, of limits, and of a certificate."""
    folder = tmp_path_factory.mktemp("sweeps") / "found"
    asked = ("--topo", "ring:4", "--output", folder, "--collective")
    for collective in ("allgather", "broadcast"):
        assert sccl("pareto", "--no-store", *asked, collective)[0] == 0
    assert sccl("limits", *asked, "allgather")[0] == 0
    proofs = ("--certify", folder, "--no-store")
    assert sccl("pareto", "--topo", "ring:4", "--collective", "allgather", *proofs)[0] == 0
    names = {path.name for path in folder.iterdir()}
    assert {"claims.json", "allgather-ring-4-frontier.json"} <= names
    return folder


GIVEN: dict[str, Callable[[Path], list[str | Path]]] = {
    "folder": lambda found: [found],
    "files": lambda found: sorted(found.glob("*.json")),
    "pattern": lambda found: [f"{found}/*.json"],
    "pattern of folders": lambda found: [f"{found.parent}/f*"],
    "all of them": lambda found: [found, *sorted(found.glob("*.json")), f"{found}/**"],
}


@pytest.mark.parametrize("form", GIVEN)
def test_folders_files_and_patterns_are_the_same(form: str, found: Path, tmp_path: Path) -> None:
    given = GIVEN[form](found)
    files = algorithm_files([found])
    assert len(files) == 6
    assert sorted(algorithm_files(given)) == sorted(files)
    code, out, _ = sccl("check", *given, "--json")
    assert (code, len(json.loads(out)["files"])) == (0, len(files))
    code, out, _ = sccl("show", *given)
    assert (code, out.count("Topology: chunks per round")) == (0, len(files))
    assert all(f"# {file}\n" in out for file in files)
    code, out, _ = sccl("project", "new", *given, "-o", tmp_path / "p")
    assert (code, "6 algorithms of allgather, broadcast for 4 ranks" in out) == (0, True)
    code, out, _ = sccl("explore", *given, "-o", tmp_path / "p.html")
    assert (code, out.startswith("6 algorithms in ")) == (0, True)
    code, out, _ = sccl("simulate", *given, "--size", "1MB", "--json")
    assert (code, len(json.loads(out)["runs"])) == (0, len(files))
    programs = ("--format", "msccl-xml", "-o", tmp_path / "plans")
    code, out, err = sccl("export", *given, *programs, "--json")
    assert err == ""
    assert code == 0
    assert set(json.loads(out)["inputs"]) == set(map(str, algorithm_files(given)))


@pytest.mark.parametrize("form", ["folder", "files", "pattern"])
def test_charts_take_them_alike(form: str, found: Path, tmp_path: Path) -> None:
    given = GIVEN[form](found)
    for what in (None, "arrival"):  # of frontiers, and of algorithms
        more = ("--what", what) if what else ()
        code, out, err = sccl("plot", *given, *more, "-o", tmp_path / "p.html")
        assert (code, err, out.split(":")[0]) == (0, "", what or "frontier")


def test_sweeps_files_are_drawn_as_its_folder_is(found: Path, tmp_path: Path) -> None:
    """The points of a frontier and its algorithms' files are the same: drawn once."""
    files = [path for path in sorted(found.glob("allgather*.json")) if "limits" not in path.name]
    assert sccl("plot", *files, "-o", tmp_path / "files.html")[1].startswith("frontier: ")
    alone = found / "allgather-ring-4-frontier.json"
    assert sccl("plot", alone, "-o", tmp_path / "alone.html")[0] == 0
    assert (tmp_path / "files.html").read_text() == (tmp_path / "alone.html").read_text()


def test_certificates_of_several_folders(found: Path, tmp_path: Path) -> None:
    code, out, _ = sccl("certificate", "verify", found, "--json")
    claims = len(json.loads(out)["claims"])
    assert code == 0
    (tmp_path / "two").symlink_to(found)
    (tmp_path / "one").symlink_to(found)
    for given in ([f"{tmp_path}/*"], [tmp_path / "two", tmp_path / "one", tmp_path / "one"]):
        code, out, _ = sccl("certificate", "verify", *given)
        assert (code, f"{2 * claims} claims: " in out) == (0, True)
        assert f"# {tmp_path / 'one'}\n" in out
    code, out, _ = sccl("certificate", "verify", *sorted(found.glob("*.json")))
    assert (code, f"{claims} claims: " in out) == (0, True)


@pytest.mark.parametrize("verb", ["check", "show", "codegen", "explore"])
def test_exhausted_resource_gives_one_sentence(verb: str, found: Path, tmp_path: Path) -> None:
    output: dict[str, list[str | Path]] = {
        "codegen": ["-o", tmp_path / "p"],
        "explore": ["-o", tmp_path / "p.html"],
    }
    more: list[str | Path] = output.get(verb, [])
    (tmp_path / "empty").mkdir()
    sentences: dict[str | Path, str] = {
        found / "allgather-ring-4-frontier.json": (
            f"give those files too, expected at {found / 'allgather-ring-4-c2-s2-r3.json'}"
        ),
        "ring:4": "see the topology with 'sccl topo show ring:4'",
        found / "claims.json": "only frontiers or claims are given",
        tmp_path / "empty": "holds no algorithm",
        tmp_path / "nowhere": "No such file",
        f"{tmp_path}/*.json": "no folder and no .json file matches",
        "x" * 300: "File name too long",
    }
    for given, says in sentences.items():
        code, out, err = sccl(verb, given, *more)
        assert (code, out, says in err) == (2, "", True), (given, err)
        assert err.count("error: ") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"empty"}


def test_algorithms_made_by_hand_need_not_say_their_kind(tmp_path: Path) -> None:
    plain = json.loads(to_text(algorithm_to_wire(frontier("ring:4", "allgather")[0])))
    for field in ("kind", "digest", "schema"):
        del plain[field]
    (tmp_path / "mine.json").write_text(json.dumps(plain))
    (tmp_path / "package.json").write_text('{"name": "x"}')
    code, out, _ = sccl("check", tmp_path)
    assert (code, out.count("valid")) == (0, 1)


def project(found: Path, *more: str | Path) -> tuple[int, str]:
    """Generate a project of one algorithm, and return the exit code and the output."""
    code, out, err = sccl("project", "new", found / "allgather-ring-4-c2-s2-r3.json", *more)
    return code, out + err


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.iterdir()}


def test_project_is_made_again_where_it_is(found: Path, tmp_path: Path) -> None:
    place = tmp_path / "deep" / "project"
    assert project(found, "-o", place)[0] == 0
    assert place.stat().st_mode & 0o777 == place.parent.stat().st_mode & 0o777
    before = contents(place)
    (place / "notes").write_text("mine")
    assert project(found, "-o", place)[0] == 0
    assert contents(place) == before | {"notes": "mine"}
    assert [path.name for path in place.parent.iterdir()] == ["project"]


def test_another_project_is_not_overwritten(found: Path, tmp_path: Path) -> None:
    place = tmp_path / "project"
    assert project(found, "-o", place)[0] == 0
    before = contents(place)
    code, said = project(found, "-o", place, "--target", "cuda")
    assert (code, "another project" in said, "--force" in said) == (2, True, True)
    code, _, err = sccl("project", "new", found, "-o", place)
    assert (code, "another project" in err, "--force" in err) == (2, True, True)
    assert contents(place) == before
    code, out, _ = sccl("project", "new", found, "-o", place, "--force")
    assert (code, "6 algorithms" in out) == (0, True)
    assert contents(place) != before


def test_folder_of_other_things_is_left_alone(found: Path, tmp_path: Path) -> None:
    place = tmp_path / "mine"
    place.mkdir()
    assert project(found, "-o", place)[0] == 0  # an empty one is free
    (place / "program.json").write_text('{"kind": "program"}')
    assert "another project" in project(found, "-o", place)[1]
    (place / "program.json").unlink()
    code, said = project(found, "-o", place)
    assert (code, "not a project of sccl" in said, "--force" in said) == (2, True, True)
    assert project(found, "-o", place, "--force")[0] == 0


def test_nothing_is_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills at the third file leaves the folder as it was, or none."""
    written: list[Path] = []
    real = core_files.write_bytes_atomically

    def failing(path: Path, text: bytes) -> None:
        written.append(path)
        if len(written) == 3:
            raise InputError("cannot write: No space left on device")
        real(path, text)

    monkeypatch.setattr(core_files, "write_bytes_atomically", failing)
    texts = dict.fromkeys("abcd", "new")
    old = tmp_path / "old"
    old.mkdir()
    (old / "a").write_text("before")
    for place in (old, tmp_path / "new"):
        written.clear()
        with pytest.raises(InputError, match="No space left"):
            core_files.write_folder(place, texts, last="a")
    assert contents(old) == {"a": "before"}
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_file_that_says_what_a_folder_is_comes_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed command leaves the project that was there."""
    moved: list[str] = []
    real = Path.replace

    def replace(path: Path, to: Path) -> Path:
        moved.append(to.name)
        return real(path, to)

    monkeypatch.setattr(Path, "replace", replace)
    core_files.write_folder(tmp_path, dict.fromkeys("abcd", "new"), last="a")
    assert moved[-4:] == ["b", "c", "d", "a"]


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ("0-3,3-7", "rank 3 stands twice"),
        ("none.json", "none.json"),
    ],
)
def test_groups_that_do_not_fit_leave_nothing_behind(
    groups: str, says: str, tmp_path: Path
) -> None:
    asked = ("--topo", "dgx1", "--collective", "allgather", "--groups", groups)
    for verb in (("pareto", "--output"), ("limits", "--output"), ("pareto", "--certify")):
        code, out, err = sccl(verb[0], *asked, verb[1], tmp_path / "found")
        assert (code, out) == (2, "")
        assert says in err
    assert not list(tmp_path.iterdir())


def test_groups_go_with_no_counts_and_no_common_root(tmp_path: Path) -> None:
    (tmp_path / "counts").write_text("1 2 3 4")
    asked = ("bound", "--topo", "ring:4", "--groups", "0-1,2-3", "--collective")
    code, _, err = sccl(*asked, "gatherv", "--counts", tmp_path / "counts")
    assert (code, "leave one out" in err) == (2, True)
    code, _, err = sccl(*asked, "broadcast", "--root", "1")
    assert (code, "give each group its own" in err) == (2, True)


def test_option_of_groups_is_short_for_a_collective_in_groups(tmp_path: Path) -> None:
    file = tmp_path / "groups.json"
    file.write_text(json.dumps({"groups": [{"ranks": [0, 1]}, {"ranks": [2, 3]}]}))
    asked = ("bound", "--json", "--topo", "ring:4", "--collective")
    long = sccl(*asked, "alltoall@0-1/2-3")
    assert long[0] == 0
    for groups in ("0-1,2-3", "2x2", str(file)):
        short = sccl(*asked, "alltoall", "--groups", groups)
        assert short[0] == 0
        both = (json.loads(text)["bandwidth"] for _, text, _ in (short, long))
        assert len(set(both)) == 1


def test_file_of_groups_may_name_every_collective(tmp_path: Path) -> None:
    file = tmp_path / "groups.json"
    rooted = {"ranks": [1, 0], "collective": "gather", "root": 0}
    alike = {"ranks": [2, 3, 4], "collective": "broadcast"}
    file.write_text(json.dumps({"groups": [rooted, alike]}))
    long = sccl("bound", "--json", "--topo", "ring:5", "--collective", file)
    short = sccl("bound", "--json", "--topo", "ring:5", "--groups", file)
    assert long == short
    assert long[0] == 0
    code, text, _ = sccl(
        "synth", "tacos", "--json", "--topo", "ring:5", "--groups", file, "--size", "24"
    )
    assert code == 0
    again = shlex.split(json.loads(text)["again"])
    assert again[3:7] == ["--topo", "ring:5", "--groups", str(file)]
    anew = json.loads(sccl(*again[1:], "--json")[1])
    assert {**anew, "seconds": 0} == {**json.loads(text), "seconds": 0}
    file.write_text(json.dumps({"groups": [rooted, {"ranks": [2, 3, 4]}]}))
    code, _, err = sccl("bound", "--topo", "ring:5", "--groups", file)
    assert (code, "$.groups[1]: the group has no collective" in err) == (2, True)
