"""Coverage-guided fuzzing of all readers of foreign files.

Python's tracing collects the lines of sccl that an input runs, for a fixed share of the inputs. An
input that reaches a new line joins the corpus, and is mutated further (AFL, Zalewski 2013). A run
depends only on its seed and its counts.
"""

from __future__ import annotations

import hashlib
import random
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.fuzz_readers import Reader
from sccl.errors import InputError

HANG_S = 2.0
"""Limit on the processor time of an input, in seconds."""

MAX_INPUT = 2**16
TURN = 500
"""Number of inputs of a reader in each turn."""

TRACED = 4
"""Ratio of all inputs to traced ones, which take several times as long."""

_TOKENS = re.compile(rb"[A-Za-z_][A-Za-z0-9_:.\-]*|[0-9]+|[^\sA-Za-z0-9]")
_ODD = (
    *(b"0", b"-1", b"1e309", b"NaN", b"99999999999999999999", b"0.1", b"2147483648", b"65536"),
    *(b"true", b"null", b'""', b"[]", b"{}", b"\x00", b"\xff", "\u0661".encode(), b"\r\n", b"\t"),
    *(b"]]>", b"<!DOCTYPE a>", b"&lt;"),
)
"""Rare words of interest."""


class HangError(BaseException):
    """Signal of an input that takes too long. No reader catches it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An input that a reader failed on.

    Attributes:
        outcome: Exception and place, which identify the failure.
        content: Minimized input.
    """

    reader: str
    outcome: str
    content: bytes


@dataclass(slots=True)
class Campaign:
    """State of the fuzzing of one reader."""

    reader: Reader
    corpus: list[bytes]
    inputs: int = 0
    accepted: int = 0
    seconds: float = 0.0
    lines: set[tuple[str, int]] = field(default_factory=set)
    failures: dict[str, Failure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FuzzResult:
    """Results of fuzzing one reader.

    Attributes:
        accepted: Number of accepted inputs.
        lines: Number of lines of sccl that traced inputs ran.
        kept: Number of inputs in the corpus.
        seconds: Processor time.
        failures: Exceptions and places of the failures.
    """

    reader: str
    inputs: int
    accepted: int
    lines: int
    kept: int
    seconds: float
    failures: tuple[str, ...]


def result(state: Campaign) -> FuzzResult:
    """Return the result of a campaign."""
    return FuzzResult(
        state.reader.name,
        state.inputs,
        state.accepted,
        len(state.lines),
        len(state.corpus),
        state.seconds,
        tuple(state.failures),
    )


def campaign(reader: Reader) -> Campaign:
    """Start a campaign with one read of each seed, which also compiles and loads modules."""
    state = Campaign(reader, [seed for seed in reader.seeds if len(seed) <= MAX_INPUT])
    for seed in state.corpus:
        _attempt(state, seed, traced=False, limited=False)
        _attempt(state, seed, traced=True)
    return state


def turn(state: Campaign, seed: int, inputs: int) -> None:
    """Give a reader more inputs, which depend on the seed and on the previous inputs."""
    dice = random.Random(f"{seed} {state.reader.name} {state.inputs}")  # noqa: S311 - no secret
    begin = time.process_time()
    for _ in range(inputs):
        content = mutate(dice, state.corpus)
        traced = dice.randrange(TRACED) == 0
        if _attempt(state, content, traced=traced):
            state.corpus.append(content)
    state.seconds += time.process_time() - begin


def _attempt(state: Campaign, content: bytes, *, traced: bool, limited: bool = True) -> bool:
    """Give a reader an input, and return whether it reached a new line."""
    state.inputs += 1
    seen: set[tuple[str, int]] = set()
    outcome = _outcome(state.reader.read, content, seen if traced else None, limited=limited)
    if traced and outcome.startswith("more than"):  # tracing takes ten times as long
        outcome = _outcome(state.reader.read, content)
    state.accepted += outcome == ""
    if outcome and outcome != "refused" and outcome not in state.failures:
        small = minimize(state.reader.read, content, outcome)
        state.failures[outcome] = Failure(state.reader.name, outcome, small)
    new = seen - state.lines
    state.lines |= seen
    return bool(new)


def _outcome(
    read: Callable[[bytes], object],
    content: bytes,
    seen: set[tuple[str, int]] | None = None,
    *,
    limited: bool = True,
) -> str:
    """Return the outcome of an input: an empty string, ``refused``, or the failure."""
    begin = time.process_time()
    try:
        with _Limit(HANG_S if limited else 0.0), _Tracing(seen):
            read(content)
    except InputError as error:
        if "\n" in str(error) or not str(error):
            return f"a message that is no line: {_place(error)}"
        return "refused" if not limited or time.process_time() - begin < HANG_S else "slow refusal"
    except (KeyboardInterrupt, SystemExit):
        raise
    except HangError:
        return f"more than {HANG_S:g} s"
    except BaseException as error:  # noqa: BLE001 - every exception is a failure
        return f"{type(error).__name__} {_place(error)}"
    return ""


def _place(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/sccl/" in f.filename]
    last = frames[-1] if frames else traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"


class _Limit:
    """Raises :class:`HangError` in the main thread after a limit of processor time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __enter__(self) -> None:
        signal.signal(signal.SIGVTALRM, _hangs)
        signal.setitimer(signal.ITIMER_VIRTUAL, self.seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)


def _hangs(*_: object) -> None:
    raise HangError


class _Tracing:
    """Records the lines of sccl that run. None: records nothing, without overhead."""

    def __init__(self, seen: set[tuple[str, int]] | None) -> None:
        self.seen = seen

    def __enter__(self) -> None:
        if self.seen is not None:
            sys.settrace(self._call)

    def __exit__(self, *_: object) -> None:
        if self.seen is not None:
            sys.settrace(None)

    def _call(self, frame: FrameType, _event: str, _: object) -> Any:
        return self._line if "/sccl/" in frame.f_code.co_filename else None

    def _line(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            assert self.seen is not None
            self.seen.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line


def minimize(read: Callable[[bytes], object], content: bytes, outcome: str) -> bytes:
    """Return a smaller input with the same failure, by leaving out parts."""
    size = len(content) // 2
    while size:
        position = 0
        while position < len(content):
            shorter = content[:position] + content[position + size :]
            if _outcome(read, shorter) == outcome:
                content = shorter
            else:
                position += size
        size //= 2
        if outcome.startswith("more than"):
            break  # every trial takes as long
    return content


def mutate(dice: random.Random, corpus: Sequence[bytes]) -> bytes:
    """Return an input of the corpus with one to six changes."""
    content = dice.choice(corpus)
    for _ in range(1 + int(dice.expovariate(0.7)) % 6):
        content = dice.choice(_CHANGES)(dice, content, corpus)
    return content[:MAX_INPUT]


def _spot(dice: random.Random, content: bytes) -> int:
    return dice.randrange(len(content) + 1)


def _flip(dice: random.Random, content: bytes, _: Sequence[bytes]) -> bytes:
    position = _spot(dice, content)
    new = bytes([dice.randrange(256)])
    return content[:position] + new + content[position + dice.randrange(2) :]


def _cut(dice: random.Random, content: bytes, _: Sequence[bytes]) -> bytes:
    a, b = sorted((_spot(dice, content), _spot(dice, content)))
    return content[:a] + content[min(b, a + dice.choice((1, 8, 64, 4096))) :]


def _truncate(dice: random.Random, content: bytes, _: Sequence[bytes]) -> bytes:
    return content[: _spot(dice, content)]


def _repeat(dice: random.Random, content: bytes, _: Sequence[bytes]) -> bytes:
    a = _spot(dice, content)
    part = content[a : a + dice.choice((1, 8, 64, 512))]
    return content[:a] + part * dice.choice((2, 3, 50)) + content[a + len(part) :]


def _line_of(dice: random.Random, content: bytes, _: Sequence[bytes]) -> bytes:
    """Remove, move, or repeat a line."""
    lines = content.splitlines(keepends=True)
    if not lines:
        return content
    line = lines.pop(dice.randrange(len(lines)))
    for _copy in range(dice.randrange(3)):
        lines.insert(dice.randrange(len(lines) + 1), line)
    return b"".join(lines)


def _token(dice: random.Random, content: bytes, corpus: Sequence[bytes]) -> bytes:
    """Replace a word, number, or sign by another one."""
    span = _near(dice, content)
    if span is None:
        return content
    a, b = span
    if dice.randrange(3) == 0:
        new = dice.choice(_ODD)
    else:
        donor = dice.choice(corpus)
        donor_span = _near(dice, donor)
        new = donor[donor_span[0] : donor_span[1]] if donor_span else b""
    return content[:a] + new + content[b:]


def _number(dice: random.Random, content: bytes, _: Sequence[bytes]) -> bytes:
    numbers = list(re.finditer(rb"[0-9]+", content[: 4 * 4096]))
    if not numbers:
        return content
    number = dice.choice(numbers)
    value = int(number[0][:30]) + dice.choice((-1, 1, 2, 255, 2**16, 2**31, 2**63, -(10**6)))
    return content[: number.start()] + str(value).encode() + content[number.end() :]


def _splice(dice: random.Random, content: bytes, corpus: Sequence[bytes]) -> bytes:
    donor = dice.choice(corpus)
    a = _spot(dice, donor)
    return content[: _spot(dice, content)] + donor[a : a + dice.choice((16, 256, MAX_INPUT))]


def _near(dice: random.Random, content: bytes) -> tuple[int, int] | None:
    """Return begin and end of the first token after a random position."""
    token = _TOKENS.search(content, _spot(dice, content))
    return token.span() if token else None


_Change = Callable[[random.Random, bytes, Sequence[bytes]], bytes]
_CHANGES: tuple[_Change, ...] = (
    *(_token, _token, _token, _number, _number, _line_of, _line_of),
    *(_flip, _cut, _truncate, _repeat, _splice),
)


def rounds(
    campaigns: Sequence[Campaign], seed: int, inputs: int | None, seconds: float | None
) -> Iterator[int]:
    """Give readers inputs in turn, and yield the number of inputs after each turn.

    Args:
        inputs: Total number of inputs. None: no limit.
        seconds: Wall-clock time. None: no limit.
    """
    begin, done = time.monotonic(), 0
    each = TURN if inputs is None else min(TURN, -(-inputs // len(campaigns)))
    while True:
        for state in campaigns:
            remaining = each if inputs is None else min(each, inputs - done)
            if remaining <= 0 or (seconds is not None and time.monotonic() - begin >= seconds):
                return
            turn(state, seed, remaining)
            done += remaining
            yield done


def keep(folder: Path, failure: Failure) -> Path:
    """Write the input of a failure into a file named after the failure."""
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"\W+", "-", f"{failure.reader}-{failure.outcome}")[:80]
    path = folder / f"{name}-{hashlib.sha256(failure.content).hexdigest()[:8]}.bin"
    path.write_bytes(failure.content)
    return path
