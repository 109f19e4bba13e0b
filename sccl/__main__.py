"""The command ``sccl``, and ``python -m sccl``. Only these import it."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what signal is made of: takes no time to load
import os

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # which makes tracebacks
    _signal.signal(_signal.SIGINT, lambda number, _: os._exit(128 + number))

from sccl.cli.signals import install_handlers, leave_if_interrupted


def main() -> None:
    """Run the command line; signals are heard before anything that takes time is loaded."""
    install_handlers()
    from sccl.cli.main import app  # noqa: PLC0415 - see above

    try:
        app(prog_name="sccl")
    finally:
        leave_if_interrupted()


if __name__ == "__main__":
    main()
