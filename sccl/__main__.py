"""Run the command ``sccl`` or ``python -m sccl``. Nothing else imports this module."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the C part of signal, which loads at once
import os

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # it prints tracebacks
    _signal.signal(_signal.SIGINT, lambda number, _: os._exit(128 + number))

from sccl.cli.signals import exit_code, install_handlers


def main() -> None:
    """Install signal handlers before slow imports, then run the command line."""
    install_handlers()
    from sccl.cli.main import app  # noqa: PLC0415 - see above

    try:
        app(prog_name="sccl")
    finally:
        if code := exit_code():  # results are printed, and libraries may take long to exit
            os._exit(code)


if __name__ == "__main__":
    main()
