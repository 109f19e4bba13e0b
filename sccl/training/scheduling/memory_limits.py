"""Add dependencies that limit the memory of held results.

Results are released in the order of their last uses. A collective waits for all uses of earlier
results up to the point from which on they would be too large together. So the results held at any
time are consecutive, and fit. This is a restriction: other orders may fit as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sccl.core.cost import format_bytes
from sccl.core.workload import Workload
from sccl.core.workload_ops import CommOp, ComputeOp, Dependency, Role
from sccl.errors import ParameterError


def result_holders(workload: Workload, role: Role) -> tuple[CommOp, ...]:
    """Return the collectives whose results ranks of a role hold."""
    ranks = set(role.ranks)
    return tuple(
        op for op in workload.collectives() if op.holds_bytes and not ranks.isdisjoint(op.members)
    )


def memory_waits(
    workload: Workload, names: Sequence[str], limit_bytes: int
) -> tuple[Dependency, ...]:
    """Return dependencies under which held results stay within a limit, on every rank.

    Args:
        names: Ids of operations, each after its dependencies.
        limit_bytes: Limit. 0: none.

    Raises:
        ParameterError: A single result, or the simultaneous inputs of an operation, exceed it.
    """
    if not limit_bytes:
        return ()
    place = {name: k for k, name in enumerate(names)}
    users = _result_users(workload, place)
    lines: dict[str, tuple[object, int]] = {
        op.id: ((op.role, op.stream) if isinstance(op, ComputeOp) else op.id, place[op.id])
        for op in workload.ops
    }
    gates: dict[Dependency, None] = {}
    for role in workload.roles:
        held = sorted(
            result_holders(workload, role),
            key=lambda op: (*_last_use(users[op.id], place), place[op.id]),
        )
        _check_limit(held, users, limit_bytes)
        gates |= dict.fromkeys(_gate_waits(held, users, lines, limit_bytes))
    return tuple(gates)


def _result_users(workload: Workload, place: dict[str, int]) -> dict[str, list[tuple[int, str]]]:
    """Return of each collective who waits for it, with lags, in order; itself where nobody does."""
    users: dict[str, list[tuple[int, str]]] = {op.id: [] for op in workload.collectives()}
    for dep in workload.deps:
        if dep.before in users:
            users[dep.before].append((dep.lag, dep.after))
    for name, waiters in users.items():
        waiters.sort(key=lambda user: (user[0], place[user[1]]))
        if not waiters:
            waiters.append((0, name))
    return users


def _last_use(users: Sequence[tuple[int, str]], place: dict[str, int]) -> tuple[int, int]:
    """Return in how many iterations and at which place a result is used for the last time."""
    lag, name = users[-1]
    return lag, place[name]


def _check_limit(
    held: Sequence[CommOp], users: dict[str, list[tuple[int, str]]], limit_bytes: int
) -> None:
    holds = {op.id: op.holds_bytes for op in held}
    at_once = dict(holds)
    for op in held:
        if op.holds_bytes > limit_bytes:
            raise ParameterError(
                f"operation {op.id!r} holds {format_bytes(op.holds_bytes)}, and the memory is "
                f"{format_bytes(limit_bytes)}: give at least as much"
            )
        for user in {name for _, name in users[op.id]} - {op.id}:
            total = at_once[user] = at_once.get(user, 0) + op.holds_bytes
            if total > limit_bytes:
                note = " beside its own" if user in holds else ""
                raise ParameterError(
                    f"operation {user!r} waits for results of {format_bytes(total)} at once{note}, "
                    f"and the memory is {format_bytes(limit_bytes)}: give at least as much"
                )


_LatestUses = dict[object, tuple[int, int, str]]
"""For each stream: iteration, place, and operation of its latest work."""


def _gate_waits(
    held: Sequence[CommOp],
    users: dict[str, list[tuple[int, str]]],
    lines: dict[str, tuple[object, int]],
    limit_bytes: int,
) -> Iterator[Dependency]:
    """Yield for which uses each waits: the last ones of those before it for which is no room.

    Results are numbered on from iteration to iteration. When one begins, all are let go of up to
    one from which on they would be too much together, so are, in any case, those of some
    iterations before: nobody is further ahead than that.

    Args:
        lines: of each operation its stream, on which one ends after the other, and its place.
    """
    many = len(held)
    rounds = 2 + max((lag for op in held for lag, _ in users[op.id]), default=0)
    upto: list[_LatestUses] = [{}]
    for op in held:
        latest = dict(upto[-1])
        for lag, user in users[op.id]:
            line, at = lines[user]
            latest[line] = max(latest.get(line, (lag, at, user)), (lag, at, user))
        upto.append(latest)
    for number, op in enumerate(held):
        total, back = 0, number
        while back > number - rounds * many:
            total += held[back % many].holds_bytes
            if total > limit_bytes:
                break
            back -= 1
        turn, last = divmod(back, many)
        waits = {line: (turn + lag, at, user) for line, (lag, at, user) in upto[last + 1].items()}
        for line, (lag, at, user) in upto[many].items():  # of the iteration before that
            waits[line] = max(waits.get(line, (turn - 1, -1, "")), (turn - 1 + lag, at, user))
        for when, _, user in waits.values():
            if when > 0 or (when == 0 and user == op.id):
                raise ParameterError(
                    f"operation {op.id!r} has no memory before {user!r} has used the results that "
                    f"it holds, in {format_bytes(limit_bytes)}: give more"
                )
            yield Dependency(user, op.id, -when)
