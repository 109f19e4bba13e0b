"""Store plans packed, in parts, with a digest, and signed if there is a key.

Anyone who reaches a store's port can write its keys and values. Therefore sizes are limited before
unpacking, the content is only data, and with a key in ``SCCL_PLAN_KEY`` only signed plans are
accepted. A signature covers the plan and its location, so that no old plan passes for a new one.
Votes and decisions are signed in the same way, each with the digest of its plan.
"""

from __future__ import annotations

import hashlib
import hmac
import zlib
from collections.abc import Mapping, Sequence

import msgspec

from sccl.errors import FormatError, ParameterError

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
    """Return the key for signatures. None: there is none, and nothing is signed or refused.

    Raises:
        ParameterError: it is too short to be one.
    """
    text = environment.get(KEY, "")
    if text and len(text) < _MIN_KEY_BYTES:
        raise ParameterError(
            f"{KEY} has {len(text)} characters, expected at least {_MIN_KEY_BYTES} random "
            "characters"
        )
    return text.encode() or None


def seal(content: bytes, where: str, key: bytes | None) -> tuple[bytes, list[bytes]]:
    """Return the head and the parts of a plan.

    Args:
        where: the place where it will lie, which is signed with it.

    Raises:
        ParameterError: it is too large.
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
        FormatError: It is damaged, too large, or not signed with the key.
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
    """Return a plan from its parts.

    Raises:
        FormatError: it is damaged.
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
    """Return a line of text with its signature, which is for one place.

    Args:
        where: Place where it will lie, which is signed with it.
        key: Key of the job. None: the line is not signed.
    """
    line = " ".join(text.split())
    if key is None:
        return line.encode()
    return f"{line}\n{_signature(_digest(line), where, key)}".encode()


def verify_text(content: bytes, where: str, key: bytes | None) -> str | None:
    """Return a line of text. None: it is not signed with the key for this place."""
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
