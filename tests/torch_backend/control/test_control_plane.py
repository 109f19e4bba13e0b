"""The control plane at work: votes, decisions, damaged plans, deaths at every moment."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.errors import FormatError, ParameterError, ScclError
from sccl.torch_backend.control.coordinator import Coordinator, Decision
from sccl.torch_backend.control.follower import Follower, Listener
from sccl.torch_backend.control.job_stores import (
    RemoteJobStore,
    StoreError,
    TorchJobStore,
    connect_store,
    parse_address,
)
from sccl.torch_backend.control.ledger import (
    MAX_BYTES,
    BlobHead,
    Ledger,
    RankVote,
    announce,
    current_ledger,
    describe_job,
    parse_head,
    read_key,
    seal,
    unseal,
)
from sccl.torch_backend.control.transitions import RankState
from tests.kit.memory_store import MemoryJobStore
from tests.kit.nightly import times
from tests.kit.paths import PROGRAMS
from tests.kit.processes import PATIENCE_S
from tests.kit.switching_world import RANKS, World, least_of
from tests.kit.torch_jobs import environment, interpreter

KEY = b"0123456789abcdef"
WEIGHTS = {"propose": 6, "look": 16, "listen": 30, "run": 60, "dies": 4, "later": 3, "anew": 1}


def acted(world: World, chance: Random, *, forged: bool = False) -> None:
    """Let one of those that take part do something, or die while it does."""
    name = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    coordinator, rank = chance.randrange(2), chance.randrange(RANKS)
    left = chance.randrange(30) if chance.random() < 0.2 else None
    if name == "propose":
        world.propose(coordinator, chance.choice([b"a", b"b", b"c", b"not on 1"]), left)
    elif name == "look":
        world.look(coordinator, left)
    elif name == "listen":
        world.listen(rank, left, forged=forged)
    elif name == "run":
        world.run(rank)
    elif name == "dies":
        world.dies(coordinator)
    elif name == "later":
        world.clock += chance.randrange(9)
    else:
        world.begin_anew()


@settings(max_examples=times(150))
@given(st.integers(0, 2**32))
def test_ranks_run_one_plan_in_each_iteration_whatever_happens(seed: int) -> None:
    world, chance = World(), Random(seed)  # noqa: S311 - of calls, not of secrets
    for _ in range(200):
        acted(world, chance)
    settle(world)
    ledger = current_ledger(world.store)
    logged = {v: ledger.logged_decision(v) for v in range(1, ledger.latest_version() + 1)}
    assert all(logged.values())  # the time limit ends the rest
    highest = max((v for v, decision in logged.items() if decision == b"commit"), default=0)
    assert {rank.follower.active for rank in world.ranks} == {highest}
    assert len({rank.plan for rank in world.ranks}) == 1


FORGERIES = st.tuples(
    st.sampled_from(["told", "log", "vote"]),
    st.integers(1, 4),
    st.sampled_from([b"commit", b"abort", b"yes", b"no", b"perhaps", b"commit\n" + b"0" * 64]),
)


@pytest.mark.parametrize("key", [KEY, None], ids=["signed", "unsigned"])
@settings(max_examples=times(100))
@given(st.integers(0, 2**32), st.lists(FORGERIES, min_size=1, max_size=8))
def test_concurrent_writers_mix_no_plans(
    key: bytes | None, seed: int, forgeries: list[tuple[str, int, bytes]]
) -> None:
    """The world compares the plans of all ranks in each iteration, and no call of a job raises."""
    world, chance = World(key=key), Random(seed)  # noqa: S311 - of calls, not of secrets
    for forgery in forgeries:
        for _ in range(20):
            acted(world, chance, forged=True)
        world.forge(*forgery)
    for number in range(RANKS):
        world.listen(number, forged=True)
    for _ in range(20):
        for number in range(RANKS):
            world.run(number)
    assert len({rank.follower.active for rank in world.ranks}) == 1
    if key is not None:  # no forgery commits a plan that a rank has refused
        assert all(not rank.plan.startswith(b"not on") for rank in world.ranks)


def settle(world: World) -> None:
    """Let the job go on for a while, with coordinators and ranks that live."""
    for number in range(2):
        world.dies(number)
    for _ in range(3):
        for number in (0, 1):
            world.look(number)
        for number in range(RANKS):
            world.listen(number)
        world.clock += 6
    for _ in range(30):
        for number in range(RANKS):
            world.run(number)


class Job:
    """Ranks that vote for content that begins with "good", and a coordinator."""

    def __init__(self, key: bytes | None = None, log: Path | None = None) -> None:
        self.store = MemoryJobStore()
        self.ledger = announce(self.store, describe_job("run/1", 0, 2), key)
        self.now = 0.0
        self.key, self.log = key, log
        self.followers = [Follower(self.ledger, rank, self.fit) for rank in range(2)]
        self.coordinator = self.successor()

    @staticmethod
    def fit(content: bytes, _: int) -> str:
        if not content.startswith(b"good"):
            raise FormatError("the plan is for another job")
        return content.decode()

    def successor(self) -> Coordinator:
        ledger = current_ledger(self.store, self.key)
        return Coordinator(ledger, lambda: self.now, audit_file=self.log, deadline_s=5)

    def listen(self) -> None:
        for follower in self.followers:
            follower.listen()

    def agree(self) -> set[str | None]:
        least = least_of(follower.contribution() for follower in self.followers)
        return {follower.adopt_agreed(least) for follower in self.followers}


def test_plan_that_all_can_run_becomes_active() -> None:
    job = Job(KEY)
    assert job.agree() == {None}
    assert job.coordinator.propose(b"good 1") == 1
    assert job.coordinator.advance() == []
    job.listen()
    assert job.agree() == {None}  # they have voted, and nothing is decided
    assert job.coordinator.advance() == [Decision(1, committed=True)]
    job.followers[0].listen()
    assert job.agree() == {None}  # one of them has not heard of it
    job.listen()
    assert job.agree() == {"good 1"}
    assert job.agree() == {None}
    assert [follower.active for follower in job.followers] == [1, 1]
    job.coordinator.propose(b"good 2")
    job.listen()
    job.coordinator.advance()
    job.listen()
    assert job.agree() == {"good 2"}
    assert job.followers[0].states() == {1: RankState.PAST, 2: RankState.ACTIVE}
    assert job.coordinator.advance() == []


def test_plan_that_one_refuses_is_aborted_with_its_reason(tmp_path: Path) -> None:
    job = Job(log=tmp_path / "log")
    job.coordinator.propose(b"bad")
    job.listen()
    why = "rank 0: the plan is for another job"
    assert job.coordinator.advance() == [Decision(1, committed=False, why=why)]
    told = json.loads((tmp_path / "log").read_text())
    assert (told["version"], told["decision"], told["why"]) == (1, "abort", why)
    job.listen()
    assert job.agree() == {None}


def test_plan_at_which_the_judge_breaks_is_voted_against() -> None:
    def breaks(_: bytes, __: int) -> str:
        raise RecursionError("too deep")

    job = Job()
    job.followers[1] = Follower(job.ledger, 1, breaks)
    job.coordinator.propose(b"good")
    job.listen()
    why = "rank 1: it cannot be verified here (RecursionError: too deep)"
    assert job.coordinator.advance() == [Decision(1, committed=False, why=why)]


def test_missing_vote_aborts_the_plan() -> None:
    job = Job()
    job.coordinator.propose(b"good")
    job.followers[0].listen()
    job.now = 4.9
    assert job.coordinator.advance() == []
    job.now = 5.0
    why = "no vote within 5 s of rank 1"
    assert job.coordinator.advance() == [Decision(1, committed=False, why=why)]
    job.listen()  # the late vote changes nothing
    assert job.successor().advance() == []
    assert job.ledger.logged_decision(1) == b"abort"
    assert job.agree() == {None}


def test_successor_ends_what_was_begun(tmp_path: Path) -> None:
    """At every operation of the store at which its predecessor may have died."""
    outcomes = set()
    for left in range(40):
        world = World()
        world.propose(0, b"a")
        for number in range(RANKS):
            world.listen(number)
        world.look(0, left)
        settle(world)
        outcomes.add(tuple(rank.plan for rank in world.ranks))
    assert outcomes == {(b"a", b"a", b"a")}
    job = Job(log=tmp_path / "log")
    job.coordinator.propose(b"good")
    job.listen()
    job.ledger.log_decision(1, b"commit")
    assert job.successor().advance() == [Decision(1, committed=True)]
    assert job.successor().advance() == []
    assert len((tmp_path / "log").read_text().splitlines()) == 1


def test_first_logging_coordinator_decides() -> None:
    job = Job()
    other = job.successor()
    job.coordinator.propose(b"good")
    job.listen()
    job.followers[0].listen()
    other.advance()  # it commits
    job.now = 100.0
    assert job.coordinator.advance() == [Decision(1, committed=True)]


def test_decision_is_in_the_log_before_it_is_reported(tmp_path: Path) -> None:
    class Deaf(MemoryJobStore):
        def set(self, key: str, value: bytes) -> None:
            if "/told/" in key:
                raise StoreError("it does not answer")
            super().set(key, value)

    job = Job(log=tmp_path / "log")
    job.store.__class__ = Deaf
    job.coordinator.propose(b"good")
    job.listen()
    with pytest.raises(StoreError, match="does not answer"):
        job.coordinator.advance()
    assert json.loads((tmp_path / "log").read_text())["decision"] == "commit"
    assert job.ledger.logged_decision(1) == b"commit"
    assert job.ledger.announced_decision(1) is None


def test_votes_and_decisions_count_only_with_a_signature_for_their_plan() -> None:
    job = Job(KEY)
    under = f"sccl/{job.ledger.job.run}/0"
    job.coordinator.propose(b"good")
    for rank in range(2):
        job.store.set(f"{under}/vote/1/{rank}", b"yes")
    assert job.coordinator.advance() == []
    assert job.ledger.votes(1) == {}
    job.listen()
    job.store.set(f"{under}/vote/1/1", job.store.get(f"{under}/vote/1/0") or b"")
    assert set(job.ledger.votes(1)) == {0}  # the vote of one rank is none of another
    job.ledger.write_vote(1, 1, RankVote(yes=True), "0" * 64)
    assert set(job.ledger.votes(1)) == {0}  # nor is one for another plan
    for content in (b"commit", b"commit\n" + b"0" * 64):
        job.store.set(f"{under}/told/1", content)
        with pytest.raises(StoreError, match=r"b'commit.*signed with the key of SCCL_PLAN_KEY"):
            job.listen()
    job.ledger.announce_decision(1, b"commit", "0" * 64)
    with pytest.raises(StoreError, match="for this plan"):
        job.listen()
    assert job.agree() == {None}
    job.ledger.announce_decision(1, b"commit", job.ledger.plan_digest(1))
    job.listen()
    assert job.agree() == {"good"}


def test_coordinator_gives_up_a_plan_with_a_forged_decision_and_goes_on_with_others() -> None:
    job = Job(KEY)
    for content in (b"good 1", b"good 2"):
        job.coordinator.propose(content)
    job.store.set(f"sccl/{job.ledger.job.run}/0/log/1", b"commit")
    job.listen()
    forged, committed = job.coordinator.advance()
    assert (forged.version, forged.committed) == (1, False)
    assert "signed with the key of SCCL_PLAN_KEY" in forged.why
    assert committed == Decision(2, committed=True)
    assert job.coordinator.advance() == []
    job.listen()
    assert job.agree() == {"good 2"}


def test_vote_that_the_store_does_not_take_is_written_later() -> None:
    for left in range(12):
        world = World()
        world.propose(0, b"a")
        for number in range(RANKS):
            world.listen(number, left)
            world.listen(number)
        votes = current_ledger(world.store).votes(1)
        assert [vote.yes for vote in votes.values()] == [True] * RANKS


def test_rank_that_cannot_agree_goes_on_and_so_do_all() -> None:
    """Somebody commits two plans, of which each rank can run another."""
    store = MemoryJobStore()
    ledger = announce(store, describe_job("run", 0, 2))

    def fits(rank: int) -> Follower[str]:
        def fit(content: bytes, version: int) -> str:
            if version != rank + 1:
                raise FormatError("it is for the other")
            return content.decode()

        return Follower(ledger, rank, fit)

    followers = [fits(rank) for rank in range(2)]
    for content in (b"one", b"two", b"one"):
        ledger.write_plan(content)
    for version in (1, 2):
        ledger.announce_decision(version, b"commit")
    for follower in followers:
        follower.listen()
    least = least_of(follower.contribution() for follower in followers)
    assert [follower.adopt_agreed(least) for follower in followers] == [None, None]
    assert [follower.active for follower in followers] == [0, 0]


def test_ranks_that_read_different_plans_of_one_version_keep_theirs() -> None:
    stores = [MemoryJobStore(), MemoryJobStore()]
    followers = []
    for rank, store in enumerate(stores):
        ledger = announce(store, describe_job("run", 0, 2))
        ledger.write_plan(b"good %d" % rank)
        ledger.announce_decision(1, b"commit")
        followers.append(Follower(ledger, rank, Job.fit))
        followers[-1].listen()
    least = least_of(follower.contribution() for follower in followers)
    assert [follower.adopt_agreed(least) for follower in followers] == [None, None]


def test_restart_hears_nothing_of_the_former_life() -> None:
    job = Job()
    job.coordinator.propose(b"good")
    job.listen()
    job.coordinator.advance()
    again = announce(job.store, describe_job("run/1", 1, 2))
    follower = Follower(again, 0, job.fit)
    follower.listen()
    assert (follower.states(), set(follower.contribution())) == ({}, {0})


def damaged(job: Job, change: str) -> None:
    under = f"sccl/{job.ledger.job.run}/0/plan/1"
    head = msgspec.json.decode(job.store.get(under) or b"", type=BlobHead)
    part = job.store.get(f"{under}/0") or b""
    if change == "digest":
        job.store.set(under, msgspec.json.encode(msgspec.structs.replace(head, sha256="0" * 64)))
    elif change == "part":
        job.store.set(f"{under}/0", part[:-1] + b"?")
    elif change == "cut":
        job.store.set(f"{under}/0", part[: len(part) // 2])
    elif change == "head":
        job.store.set(under, b'{"schema": 1')
    elif change == "huge":
        many = msgspec.structs.replace(head, size_bytes=MAX_BYTES + 1)
        job.store.set(under, msgspec.json.encode(many))
    elif change == "missing":
        more = msgspec.structs.replace(head, parts=2)
        job.store.set(under, msgspec.json.encode(more))
    else:
        job.store.set(under, msgspec.json.encode(msgspec.structs.replace(head, signature="")))


CHANGES = ["digest", "part", "cut", "head", "huge", "missing", "unsigned"]


@pytest.mark.parametrize("change", CHANGES)
def test_damaged_plan_is_voted_against(change: str) -> None:
    job = Job(KEY)
    job.coordinator.propose(b"good" * 1000)
    damaged(job, change)
    job.listen()
    votes = job.ledger.votes(1)
    assert [vote.yes for vote in votes.values()] == [False, False]
    assert "plan" in votes[0].why
    assert job.coordinator.advance()[0].committed is False
    job.listen()
    assert job.agree() == {None}


def test_signed_plan_is_for_one_place() -> None:
    head, parts = seal(b"good", "here", KEY)
    assert unseal(parse_head(head, "here", KEY), parts, "here") == b"good"
    for where, key in (("there", KEY), ("here", KEY[::-1])):
        with pytest.raises(FormatError, match="is not signed with the key of SCCL_PLAN_KEY"):
            parse_head(head, where, key)
    assert parse_head(head, "there", None).sha256  # without a key nothing is asked for
    assert read_key({}) is None
    assert read_key({"SCCL_PLAN_KEY": KEY.decode()}) == KEY
    with pytest.raises(ParameterError, match="SCCL_PLAN_KEY has 5 characters"):
        read_key({"SCCL_PLAN_KEY": "short"})


@given(st.binary(max_size=2000) | st.integers(1, 3).map(lambda n: bytes(n << 20)))
def test_plans_come_out_as_they_went_in(content: bytes) -> None:
    if not content:
        return
    head, parts = seal(content, "x", None)
    assert unseal(parse_head(head, "x", None), parts, "x") == content


@given(st.binary(max_size=300), st.lists(st.binary(max_size=300), max_size=3))
def test_any_corrupt_store_content_gives_one_sentence(head: bytes, parts: list[bytes]) -> None:
    with pytest.raises(FormatError):
        parse_head(head, "x", None)
    with pytest.raises(FormatError):
        unseal(BlobHead(sha256="0" * 64, size_bytes=100, parts=len(parts)), parts, "x")


def test_oversized_content_is_rejected() -> None:
    head, parts = seal(bytes(32 << 20), "x", None)
    claimed = msgspec.structs.replace(parse_head(head, "x", None), size_bytes=10)
    with pytest.raises(FormatError, match="does not match its digest"):
        unseal(claimed, parts, "x")
    with pytest.raises(ParameterError, match="expected at most"):
        seal(bytes(MAX_BYTES + 1), "x", None)


def test_corrupt_store_entry_is_reported_once_and_read_again() -> None:
    job = Job()
    failed: list[ScclError] = []
    heard, looks = threading.Event(), []

    def look() -> None:
        looks.append(1)
        job.followers[0].listen()
        heard.set()

    def fail(error: ScclError) -> None:
        failed.append(error)

    job.coordinator.propose(b"good")
    under = f"sccl/{job.ledger.job.run}/0"
    job.store.set(f"{under}/told/1", b"perhaps")
    listener = Listener(look, fail, interval_s=0.001)
    while len(looks) < 3:
        pass
    assert (isinstance(failed[0], StoreError), len(failed)) == (True, 1)
    assert not any(job.followers[0].contribution())
    job.store.set(f"{under}/told/1", b"abort")
    assert heard.wait(PATIENCE_S)
    listener.close()
    job.store.set(f"{under}/versions", b"99999999")
    with pytest.raises(StoreError, match="counts 99999999 plans"):
        job.followers[1].listen()


def test_listener_hears_of_plans_while_the_job_works() -> None:
    job = Job()
    listeners = [Listener(follower.listen, lambda _: None, 0.001) for follower in job.followers]
    job.coordinator.propose(b"good")
    seen: set[str | None] = {None}
    while seen == {None}:
        job.coordinator.advance()
        seen = job.agree()
    assert seen == {"good"}
    for listener in listeners:
        listener.close()


def test_store_without_a_job() -> None:
    store = MemoryJobStore()
    with pytest.raises(StoreError, match=r"call init_process_group\('sccl'\)"):
        current_ledger(store)
    for text in (b"{", b"[]", b'{"run": "a/b", "generation": 0, "ranks": 1}', b"\xff"):
        store.set("sccl/now", text)
        with pytest.raises(StoreError, match="sccl/now"):
            current_ledger(store)


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:0", "host:65536", "host:a"])
def test_addresses_that_cannot_be(text: str) -> None:
    with pytest.raises(ParameterError, match="expected HOST:PORT"):
        parse_address(text)


def test_addresses() -> None:
    assert parse_address("host:29500") == ("host", 29500)
    assert parse_address("[::1]:1") == ("::1", 1)


class LikeTorch:
    """A store of torch, as far as it is asked: it raises RuntimeErrors of many lines."""

    def __init__(self) -> None:
        self.inner = MemoryJobStore()

    def check(self, keys: list[str]) -> bool:
        return all(self.inner.get(key) is not None for key in keys)

    def get(self, key: str) -> bytes:
        return self.inner.get(key) or b""

    def set(self, key: str, value: bytes) -> None:
        self.inner.set(key, value)

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        assert not expected
        return self.inner.set_if_absent(key, desired.encode())

    def add(self, key: str, amount: int) -> int:
        del amount
        raise RuntimeError(f"Connection reset at {key}\nframe #0")


def test_store_of_torch_that_does_not_answer_gives_one_sentence() -> None:
    ledger: Ledger = announce(TorchJobStore(LikeTorch()), describe_job("run", 0, 1))
    assert ledger.logged_decision(1) is None
    assert (ledger.log_decision(1, b"commit"), ledger.log_decision(1, b"abort")) == (
        b"commit",
        b"commit",
    )
    with pytest.raises(StoreError, match=r"not answer \(Connection reset at sccl.*versions\)$"):
        ledger.latest_version()
    with pytest.raises(ParameterError, match="expected at most"):
        ledger.store.set("x", bytes(5 << 20))


def test_store_that_was_lost_is_connected_to_again(monkeypatch: pytest.MonkeyPatch) -> None:
    inner, connected = MemoryJobStore(), []
    broken: list[int] = []

    class Lost(MemoryJobStore):
        def get(self, key: str) -> bytes | None:
            if broken:
                raise StoreError("it does not answer")
            return inner.get(key)

    def connected_to(address: str, seconds: float) -> MemoryJobStore:
        connected.append((address, seconds))
        return Lost()

    monkeypatch.setattr("sccl.torch_backend.control.job_stores.connect_store", connected_to)
    store = RemoteJobStore("host:1", 2.0)
    inner.set("x", b"1")
    assert (store.get("x"), store.get("x"), connected) == (b"1", b"1", [("host:1", 2.0)])
    broken.append(1)
    with pytest.raises(StoreError, match="does not answer"):
        store.get("x")
    broken.clear()
    assert (store.get("x"), len(connected)) == (b"1", 2)


def test_plan_of_which_it_is_not_known_yet_is_verified_again() -> None:
    job, calls = Job(), []

    def fit(content: bytes, version: int) -> bytes | None:
        calls.append(version)
        return content if len(calls) > 2 else None

    dropped: list[bytes] = []
    follower = Follower(job.ledger, 0, fit, discard=dropped.append)
    for _ in range(2):
        job.coordinator.propose(b"good")
    follower.listen()
    assert job.ledger.votes(1) == {}
    follower.listen()
    assert (job.ledger.votes(1)[0].yes, calls, dropped) == (True, [1, 2, 1, 2], [])
    job.ledger.announce_decision(1, b"abort")
    job.ledger.announce_decision(2, b"commit")
    follower.listen()
    assert dropped == [b"good"]
    assert (follower.adopt_agreed(follower.contribution()), dropped) == (b"good", [b"good"])
    follower.close()
    assert dropped == [b"good"] * 2


def test_job_says_what_it_was_started_under() -> None:
    store = MemoryJobStore()
    ledger = announce(store, describe_job("run", 3, 2, "a plan", "a workload"), KEY)
    assert current_ledger(store).job == ledger.job
    assert not ledger.is_watched()
    ledger.mark_watched()
    assert current_ledger(store).is_watched()
    assert not ledger.has_plan(0)
    ledger.write_initial_plan(b"plan")
    assert (ledger.read_plan(0), ledger.latest_version()) == (b"plan", 0)
    assert ledger.lane_prefix(1) != ledger.lane_prefix(2)


def test_without_torch_there_is_no_store() -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        with pytest.raises(StoreError, match="torch is not installed"):
            connect_store("localhost:1")


def test_processes_come_to_a_plan_over_the_store_of_torch() -> None:
    done = subprocess.run(
        [str(interpreter("newest")), str(PROGRAMS / "torch_control.py")],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S, env=environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines() == ["plan 1 of 300000 bytes on 2 ranks", "no store: a sentence"]
