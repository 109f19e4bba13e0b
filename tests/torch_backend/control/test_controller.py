"""``sccl train control`` over a store in memory: control, plan again, revert."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import jsonschema
import msgspec
import pytest

from sccl.cli.doctor.schema import schema_of_kind
from sccl.cli.train import control as verb
from sccl.errors import FormatError, ScclError, ToolError
from sccl.torch_backend.control.feedback import (
    CONSECUTIVE_ITERATIONS,
    WARM_UP,
    IterationReport,
    MotifTime,
    encode_report,
)
from sccl.torch_backend.control.follower import Follower
from sccl.torch_backend.control.ledger import Ledger, announce, describe_job
from sccl.torch_backend.jobs.controller import (
    Controller,
    ControlSettings,
    ReplanProcess,
    decode_plan,
    encode_no_plan,
    encode_plan,
)
from sccl.torch_backend.script import format_script, parse_script
from sccl.training.types.training_plan import TrainingPlan
from tests.kit.commands import sccl
from tests.kit.memory_store import MemoryJobStore
from tests.kit.switching_world import least_of
from tests.kit.training_plans import plan_file, prefetching_plan

PLAN = prefetching_plan()
CLAIMED_US = PLAN.period_ns / 1000


@dataclass
class Fake:
    """A planner that returns a fixed result, or fails, at its second call."""

    answer: bytes | ScclError
    asked: int = 0
    closed: bool = False

    def result(self) -> bytes | None:
        self.asked += 1
        if self.asked < 2:
            return None
        if isinstance(self.answer, ScclError):
            raise self.answer
        return self.answer

    def close(self) -> None:
        self.closed = True


@dataclass
class Job:
    """Two ranks over a store, and a controller."""

    store: MemoryJobStore = field(default_factory=MemoryJobStore)
    said: list[str] = field(default_factory=list)
    results: list[bytes | ScclError] = field(default_factory=list)
    plannings: list[tuple[bytes, str, Fake]] = field(default_factory=list)
    iteration: int = 0

    def __post_init__(self) -> None:
        self.begin(0)
        settings = ControlSettings(deadline_s=10)
        self.controller = Controller(
            self.store, settings, lambda: 0.0, self.planner, self.said.append
        )

    def begin(self, generation: int) -> None:
        self.ledger: Ledger = announce(self.store, describe_job("run", generation, 2))
        self.followers = [Follower(self.ledger, rank, lambda c, _: c) for rank in range(2)]
        self.number = 0

    def planner(self, plan: bytes, costs: str) -> Fake:
        self.plannings.append((plan, costs, Fake(self.results.pop(0))))
        return self.plannings[-1][2]

    def switched(self, content: bytes) -> int:
        """Let the ranks come to a plan that was proposed."""
        self.controller.step()
        for follower in self.followers:
            follower.listen()
        self.controller.step()
        for follower in self.followers:
            follower.listen()
        least = least_of(follower.contribution() for follower in self.followers)
        assert {follower.adopt_agreed(least) for follower in self.followers} == {content}
        return self.followers[0].active

    def iterate(self, count: int, period_us: float, waited: float = 0.0) -> None:
        for _ in range(count):
            motif = MotifTime(
                collective="allreduce", option="gpu ring", ranks=8, size_bytes=4096, us=7.5
            )
            report = IterationReport(
                iteration=self.iteration,
                version=self.followers[0].active,
                period_us=period_us,
                waited_us=waited * period_us,
                motifs=(motif,),
            )
            for rank in range(2):
                self.ledger.write_report(rank, self.number, encode_report(report))
            self.iteration, self.number = self.iteration + 1, self.number + 1
            self.controller.step()


def claiming(us: float) -> TrainingPlan:
    return replace(PLAN, period_ns=round(us * 1000))


def another(us: float) -> bytes:
    """Return a plan that does not do the same: it has another channel."""
    script = parse_script(encode_plan(claiming(us)), "it")
    channels = (*script.channels, ("more", 1))
    return format_script(msgspec.structs.replace(script, channels=channels)).encode()


NEEDED = WARM_UP + CONSECUTIVE_ITERATIONS


def controlled() -> Job:
    job = Job()
    job.controller.propose(encode_plan(PLAN))
    assert job.switched(encode_plan(PLAN)) == 1
    assert job.said == ["plan 1 is committed: ranks switch at their next agreement"]
    job.said.clear()
    return job


def test_job_that_waits_is_planned_again_and_switches_if_that_gains() -> None:
    job = controlled()
    better = another(CLAIMED_US * 0.9)
    job.results = [better]
    job.iterate(NEEDED, CLAIMED_US, waited=0.2)
    assert job.said == ["ranks wait 20% of an iteration, 20 in a row: planning again"]
    (plan, costs, planning) = job.plannings[0]
    assert plan == encode_plan(PLAN)
    assert costs == "collective,option,ranks,bytes,us\nallreduce,gpu ring,8,4096,7.5\n"
    job.controller.step()
    assert "and is proposed as plan 2" in job.said[-1]
    assert planning.closed
    assert job.switched(better) == 2
    job.iterate(NEEDED, CLAIMED_US * 0.9)
    assert job.said[-1] == "plan 2 is committed: ranks switch at their next agreement"


def test_commit_only_controller_ignores_unsigned_plans() -> None:
    job = controlled()
    settings = ControlSettings(deadline_s=10, key=b"0123456789abcdef")
    job.controller = Controller(job.store, settings, lambda: 0.0, None, job.said.append)
    assert "plan 1 is left out: the store has b'commit' as a decision" in job.said[-1]
    assert "signed with the key of SCCL_PLAN_KEY" in job.said[-1]
    job.iterate(NEEDED, CLAIMED_US, waited=0.2)
    assert job.plannings == []


def test_plan_that_gains_too_little_is_not_proposed() -> None:
    job = controlled()
    job.results = [another(CLAIMED_US * 0.98)]
    job.iterate(NEEDED, CLAIMED_US, waited=0.2)
    job.controller.step()
    assert job.said[-1].endswith("which does not justify a switch")
    assert job.ledger.latest_version() == 1


def test_plan_that_is_active_is_not_proposed_again() -> None:
    job = controlled()
    job.results = [encode_plan(claiming(CLAIMED_US * 0.9))]
    job.iterate(NEEDED, 2 * CLAIMED_US, waited=0.2)
    job.controller.step()
    assert job.said[-1] == "no plan improves on the active one"
    assert job.ledger.latest_version() == 1


def test_job_is_taken_back_to_what_it_was_started_under() -> None:
    """A plan that a rank writes down once somebody attends to it, or none."""
    for started in (encode_plan(PLAN), encode_no_plan(2)):
        job = Job()
        if started != encode_no_plan(2):
            job.ledger = announce(job.store, describe_job("run", 1, 2, "a digest"))
            job.followers = [Follower(job.ledger, rank, lambda c, _: c) for rank in range(2)]
            job.controller.step()
            assert job.ledger.is_watched()
            job.ledger.write_initial_plan(started)
        job.iterate(NEEDED, CLAIMED_US)
        other = encode_plan(claiming(CLAIMED_US * 0.9))
        job.controller.propose(other)
        assert job.switched(other) == 1
        job.iterate(NEEDED, CLAIMED_US)
        assert job.said[-1].endswith("plan 2 returns to the previous plan")
        assert job.switched(started) == 2


@pytest.mark.parametrize("result", [ToolError("it broke"), b"\xff", b"{}"])
def test_planning_that_fails_is_told_and_the_job_goes_on(result: bytes | ScclError) -> None:
    job = controlled()
    job.results = [result, result]
    job.iterate(NEEDED, CLAIMED_US, waited=0.2)
    job.controller.step()
    assert job.said[-1].startswith("there is no other plan: ")
    job.iterate(CONSECUTIVE_ITERATIONS, CLAIMED_US, waited=0.2)
    assert len(job.plannings) == 2  # it still waits, so it is planned again


def test_plan_that_is_not_faster_is_taken_back_by_another_switch() -> None:
    job = controlled()
    job.iterate(NEEDED, CLAIMED_US)
    other = encode_plan(claiming(CLAIMED_US * 0.9))
    job.controller.propose(other)
    assert job.switched(other) == 2
    job.iterate(NEEDED, CLAIMED_US)
    assert job.said[-1].endswith("plan 3 returns to the previous plan")
    assert job.switched(encode_plan(PLAN)) == 3
    job.iterate(NEEDED + 5, CLAIMED_US)
    assert job.ledger.latest_version() == 3


def test_plan_that_was_taken_back_is_not_believed_again() -> None:
    """The measured time counts, not the claimed one, however often the plan recurs."""
    job = controlled()
    slow = another(CLAIMED_US * 0.9)
    job.results = [slow] * 3
    job.iterate(NEEDED, 2 * CLAIMED_US)
    job.controller.step()
    assert job.switched(slow) == 2
    job.iterate(NEEDED, 3 * CLAIMED_US)
    assert job.switched(encode_plan(PLAN)) == 3
    job.iterate(NEEDED, 2 * CLAIMED_US)
    job.controller.step()
    assert job.said[-1].endswith("which does not justify a switch")
    job.iterate(CONSECUTIVE_ITERATIONS, 4 * CLAIMED_US)  # by now it would be worth one
    job.controller.step()
    assert "is proposed as plan 4" in job.said[-1]


def test_controller_that_comes_later_goes_on_and_a_restart_begins_again() -> None:
    job = controlled()
    job.results = [encode_plan(PLAN)]
    settings = ControlSettings(deadline_s=10)
    job.controller = Controller(job.store, settings, lambda: 0.0, job.planner, job.said.append)
    job.iterate(NEEDED, CLAIMED_US, waited=0.2)
    assert len(job.plannings) == 1
    job.begin(1)
    job.controller.step()
    assert job.said[-1] == "the job has restarted (generation 1)"
    assert job.plannings[0][2].closed
    job.iterate(NEEDED, CLAIMED_US, waited=0.2)
    assert len(job.plannings) == 1  # there is no plan in its new life


def awaited(planning: ReplanProcess) -> bytes:
    while (found := planning.result()) is None:
        pass
    return found


def test_planning_is_a_process_that_ends_with_its_plan_or_a_sentence() -> None:
    planning = ReplanProcess(encode_plan(PLAN), "collective,option,ranks,bytes,us\n", 0.1)
    try:
        assert decode_plan(awaited(planning), "it").input_workload == PLAN.input_workload
    finally:
        planning.close()
    broken = ReplanProcess(b"{}", "", 0.1)
    try:
        with pytest.raises(ToolError, match=r"plan\.json"):
            awaited(broken)
    finally:
        broken.close()


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> Job:
    """Return a job whose ranks listen whenever the command would wait."""
    job = Job()

    def listen(_: float) -> None:
        for follower in job.followers:
            follower.listen()

    monkeypatch.setattr(verb, "connect_store", lambda _: job.store)
    monkeypatch.setattr("sccl.torch_backend.jobs.controller.time.sleep", listen)
    return job


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return plan_file(PLAN, tmp_path / "plan.json")


ADDRESS = ("--store", "host:29500")


def test_plan_is_committed_from_the_command_line(ranks: Job, file: Path, tmp_path: Path) -> None:
    log = tmp_path / "decisions"
    code, out, _ = sccl("train", "control", *ADDRESS, "--commit", file, "--log", log)
    assert (code, out) == (0, "plan 1 is committed: ranks switch at their next agreement\n")
    assert json.loads(log.read_text())["decision"] == "commit"
    ranks.followers[0].listen()
    follower = ranks.followers[0]
    assert follower.adopt_agreed(follower.contribution()) == encode_plan(PLAN)
    code, out, _ = sccl("train", "control", *ADDRESS, "--commit", file, "--json")
    found = json.loads(out)
    jsonschema.validate(found, schema_of_kind("optimizer"))
    assert (code, found["committed"], [p["decision"] for p in found["plans"]]) == (
        0, True, ["commit", "commit"],
    )  # fmt: skip
    assert found["inputs"] == {str(file): json.loads(file.read_text())["digest"]}


def test_plan_that_a_rank_refuses_is_exit_code_1(ranks: Job, file: Path) -> None:
    def refuse(_: bytes, __: int) -> bytes:
        raise FormatError("the plan is for 8 ranks, and the job has 2")

    ranks.followers[1] = Follower(ranks.ledger, 1, refuse)
    code, out, _ = sccl("train", "control", *ADDRESS, "--commit", file)
    assert code == 1
    assert out == "plan 1 is aborted: rank 1: the plan is for 8 ranks, and the job has 2\n"
    ranks.iterate(2, 100.0, 0.25)
    code, out, _ = sccl("train", "control", *ADDRESS, "--status")
    assert code == 0
    assert "run run, generation 0, 2 ranks" in out
    assert "rank 1: the plan is for 8 ranks" in out
    assert "iteration 1, plan 0: 100 us, 25.0% of it waited" in out
    code, out, _ = sccl("train", "control", *ADDRESS, "--status", "--json")
    found = json.loads(out)
    jsonschema.validate(found, schema_of_kind("optimizer"))
    assert (found["plans"][0]["yes"], found["plans"][0]["no"]) == (1, 1)
    assert found["last"]["waited"] == 0.25


def test_serving_ends_with_the_store(ranks: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def end(_: float) -> None:
        looks.append(1)
        if len(looks) == 3:
            ranks.store.set("sccl/now", b"?")

    monkeypatch.setattr("sccl.cli.train.control.time.sleep", end)
    code, _, err = sccl("train", "control", *ADDRESS, "--serve")
    assert (code, len(looks)) == (4, 3)
    assert "failed: the store's sccl/now cannot be read" in err


def wrong_plan(path: Path) -> Path:
    return plan_file(claiming(CLAIMED_US * 0.9), path)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "no action is selected: give --commit, --serve or --status"),
        (("--status", "--serve"), "--status changes nothing"),
        (("--serve", "--json"), "--json prints one document"),
        (("--serve", "--deadline", "0"), "deadline is 0, expected seconds"),
        (("--serve", "--budget", "nan"), "budget is nan, expected seconds"),
        (("--commit", "nowhere.json"), "nowhere.json"),
        (("--commit", "wrong.json"), "this plan fails verification"),
        (("--serve", "--log", "no/such/folder"), "no/such"),
    ],
)
def test_invalid_controller_options_are_rejected(
    words: tuple[str, ...], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong_plan(tmp_path / "wrong.json")
    code, _, err = sccl("train", "control", *ADDRESS, *words)
    assert code == 2
    assert why in " ".join(err.split())
