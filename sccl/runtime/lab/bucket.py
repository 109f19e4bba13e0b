"""Token buckets: rates that senders keep by themselves, where no interface can be limited."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from sccl.errors import ParameterError

BURST_S = 0.002
"""What may be sent at once, as the time that it takes at the rate."""

_MOST_LATE_S = 0.25


class TokenBucket:
    """Bytes that may be sent by now; threads share one.

    Who takes more than there are goes into debt and waits until it is paid: so bytes of one call
    need not fit into the bucket, and callers that come at once are served in turn. Who is woken
    late on a busy machine may make up for that: no rate would be reached otherwise.

    Args:
        bits_per_s: the rate.
        now: seconds of a clock that never goes back.
        sleep: waits for seconds.
    """

    def __init__(
        self,
        bits_per_s: int,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bytes_per_s = bits_per_s / 8
        self._now, self._sleep = now, sleep
        self._paid = now()
        self._late = 0.0
        self._lock = threading.Lock()

    def take(self, size_bytes: int) -> None:
        """Wait until so many more bytes may have been sent."""
        with self._lock:
            now = self._now()
            least = now - BURST_S - self._late
            until = self._paid = max(self._paid, least) + size_bytes / self._bytes_per_s
            if until > now:
                self._late = 0.0  # it has been made up for
        if until > now:
            self._sleep(until - now)
            with self._lock:
                late = min(self._now() - until, _MOST_LATE_S)
                self._late = max(self._late, late)


def bucket_rates(environment: Mapping[str, str]) -> dict[str, int]:
    """Return bits/s by channel that whoever sends has to keep by itself; empty: it need not.

    Raises:
        ParameterError: ``SCCL_CHANNEL_RATES`` is not ``name=bits_per_s,...``.
    """
    told = environment.get("SCCL_CHANNEL_RATES", "")
    found: dict[str, int] = {}
    for part in filter(None, told.split(",")):
        name, _, rate = part.partition("=")
        if not (name and rate.isascii() and rate.isdigit() and 0 < len(rate) < 16 and int(rate)):
            raise ParameterError(
                f"SCCL_CHANNEL_RATES has {part!r}, expected a channel and bits per second, such "
                "as fast=100000000"
            )
        found[name] = int(rate)
    return found
