"""Write certificates for ``--certify``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shlex import quote

from rich.markup import escape

from sccl.cli.report import err
from sccl.core.formatting import single_line
from sccl.synth.allreduce.certify import WrittenCertificate


def write_and_report(
    write: Callable[[Path, Callable[[str], None]], WrittenCertificate], folder: Path, *, quiet: bool
) -> None:
    """Write a certificate, and print its place and content.

    Args:
        write: Function that writes it into a folder, and reports progress to its second argument.
    """
    console = err()
    with console.status("certificate") as status:
        written = write(folder, lambda text: status.update(f"certificate: {escape(text)}"))
    if quiet:
        return
    check = f"sccl certificate verify {quote(str(folder))}"
    text = f"certificate: {single_line(written.file)}; check it with: {single_line(check)}"
    console.print(text, markup=False, soft_wrap=True)
    if written.scope:
        console.print(f"certified: {written.scope}", markup=False, soft_wrap=True)
