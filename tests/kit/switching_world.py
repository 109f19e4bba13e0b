"""Real ranks and coordinators over a store in memory, called in any order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sccl.errors import FormatError
from sccl.torch_backend.control.coordinator import Coordinator
from sccl.torch_backend.control.follower import Follower
from sccl.torch_backend.control.job_stores import StoreError
from sccl.torch_backend.control.ledger import Ledger, announce, current_ledger, describe_job
from tests.kit.memory_store import MemoryJobStore

RANKS = 3
K = (2, 1, 3)
"""Boundaries from one agreement to the next, by the version's remainder."""


class DyingStore(MemoryJobStore):
    """A store whose n-th caller from now on dies."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None

    def _asked(self) -> None:
        if self.left is not None:
            if self.left == 0:
                raise StoreError("it does not answer")
            self.left -= 1

    def get(self, key: str) -> bytes | None:
        self._asked()
        return super().get(key)

    def set(self, key: str, value: bytes) -> None:
        self._asked()
        super().set(key, value)

    def set_if_absent(self, key: str, value: bytes) -> bytes:
        self._asked()
        return super().set_if_absent(key, value)

    def add(self, key: str, amount: int) -> int:
        self._asked()
        return super().add(key, amount)


def least_of(contributions: Iterable[tuple[int, ...]]) -> list[int]:
    """Return the least of each number, as a MIN all-reduce does."""
    return [min(numbers) for numbers in zip(*contributions, strict=True)]


@dataclass(slots=True)
class Rank:
    """A rank: how many iterations it has run, how many since the last boundary, and which
    agreement it contributed to there."""

    follower: Follower[bytes]
    plan: bytes = b""
    iterations: int = 0
    since: int = 0
    round: int = 0


@dataclass
class World:
    """State of a job. ``ran`` has the plan of each iteration of each generation."""

    store: DyingStore = field(default_factory=DyingStore)
    generation: int = -1
    clock: float = 0.0
    key: bytes | None = None
    ran: dict[tuple[int, int], bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.begin_anew()
        self.coordinators = [self._coordinator() for _ in range(2)]

    def begin_anew(self) -> None:
        """Let the job begin in a generation of its own."""
        self.generation += 1
        self.rounds: dict[int, dict[int, tuple[int, ...]]] = {}
        ledger = announce(self.store, describe_job("a run", self.generation, RANKS), self.key)
        self.ranks = [Rank(self._follower(ledger, rank)) for rank in range(RANKS)]

    def _follower(self, ledger: Ledger, rank: int) -> Follower[bytes]:
        def fit(content: bytes, _: int) -> bytes:
            if content.endswith(b"%d" % rank):
                raise FormatError(f"not on rank {rank}")
            return content

        return Follower(ledger, rank, fit)

    def _coordinator(self) -> Coordinator:
        ledger = current_ledger(self.store, self.key)
        return Coordinator(ledger, lambda: self.clock, deadline_s=10)

    def dies(self, number: int) -> None:
        """Let a coordinator die, and another come in its place."""
        self.coordinators[number] = self._coordinator()

    def propose(self, number: int, content: bytes, left: int | None = None) -> None:
        """Let a coordinator propose a plan. It may die at an operation of the store."""
        self._until(number, left, lambda: self.coordinators[number].propose(content))

    def forge(self, kind: str, version: int, content: bytes) -> None:
        """Let somebody who has no key write a vote of rank 0, a decision, or a count of plans."""
        under = f"sccl/{current_ledger(self.store).job.run}/{self.generation}"
        keys = {"vote": f"{under}/vote/{version}/0", "versions": f"{under}/versions"}
        self.store.set(keys.get(kind, f"{under}/{kind}/{version}"), content)

    def look(self, number: int, left: int | None = None) -> None:
        """Let a coordinator go on with all plans, or die meanwhile."""
        self._until(number, left, self.coordinators[number].advance)

    def _until(self, number: int, left: int | None, do: object) -> None:
        self.store.left = left
        assert callable(do)
        try:
            do()
        except StoreError:
            self.store.left = None
            self.dies(number)
        self.store.left = None

    def listen(self, number: int, left: int | None = None, *, forged: bool = False) -> None:
        """Let a rank read the store, perhaps only a part of it.

        Args:
            forged: Whether the store may contain forged entries.
        """
        self.store.left = left
        try:
            self.ranks[number].follower.listen()
        except StoreError:
            assert left is not None or forged
        self.store.left = None

    def run(self, number: int) -> bool:
        """Run a rank for an iteration or the step after a boundary. Return False if it waits."""
        rank = self.ranks[number]
        if rank.since >= K[rank.follower.active % len(K)]:
            told = self.rounds.get(rank.round, {})
            if rank.round and len(told) < RANKS:
                return False
            plan = rank.follower.adopt_agreed(least_of(told.values())) if rank.round else None
            rank.plan = rank.plan if plan is None else plan
            rank.round, rank.since = rank.round + 1, 0
            self.rounds.setdefault(rank.round, {})[number] = rank.follower.contribution()
            return True
        place = self.generation, rank.iterations
        assert self.ran.setdefault(place, rank.plan) == rank.plan, f"two plans at {place}"
        rank.iterations, rank.since = rank.iterations + 1, rank.since + 1
        return True
