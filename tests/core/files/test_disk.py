"""Files: written completely or not at all, and never over a device or pipe."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sccl.core.files.disk import check_can_create, check_can_write, read_text, write_atomically
from sccl.errors import InputError


def test_file_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_atomically(file, "one")
    (tmp_path / "opened").hardlink_to(file)  # as one who reads it has it
    write_atomically(file, "two")
    assert [path.read_text() for path in (file, tmp_path / "opened")] == ["two", "one"]
    assert len(list(tmp_path.iterdir())) == 2
    (tmp_path / "usual").touch()
    assert file.stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_link_is_followed_and_stays(tmp_path: Path) -> None:
    file, link = tmp_path / "a.json", tmp_path / "link.json"
    file.write_text("one")
    link.symlink_to(file)
    write_atomically(link, "two")
    assert link.is_symlink()
    assert file.read_text() == "two"


def test_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    check_can_write(pipe)
    write_atomically(pipe, "whole")
    reader.join(timeout=10)
    assert got == ["whole"]
    assert pipe.is_fifo()


def test_full_device_is_told_and_stays() -> None:
    full = Path("/dev/full")
    if not full.is_char_device():
        pytest.skip("this machine has no /dev/full")
    with pytest.raises(InputError, match="No space left"):
        write_atomically(full, "text")
    assert full.is_char_device()


def test_endless_file_is_not_read_completely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sccl.core.files.disk._MAX_TEXT_BYTES", 8)
    (tmp_path / "long").write_text("123456789")
    with pytest.raises(InputError, match="is longer than"):
        read_text(tmp_path / "long")


def test_link_to_itself_is_reported(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(link)
    with pytest.raises(InputError, match="cannot write"):
        write_atomically(link, "text")


def test_folders_that_cannot_be_made_are_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    check_can_create(tmp_path / "new" / "newer")
    assert not (tmp_path / "new").exists()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match="is a file; give a folder"):
            check_can_create(path)


def test_stream_of_this_process_is_written_to_and_keeps_what_was_there(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path; from sccl.core.files.disk import *; p = Path('/dev/stdout'); "
        "print('before', flush=True); check_can_write(p); write_atomically(p, 'text')"
    )
    command = [sys.executable, "-c", program]
    piped = subprocess.run(command, capture_output=True, text=True, check=True)
    assert piped.stdout == "before\ntext"
    log = tmp_path / "log"
    log.write_text("old\n")
    with log.open("a") as sink:
        subprocess.run(command, stdout=sink, check=True)
    assert log.read_text() == "old\nbefore\ntext"


def test_names_that_cannot_be_are_reported(tmp_path: Path) -> None:
    for act in (check_can_write, lambda path: write_atomically(path, "text"), read_text):
        with pytest.raises(InputError, match="File name too long"):
            act(tmp_path / ("x" * 300))
