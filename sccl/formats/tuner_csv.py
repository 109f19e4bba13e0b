"""Read and write rules of NCCL's example tuner plugin: an algorithm for a range of sizes per line.

A line is ``collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks``, optionally
with ``numPipeOps`` and ``regBuff``. Bounds are inclusive, bytes refer to the larger buffer, and -1
matches any value. The first line that matches a call applies. The plugin silently misreads unknown
words, so each such line is reported here. A comment may follow the last number: the plugin reads
digits only, and nothing after the tenth field. Source: NVIDIA/nccl 2.28 to 2.30,
``plugins/tuner/example`` (``plugin.c``, then ``plugin.cc``), and ``ncclGetAlgoInfo`` of
``src/enqueue.cc``. ROCm/rccl ``ext-tuner/example`` ignores such lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sccl.core.algorithm import Algorithm
from sccl.core.formatting import format_count
from sccl.core.schedule import Schedule
from sccl.errors import FormatError, TooLargeError
from sccl.formats.common.contract import ForeignPlan, FormatOptions, read_only

NAME = "tuner-csv"
ABOUT = "rules for NCCL's tuner plugin: its fastest algorithm for each size, by simulation"
SOURCE = "NVIDIA/nccl 2.30, plugins/tuner/example"
TAKES = (Algorithm, Schedule)
BY_SIZE = False
MIXES = False

Options = FormatOptions
"""The format has no options."""

MAX_LINE = 254
"""Maximum number of characters of a line: NCCL up to 2.29, and RCCL, read lines into 256 bytes."""

MAX_LINES = 100_000
"""Maximum number of lines of a file."""

MAX_SIZE = 2**64 - 1
"""Maximum number of bytes of a call."""

COLLECTIVES = ("allgather", "allreduce", "broadcast", "reduce", "reducescatter")
ALGORITHMS = ("collnet_chain", "collnet_direct", "nvls", "nvls_tree", "pat", "ring", "tree")
PROTOCOLS = ("ll", "ll128", "simple")

DEFAULT_CHANNELS = 0
"""Number of channels of a rule that leaves the choice to NCCL. The plugin's default is 1, also for
-1.
"""

_MIN_FIELDS, _MAX_FIELDS = 8, 10
"""Minimum and maximum number of fields of a line."""

_ONLY = {"tree": {"allreduce"}, "pat": {"allgather", "reducescatter"}}
"""Collectives that an algorithm supports. For others NCCL ignores the rule."""


@dataclass(frozen=True, slots=True)
class TunerRule:
    """An algorithm for calls within a range of sizes of the larger buffer."""

    collective: str
    min_bytes: int
    max_bytes: int
    algorithm: str
    protocol: str
    channels: int
    nodes: int
    ranks: int

    @property
    def line(self) -> str:
        """Return its line in a file."""
        return (
            f"{self.collective},{self.min_bytes},{self.max_bytes},{self.algorithm},"
            f"{self.protocol},{self.channels},{self.nodes},{self.ranks}"
        )


def format_rules(rules: Iterable[TunerRule], comments: Iterable[str]) -> str:
    """Return the file of rules, after comments that are truncated to the maximum line length."""
    head = (f"# {comment}"[:MAX_LINE] for comment in comments)
    return "".join(f"{line}\n" for line in (*head, *(rule.line for rule in rules)))


write = read_only("tuner-csv: rules need a comparison of NCCL's algorithms: use 'sccl export'")


def sniff(content: bytes) -> bool:
    """Return whether the first line that is no comment begins like a rule."""
    words = "|".join((*COLLECTIVES, "collective_type")).encode()
    first = rb"(?:[ \t\r]*\n|#[^\n]*\n)*[ \t]*(?:" + words + rb")[ \t]*,[^\n]*,"
    return bool(re.match(first, content[: 2**16]))


def read(content: bytes, where: str) -> ForeignPlan:
    """Return the rules of a file as the plugin reads them, with its misreadings.

    Raises:
        InputError: It is no text, or exceeds a limit.
    """
    try:
        lines = content.decode().split("\n")
    except UnicodeDecodeError as error:
        raise FormatError(f"{where}: not a text file (byte {error.start})") from error
    if len(lines) > MAX_LINES:
        raise TooLargeError(f"{where}: {len(lines)} lines; up to {MAX_LINES} are read")
    refused, notes, general_rules = list[str](), list[str](), list[TunerRule]()
    count = 0
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        prefix = f"line {number}: "
        wrong = list(_line_faults(line))
        refused += [prefix + text for text in wrong]
        if not wrong:
            rule, *rest = _parse_rule(line), *_line_fields(line)[_MIN_FIELDS:]
            notes += [prefix + text for text in _useless_reasons(rule, general_rules)]
            general_rules += [rule] if set(rest) <= {"-1"} else []
            count += 1
    about = f"{format_count(count, 'rule')} for NCCL's tuner plugin"
    return ForeignPlan(None, about, tuple(notes), tuple(refused))


def _line_fields(line: str) -> list[str]:
    """Return the fields of a line, without a comment after the last one."""
    fields = line.split(",")
    if len(fields) > _MAX_FIELDS and "#" in fields[_MAX_FIELDS - 1]:
        fields = fields[:_MAX_FIELDS]
    fields[-1] = re.sub(r"[ \t]+#.*", "", fields[-1])
    return [field.strip(" \t\r") for field in fields]


def _parse_rule(line: str) -> TunerRule:
    collective, low, high, algorithm, protocol, channels, nodes, ranks, *_ = _line_fields(line)
    numbers = (int(channels), int(nodes), int(ranks))
    return TunerRule(collective, int(low), int(high), algorithm, protocol, *numbers)


def _line_faults(line: str) -> Iterator[str]:
    """Yield the reasons why the plugin misreads a line."""
    if len(line.encode()) > MAX_LINE:
        yield f"{len(line.encode())} bytes long, at most {MAX_LINE} are one line for NCCL"
        return
    fields = _line_fields(line)
    if not _MIN_FIELDS <= len(fields) <= _MAX_FIELDS:
        does = "ignores it" if len(fields) < _MIN_FIELDS else "ignores all after the tenth"
        yield f"{len(fields)} fields, expected {_MIN_FIELDS} to {_MAX_FIELDS}: the plugin {does}"
        return
    if "" in fields:
        yield f"field {1 + fields.index('')} is empty, which shifts those after it: write -1"
        return
    words = ((0, COLLECTIVES, "allreduce"), (3, ALGORITHMS, "ring"), (4, PROTOCOLS, "simple"))
    for place, choices, instead in words:
        if fields[place] not in choices:
            yield f"{fields[place][:20]!r} is none of {', '.join(choices)}: taken for {instead}"
    for place in (1, 2):
        if not re.fullmatch("[0-9]{1,20}", fields[place]) or int(fields[place]) > MAX_SIZE:
            yield f"{fields[place][:20]!r} is no number of bytes up to 2^64 - 1"
    for place in range(5, len(fields)):
        if not re.fullmatch("-1|[0-9]{1,9}", fields[place]):
            yield (
                f"{fields[place][:20]!r} is not a number from -1 on: the plugin reads its leading "
                "digits only"
            )


def _useless_reasons(rule: TunerRule, before: Sequence[TunerRule]) -> Iterator[str]:
    """Yield the reasons why a rule has no effect, or less effect than it seems."""
    if rule.min_bytes > rule.max_bytes:
        yield f"no size is {rule.min_bytes} or more and {rule.max_bytes} or less"
    if rule.collective not in _ONLY.get(rule.algorithm, {rule.collective}):
        yield f"NCCL has no {rule.algorithm} of {rule.collective}: it does nothing"
    if rule.channels == -1:
        yield (
            f"-1 channels are one, as the plugin begins with it; {DEFAULT_CHANNELS} are NCCL's own"
        )
    for earlier in before:
        sizes = earlier.min_bytes <= rule.min_bytes and rule.max_bytes <= earlier.max_bytes
        machines = earlier.nodes in {-1, rule.nodes} and earlier.ranks in {-1, rule.ranks}
        if earlier.collective == rule.collective and sizes and machines:
            yield f"'{earlier.line}' decides all of its calls before"
            return
