"""Memory that results of collectives hold: waits under which no more is held than there is.

Results are held in the order in which they are used up: a collective waits for the last use of one
before it where all from that one on would be too much together. So what is held at any time are
results that follow one another, and fit. It is a restriction: another order of holding may do, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sccl.core.cost import bytes_text
from sccl.core.workload import Workload
from sccl.core.workload_ops import CommOp, Dependency, Role
from sccl.errors import ParameterError


def holders_of(workload: Workload, role: Role) -> tuple[CommOp, ...]:
    """Return the collectives whose results ranks of a role hold."""
    ranks = set(role.ranks)
    return tuple(
        op for op in workload.collectives() if op.holds_bytes and not ranks.isdisjoint(op.members)
    )


def gates_of(workload: Workload, names: Sequence[str], limit_bytes: int) -> tuple[Dependency, ...]:
    """Return waits under which results take no more than a limit, on any rank.

    Args:
        names: ids of operations, each after those that it waits for.
        limit_bytes: 0: there is none.

    Raises:
        ParameterError: a result alone, or what an operation uses at once, is more than that.
    """
    if not limit_bytes:
        return ()
    place = {name: k for k, name in enumerate(names)}
    users = _users(workload, place)
    found: dict[Dependency, None] = {}
    for role in workload.roles:
        held = sorted(
            holders_of(workload, role), key=lambda op: (*_last(users[op.id], place), place[op.id])
        )
        _check(held, users, limit_bytes)
        found |= dict.fromkeys(_gates(held, users, limit_bytes))
    return tuple(found)


def _users(workload: Workload, place: dict[str, int]) -> dict[str, list[tuple[int, str]]]:
    """Return of each collective who waits for it, with lags, in order; itself where nobody does."""
    users: dict[str, list[tuple[int, str]]] = {op.id: [] for op in workload.collectives()}
    for dep in workload.deps:
        if dep.before in users:
            users[dep.before].append((dep.lag, dep.after))
    for name, own in users.items():
        own.sort(key=lambda user: (user[0], place[user[1]]))
        if not own:
            own.append((0, name))
    return users


def _last(users: Sequence[tuple[int, str]], place: dict[str, int]) -> tuple[int, int]:
    """Return in how many iterations and at which place a result is used for the last time."""
    lag, name = users[-1]
    return lag, place[name]


def _check(
    held: Sequence[CommOp], users: dict[str, list[tuple[int, str]]], limit_bytes: int
) -> None:
    at_once: dict[tuple[int, str], int] = {}
    for op in held:
        if op.holds_bytes > limit_bytes:
            raise ParameterError(
                f"operation {op.id!r} holds {bytes_text(op.holds_bytes)}, and the memory is "
                f"{bytes_text(limit_bytes)}: give at least as much"
            )
        for lag, user in users[op.id]:
            whole = at_once[lag, user] = at_once.get((lag, user), 0) + op.holds_bytes
            if whole > limit_bytes:
                raise ParameterError(
                    f"operation {user!r} waits for results of {bytes_text(whole)} at once, and the "
                    f"memory is {bytes_text(limit_bytes)}: give at least as much"
                )


def _gates(
    held: Sequence[CommOp],
    users: dict[str, list[tuple[int, str]]],
    limit_bytes: int,
) -> Iterator[Dependency]:
    """Yield for whose last use each waits: of those before it, in this iteration or the last."""
    for number, op in enumerate(held):
        whole, back = 0, number
        while back >= number - len(held) + 1:
            whole += held[back].holds_bytes  # numbers below 0 are of the iteration before
            if whole > limit_bytes:
                break
            back -= 1
        else:
            continue
        lag, user = users[held[back].id][-1]
        waits = int(back < 0) - lag
        if waits < 0:
            raise ParameterError(
                f"operation {op.id!r} finds no room before {user!r} of an iteration that comes, in "
                f"a memory of {bytes_text(limit_bytes)}: give more"
            )
        if (user, waits) != (op.id, 0):
            yield Dependency(user, op.id, waits)
