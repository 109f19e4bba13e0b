"""Rules for NCCL's tuner: the file, and the plugin's reading of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sccl.formats import tuner_csv
from sccl.formats.tuner_csv import MAX_SIZE
from tests.kit.commands import sccl

GOOD = "allreduce,0,100,tree,simple,0,1,8"


def asked(text: str, collective: str, size: int, nodes: int, ranks: int) -> tuple[str, str, int]:
    """Return (algorithm, protocol, channels) that the plugin sets, empty without a rule.

    It reads a line of at most 255 bytes, splits it at commas without empty parts, reads unknown
    words as allreduce, ring and simple, and uses the first matching rule.
    """
    for line in text.splitlines():
        words = [word.strip(" \t") for word in line[:255].split(",") if word]
        if line.startswith("#") or not 8 <= len(words) <= 10:
            continue
        named = words[0] if words[0] in tuner_csv.COLLECTIVES else "allreduce"
        low, high, channels, of_nodes, of_ranks = (int(words[i]) for i in (1, 2, 5, 6, 7))
        if (
            named == collective
            and low <= size <= high
            and of_nodes in {-1, nodes}
            and of_ranks in {-1, ranks}
        ):
            algorithm = words[3] if words[3] in tuner_csv.ALGORITHMS else "ring"
            protocol = words[4] if words[4] in tuner_csv.PROTOCOLS else "simple"
            return algorithm, protocol, 1 if channels == -1 else channels
    return "", "", 1


NAMES = {"multi-ring": "ring", "double-binary-tree": "tree", "pat": "pat"}


@pytest.mark.parametrize(
    ("machine", "collective", "nodes", "only"),
    [
        ("dgx1", "allreduce", 1, "multi-ring,double-binary-tree,direct"),
        ("ring:4", "allgather", 4, "multi-ring,pat"),
        ("ring:4", "broadcast", 4, "multi-ring,double-binary-tree"),
    ],
)
def test_plugin_chooses_what_is_fastest(
    tmp_path: Path, machine: str, collective: str, nodes: int, only: str
) -> None:
    """A rule exists at each compared size, by NCCL's options, and at any other size.

    Ranks without a chassis are separate nodes, the only case in which NCCL has PAT.
    """
    file = tmp_path / "rules.csv"
    words = ("--collective", collective, "--topo", machine, "--only", only, "--size", "1KB..16MB")
    code, out, err = sccl("compare", *words, "--tuner", file, "--json")
    assert (code, err) == (0, "")
    shown = json.loads(out)
    text = file.read_text()
    ranks = int(machine.removeprefix("ring:")) if ":" in machine else 8
    has = {"allreduce": {"ring", "tree"}, "allgather": {"ring", "pat"}}.get(collective, {"ring"})
    times: dict[int, dict[str, float]] = {}
    for system in shown["systems"]:
        for row in system["times"]:
            times.setdefault(row["size_bytes"], {})[NAMES.get(system["name"], "")] = row["time_us"]
    for size, by_name in times.items():
        larger = size * ranks if collective == "allgather" else size
        algorithm, protocol, channels = asked(text, collective, larger, nodes, ranks)
        assert (protocol, channels) == ("simple", 0)
        assert by_name[algorithm] == min(us for name, us in by_name.items() if name in has)
    for size in (0, 1, 2**20 - 1, 2**40, MAX_SIZE):
        assert asked(text, collective, size, nodes, ranks)[0] in has
        assert asked(text, collective, size, nodes, ranks + 1)[0] == ""
    code, out, _ = sccl("check", file)
    assert (code, "valid" in out, "refused" in out) == (0, True, False)
    assert shown["tuner"]["file"] == str(file)
    assert f"NCCL_TUNER_CONFIG_FILE={file}" in shown["tuner"]["command"]


def test_tuner_reports_the_ranges_faster_than_nccl(tmp_path: Path) -> None:
    file = tmp_path / "rules.csv"
    words = ("--only", "multi-ring,double-binary-tree,direct", "--size", "1KB..4KB")
    code, out, _ = sccl(
        "compare", "--collective", "allreduce", "--topo", "dgx1", *words, "--tuner", file
    )
    assert code == 0
    assert "direct takes up to 67% less time than NCCL's algorithms" in out
    assert (
        "# at 1 KB to 4 KB direct takes up to 67% less time than NCCL's algorithms"
        in file.read_text()
    )


def test_plans_are_exported_as_rules_next_to_them(tmp_path: Path) -> None:
    """Those that 'sccl compare' gives for the same machine, which say where the plans win."""
    plans, rules, beside = tmp_path / "found", tmp_path / "rules.csv", tmp_path / "beside.csv"
    about = ("--collective", "allgather", "--topo", "ring:4")
    assert sccl("pareto", *about, "--output", plans)[0] == 0
    code, out, err = sccl("export", plans, "--format", "tuner-csv", "-o", rules)
    assert (code, err) == (0, "")
    assert "to run it: mpirun -np 4 env NCCL_TUNER_PLUGIN=libnccl-tuner-example.so" in out
    assert f"NCCL_TUNER_CONFIG_FILE={rules} all_gather_perf" in out
    better = [line for line in rules.read_text().splitlines() if "takes up to" in line]
    assert better
    assert all("allgather-ring-4-c" in line for line in better)
    only = ("--only", "multi-ring,pat")
    assert sccl("compare", *about, *only, "--tuner", beside)[0] == 0
    own, others = (
        [line for line in file.read_text().splitlines() if not line.startswith("#")]
        for file in (rules, beside)
    )
    assert own == others


def test_rules_at_one_size_hold_for_all(tmp_path: Path) -> None:
    plan, rules = tmp_path / "plan.json", tmp_path / "rules.csv"
    about = ("--collective", "allreduce", "--topo", "dgx1")
    assert sccl("synth", "multi-ring", *about, "-o", plan)[0] == 0
    code, out, _ = sccl("export", plan, "--format", "tuner-csv", "--size", "1MB", "-o", rules)
    assert (code, " all_reduce_perf -b 1K -e 1G -f 4 -g 8" in out) == (0, True)
    (rule,) = (line for line in rules.read_text().splitlines() if not line.startswith("#"))
    assert rule.startswith(f"allreduce,0,{MAX_SIZE},")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--collective", "alltoall"), "NCCL's tuner does not support alltoall"),
        (("--collective", "allreduce", "--only", "direct"), "none of multi-ring"),
    ],
)
def test_plans_without_tuner_rules_are_reported(
    tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    file = tmp_path / "rules.csv"
    code, _, err = sccl("compare", "--topo", "ring:4", *words, "--size", "1KB", "--tuner", file)
    assert (code, says in " ".join(err.split()), file.exists()) == (2, True, False)


def said(text: str) -> tuple[str, str]:
    """Return the error and the notes of a file."""
    read = tuner_csv.read(text.encode(), "file")
    return " | ".join(read.refused), " | ".join(read.notes)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("allreduce", "alltoall", "'alltoall' is none of allgather, allreduce"),
        ("allreduce", "AllReduce", "taken for allreduce"),
        ("tree", "trees", "taken for ring"),
        ("simple", "-1", "taken for simple"),
        ("100", "1KB", "'1KB' is no number of bytes"),
        ("100", str(MAX_SIZE + 1), "is no number of bytes up to"),
        (",8", ",", "field 8 is empty"),
        (",8", "", "7 fields, expected 8 to 10: the plugin ignores it"),
        (",8", ",8,-1,-1,1", "11 fields, expected 8 to 10"),
        (",8", ",x", "'x' is not a number from -1 on"),
    ],
)
def test_lines_that_are_taken_for_something_else_are_rejected(
    old: str, new: str, says: str
) -> None:
    assert tuner_csv.sniff(GOOD.encode())
    assert said(GOOD) == ("", "")
    assert says in said(GOOD.replace(old, new))[0]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["allreduce,9,8,ring,ll,0,1,8"], "line 1: no size is 9 or more and 8 or less"),
        (["broadcast,0,8,tree,ll,0,1,8"], "NCCL has no tree of broadcast: it does nothing"),
        (["allreduce,0,8,ring,ll,-1,1,8"], "-1 channels are one"),
        ([GOOD, "# that", "allreduce,5,100,ring,ll,0,1,8"], "line 3: '" + GOOD + "' decides all"),
    ],
)
def test_rules_that_do_nothing_are_noted(lines: list[str], says: str) -> None:
    refused, notes = said("\n".join(lines))
    assert (refused, says in notes) == ("", True)


def test_edges() -> None:
    """254 bytes are a line, fields up to ten, and sizes up to 2^64 - 1."""
    pad = " " * (254 - len(GOOD))
    assert said(GOOD + pad) == ("", "")
    assert "255 bytes long" in said(GOOD + pad + " ")[0]
    assert said(GOOD + ",-1,-1") == ("", "")
    assert said(GOOD.replace("100", str(MAX_SIZE))) == ("", "")
    other = GOOD.replace("tree", "ring")
    for rest, shadows in ((",-1", True), (",1", False)):
        assert ("decides all" in said(f"{GOOD}{rest}\n{other}")[1]) == shadows


def test_check_reads_comments_that_follow_the_last_number() -> None:
    """The plugin parts lines at commas, stops at the tenth field, and reads digits alone."""
    whole = GOOD + ",-1,-1"
    for line in (GOOD + "   # small", whole + " # small", whole + "  # 2 nodes, 16 ranks, large"):
        read = tuner_csv.read(line.encode(), "file")
        assert (read.refused, read.notes) == ((), ())
        assert read.about.startswith("1 rule for")
    other = GOOD.replace("tree", "ring")
    assert "decides all" in said(f"{whole} # any\n{other}")[1]
    for line in (GOOD + " # 2 nodes, 16 ranks", GOOD.replace(",0,1", ",0 # own,1")):
        assert "is not a number from -1 on" in said(line)[0]
    assert "ignores all after the tenth" in said(whole + ",7 # more")[0]


def test_header_is_a_rule_to_the_plugin() -> None:
    header = "collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks"
    assert tuner_csv.sniff(f"{header}\n{GOOD}\n".encode())
    assert "'collective_type' is none of" in said(header)[0]


def test_rules_are_no_plan(tmp_path: Path) -> None:
    file = tmp_path / "rules.csv"
    file.write_text(GOOD + "\n")
    code, _, err = sccl("import", file, "-o", tmp_path / "plan.json")
    assert (code, "and no plan" in err) == (2, True)
