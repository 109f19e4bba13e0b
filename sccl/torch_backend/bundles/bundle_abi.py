"""Call the C API of a bundle for ranks without MPI, as declared in ``sccl.h``.

The ranks of a group exchange data over the job's store to join.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import time
from collections.abc import Callable, Generator, Sequence
from ctypes import c_char_p, c_int, c_size_t, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

IDENTITY = Path("/proc/sys/kernel/random/boot_id")
_POLL_S = 0.02
_NAMESPACES = ("pid", "net", "user", "mnt")


class StoreRendezvous:
    """A sequence of data exchanges between all ranks of a group.

    Attributes:
        rank: Place of this process in the group.
        size: Number of ranks of the group.
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
        """Give a JSON value to all ranks, and return the value of each rank."""
        return [json.loads(text) for text in self.of_all(json.dumps(mine).encode())]

    def wait_for(self, rank: int, is_alive: Callable[[], bool]) -> None:
        """Wait until a rank joins the next exchange, without a timeout as long as it is alive.

        Args:
            rank: Place of a rank whose work before the exchange may take longer than the store's
                timeout.
            is_alive: Function that returns whether the process of the rank runs.
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


IN_PLACE = -1
"""Value in place of an address, ``SCCL_IN_PLACE``."""

_NAMES = (
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "bfloat16", "float32", "float64"),
)
TYPES = {name: number for number, name in enumerate(_NAMES)}
"""Values of ``sccl_type`` by name."""

OPS = {"sum": 0, "prod": 1, "min": 2, "max": 3}
"""Values of ``sccl_op`` by name."""

_SUCCESS = 0
_Exchange = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_size_t)
_Awake = ctypes.CFUNCTYPE(c_int, c_void_p)


class JoinError(Exception):
    """Ranks cannot share a communicator. The message has the reason."""


class BundleError(RuntimeError):
    """A call failed, and the communicator is unusable."""


@dataclass(frozen=True, slots=True)
class BundleCall:
    """A call of a program.

    Attributes:
        name: Name of the collective.
        count: Elements of a block.
        kind: Element type, a value of :data:`TYPES`.
        op: Reduction operator, a value of :data:`OPS`.
        root: Place of the root.
    """

    name: bytes
    count: int
    kind: int
    op: int = 0
    root: int = 0


class BundleCommunicator:
    """A communicator of a bundle. Only one thread may call it at a time."""

    def __init__(self, library: ctypes.CDLL, meeting: StoreRendezvous, timeout_s: float) -> None:
        """Join the other ranks, at the same time on all ranks.

        Args:
            library: Loaded library of the bundle.
            meeting: Exchanges of the ranks.
            timeout_s: Timeout of calls, in seconds.

        Raises:
            JoinError: The ranks cannot join. All ranks raise it.
        """
        self.timeout_s = timeout_s
        self._library = library
        self._meeting = meeting
        self._until = time.monotonic() + timeout_s
        self._closing = False
        self._raised: BaseException | None = None
        self._awake = self._waking()
        next(self._awake)
        self._comm = c_void_p()
        # Python may run a signal handler before the first line of a callback, outside of its `try`,
        # and ctypes drops the exception. A generator resumes inside its `try`.
        self._callbacks = (_Exchange(self._exchange), _Awake(self._awake.send))
        code = self._library.sccl_join(
            meeting.rank, *self._callbacks, None, ctypes.byref(self._comm)
        )
        self._check(code, JoinError)

    def call(self, call: BundleCall, send: int, recv: int) -> None:
        """Call a collective, and wait for its end.

        Args:
            call: Collective and its parameters.
            send: Address of the input, or :data:`IN_PLACE`.
            recv: Address of the output.

        Raises:
            BundleError: The call failed.
        """
        self._until = time.monotonic() + self.timeout_s
        parameters = (call.count, call.kind, call.op, call.root)
        code = self._library.sccl_call(call.name, send, recv, *parameters, self._comm)
        if code:
            self._check(code, BundleError)

    def straight(
        self,
        send: Sequence[int],
        send_bytes: Sequence[int],
        recv: Sequence[int],
        recv_bytes: Sequence[int],
    ) -> None:
        """Send a block to each rank, receive one from each, and wait for the end.

        Raises:
            BundleError: The call failed.
        """
        size = self._meeting.size
        pointers, lengths = c_void_p * size, c_size_t * size
        self._until = time.monotonic() + self.timeout_s
        code = self._library.sccl_straight(
            pointers(*send), lengths(*send_bytes), pointers(*recv), lengths(*recv_bytes), self._comm
        )
        if code:
            self._check(code, BundleError)

    def end(self) -> None:
        """End the active call, if there is one, and all later calls."""
        self._closing = True

    def leave(self) -> None:
        """Free all shared resources. No call is active, and none follows."""
        self._closing = True
        if self._comm:
            self._library.sccl_leave(self._comm)
        self._comm = c_void_p()

    def _check(self, code: int, kind: type[Exception]) -> None:
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised
        if code != _SUCCESS:
            note = f"no end after {self.timeout_s:g} s: " if time.monotonic() > self._until else ""
            raise kind(note + self._library.sccl_explain().decode(errors="replace"))

    def _exchange(self, _context: int, mine: int, gathered: int, size: int) -> int:
        try:
            contents = self._meeting.of_all(ctypes.string_at(mine, size))
            ctypes.memmove(gathered, b"".join(contents), size * self._meeting.size)
        except BaseException as error:  # noqa: BLE001 - raised when the call is back
            self._raised = error
            return 1
        return 0

    def _waking(self) -> Generator[int, int | None, None]:
        """Yield whether a wait must end. C code resumes it only during a call of this thread."""
        ends = 0
        while True:
            try:
                yield ends
                ends = int(self._closing or time.monotonic() > self._until)
            except GeneratorExit:
                return
            except BaseException as error:  # noqa: BLE001 - raised when the call is back
                self._raised, ends = error, 1


def load_library(path: Path) -> ctypes.CDLL:
    """Load the library of a bundle.

    Raises:
        JoinError: The library cannot be loaded.
    """
    try:
        library = ctypes.CDLL(str(path))
        library.sccl_explain.restype = c_char_p
        library.sccl_join.argtypes = [c_int, _Exchange, _Awake, c_void_p, c_void_p]
        library.sccl_leave.argtypes = [c_void_p]
        library.sccl_straight.argtypes = [c_void_p] * 5
        library.sccl_call.argtypes = [
            c_char_p, c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p
        ]  # fmt: skip
    except (OSError, AttributeError) as error:
        raise JoinError(f"{path} cannot be loaded ({error})") from error
    return library
