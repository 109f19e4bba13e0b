"""Define the keys of a job's store: participants, plans by version, votes, and decisions.

All keys contain the run and its generation, which changes when the job restarts. So messages for
earlier ranks never reach later ones.

Plans are stored compressed, in parts, with a digest. Anyone who reaches a store's port can write
its keys and values. Therefore sizes are limited before decompression, the content is only data, and
with a key in ``SCCL_PLAN_KEY`` only signed plans are accepted. A signature covers the plan and its
key in the store, so an old plan cannot replace a new one. Votes and decisions are signed in the
same way, together with the digest of their plan.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from sccl.errors import FormatError, ParameterError
from sccl.torch_backend.control.job_stores import DecisionError, JobStore, StoreError

CURRENT_JOB_KEY = "sccl/now"
MAX_VERSIONS = 10_000
MAX_RANKS = 1 << 16
RING = 64
"""Number of stored reports of each rank."""

_MAX_REPORT = 1 << 18
_MAX_REASON = 400
_RUN_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
COMMIT, ABORT = b"commit", b"abort"


class JobWire(msgspec.Struct, frozen=True, kw_only=True):
    """The job of a store, as its rank 0 writes it.

    Attributes:
        generation: Generation of the job. Each restart of ranks or of their group begins one.
        plan: Digest of the plan at its start. Empty: none.
        workload: Digest of the workload of that plan.
    """

    run: str
    generation: int
    ranks: int
    plan: str = ""
    workload: str = ""


@dataclass(frozen=True, slots=True)
class RankVote:
    """A rank's vote on a plan.

    Attributes:
        yes: Whether the rank can run the plan.
        why: Reason of a refusal, as a sentence.
    """

    yes: bool
    why: str = ""


def describe_job(
    run: str, generation: int, ranks: int, plan: str = "", workload: str = ""
) -> JobWire:
    """Return the description of a job. A run name that is invalid in keys becomes its digest."""
    run_name = run if _RUN_NAME.fullmatch(run) else hashlib.sha256(run.encode()).hexdigest()[:32]
    return JobWire(run=run_name, generation=generation, ranks=ranks, plan=plan, workload=workload)


def announce(store: JobStore, job: JobWire, key: bytes | None = None) -> Ledger:
    """Write the description of the job to its store, and return its ledger. Rank 0 does this."""
    store.set(CURRENT_JOB_KEY, msgspec.json.encode(job))
    return Ledger(store, job, key)


def current_ledger(store: JobStore, key: bytes | None = None) -> Ledger:
    """Return the ledger of the job that currently uses a store.

    Raises:
        StoreError: The store cannot be reached, or has no description of a job.
    """
    text = store.get(CURRENT_JOB_KEY)
    if text is None:
        raise StoreError(
            "the job of this store accepts no plans: call init_process_group('sccl') in it"
        )
    try:
        job = msgspec.json.decode(text, type=JobWire)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise StoreError(f"the store's {CURRENT_JOB_KEY} cannot be read ({error})") from error
    if not (_RUN_NAME.fullmatch(job.run) and 0 < job.ranks <= MAX_RANKS):
        raise StoreError(f"the store's {CURRENT_JOB_KEY} names no job: {job!r:.120}")
    return Ledger(store, job, key)


class Ledger:
    """The keys of one generation of a job.

    Args:
        store: Store of the job.
        job: Description of the job.
        key: Key of the signatures of plans, votes, and decisions. None: no signatures.
    """

    def __init__(self, store: JobStore, job: JobWire, key: bytes | None = None) -> None:
        self.store, self.job, self._key = store, job, key
        self.ranks = job.ranks
        self._prefix = f"sccl/{job.run}/{job.generation}"

    def latest_version(self) -> int:
        """Return the highest assigned version. Its plan may not be written yet.

        Raises:
            StoreError: The number is invalid.
        """
        count = self.store.add(f"{self._prefix}/versions", 0)
        if not 0 <= count <= MAX_VERSIONS:
            raise StoreError(f"the store counts {count} plans, expected at most {MAX_VERSIONS}")
        return count

    def mark_watched(self) -> None:
        """Record that a controller watches the job. Until then ranks read only this key."""
        self.store.set(f"{self._prefix}/watched", b"1")

    def is_watched(self) -> bool:
        """Return whether a controller watches the job."""
        return self.store.get(f"{self._prefix}/watched") is not None

    def lane_prefix(self, version: int) -> str:
        """Return the prefix of keys by which ranks create the connections of a plan."""
        return f"{self._prefix}/lanes/{version}"

    def write_plan(self, content: bytes) -> int:
        """Write a plan, and return its version. Others see it when its header is written, last.

        Raises:
            ParameterError: The plan is too large.
        """
        version = self.store.add(f"{self._prefix}/versions", 1)
        self._write(version, content)
        return version

    def write_initial_plan(self, content: bytes) -> None:
        """Write the plan at the start of the job, as version 0.

        Raises:
            ParameterError: The plan is too large.
        """
        self._write(0, content)

    def _write(self, version: int, content: bytes) -> None:
        head, parts = seal(content, self._plan_key(version), self._key)
        for number, part in enumerate(parts):
            self.store.set(f"{self._plan_key(version)}/{number}", part)
        self.store.set(self._plan_key(version), head)

    def has_plan(self, version: int) -> bool:
        """Return whether the plan of a version is written."""
        return self.store.get(self._plan_key(version)) is not None

    def read_plan(self, version: int) -> bytes | None:
        """Return the plan of a version. None: it is not written yet.

        Raises:
            FormatError: The plan is damaged, too large, or not signed.
        """
        where = self._plan_key(version)
        text = self.store.get(where)
        if text is None:
            return None
        head = parse_head(text, where, self._key)
        parts = [self.store.get(f"{where}/{number}") for number in range(head.parts)]
        if None in parts:
            raise FormatError(f"{where}: part {parts.index(None)} of the plan is missing")
        return unseal(head, [part for part in parts if part is not None], where)

    def plan_digest(self, version: int) -> str:
        """Return the digest of a plan. Empty: there is no valid plan."""
        where = self._plan_key(version)
        text = self.store.get(where)
        try:
            return "" if text is None else parse_head(text, where, self._key).sha256
        except FormatError:
            return ""

    def write_vote(self, version: int, rank: int, vote: RankVote, digest: str = "") -> None:
        """Write the vote of a rank.

        Args:
            version: Version of the plan.
            rank: Rank.
            vote: Vote of the rank.
            digest: Digest of the plan that the rank has read.
        """
        where = self._vote_key(version, rank)
        text = "yes" if vote.yes else f"no {vote.why[:_MAX_REASON]}"
        self.store.set(where, sign(text, f"{where} {digest if vote.yes else ''}", self._key))

    def votes(self, version: int, digest: str | None = None) -> dict[int, RankVote]:
        """Return the votes on a version by rank, without votes that are not signed with the key.

        Args:
            version: Version of the plan.
            digest: Digest of the plan to which a yes must refer. None: that of the plan in the
                store.
        """
        votes = {}
        digest = self.plan_digest(version) if digest is None else digest
        for rank in range(self.ranks):
            where = self._vote_key(version, rank)
            content = self.store.get(where)
            for about in (digest, "") if content is not None else ():
                text = verify_text(content or b"", f"{where} {about}", self._key)
                word, _, why = (text or "").partition(" ")
                if word == "yes" if about else word == "no":
                    votes[rank] = RankVote(word == "yes", why[:_MAX_REASON])
                    break
        return votes

    def log_decision(self, version: int, decision: bytes, digest: str = "") -> bytes:
        """Log a decision unless there is one. Return the logged decision."""
        where = self._log_key(version)
        content = self.store.set_if_absent(where, self._sign_decision(where, decision, digest))
        return self._verify_decision(content, where, digest)

    def logged_decision(self, version: int) -> bytes | None:
        """Return the logged decision. None: none yet."""
        return self._read_decision(self._log_key(version), version)

    def announce_decision(self, version: int, decision: bytes, digest: str = "") -> None:
        """Announce a decision to all ranks."""
        where = self._announcement_key(version)
        self.store.set(where, self._sign_decision(where, decision, digest))

    def announced_decision(self, version: int, digest: str | None = None) -> bytes | None:
        """Return the announced decision. None: none yet.

        Args:
            version: Version of the plan.
            digest: Digest of the plan of a commit. None: that of the plan in the store.
        """
        return self._read_decision(self._announcement_key(version), version, digest)

    def write_report(self, rank: int, number: int, report: bytes) -> None:
        """Write the report of a rank, which replaces the one :data:`RING` reports before."""
        self.store.set(f"{self._prefix}/report/{rank}/{number % RING}", report)
        self.store.set(f"{self._prefix}/reports/{rank}", str(number + 1).encode())

    def reports(self, rank: int, since: int) -> tuple[int, list[bytes]]:
        """Return the number of reports by a rank, and the stored ones from number ``since`` on."""
        text = self.store.get(f"{self._prefix}/reports/{rank}") or b"0"
        count = int(text) if text.isdigit() and len(text) < 16 else 0
        reports = []
        for number in range(max(since, count - RING), count):
            report = self.store.get(f"{self._prefix}/report/{rank}/{number % RING}")
            if report is not None and len(report) <= _MAX_REPORT:
                reports.append(report)
        return max(count, since), reports

    def _plan_key(self, version: int) -> str:
        return f"{self._prefix}/plan/{version}"

    def _vote_key(self, version: int, rank: int) -> str:
        return f"{self._prefix}/vote/{version}/{rank}"

    def _log_key(self, version: int) -> str:
        return f"{self._prefix}/log/{version}"

    def _announcement_key(self, version: int) -> str:
        return f"{self._prefix}/told/{version}"

    def _read_decision(self, where: str, version: int, digest: str | None = None) -> bytes | None:
        content = self.store.get(where)
        if content is None:
            return None
        about = self.plan_digest(version) if digest is None else digest
        return self._verify_decision(content, where, about)

    def _sign_decision(self, where: str, decision: bytes, digest: str) -> bytes:
        about = digest if decision == COMMIT else ""
        return sign(decision.decode(), f"{where} {about}", self._key)

    def _verify_decision(self, content: bytes, where: str, digest: str) -> bytes:
        for decision, about in ((COMMIT, digest), (ABORT, "")):
            if verify_text(content, f"{where} {about}", self._key) == decision.decode():
                return decision
        signed = "" if self._key is None else f", signed with the key of {KEY} for this plan"
        raise DecisionError(
            f"the store has {content[:20]!r} as a decision, expected commit or abort{signed}"
        )


KEY = "SCCL_PLAN_KEY"
PART_BYTES = 1 << 20
MAX_PARTS = 16
MAX_BYTES = 64 << 20
"""Largest unpacked plan, in bytes."""

_MIN_KEY_BYTES = 16


class BlobHead(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The header of a stored plan. It is written last, so all parts are present by then."""

    schema: int = 1
    sha256: str
    size_bytes: int
    parts: int
    signature: str = ""


def read_key(environment: Mapping[str, str]) -> bytes | None:
    """Return the key for signatures. None: nothing is signed, and signatures are not checked.

    Raises:
        ParameterError: The key is too short.
    """
    text = environment.get(KEY, "")
    if text and len(text) < _MIN_KEY_BYTES:
        raise ParameterError(
            f"{KEY} has {len(text)} characters, expected at least {_MIN_KEY_BYTES} random "
            "characters"
        )
    return text.encode() or None


def seal(content: bytes, where: str, key: bytes | None) -> tuple[bytes, list[bytes]]:
    """Return the header and the parts of a stored plan.

    Args:
        content: Plan.
        where: Key of the plan in the store, which the signature covers.
        key: Key of the signature. None: no signature.

    Raises:
        ParameterError: The plan is too large.
    """
    packed = zlib.compress(content, 6)
    if len(content) > MAX_BYTES or len(packed) > MAX_PARTS * PART_BYTES:
        raise ParameterError(
            f"the plan has {len(content)} bytes, {len(packed)} packed, expected at most "
            f"{MAX_BYTES} and {MAX_PARTS * PART_BYTES}"
        )
    parts = [packed[at : at + PART_BYTES] for at in range(0, len(packed), PART_BYTES)]
    digest = hashlib.sha256(content).hexdigest()
    head = BlobHead(
        sha256=digest,
        size_bytes=len(content),
        parts=len(parts),
        signature="" if key is None else _signature(digest, where, key),
    )
    return msgspec.json.encode(head), parts


def parse_head(text: bytes, where: str, key: bytes | None) -> BlobHead:
    """Return the header of a stored plan.

    Raises:
        FormatError: The header is damaged, too large, or not signed with the key.
    """
    try:
        head = msgspec.json.decode(text, type=BlobHead)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"{where}: the plan's head cannot be read ({error})") from error
    if head.schema != 1:
        raise FormatError(f"{where}: the plan's schema is {head.schema}, expected 1")
    if not (0 < head.parts <= MAX_PARTS and 0 < head.size_bytes <= MAX_BYTES):
        raise FormatError(f"{where}: the plan claims {head.parts} parts, {head.size_bytes} bytes")
    if key is not None:
        right = _signature(head.sha256, where, key)
        if not hmac.compare_digest(right.encode(), head.signature.encode()):
            raise FormatError(f"{where}: the plan is not signed with the key of {KEY}")
    return head


def unseal(head: BlobHead, parts: Sequence[bytes], where: str) -> bytes:
    """Return a plan from its header and parts.

    Raises:
        FormatError: The plan is damaged or too large.
    """
    packed = b"".join(parts)
    if len(packed) > MAX_PARTS * PART_BYTES:
        raise FormatError(f"{where}: the plan has {len(packed)} bytes packed, which is too much")
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(packed, head.size_bytes + 1)
    except zlib.error as error:
        raise FormatError(f"{where}: the plan is damaged ({error})") from error
    if hashlib.sha256(content).hexdigest() != head.sha256:
        raise FormatError(f"{where}: the plan does not match its digest")
    return content


def sign(text: str, where: str, key: bytes | None) -> bytes:
    """Return a line of text with its signature.

    Args:
        text: Text, which becomes one line.
        where: Key of the line in the store, which the signature covers.
        key: Key of the signature. None: the line is not signed.
    """
    line = " ".join(text.split())
    if key is None:
        return line.encode()
    return f"{line}\n{_signature(_digest(line), where, key)}".encode()


def verify_text(content: bytes, where: str, key: bytes | None) -> str | None:
    """Return a line of text. None: it has no valid signature for this key of the store."""
    line, _, signature = content.decode(errors="replace").partition("\n")
    if key is not None:
        right = _signature(_digest(line), where, key)
        if not hmac.compare_digest(right.encode(), signature.encode()):
            return None
    return line


def _digest(line: str) -> str:
    return hashlib.sha256(line.encode()).hexdigest()


def _signature(digest: str, where: str, key: bytes) -> str:
    return hmac.new(key, f"{where} {digest}".encode(), hashlib.sha256).hexdigest()
