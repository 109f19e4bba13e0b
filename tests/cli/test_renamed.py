"""Older names of verbs and options."""

from __future__ import annotations

import shlex
from itertools import chain

import pytest

from sccl.cli.renamed import replace_old_names
from sccl.cli.verbs import GROUPS, VERBS
from tests.kit.commands import sccl

ON = "--collective allgather --topo ring:4"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"tacos {ON} --time-limit 3", f"synth tacos {ON} --timeout 3"),
        (f"teccl {ON} --effort=2", f"synth teccl {ON} --budget=2"),
        ("baseline list", "synth list"),
        (f"baseline ring {ON}", f"synth ring {ON}"),
        (f"limits --time {ON} --out f.json", f"synth fastest {ON} --output f.json"),
        (f"limits {ON} --out found", f"limits {ON} --output found"),
        (f"pareto {ON} --limit", f"limits {ON}"),
        (f"pareto {ON} --out=found", f"pareto {ON} --output=found"),
        (f"bounds {ON}", f"bound {ON}"),
        (f"smt2 {ON} -o p.smt2", f"solve {ON} --smt2 p.smt2"),
        (f"smt2 {ON} --json", f"solve {ON} --json --smt2 -"),
        ("codegen a.json -o p", "project new a.json -o p"),
        ("run p --np 4 --sizes 1..4", "project run p --ranks 4 --size 1..4"),
        ("topo without dgx1 --link 0-4 -o m.json", "topo edit dgx1 --remove-link 0-4 -o m.json"),
        ("topo with dgx1 --link 0-5:2 -o m.json", "topo edit dgx1 --add-link 0-5:2 -o m.json"),
        ("topo probe --json", "topo import --json"),
        ("topo schema", "doctor schema topology"),
        ("topo schema --of=algorithm", "doctor schema algorithm"),
        ("workload make moe --experts 8", "train make moe --experts 8"),
        ("fabric show hgx2", "train show hgx2"),
        ("plan w.json --fabric hgx2 --seconds 1", "train plan w.json --fabric hgx2 --budget 1"),
        ("enforce --record w.json -- run --out x", "train run --record w.json -- run --out x"),
        ("verify-certificate proofs", "certificate verify proofs"),
        ("store ls --store v.sqlite", "doctor cache --store v.sqlite"),
        ("store gc --all", "doctor cache --delete-all"),
        ("doctor cache list --json", "doctor cache --json"),
        ("doctor cache export 3f -o a.json", "doctor cache 3f -o a.json"),
        ("doctor cache clear --unknown", "doctor cache --delete-unknown"),
        ("sketch check sk.json --topo ndv2x2", "synth sketch sk.json --topo ndv2x2"),
        ("synth sketch explain sk.json", "synth sketch sk.json"),
        ("synth sketch draw sk.json -o sk.svg", "synth sketch sk.json --plot sk.svg"),
        ("synth sketch show sk.json --json", "synth sketch sk.json --output=-"),
        ("train fabrics --json", "train show --json"),
        ("fabric check mine.json", "train show mine.json"),
        ("schema", "doctor schema"),
    ],
)
def test_old_command_line_becomes_the_new_one(old: str, new: str) -> None:
    words, note = replace_old_names(shlex.split(old))
    assert words == shlex.split(new)
    assert note is not None
    assert "the old name works until version 0.3" in note


def test_new_command_lines_stay_as_they_are() -> None:
    for example in chain.from_iterable(verb.examples for verb in VERBS):
        words = shlex.split(example)[1:]
        assert replace_old_names(words) == (words, None)


def test_old_verb_prints_its_note_on_stderr_alone() -> None:
    code, out, err = sccl("bounds", *ON.split())
    new_code, new_out, new_err = sccl("bound", *ON.split())
    assert (code, out) == (new_code, new_out) == (0, new_out)
    assert err.startswith("note: 'sccl bounds' is now 'sccl bound'; ")
    assert new_err == ""


@pytest.mark.parametrize(
    ("verb", "end"),
    [
        ("lab", "is now python -m benchmarks.lab (from a checkout)"),
        ("train lab", "is now python -m benchmarks.lab (from a checkout)"),
        ("topo infer", "was removed in version 0.2, without a replacement"),
    ],
)
def test_removed_verb_gives_one_sentence(verb: str, end: str) -> None:
    assert sccl(*verb.split(), "--ranks", "2") == (2, "", f"error: 'sccl {verb}' {end}\n")


def test_top_level_has_at_most_18_verbs() -> None:
    top = {verb.name.split()[0] for verb in VERBS}
    assert len(top) <= 18
    assert {name.split()[0] for name in GROUPS} <= top
