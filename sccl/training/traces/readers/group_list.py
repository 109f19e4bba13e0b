"""Lists of groups, which lie next to traces of Chakra for simulators: ``comm_group.json``.

They are objects of lists of ranks by the names of groups. ASTRA-sim takes them with
``--comm-group-configuration``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from sccl.errors import FormatError, TooLargeError
from sccl.training.traces.readers.reader_contract import MAX_RANKS

_LIST_NAMES = ("comm_group.json", "comm_groups.json")
_LIST_BEGINNING = re.compile(rb'\s*\{\s*"[^"\\]{1,200}"\s*:\s*\[\s*[0-9]')
_MAX_MEMBERS = 2**22
"""Largest number of members of all groups of a list together."""


@dataclass(frozen=True, slots=True)
class GroupList:
    """Ranks of groups, as a file lists them by name.

    Attributes:
        source: The file, for messages.
        ranks: Ranks by the name of their group.
    """

    source: str
    ranks: Mapping[str, tuple[int, ...]]

    @property
    def world(self) -> int:
        """Return the number of ranks up to the last that is listed."""
        return 1 + max((max(ranks) for ranks in self.ranks.values()), default=-1)


def read_group_list(content: bytes, where: str) -> GroupList | None:
    """Return the groups that a file lists. None: it is a trace, by its name and beginning.

    Raises:
        InputError: it is named as such a list and is none, or is larger than is read.
    """
    if not where.endswith(_LIST_NAMES) and not _LIST_BEGINNING.match(content):
        return None
    expected = 'expected ranks by the names of groups, such as {"0": [0, 1], "1": [2, 3]}'
    try:
        lists = msgspec.json.decode(content, type=dict[str, list[int]])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise FormatError(f"{where}: no list of groups ({error}); {expected}") from error
    if sum(map(len, lists.values())) > _MAX_MEMBERS:
        raise TooLargeError(f"{where}: its groups have more than {_MAX_MEMBERS} ranks together")
    for name, ranks in lists.items():
        if not ranks or len(set(ranks)) < len(ranks) or not 0 <= min(ranks) <= max(ranks):
            raise FormatError(f"{where}: group {name!a:.60} is no set of ranks; {expected}")
        if max(ranks) >= MAX_RANKS:
            raise TooLargeError(
                f"{where}: group {name!a:.60} has rank {max(ranks)}, expected up to {MAX_RANKS - 1}"
            )
    return GroupList(where, {name: tuple(sorted(ranks)) for name, ranks in lists.items()})
