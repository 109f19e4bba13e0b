"""How the ranks of a group tell one another something over the job's store."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

IDENTITY = Path("/proc/sys/kernel/random/boot_id")
_POLL_S = 0.02
_NAMESPACES = ("pid", "net", "user", "mnt")


class StoreRendezvous:
    """Exchanges of all ranks, one after the other.

    Attributes:
        rank: of this process in the group.
        size: ranks of the group.
    """

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self._store = store
        self._times = 0

    def of_all(self, mine: bytes) -> list[bytes]:
        """Give data to all ranks, and return the data of each rank.

        Raises:
            RuntimeError: Some rank does not join within the store's timeout.
        """
        self._times += 1
        self._store.set(f"{self._times}/{self.rank}", mine)
        return [bytes(self._store.get(f"{self._times}/{rank}")) for rank in range(self.size)]

    def exchange(self, mine: Any) -> list[Any]:
        """Give a value of JSON to all ranks, and return those of all."""
        return [json.loads(text) for text in self.of_all(json.dumps(mine).encode())]

    def wait_for(self, rank: int, is_alive: Callable[[], bool]) -> None:
        """Wait until a rank comes to the next exchange, for any time as long as it is alive.

        Args:
            rank: Place of a rank whose work before the exchange may take longer than the store's
                time.
            is_alive: Whether the process of the rank runs.
        """
        key = f"{self._times + 1}/{rank}"
        while not self._store.check([key]) and is_alive():
            time.sleep(_POLL_S)


def machine_identity() -> list[str]:
    """Return a key that is equal for ranks that can share memory.

    Ranks in separate network namespaces count as ranks of two machines, because they are isolated.
    """
    spaces = []
    for name in _NAMESPACES:
        try:
            spaces.append(str(Path(f"/proc/self/ns/{name}").readlink()))
        except OSError:
            spaces.append("")
    try:
        boot = IDENTITY.read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    return [platform.node(), boot, str(os.getuid()), *spaces]
