"""Write the lab's networks as batches for ``ip`` and ``tc`` (iproute2).

Every channel is a bridge in the keeper's namespace, and a pair of virtual interfaces for each rank:
one end in the bridge, and one in the rank's namespace. A token bucket filter limits both ends: the
rank's end limits its sends, and the bridge's end limits its receives.
"""

from __future__ import annotations

from collections.abc import Sequence

from sccl.runtime.lab.lab_channels import LabChannel, rank_address

_MTU = 9000  # bytes: headers take 1 % of the rate, of 1500 they would take 5 %
_BURST_S = 0.001  # at the rate: after a pause, so much goes at once
_QUEUE_BYTES = 4_000_000  # nothing is dropped while ranks that all send to one are held back


def bridges(channels: Sequence[LabChannel]) -> str:
    """Return the batch for ``ip`` that makes a bridge for each channel."""
    lines = [
        f"link add name b{k} address 02:4d:00:{k:02x}:ff:ff type bridge"
        for k in _channel_numbers(channels)
    ]
    lines += [f"link set b{k} mtu {_MTU} addrgenmode none up" for k in _channel_numbers(channels)]
    return _join_lines(lines)


def links(channels: Sequence[LabChannel], pids: Sequence[str]) -> str:
    """Return the batch for ``ip`` that joins each rank to each bridge.

    Args:
        pids: of each rank, a process in its namespace.
    """
    lines = []
    for k, channel in enumerate(channels):
        for rank, pid in enumerate(pids):
            port, peer = f"b{k}r{rank}", f"name {channel.name} netns {pid}"
            lines.append(f"link add name {port} mtu {_MTU} type veth peer {peer} mtu {_MTU}")
            lines.append(f"link set {port} master b{k} addrgenmode none up")
    return _join_lines(lines)


def bridge_limits(channels: Sequence[LabChannel], ranks: int) -> str:
    """Return the batch for ``tc`` that limits the data that ranks receive."""
    return _join_lines(
        [
            _limit_line(f"b{k}r{rank}", channel)
            for k, channel in enumerate(channels)
            for rank in range(ranks)
        ]
    )


def rank_addresses(channels: Sequence[LabChannel], rank: int) -> str:
    """Return the batch for ``ip`` that gives a rank its addresses, in its namespace."""
    lines = ["link set lo up"]
    for k, channel in enumerate(channels):
        lines.append(f"address add {rank_address(k, rank)}/24 dev {channel.name}")
        lines.append(f"link set {channel.name} addrgenmode none up")
    return _join_lines(lines)


def rank_limits(channels: Sequence[LabChannel]) -> str:
    """Return the batch for ``tc`` that limits the data that a rank sends, in its namespace."""
    return _join_lines([_limit_line(channel.name, channel) for channel in channels])


def _channel_numbers(channels: Sequence[LabChannel]) -> range:
    return range(len(channels))


def _limit_line(interface: str, channel: LabChannel) -> str:
    burst = max(2 * _MTU, round(channel.bits_per_s / 8 * _BURST_S))
    return (
        f"qdisc add dev {interface} root tbf rate {channel.bits_per_s}bit burst {burst} "
        f"limit {_QUEUE_BYTES + burst}"
    )


def _join_lines(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
