"""Help, completion and colors on a terminal."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sccl.cli.main import app, load_verb
from sccl.cli.verbs import VERBS, Verb
from tests.kit.commands import COMMANDS
from tests.kit.projects import tool

COMMAND = (sys.executable, "-c", "from sccl.cli.main import app; app(prog_name='sccl')")
COLOUR = re.compile(r"\x1b\[[0-9;]*[34][0-7][0-9;]*m")


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_help_of_a_verb_fits_on_one_screen_and_has_examples_that_parse(verb: Verb) -> None:
    assert 1 <= len(verb.examples) <= 3
    lines = help_of(_callable_name(verb)).splitlines()  # 80 columns
    assert len(lines) <= 40
    text = " ".join(" ".join(lines).split())
    for example in verb.examples:
        words = shlex.split(example)[1:]
        assert words[:1] == verb.name.split()[:1]
        skipped = (
            1 if example == "sccl doctor" or "doctor --json" in example else len(verb.name.split())
        )
        arguments = words[1:] if "NAME" in verb.name else words[skipped:]
        COMMANDS[f"sccl {verb.name}"].make_context(verb.name, arguments)  # raises if one is unknown
        assert " ".join(example.split()) in text


def _callable_name(verb: Verb) -> str:
    return f"sccl {verb.name}".replace("NAME", "ring")


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_complete_help_lists_every_option_that_is_not_hidden(verb: Verb) -> None:
    command = COMMANDS[f"sccl {verb.name}"]
    flags = [max(p.opts, key=len) for p in command.params if not getattr(p, "hidden", False)]
    has_more = "--help-all" in flags
    text = help_of(f"{_callable_name(verb)}", "--help-all" if has_more else "--help")
    assert all(flag in text for flag in flags if flag.startswith("--"))
    assert " ".join(command.help.split()) in " ".join(text.split())


def test_site_options_come_from_the_environment() -> None:
    sweep = ("pareto", "--collective", "allgather", "--topo", "ring:4")
    result = CliRunner(env={"SCCL_TLS_CA": "x.pem"}).invoke(app, sweep)
    assert (result.exit_code, "TLS files are given without --cluster" in result.stderr) == (2, True)
    assert "--tls-ca" not in help_of("sccl pareto", "--help-all")


def test_every_option_is_explained() -> None:
    for name, command in COMMANDS.items():
        for parameter in command.params:
            assert parameter.help, f"{name} {parameter.name}"
            assert parameter.help.endswith((".", ")", "...")), f"{name} {parameter.name}"


def test_paragraphs_of_help_are_single_lines() -> None:
    """The site prints the text as it is, so a wrapped paragraph looks ragged."""
    for name, command in COMMANDS.items():
        assert "\n" not in command.help.replace("\n\n", ""), name


@pytest.mark.parametrize(
    ("verb", "is_listed"),
    [("pareto", False), ("solve", False), ("synth fastest", True), ("synth teccl", True)],
)
def test_verbs_list_counts_if_they_accept_unequal_parts(verb: str, is_listed: bool) -> None:
    option = "--help-all"
    assert ("--counts" in help_of(f"sccl {verb}", option)) is is_listed


def test_refused_counts_name_verbs_that_accept_them(tmp_path: Path) -> None:
    (tmp_path / "parts.txt").write_text("3 1 4 1", encoding="utf-8")
    words = "pareto --collective allgatherv --topo ring:4 --counts"
    result = CliRunner().invoke(app, [*words.split(), str(tmp_path / "parts.txt")])
    assert result.exit_code == 2
    assert "use 'sccl synth teccl' or 'sccl synth fastest'" in result.stderr


def help_of(name: str, option: str = "--help") -> str:
    result = CliRunner().invoke(app, [*name.split()[1:], option])
    assert result.exit_code == 0
    return result.stdout


def test_list_of_verbs_says_what_their_help_says() -> None:
    for verb in VERBS:
        assert " ".join(str(load_verb(verb).help).split("\n\n")[0].split()) == verb.summary


def test_listing_verbs_loads_none_of_them() -> None:
    program = (
        "import sys; from sccl.cli.main import app; app(['--help'], standalone_mode=False); "
        "print([name for name in sys.modules if name.startswith('sccl.')], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    names = ("", ".renamed", ".verbs", ".main", ".help")
    loaded = [f"sccl.cli{name}" for name in names]
    assert done.stderr.strip() == str(loaded)


def test_no_verb_loads_a_solver_before_it_works() -> None:
    """Help loads no library of charts or numbers: these take longer to load than sccl."""
    program = (
        "import sys; from sccl.cli.main import load_verb; from sccl.cli.verbs import VERBS; "
        "[load_verb(verb) for verb in VERBS]; "
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {name.split(".")[0] for name in done.stdout.split() if "." in name}
    heavy = {"altair", "flint", "igraph", "jinja2", "numpy", "ortools", "pandas", "pysat", "z3"}
    assert not heavy & loaded  # lazily loaded modules have no submodules yet


PROFILED = """
import sys, threading
files = set()
def profile(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_name != "<module>" and "/sccl/" in code.co_filename:
        files.add(code.co_filename)
threading.setprofile(profile)
sys.setprofile(profile)
from sccl.cli.main import app
app("pareto --collective allgather --topo dgx1 --no-store".split(), standalone_mode=False)
sys.setprofile(None)
modules = [name for name in sys.modules if name.partition(".")[0] == "sccl"]
print(len(modules), len(files), file=sys.stderr)
"""
"""Counts the modules of sccl that the demo loads, and the files whose functions or classes run."""


def test_demo_loads_few_modules_and_runs_few_files() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROFILED], capture_output=True, text=True, check=True
    )
    modules, files = map(int, done.stderr.splitlines()[-1].split())
    assert modules <= 105
    assert files <= 80


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_full_disk_gives_one_sentence(unbuffered: str) -> None:
    full = Path("/dev/full")
    if not full.is_char_device():
        pytest.skip("this machine has no /dev/full")
    for arguments in (["--help"], ["--version"], ["topo", "list"]):
        with full.open("w") as sink:
            done = subprocess.run(
                [*COMMAND, *arguments], stdout=sink, stderr=subprocess.PIPE, text=True, check=False,
                env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            )  # fmt: skip
        assert done.returncode == 4
        assert done.stderr.strip() == "failed: No space left on device"


@pytest.mark.parametrize("group", ["sccl", "sccl topo", "sccl synth"])
def test_help_of_a_group_is_complete(group: str) -> None:
    assert help_of(group, "--help-all") == help_of(group)


def offered(shell: str, line: str) -> list[str]:
    """Return the completions of the last word of a line."""
    words = line.split(" ")
    env = {
        "_SCCL_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = CliRunner(env=env).invoke(app, [], prog_name="sccl")
    assert done.exit_code == 0
    return [text for text in done.stdout.splitlines() if text]


@pytest.mark.parametrize(
    ("line", "offers"),
    [
        ("sccl pareto --topo dgx", ["dgx-a100", "dgx-b200", "dgx-h100", "dgx1", "dgx2", "dgx2:4"]),
        ("sccl topo show tor", ["torus:4x4x4"]),
        ("sccl solve --collective all", ["allgather", "allreduce", "alltoall"]),
        ("sccl pareto --solver ", ["cadical", "cpsat", "z3"]),
        ("sccl pareto --symmetry ", ["auto", "none", "translations"]),
        ("sccl project new --target ", ["cuda", "hip", "host"]),
        ("sccl plot --what a", ["arrival"]),
        ("sccl project bench project --against ", ["mpi"]),
        ("sccl project run project --collective allg", ["allgather"]),
        ("sccl pareto --topo mine.js", []),  # then the shell offers files
        ("sccl certificate ver", ["verify"]),
    ],
)
def test_words_are_completed(line: str, offers: list[str]) -> None:
    assert offered("bash", line) == offers
    assert [text.split("\t")[0] for text in offered("fish", line)] == offers
    zsh = "\n".join(offered("zsh", line))
    first = re.compile(r'^(?:_arguments .*\(\()?"(.*?)"', re.MULTILINE)
    assert first.findall(zsh.replace("\\\\:", ":")) == offers
    assert offers or zsh == "_files"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_of_a_shell_is_printed(shell: str) -> None:
    assert f"_SCCL_COMPLETE=complete_{shell}" in script(shell)


def script(shell: str) -> str:
    env = os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [*COMMAND, "--show-completion", shell]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


def test_bash_itself_completes(tmp_path: Path) -> None:
    ours = tmp_path / "sccl"
    ours.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    ours.chmod(0o755)
    words = "COMP_WORDS=(sccl pareto --topo dgx1 --collective allg); COMP_CWORD=5"
    called = "_sccl_completion sccl; echo ${COMPREPLY[@]}"
    done = subprocess.run(
        [tool("bash", "install bash"), "-c", f"{script('bash')}\n{words}\n{called}"],
        env=os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "allgather", done


def on_a_terminal(*arguments: str, **env: str) -> str:
    """Return the output of the command on a terminal."""
    ours, theirs = pty.openpty()
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    with subprocess.Popen(
        [*COMMAND, *arguments], stdout=theirs, env=kept | {"TERM": "xterm-256color"} | env
    ):
        os.close(theirs)
        parts = []
        while part := _read(ours):
            parts.append(part)
    os.close(ours)
    return b"".join(parts).decode()


def _read(handle: int) -> bytes:
    try:
        return os.read(handle, 65536)
    except OSError:  # Linux raises when the last writer has closed a terminal
        return b""


SWEEP = ("pareto", "--collective", "allgather", "--topo", "ring:4")


def test_colours_only_where_they_are_wanted() -> None:
    piped = subprocess.run([*COMMAND, *SWEEP], capture_output=True, text=True, check=True)
    assert "\x1b" not in piped.stdout + piped.stderr
    assert COLOUR.search(on_a_terminal(*SWEEP))
    assert not COLOUR.search(on_a_terminal(*SWEEP, NO_COLOR="1"))


@pytest.fixture(scope="module")
def folder_with_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that examples read."""
    folder = tmp_path_factory.mktemp("examples")
    for words in (
        "pareto --collective allgather --topo dgx1 --output found --certify proofs",
        "synth tacos --collective allreduce --topo dgx1 --size 1MB -o plan.json",
        "export found/allgather-dgx1-c2-s2-r3.json --format msccl-xml -o program.xml",
        "synth tacos --collective allgather --topo ring:4 --size 1MB -o schedule.json",
    ):
        run_example(folder, words)
    return folder


def run_example(folder: Path, words: str) -> None:
    """Run a command in a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = CliRunner().invoke(app, shlex.split(words), catch_exceptions=False)
    assert result.exit_code == 0, (words, result.stderr)


@pytest.mark.rest
@pytest.mark.parametrize(
    "name",
    [
        *("bound", "check", "simulate", "show", "export", "import", "topo list", "topo edit"),
        *("train make", "train motif", "certificate verify", "doctor schema"),
    ],
)
def test_examples_work_as_printed(name: str, folder_with_files: Path) -> None:
    verb = next(verb for verb in VERBS if verb.name == name)
    for example in verb.examples:
        run_example(folder_with_files, example.removeprefix("sccl "))
