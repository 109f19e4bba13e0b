"""The command ``sccl``, and ``python -m sccl``."""

from __future__ import annotations

from sccl.cli.signals import listen


def main() -> None:
    """Run the command line; signals are heard before anything that takes time is loaded."""
    listen()
    from sccl.cli.main import app  # noqa: PLC0415 - see above

    app(prog_name="sccl")


if __name__ == "__main__":
    main()
