"""Mutants of generated GPU code: each leaves out one barrier, one wait, or one memory order.

All mutants are in one binary. The environment variable ``SCCL_MUTANT`` selects one by its number.
Without it, the code is unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MACHINE = "machine.hpp"
EMULATED = "emulated.hpp"

DECLARATION = """
namespace sccl {
inline const int mutant = std::getenv("SCCL_MUTANT") ? std::atoi(std::getenv("SCCL_MUTANT")) : 0;
}
"""

MEMBERS = """
  bool together_in(int number, bool good) {
    if (mutant != number) return together(good);
    if (!good) stopped_ = true;
    return !stopped_;
  }
  bool wait_in(int number, int peer, const Epoch *word, Epoch epoch) {
    return mutant == number ? !stopped_ : wait(peer, word, epoch);
  }
  bool await_in(int number, int peer, const Epoch *word, Epoch value) const {
    return mutant == number || await(peer, word, value);
  }
  bool await_peer_in(int number, int peer, const Epoch *word, Epoch epoch) const {
    return mutant == number || await_peer(peer, word, epoch);
  }
"""

FUNCTION = re.compile(
    r"^ *SCCL_(?:DEVICE|CALLED|GLOBAL) [^=;\n]*?(\w+)\([^;\n]*\) (?:const )?\{$", re.MULTILINE
)
PRIMITIVE = re.compile(r"^inline \w+ (\w+)\(", re.MULTILINE)

BARRIER = re.compile(r"\bSCCL_(BARRIER)\(\);")
CALL = re.compile(r"(?<!bool )\b(together|wait|await|await_peer)\((?!bool good)")
ATOMIC = re.compile(r"__atomic_\w+\([^()]*, __ATOMIC_(ACQUIRE|RELEASE|ACQ_REL)\)")


@dataclass(frozen=True)
class Mutant:
    """One change of the code.

    Attributes:
        number: Value of ``SCCL_MUTANT`` that selects it.
        name: Function, removed code, and its position among equal ones.
    """

    number: int
    name: str


def with_mutants(files: dict[str, str]) -> tuple[dict[str, str], list[Mutant]]:
    """Return the files of a project with all mutants in them, and the list of these."""
    mutants: list[Mutant] = []

    def add(functions: re.Pattern[str], site: re.Match[str]) -> int:
        function = [f[1] for f in functions.finditer(site.string, 0, site.start())][-1]
        name = f"{function}: {site[1].lower()}"
        before = sum(re.sub(r" \d+$", "", m.name) == name for m in mutants)
        mutants.append(Mutant(len(mutants) + 1, f"{name} {before + 1}" if before else name))
        return len(mutants)

    def without_barrier(site: re.Match[str]) -> str:
        return f"if (mutant != {add(FUNCTION, site)}) {site[0]}"

    def without_wait(site: re.Match[str]) -> str:
        return f"{site[1]}_in({add(FUNCTION, site)}, "

    def relaxed(site: re.Match[str]) -> str:
        weaker = site[0].replace(site[1], "RELAXED")
        return f"(mutant == {add(PRIMITIVE, site)} ? {weaker} : {site[0]})"

    machine = CALL.sub(without_wait, BARRIER.sub(without_barrier, files[MACHINE]))
    machine = inserted(
        machine, r"(?=\n  // All threads of the block wait for one another)", MEMBERS
    )
    emulated = ATOMIC.sub(relaxed, files[EMULATED])
    emulated = inserted(emulated, r'(?<=#include "types.hpp"\n)', DECLARATION)
    return files | {MACHINE: machine, EMULATED: emulated}, mutants


STREAM_FUNCTION = re.compile(
    r"^(?:  |inline )?\w[\w ]* \*?(\w+)\([^;\n]*\) (?:const )?\{", re.MULTILINE
)
STREAM_ORDER = re.compile(r"(?<!bool )\bgpu_(?:record|follow)\([^()]*\)")
STREAM_FLAG = re.compile(
    r"(?<!void )\b(?:await|set)\((?=(?:main_|stream), &control\([^;]*\);)[^;]*\);"
)
GROUP = ("communicator.cpp", "group.hpp", "counted.hpp")


def with_stream_mutants(
    files: dict[str, str], changed: Sequence[str]
) -> tuple[dict[str, str], list[Mutant]]:
    """Return the files of a project with mutants of the order of its streams, and their list.

    Each mutant leaves out the record of an event, the wait for one, a flag, or the wait for a flag.

    Args:
        files: files of a project.
        changed: names of those that get mutants.
    """
    mutants: list[Mutant] = []

    def add(site: re.Match[str]) -> int:
        function = [f[1] for f in STREAM_FUNCTION.finditer(site.string, 0, site.start())][-1]
        mutants.append(Mutant(len(mutants) + 1, f"{function}: {site[0]}"))
        return len(mutants)

    result = dict(files)
    for name in changed:
        text = STREAM_ORDER.sub(lambda site: f"(mutant == {add(site)} || {site[0]})", files[name])
        result[name] = STREAM_FLAG.sub(lambda site: f"if (mutant != {add(site)}) {site[0]}", text)
    result[EMULATED] = inserted(files[EMULATED], r'(?<=#include "types.hpp"\n)', DECLARATION)
    return result, mutants


def inserted(text: str, place: str, addition: str) -> str:
    """Return a text with an addition at the only place that matches."""
    changed, count = re.subn(place, addition, text)
    assert count == 1
    return changed
