"""The list of public files, and the run that reads them, on a repository of the test's own."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import public_files
from benchmarks.__main__ import app
from benchmarks.public_files import WANTED, PublicFile, PublicFileList, Search
from sccl import formats
from sccl.topo import importers
from sccl.training.traces import readers

EXAMPLE = importers.load_importer("nccl-xml").EXAMPLE


def git(repository: Path, *words: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    command = ["git", "-C", str(repository), *identity, *words]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()


@pytest.fixture
def mirrors(tmp_path: Path) -> Path:
    repository = tmp_path / "mirrors" / "owner" / "name"
    repository.mkdir(parents=True)
    git(repository, "init", "--quiet")
    (repository / "topo.xml").write_text(EXAMPLE)
    (repository / "cut.xml").write_text(EXAMPLE[: len(EXAMPLE) // 2])
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "files")
    return tmp_path / "mirrors"


def listed(mirrors: Path, path: str, **outcome: object) -> PublicFile:
    commit = git(mirrors / "owner" / "name", "rev-parse", "HEAD")
    file = PublicFile(reader="nccl-xml", repository="owner/name", commit=commit, path=path)
    return replace(file, **outcome)  # type: ignore[arg-type]


def test_public_files_are_laid_down_and_compared(mirrors: Path, tmp_path: Path) -> None:
    topo = listed(mirrors, "topo.xml", counts={"ranks": 2, "lanes": 4, "nics": 1})
    files = [
        topo,
        replace(topo, counts={"ranks": 3}),
        replace(topo, reader="hwloc"),
        replace(topo, refused="no closing tag"),
        listed(mirrors, "cut.xml", refused="line 8"),
        listed(mirrors, "cut.xml", refused="it has no GPUs"),
        listed(mirrors, "cut.xml", counts={"ranks": 2}),
        listed(mirrors, "absent.xml", counts={"ranks": 2}),
    ]
    results = list(public_files.run(files, tmp_path / "laid", mirrors))
    verdicts = [result.verdict for result in results]
    assert verdicts == ["sat", *["failed"] * 3, "sat", *["failed"] * 2, "unknown"]
    assert results[1].counts == {"ranks": 2}
    assert topo.place(tmp_path / "laid").read_text() == EXAMPLE


def test_public_files_that_lie_in_the_folder_need_no_repository(tmp_path: Path) -> None:
    counts = {"ranks": 2, "switches": 0}
    file = PublicFile("nccl-xml", "owner/name", "0" * 40, "deep/topo.xml", counts)
    place = file.place(tmp_path)
    place.parent.mkdir(parents=True)
    place.write_text(EXAMPLE)
    (result,) = public_files.run([file], tmp_path, tmp_path / "no mirrors")
    assert result.verdict == "sat"


def test_public_files_of_every_kind_are_counted(tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    trace.write_bytes(readers.load("astra").EXAMPLE)
    counts = public_files.count("astra", trace)
    assert (counts["traces"], counts["calls"]) == (1, 2)
    rules = tmp_path / "rules.csv"
    rules.write_text("allreduce,0,65536,tree,ll,-1,-1,-1,-1,-1\n")
    assert public_files.count("tuner-csv", rules) == {"rules": 1}


def test_public_files_are_named_by_commit_and_path() -> None:
    files = public_files.load_list().files
    known = {*importers.importer_names(), *readers.names(), *formats.names()}
    for file in files:
        assert file.reader in known
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", file.repository)
        assert re.fullmatch(r"[0-9a-f]{40}", file.commit)
        assert not Path(file.path).is_absolute()
        assert ".." not in Path(file.path).parts
        assert bool(file.counts) != bool(file.refused)
    repeated = Counter((file.reader, file.repository, file.commit, file.path) for file in files)
    assert max(repeated.values()) == 1


def test_public_files_are_ten_for_each_reader_or_have_a_search() -> None:
    content = public_files.load_list()
    read = Counter(file.reader for file in content.files if file.counts)
    own = {"own", "recording"}
    known = {*importers.importer_names(), *readers.names(), *formats.readable_names()} - own
    short = {reader: read[reader] for reader in known if read[reader] < WANTED}
    assert {search.reader: search.found for search in content.searches} == short
    assert all(search.searched for search in content.searches)


def test_public_files_that_differ_are_printed(
    mirrors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = listed(mirrors, "topo.xml", counts={"ranks": 3})
    content = PublicFileList([file], [Search("taccl", 3, "everywhere")])
    monkeypatch.setattr(public_files, "load_list", lambda: content)
    report = tmp_path / "report.json"
    words = ["public-files", "--mirrors", str(mirrors), "-o", str(report)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1, done.output
    assert "different" in done.output
    assert "3 readable files" in done.output
    (row,) = json.loads(report.read_text())["results"]
    assert row["counts"] == {"ranks": 2}
