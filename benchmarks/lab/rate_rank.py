"""A rank of ``python -m benchmarks lab``: sends or receives, and rank 0 prints a rate.

Arguments: ``alone`` (rank 1 sends to rank 0), ``into`` (all send to rank 0) or ``out`` (rank 0
sends to all), and the number of bytes that the channel carries.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from functools import partial

from benchmarks.lab import TokenBucket, bucket_rates

PIECE = 1 << 16
_PATIENCE_S = 20.0


def connect(host: str, port: int) -> socket.socket:
    """Return a connection to a rank, waiting for its start."""
    last = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return socket.create_connection((host, port))
        except OSError:
            if time.monotonic() > last:
                raise
            time.sleep(0.02)


def send(peer: socket.socket, size: int, bucket: TokenBucket | None) -> None:
    """Send ``size`` bytes, and wait until they have arrived."""
    piece = bytes(PIECE)
    for offset in range(0, size, PIECE):
        part = piece[: size - offset]
        if bucket is not None:
            bucket.take(len(part))
        peer.sendall(part)
    peer.shutdown(socket.SHUT_WR)
    peer.recv(1)


def receive(peer: socket.socket) -> None:
    """Receive all bytes, and acknowledge them."""
    while peer.recv(PIECE):
        pass
    peer.sendall(b"!")


def main() -> None:
    """Run the rank's part of the pattern."""
    pattern, size = sys.argv[1], int(sys.argv[2])
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    channel, port = os.environ["SCCL_CHANNELS"].partition("=")[0], int(os.environ["MASTER_PORT"])
    root_address = os.environ["MASTER_ADDR"]
    rates = bucket_rates(os.environ)
    bucket = TokenBucket(rates[channel]) if channel in rates else None
    peers = range(1, 2 if pattern == "alone" else ranks)
    if rank:
        if rank in peers:
            root = connect(root_address, port)
            root.recv(1)
            if pattern == "out":
                receive(root)
            else:
                send(root, size // len(peers), bucket)
        return
    with socket.create_server((root_address, port)) as server:
        connections = [server.accept()[0] for _ in peers]
    begin = time.perf_counter()
    for peer in connections:
        peer.sendall(b"!")
    if pattern == "out":
        tasks = [partial(send, peer, size // len(peers), bucket) for peer in connections]
    else:
        tasks = [partial(receive, peer) for peer in connections]
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(8 * size / (time.perf_counter() - begin))


if __name__ == "__main__":
    main()
