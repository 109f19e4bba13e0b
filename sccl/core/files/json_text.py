"""Write canonical JSON text of the kinds of :mod:`sccl.core.files.kinds`, and read it.

Equal values give equal bytes, with one row per send or link, so that files are easy to read and
compare. Reading checks the shape, and errors name the field and its position.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from pathlib import Path
from typing import Protocol, TypeVar, cast

import msgspec
import msgspec.inspect

from sccl.core.files.disk import is_packed, read_text
from sccl.core.files.kinds import PACKED_SCHEDULE, VERIFIED_KINDS, Kind, detect_kind, kind_of_shape
from sccl.errors import FormatError

W = TypeVar("W", bound=msgspec.Struct)


class FileShape(Protocol):
    """A shape of a whole file."""

    @property
    def schema(self) -> int:
        """Return the version of the format."""

    @property
    def kind(self) -> str:
        """Return the kind of file."""

    @property
    def digest(self) -> str | None:
        """Return the stated digest."""


def detect_text_kind(text: str, where: str) -> Kind | None:
    """Return the kind of a JSON text, None if it is of no known kind.

    Args:
        where: Name in messages, which is its file name.

    Raises:
        FormatError: The text is not JSON.
    """
    try:
        fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, RecursionError) as error:
        raise _not_json(text, where, error) from error
    stated = {name: msgspec.json.decode(fields[name]) for name in fields.keys() & {"kind"}}
    return detect_kind(fields | stated)


def parse(text: str, wire: type[W], where: str) -> W:
    """Decode ``text``, and check it against the shape ``wire`` and its digest, if any.

    Plans may be edited, because verification shows whether they are correct. Other content (speeds
    of links, times of computation, measurements) cannot be verified: there the digest detects
    accidental changes.

    Args:
        text: JSON.
        wire: one of :func:`sccl.core.files.kinds.published_shapes`.
        where: name in messages: its file name.

    Raises:
        FormatError: not JSON (line and column), of another kind, not of that shape (path of the
            field), or an edited file that is no plan.
    """
    try:
        json.loads(text, object_pairs_hook=_refuse_repeated_keys)
        value = msgspec.json.decode(text, type=wire)
    except (msgspec.ValidationError, _RepeatedKeyError) as error:
        kind = kind_of_shape(wire)
        raise FormatError(
            f"{where}: {_describe_other_kind(text, kind) or describe_problem(error, wire)}; "
            "expected "
            f"{kind} file (its shape: 'sccl doctor schema {kind.name}'){_reader_hint(text, kind)}"
        ) from error
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise _not_json(text, where, error) from error
    if (
        getattr(value, "digest", None) is not None
        and kind_of_shape(wire) not in VERIFIED_KINDS
        and not has_valid_digest(cast("FileShape", value))
    ):
        raise FormatError(
            f"{where}: edited since sccl wrote it (its digest does not match): remove its field "
            "'digest' if the change is intended"
        )
    return value


def has_valid_digest(wire: FileShape) -> bool:
    """Return whether a value has the digest that it states, or states none."""
    return wire.digest is None or wire.digest == digest(wire)


def _not_json(text: str, where: str, error: Exception) -> FormatError:
    """Return the error for text that is not JSON, with the place if known."""
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except _ConstantError as name:
        return FormatError(
            f"{where}: not JSON ({name} is not a JSON number): give a finite number, or null for "
            "an optional field"
        )
    except json.JSONDecodeError as place:
        return FormatError(
            f"{where}, line {place.lineno} column {place.colno}: not JSON ({place.msg})"
        )
    except (RecursionError, ValueError):
        pass
    return FormatError(f"{where}: not JSON that sccl can read ({error})")


class _ConstantError(Exception):
    pass


def _refuse_constant(name: str) -> None:
    """Reject NaN and Infinity, which Python's JSON module accepts."""
    raise _ConstantError(name)


def _describe_other_kind(text: str, expected: Kind) -> str:
    """Return the kind of a file of an unexpected kind, or empty if it may be the expected one."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return ""  # the JSON itself is invalid
    if not isinstance(fields, dict):
        return ""
    if kind := detect_kind(fields):
        return f"it holds {kind}" if kind != expected else ""
    stated = fields.get("kind")
    return f"$.kind is {stated[:40]!r}" if isinstance(stated, str) else ""


def _reader_hint(text: str, expected: Kind) -> str:
    """Return the command that reads a file of an unexpected kind. Empty: unknown."""
    try:
        kind = detect_text_kind(text, "")
    except FormatError:
        return ""
    is_other = kind is not None and kind != expected and kind.reader
    return f"; '{kind.reader}' reads the given file" if is_other and kind else ""


def describe_problem(error: Exception, wire: type[msgspec.Struct]) -> str:
    """Return msgspec's error on one line, with a suggestion or the allowed values."""
    line = "".join(c if c.isprintable() else "?" for c in str(error))
    return f"{line}{_suggest_field(error, wire)}{_allowed_values(error, wire)}"


def _allowed_values(error: Exception, wire: type[msgspec.Struct]) -> str:
    """Return the allowed words of a field, empty if it has no fixed words."""
    match = re.fullmatch(r"Invalid enum value .*? - at `\$(.*)`", str(error), re.DOTALL)
    if not match:
        return ""
    path = re.findall(r"[^.\[\]]+", match[1])
    kinds = _types_at(msgspec.inspect.type_info(wire), path)
    words = [word for kind in kinds for word in _enum_words(kind)]
    return f", expected {' or '.join(words)}" if words else ""


def _enum_words(kind: msgspec.inspect.Type) -> list[str]:
    match kind:
        case msgspec.inspect.LiteralType(values=values):
            return [str(value) for value in values]
        case msgspec.inspect.EnumType(cls=cls):
            return [str(member.value) for member in cls]
    return []


def _suggest_field(error: Exception, wire: type[msgspec.Struct]) -> str:
    """Suggest the field that was probably meant, empty if no name is similar."""
    # msgspec names an unknown field and its path only in the message.
    unknown = r"Object contains unknown field `(.*?)`(?: - at `\$(.*)`)?"
    match = re.fullmatch(unknown, str(error), re.DOTALL)
    if not match:
        return ""
    places = _types_at(msgspec.inspect.type_info(wire), re.findall(r"[^.\[\]]+", match[2] or ""))
    structs = [struct for struct in places if isinstance(struct, msgspec.inspect.StructType)]
    field_names = [field.encode_name for struct in structs for field in struct.fields]
    near = difflib.get_close_matches(match[1].lower(), field_names, n=1, cutoff=0.5)
    return f" (did you mean `{near[0]}`?)" if near else ""


def _types_at(kind: msgspec.inspect.Type, path: list[str]) -> list[msgspec.inspect.Type]:
    """Return the possible types at a path of fields and list indices."""
    match kind:
        case msgspec.inspect.Metadata(type=inner):
            return _types_at(inner, path)
        case msgspec.inspect.UnionType(types=types):
            return [result for member in types for result in _types_at(member, path)]
        case msgspec.inspect.VarTupleType(item_type=item) if path:
            return _types_at(item, path[1:])
        case msgspec.inspect.StructType(fields=fields) if path:
            inside = [field.type for field in fields if field.encode_name == path[0]]
            return _types_at(inside[0], path[1:]) if inside else []
    return [] if path else [kind]


class _RepeatedKeyError(ValueError):
    pass


def _refuse_repeated_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _RepeatedKeyError(f"Object has the field `{twice}` twice, expected it once")
    return fields


_HEAD = ("schema", "kind", "digest", "sccl", "inputs")
"""Fields that identify a file or an output: kind, version, and inputs."""


def digest(wire: object) -> str:
    """Return the sha256 of a value's content, ``"sha256:..."``, ignoring a stated digest."""
    plain = msgspec.to_builtins(wire)
    for head in _HEAD:  # msgspec may leave out defaults
        plain.pop(head, None)
    return "sha256:" + hashlib.sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()


def to_text(wire: FileShape) -> str:
    """Return canonical JSON text: digest included, one line per field and per row of a list."""
    return text_with_digest(wire, digest(wire))


def text_with_digest(wire: FileShape, stated: str) -> str:
    """Return canonical JSON text that states a given digest, without checking it."""
    plain = msgspec.to_builtins(wire)
    head = {"schema": wire.schema, "kind": wire.kind, "digest": stated}
    return _layout({**head, **{k: v for k, v in plain.items() if k not in head}}, 0) + "\n"


def _layout(value: object, depth: int) -> str:
    """Lay out nested objects by field and lists by row. A row itself stays on one line."""
    pad = " " * (depth + 1)
    if isinstance(value, dict):
        fields = (f"{pad}{json.dumps(k)}: {_layout(v, depth + 1)}" for k, v in value.items())
        return "{\n" + ",\n".join(fields) + "\n" + " " * depth + "}"
    if isinstance(value, (list, tuple)) and any(isinstance(v, (list, tuple, dict)) for v in value):
        rows = (pad + json.dumps(v) for v in value)
        return "[\n" + ",\n".join(rows) + "\n" + " " * depth + "]"
    return json.dumps(value)


def file_kind(file: Path) -> Kind | None:
    """Return the kind of a file. None: an unknown kind.

    Raises:
        InputError: It cannot be read, or is not JSON.
    """
    return PACKED_SCHEDULE if is_packed(file) else detect_text_kind(read_text(file), str(file))


def file_digest(path: Path) -> str:
    """Return the sha256 of a file's text.

    Raises:
        InputError: it cannot be read.
    """
    return "sha256:" + hashlib.sha256(read_text(path).encode()).hexdigest()
