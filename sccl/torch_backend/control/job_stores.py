"""Access the key-value store that the ranks and coordinators of a job share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from sccl.errors import ParameterError, ToolError

T = TypeVar("T")

MAX_BYTES = 4 << 20
"""Largest value: torch's store closes the connection of a client that sends 8 MiB."""


class StoreError(ToolError):
    """The store of a job cannot be reached, or has invalid content."""


class DecisionError(StoreError):
    """The store has a decision that no coordinator of the job has written."""


class JobStore(Protocol):
    """A key-value store. Its methods do not wait for values, and keys are never deleted.

    All methods raise :class:`StoreError` if the store cannot be reached.
    """

    def get(self, key: str) -> bytes | None:
        """Return the value of a key. None: there is none yet."""

    def set(self, key: str, value: bytes) -> None:
        """Write a value."""

    def set_if_absent(self, key: str, value: bytes) -> bytes:
        """Write a value unless the key has one. Return the value of the key."""

    def add(self, key: str, amount: int) -> int:
        """Add an amount to a number, which is 0 at first, and return the sum."""


class TorchJobStore:
    """A store of ``torch.distributed``, such as the TCPStore of every torchrun job.

    It has neither passwords nor encryption: anyone who reaches its port can write to it. So plans
    are read as data, with limits, and may be signed (:mod:`sccl.torch_backend.control.ledger`).

    Args:
        store: Store of torch. Each thread needs its own clone.
    """

    def __init__(self, store: Any) -> None:
        self._store = store

    def get(self, key: str) -> bytes | None:
        """Return the value of a key. None: there is none yet."""
        value = self._call_store(lambda: self._store.get(key) if self._store.check([key]) else None)
        return None if value is None else bytes(value)

    def set(self, key: str, value: bytes) -> None:
        """Write a value."""
        if len(value) > MAX_BYTES:
            raise ParameterError(f"{key} has {len(value)} bytes, expected at most {MAX_BYTES}")
        self._call_store(lambda: self._store.set(key, value))

    def set_if_absent(self, key: str, value: bytes) -> bytes:
        """Write a value unless the key has one. Return the value of the key."""
        return bytes(self._call_store(lambda: self._store.compare_set(key, "", value.decode())))

    def add(self, key: str, amount: int) -> int:
        """Add an amount to a number, which is 0 at first, and return the sum."""
        return int(self._call_store(lambda: self._store.add(key, amount)))

    def _call_store(self, ask: Any) -> Any:
        try:
            return ask()
        except RuntimeError as error:  # torch raises this type
            first = str(error).partition("\n")[0][:200]
            raise StoreError(f"the job's store does not answer ({first})") from error


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``"HOST:PORT"``. An IPv6 address is in brackets.

    Raises:
        ParameterError: The text has another form.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise ParameterError(
            f"store is {text!r:.80}, expected HOST:PORT, as MASTER_ADDR and MASTER_PORT of the job"
        )
    return host, int(port)


class RemoteJobStore:
    """The store of a running job. It connects on first use, and again after a lost connection.

    Args:
        address: Address as ``"HOST:PORT"``.
        seconds: Timeout of the connection.
    """

    def __init__(self, address: str, seconds: float = 2.0) -> None:
        self._address, self._seconds = address, seconds
        self._store: TorchJobStore | None = None

    def get(self, key: str) -> bytes | None:
        """Return the value of a key. None: there is none yet."""
        return self._call_store(lambda store: store.get(key))

    def set(self, key: str, value: bytes) -> None:
        """Write a value."""
        self._call_store(lambda store: store.set(key, value))

    def set_if_absent(self, key: str, value: bytes) -> bytes:
        """Write a value unless the key has one. Return the value of the key."""
        return self._call_store(lambda store: store.set_if_absent(key, value))

    def add(self, key: str, amount: int) -> int:
        """Add an amount to a number, which is 0 at first, and return the sum."""
        return self._call_store(lambda store: store.add(key, amount))

    def _call_store(self, ask: Callable[[TorchJobStore], T]) -> T:
        if self._store is None:
            self._store = connect_store(self._address, self._seconds)
        try:
            return ask(self._store)
        except StoreError:
            self._store = None  # torch's store does not reconnect
            raise


def connect_store(address: str, seconds: float = 10.0) -> TorchJobStore:
    """Connect to the store of a running job.

    Raises:
        ParameterError: The address has another form.
        StoreError: No store answers at the address, or torch is not installed.
    """
    host, port = parse_address(address)
    try:
        from torch.distributed import TCPStore  # noqa: PLC0415 - takes seconds, and may be missing
    except ImportError as error:
        raise StoreError(
            "torch is not installed, and jobs share its store: pip install 'sccl[torch]'"
        ) from error
    try:
        store = TCPStore(host, port, is_master=False, timeout=timedelta(seconds=seconds))
    except RuntimeError as error:
        raise StoreError(
            f"no store of a job at {address} within {seconds:g} s: is the job running, and can its "
            "MASTER_ADDR be reached from here?"
        ) from error
    return TorchJobStore(store)
