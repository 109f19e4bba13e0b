"""The store: hits and misses, damage, killed processes, sharing, its verbs."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sccl.cli.main import app
from sccl.collectives import named_spec
from sccl.core.answer import Answer, Origin, Sat, Unknown, Unsat
from sccl.core.files.algorithms import load_algorithm
from sccl.core.instance import Instance, SweepRange
from sccl.core.stop import StopReason
from sccl.errors import InputError, ParameterError, ScclWarning
from sccl.judge import violations
from sccl.synth.common.store import SCHEMA_VERSION, Store
from sccl.synth.syncoll import oracle
from sccl.synth.syncoll import solve as syncoll_solve
from sccl.synth.syncoll.oracle import Oracle, QueryConfig
from sccl.synth.syncoll.sweep import sweep
from sccl.topo import resolve_topology
from tests.kit.paths import ROOT

CONFIG = QueryConfig("cpsat", "none", syncoll_solve.Effort())


def instance(chunks: int = 1, rounds: int = 2) -> Instance:
    return Instance(resolve_topology("ring:4"), named_spec("allgather", 4).at(chunks), 2, rounds)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "verdicts.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    opened = Store(path, version="1")
    yield opened
    opened.close()


def test_stored_verdict_reads_back(store: Store) -> None:
    sat = syncoll_solve.solve(instance())
    unsat = Unsat("why", "cpsat", 0.5)
    assert isinstance(sat, Sat)
    assert store.get(instance(), "cpsat", None) is None
    store.put(instance(), "cpsat", None, sat)
    store.put(instance(2), "cpsat", None, unsat)
    assert store.get(instance(), "cpsat", None) == sat
    assert store.get(instance(2), "cpsat", 1.0) == unsat
    assert store.get(instance(), "z3", None) is None  # another solver, another algorithm
    assert store.get(instance(3), "cpsat", None) is None


def forget_what_this_process_derived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sccl.synth.common.store._derived_unsats", set())


def origin_in(path: Path, *, version: str = "1", own: bool = True) -> Origin:
    with closing(Store(path, version=version, is_user_store=own)) as opened:
        found = opened.get(instance(), "cpsat", None)
    assert isinstance(found, Unsat)
    return found.origin


def test_unsat_names_its_origin(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(instance(), "cpsat", None, Unsat("why", "cpsat", 0.5))
    assert origin_in(path, own=False) is Origin.THIS_PROCESS  # for any file
    forget_what_this_process_derived(monkeypatch)
    assert origin_in(path) is Origin.STORED
    assert origin_in(path, version="2") is Origin.OTHER_VERSION
    assert origin_in(path, own=False) is Origin.STORE_FILE
    store.put(instance(), "cpsat", None, Unsat("why", "cpsat", 0.5, origin=Origin.CLUSTER))
    assert origin_in(path) is Origin.CLUSTER
    assert origin_in(path, version="2") is Origin.CLUSTER
    assert origin_in(path, own=False) is Origin.STORE_FILE


QUESTION = ("--collective", "allgather", "--topo", "dgx1", "--max-steps", "2", "--k", "1")


def forged(path: Path) -> Path:
    """Return a store in which each algorithm of a sweep is replaced by an unsat."""
    assert sccl("pareto", *QUESTION, "--store", path)[0] == 0
    with closing(sqlite3.connect(path)) as db:
        wrong = json.dumps({"answer": "unsat", "solver": "cpsat", "seconds": 0.1, "reason": "no"})
        db.execute("UPDATE verdicts SET answer = 'unsat', content = ?", (wrong,))
        db.commit()
    return path


def swept(*arguments: object) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(app, ["pareto", *QUESTION, "--json", *map(str, arguments)])
    found: dict[str, Any] = json.loads(result.stdout)
    return result.exit_code, found


def test_names_of_solvers_in_a_store_are_printed_as_text(path: Path) -> None:
    question = ("solve", "--collective", "allgather", "--topo", "ring:4", "--chunks", 1,
                "--steps", 2, "--rounds", 2, "--store", path)  # fmt: skip
    assert sccl(*question)[0] == 0
    with closing(sqlite3.connect(path)) as db:
        ((content,),) = db.execute("SELECT content FROM verdicts").fetchall()
        hostile = json.dumps(json.loads(content) | {"solver": "[red]\x1b[31mme[/red]"})
        db.execute("UPDATE verdicts SET content = ?", (hostile,))
        db.commit()
    code, text = sccl(*question)
    assert code == 0
    assert "[red]" in text
    assert "\x1b" not in text


def test_sweep_proves_nothing_on_the_word_of_a_store_file(path: Path) -> None:
    forged(path)
    code, found = swept("--store", path)
    assert code == 3
    assert [(p["chunks"], p["proved"], p["rests_on"]) for p in found["points"]] == [
        (1, False, ["store-file"])
    ]
    assert [(c["chunks"], c["rounds"], c["origin"]) for c in found["open"]] == [
        (2, 3, "store-file")
    ]
    assert not found["complete"]
    text = sccl("pareto", *QUESTION, "--store", path)[1]
    assert "best found (not verified: store-file)" in text
    assert "1 candidate claimed unsat by the store file, not verified here" in text
    code, found = swept("--store", path, "--trust-store")
    assert code == 0
    assert [(p["proved"], p["rests_on"]) for p in found["points"]] == [(True, ["store-file"])]
    assert {c.get("origin") for c in found["unsat"]} >= {"store-file"}
    text = sccl("pareto", *QUESTION, "--store", path, "--trust-store")[1]
    assert "proved (trusted store-file) for k = 1" in text
    assert "(not verified, trusted)" in text


def test_files_of_algorithms_claim_nothing_that_a_store_file_says(
    path: Path, tmp_path: Path
) -> None:
    forged(path)
    out = tmp_path / "out"
    sccl("pareto", *QUESTION, "--store", path, "--trust-store", "--output", out)
    files = [file for file in out.glob("allgather*.json") if file.name.count("-c")]
    assert files
    assert not any("pareto" in load_algorithm(file)[0].proved for file in files)


def test_proof_from_the_users_own_store_is_marked_as_stored(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home(path, monkeypatch)
    forged(path)  # as nobody but the user and this version could
    code, found = swept()
    assert code == 0
    assert [(p["proved"], p["rests_on"]) for p in found["points"]] == [(True, ["stored"])]
    text = sccl("pareto", *QUESTION)[1]
    assert "proved (stored) for k = 1" in text
    assert "proved (stored) for k = 1" in sccl("pareto", *QUESTION, "--store", path)[1]


def test_users_own_store_of_another_version_is_proved_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home(path, monkeypatch)
    forged(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE verdicts SET version = 'older'")
        db.commit()
    code, found = swept("--trust-store")
    assert [(p["chunks"], p["rests_on"]) for p in found["points"]] == [(1, ["other-version"])]
    code, found = swept()
    assert code == 0
    assert [(p["chunks"], p["rounds"], p["proved"]) for p in found["points"]] == [(2, 3, True)]
    assert "rests_on" not in found["points"][0]


def test_solve_is_unknown_on_the_word_of_a_store_file(path: Path) -> None:
    forged(path)
    question = ("--collective", "allgather", "--topo", "dgx1", "--chunks", 2, "--steps", 2,
                "--rounds", 3, "--store", path)  # fmt: skip
    code, text = sccl("solve", *question)
    assert code == 3
    assert "unsat according to the store file (not verified here)" in text
    code, text = sccl("solve", *question, "--trust-store", "--json")
    assert code == 1
    assert json.loads(text)["origin"] == "store-file"
    code, text = sccl("solve", *question[:-2], "--trust-store", "--no-store")
    assert code == 2
    assert "--trust-store and --no-store" in text


def test_bounds_verify_an_unsat_of_a_store_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = ("solve", "--collective", "allgather", "--topo", "ring:4", "--chunks", 1,
                "--steps", 1, "--rounds", 1, "--store", path, "--json")  # fmt: skip
    assert sccl(*question)[0] == 1
    forget_what_this_process_derived(monkeypatch)
    code, text = sccl(*question)
    assert code == 1
    assert json.loads(text)["origin"] == "here"
    assert json.loads(text)["solver"] == "distance"


def test_unknown_counts_if_it_had_as_much_time_and_was_this_version(
    store: Store, path: Path
) -> None:
    store.put(instance(), "cpsat", 10.0, Unknown(StopReason.parse("tired"), "cpsat", 10.0))
    assert store.get(instance(), "cpsat", 5.0) is not None
    assert store.get(instance(), "cpsat", 10.0) is not None
    assert store.get(instance(), "cpsat", 11.0) is None
    assert store.get(instance(), "cpsat", None) is None
    with closing(Store(path, version="2")) as later:
        assert later.get(instance(), "cpsat", 5.0) is None


def test_algorithms_are_verified_again_and_damage_is_as_if_it_were_not_there(
    store: Store, path: Path
) -> None:
    answer = syncoll_solve.solve(instance())
    store.put(instance(), "cpsat", None, answer)
    with closing(sqlite3.connect(path)) as db:
        (content,) = db.execute("SELECT content FROM verdicts").fetchone()
        found = json.loads(content)
        found["algorithm"]["sends"] = found["algorithm"]["sends"][1:]
        for damaged in (json.dumps(found), "{", '{"answer": "sat"}'):
            db.execute("UPDATE verdicts SET content = ?", (damaged,))
            db.commit()
            assert store.get(instance(), "cpsat", None) is None
    other = syncoll_solve.solve(instance(1, 3))
    store.put(instance(), "cpsat", None, other)  # an algorithm for another question
    assert store.get(instance(), "cpsat", None) is None


def test_wider_sweep_goes_on_where_one_stopped(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Instance] = []

    def counting(config: QueryConfig, one: Instance) -> Answer:
        asked.append(one)
        return syncoll_solve.solve(one, config.solver)

    monkeypatch.setattr(oracle, "answer_instance", counting)
    solve = Oracle(CONFIG, store).answer
    machine, spec = resolve_topology("dgx1"), named_spec("allgather", 8)

    def run(last: int) -> list[tuple[int, int]]:
        covered = SweepRange(k=5, max_steps=last)
        found = sweep(machine, spec, solve, solver="cpsat", covered=covered)
        return [(p.candidate.chunks, p.candidate.rounds) for p in found.points]

    assert run(2) == [(2, 3)]
    first = len(asked)
    assert run(2) == [(2, 3)]
    assert len(asked) == first
    assert run(3) == [(2, 3), (6, 7)]
    assert len(asked) == first + 1


def test_files_that_are_no_store_are_rejected(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("not a database " * 100)
    with pytest.raises(InputError, match="cannot use the store"):
        Store(text, version="1")
    newer = tmp_path / "newer"
    with closing(sqlite3.connect(newer)) as db:
        db.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
        db.execute("CREATE TABLE t (x)")
    with pytest.raises(InputError, match="store of version 2"):
        Store(newer, version="1")
    with pytest.raises(InputError, match="cannot use the store"):
        Store(Path("/proc/no/such/file"), version="1")


SWEEP = ("pareto", "--collective", "allgather", "--topo", "dgx1", "--max-steps", "2")


def pages_at_most(pages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the disk be full when a store has so many pages."""
    prepare = Store._prepare

    def prepared(store: Store) -> None:
        prepare(store)
        store._db.execute(f"PRAGMA max_page_count={pages}")

    monkeypatch.setattr(Store, "_prepare", prepared)


def test_store_that_fills_costs_a_warning_and_not_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages_at_most(3, monkeypatch)
    file = tmp_path / "s.sqlite"
    result = CliRunner().invoke(app, [*SWEEP, "--store", str(file)])
    assert result.exit_code == 0
    assert "2 │ 2 │ 3 " in result.stdout
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert warnings == [
        f"warning: the store {file} fails (database or disk is full): going on without it"
    ]


def test_store_that_is_damaged_meanwhile_costs_a_warning(
    path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(instance(), "cpsat", None, Unsat("why", "cpsat", 0.5))
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE verdicts")
    monkeypatch.setattr(oracle, "answer_instance", lambda *_: Unsat("why", "cpsat", 0.5))
    solve = Oracle(CONFIG, store).answer
    with pytest.warns(ScclWarning, match="no such table") as told:
        answers = [solve(instance()) for _ in range(3)]
    assert {answer.solver for answer in answers} == {"cpsat"}
    assert len(told) == 1


def home(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sccl.synth.common.settings.default_store_path", lambda: place)


def test_users_own_store_must_not_stop_a_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = tmp_path / "damaged"
    damaged.write_text("not a database " * 100)
    for place in (Path("/proc/no/such/file"), damaged):
        home(place, monkeypatch)
        result = CliRunner().invoke(app, [*SWEEP, "--json"])
        assert result.exit_code == 0
        assert json.loads(result.stdout)["points"]
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"warning: verdicts are not stored: cannot use the store {place} (")
        assert sccl("doctor", "cache")[0] == (2 if place.exists() else 0)  # nothing is kept there
        assert sccl(*SWEEP, "--store", place)[0] == 2


def test_locked_store_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(path, version="1").close()
    monkeypatch.setattr(sys.modules[Store.__module__], "_LOCK_TIMEOUT_S", 0.0)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        code, text = sccl(*SWEEP, "--store", path)
        assert code == 2
        assert f"cannot use the store {path} (another process has locked it)" in text
        assert sccl("doctor", "cache", "--store", path)[0] == 0
        code, text = sccl("doctor", "cache", "--delete-all", "--store", path)
        assert (code, "has locked it" in text) == (2, True)
        home(path, monkeypatch)
        code, text = sccl(*SWEEP)
        assert (code, "warning: verdicts are not stored" in text) == (0, True)


def test_store_that_is_locked_for_a_moment_is_waited_for(
    path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr("time.sleep", lambda _: other.execute("COMMIT"))  # meanwhile
    store.put(instance(), "cpsat", None, Unsat("why", "cpsat", 0.0))
    other.close()
    assert [row.answer for row in store.rows()] == ["unsat"]


DAMAGE = {
    "another column": "ALTER TABLE verdicts RENAME COLUMN seconds TO duration",
    "text that is none": "UPDATE verdicts SET content = CAST(x'ff' AS TEXT), question = content",
    "another question": "UPDATE verdicts SET question = '{}'",
    "no such time": "UPDATE verdicts SET at = CAST(x'c3' AS TEXT)",
    "no table": "DROP TABLE verdicts",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_stores_are_one_sentence(damage: str, path: Path, store: Store) -> None:
    store.put(instance(), "cpsat", None, Unsat("why", "cpsat", 0.5))
    key = next(store.rows()).instance
    store.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute(damage)
        db.commit()
    for words in ([], [key], [key, "-o", path.with_suffix(".json")]):
        code, text = sccl("doctor", "cache", *words, "--store", path)
        assert code == 2 or (words == [key] and "SET at" in damage)
        assert "defect" not in text
        assert text.count("\n") == 1 or code == 0


WRITER = """
import sys
from pathlib import Path
from sccl.core.answer import Unsat
from sccl.synth.common.store import Store
from tests.synth.common.test_store import instance
store = Store(Path(sys.argv[1]), version="1")
print("ready", flush=True)
for n in range(int(sys.argv[2]), 10**6):
    store.put(instance(n), "cpsat", None, Unsat("why", "cpsat", 0.0))
    print(n, flush=True)
"""


def start_writer(path: Path, first: int) -> Any:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(first)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_killed_writers_lose_at_most_what_was_in_flight(path: Path) -> None:
    writers = [start_writer(path, 1), start_writer(path, 500_001)]  # two sweeps share a store
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    said = [[int(writer.stdout.readline()) for _ in range(20)] for writer in writers]
    for writer, numbers in zip(writers, said, strict=True):
        writer.send_signal(signal.SIGKILL)
        out, _ = writer.communicate()
        numbers += [int(line) for line in out.split()]
    with closing(Store(path, version="1")) as opened:
        kept = {row.chunks for row in opened.rows()}
    for numbers in said:
        assert numbers
        assert set(numbers) <= kept
    assert len(kept) - sum(len(numbers) for numbers in said) <= 2


def sccl(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    return result.exit_code, result.output


def test_store_verbs(tmp_path: Path) -> None:
    file = tmp_path / "s.sqlite"
    question = ["solve", "--collective", "allgather", "--topo", "ring:4", "--chunks", 1, "--steps"]
    assert sccl(*question, 2, "--rounds", 2, "--store", file)[0] == 0
    assert "from the store" in sccl(*question, 2, "--rounds", 2, "--store", file)[1]
    assert sccl(*question, 1, "--rounds", 1, "--store", file)[0] == 1
    assert "from the store" not in sccl(*question, 2, "--rounds", 2, "--no-store")[1]
    code, text = sccl("doctor", "cache", "--store", file)
    assert code == 0
    assert "2 verdicts" in text
    listed = json.loads(sccl("doctor", "cache", "--json", "--store", file)[1])["verdicts"]
    assert {(v["answer"], v["steps"]) for v in listed} == {("sat", 2), ("unsat", 1)}
    key = {v["answer"]: v["instance"][:16] for v in listed}
    shown = json.loads(sccl("doctor", "cache", key["sat"], "--store", file)[1])
    assert shown["instance"]["steps"] == 2
    written = tmp_path / "a.json"
    assert sccl("doctor", "cache", key["sat"], "-o", written, "--store", file)[0] == 0
    assert violations(load_algorithm(written)[0]) == []
    for bad, says in (
        (["zz"], "no start of a digest"),
        (["0000000000"], "no instance"),
        ([""], "no start of a digest"),
        ([key["unsat"], "-o", tmp_path / "b.json"], "the store has no algorithm"),
        (["-o", tmp_path / "b.json"], "needs the DIGEST of an instance"),
        ([key["sat"], "--delete-all"], "give DIGEST or a --delete option, not both"),
        (["--delete-all", "--delete-unknown"], "--delete-all deletes every answer"),
    ):
        code, text = sccl("doctor", "cache", *bad, "--store", file)
        assert code == 2, text
        assert says in text
    for delete in (["--delete-unknown"], ["--delete-older-than-days", 1]):
        assert "0 verdicts deleted" in sccl("doctor", "cache", *delete, "--store", file)[1]
    assert "2 verdicts deleted" in sccl("doctor", "cache", "--delete-all", "--store", file)[1]
    code, text = sccl(*question, 2, "--rounds", 2, "--store", file, "--no-store")
    assert code == 2
    assert "leave one out" in text


def test_several_instances_may_start_alike(store: Store) -> None:
    for chunks in range(1, 40):
        store.put(instance(chunks), "cpsat", None, Unsat("why", "cpsat", 0.0))
    digits = [row.instance[0] for row in store.rows()]
    common = max(digits, key=digits.count)  # of 39 digests two start alike
    with pytest.raises(ParameterError, match="several instances"):
        store.find(common)
