"""Exchanges of ranks over a store, in which a rank may be slow."""

from __future__ import annotations

import pytest

from sccl.torch_backend.bundles.bundle_abi import StoreRendezvous


class SlowStore:
    """A store in which rank 0 gives its part once it was looked for some times."""

    def __init__(self, looks: int) -> None:
        self._left, self._parts = looks, dict[str, bytes]()

    def set(self, key: str, part: bytes) -> None:
        self._parts[key] = part

    def check(self, keys: list[str]) -> bool:
        self._left -= 1
        if not self._left:
            self.set("1/0", b"built")
        return all(key in self._parts for key in keys)

    def get(self, key: str) -> bytes:
        if key not in self._parts:
            raise RuntimeError("wait timeout")
        return self._parts[key]


def test_rank_that_builds_a_bundle_has_longer_than_the_time_of_the_store() -> None:
    meeting = StoreRendezvous(SlowStore(3), 1, 2)
    meeting.wait_for(0, lambda: True)
    assert meeting.of_all(b"waited") == [b"built", b"waited"]


def test_rank_that_has_died_is_not_waited_for() -> None:
    meeting = StoreRendezvous(SlowStore(3), 1, 2)
    meeting.wait_for(0, lambda: False)
    with pytest.raises(RuntimeError, match="wait timeout"):
        meeting.of_all(b"waited")
