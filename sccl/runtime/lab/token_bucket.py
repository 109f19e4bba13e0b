"""Token buckets: rates that senders keep by themselves, where no interface can be limited."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from sccl.errors import ParameterError

BURST_S = 0.002
"""Largest burst, in seconds at the configured rate."""

_MAX_LATENESS_S = 0.25


class TokenBucket:
    """A token bucket of bytes that threads share.

    A caller that takes more than the available bytes goes into debt and waits until it is paid.
    Bytes of one call therefore need not fit into the bucket, and concurrent callers are served in
    turn. A caller that wakes up late on a busy machine may catch up. Otherwise no rate would be
    reached.

    Args:
        bits_per_s: Rate.
        now: Function that returns the seconds of a monotonic clock.
        sleep: Function that waits for seconds.
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
        self._lateness = 0.0
        self._lock = threading.Lock()

    def take(self, size_bytes: int) -> None:
        """Wait until so many more bytes may have been sent."""
        with self._lock:
            now = self._now()
            earliest = now - BURST_S - self._lateness
            until = self._paid = max(self._paid, earliest) + size_bytes / self._bytes_per_s
            if until > now:
                self._lateness = 0.0  # it has been made up for
        if until > now:
            self._sleep(until - now)
            with self._lock:
                delay = min(self._now() - until, _MAX_LATENESS_S)
                self._lateness = max(self._lateness, delay)


def bucket_rates(environment: Mapping[str, str]) -> dict[str, int]:
    """Return bits/s by channel that senders must limit themselves to. Empty: no limits.

    Raises:
        ParameterError: ``SCCL_CHANNEL_RATES`` is not ``name=bits_per_s,...``.
    """
    text = environment.get("SCCL_CHANNEL_RATES", "")
    rates: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, _, rate = part.partition("=")
        if not (name and rate.isascii() and rate.isdigit() and 0 < len(rate) < 16 and int(rate)):
            raise ParameterError(
                f"SCCL_CHANNEL_RATES has {part!r}, expected a channel and bits per second, such "
                "as fast=100000000"
            )
        rates[name] = int(rate)
    return rates
