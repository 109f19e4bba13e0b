"""A key-value store in the memory of a process, in place of the store of a job."""

from __future__ import annotations

import threading


class MemoryJobStore:
    """A store in the memory of a process."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        with self._lock:
            return self._values.get(key)

    def set(self, key: str, value: bytes) -> None:
        with self._lock:
            self._values[key] = value

    def set_if_absent(self, key: str, value: bytes) -> bytes:
        with self._lock:
            return self._values.setdefault(key, value)

    def add(self, key: str, amount: int) -> int:
        with self._lock:
            total = int(self._values.get(key, b"0")) + amount
            self._values[key] = str(total).encode()
            return total
