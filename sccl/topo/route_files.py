"""Files of routes: the nodes that messages pass from one rank to another."""

from __future__ import annotations

from pathlib import Path

import msgspec

from sccl.core.files.disk import read_text
from sccl.errors import FormatError


class RoutesWire(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Routes of messages."""

    routes: tuple[tuple[int, ...], ...]


def load_routes(file: Path) -> tuple[tuple[int, ...], ...]:
    """Load routes from a file ``{"routes": [[0, 1, 2], ...]}`` with the nodes of each in order.

    Raises:
        InputError: The file cannot be read, or has another form.
    """
    text = read_text(file)
    try:
        return msgspec.json.decode(text, type=RoutesWire).routes
    except msgspec.MsgspecError as error:
        raise FormatError(
            f'{file}: {error}; expected {{"routes": [[0, 1, 2], ...]}}, the nodes of each route'
        ) from error
