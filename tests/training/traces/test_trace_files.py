"""Files of traces: plain, packed, in archives and folders, and damaged ones."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from sccl.errors import InputError
from sccl.training.traces import iterate_files, trace_files


def archive(path: Path, files: dict[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as out:  # type: ignore[call-overload]
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            out.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("link.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        out.addfile(link)
    return path


def test_packed_file_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"{1}")
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(b"{2}") + gzip.compress(b"{3}"))
    (tmp_path / "notes.md").write_bytes(b"no trace")
    (tmp_path / "comm_groups.json").write_bytes(b"{4}")
    assert [content for _, content in iterate_files(tmp_path)] == [b"{1}", b"{2}{3}", b"{4}"]
    packed = {"x/0.json": b"{4}", "x/1.json.gz": gzip.compress(b"{5}"), "x/._0.json": b"", "m": b""}
    for mode in ("w", "w:gz"):
        made = archive(tmp_path / "all.tar", packed, mode)
        found = [(name.removeprefix(f"{made}: "), content) for name, content in iterate_files(made)]
        assert found == [("x/0.json", b"{4}"), ("x/1.json.gz", b"{5}")]


@pytest.mark.parametrize("cut", [3, 11, 20, -1])
def test_truncated_or_damaged_file_is_reported(cut: int, tmp_path: Path) -> None:
    file = tmp_path / "a.json.gz"
    file.write_bytes(gzip.compress(b"{'some': 'trace'}")[:cut])
    with pytest.raises(InputError, match=r"a.json.gz: it is cut off, as its packed content"):
        list(iterate_files(file))
    file.write_bytes(gzip.compress(b"{'some': 'trace'}")[:-6] + b"\0" * 6)
    with pytest.raises(InputError, match=r"a.json.gz: the file is damaged \(gzip: "):
        list(iterate_files(file))


def test_bombs_are_rejected_as_they_unpack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_files, "MAX_BYTES", 2**22)
    bomb = gzip.compress(b"0" * 2**24)
    (tmp_path / "bomb.json.gz").write_bytes(bomb)
    with pytest.raises(InputError, match=r"bomb.json.gz: it is larger than 4 MiB, unpacked"):
        list(iterate_files(tmp_path / "bomb.json.gz"))
    several = archive(tmp_path / "a.tar", {f"{i}.json": b"0" * 2**20 for i in range(8)}, "w")
    with pytest.raises(InputError, match=r"a.tar: it is larger than 4 MiB"):
        list(iterate_files(several))
    inside = archive(tmp_path / "b.tar", {"c.json.gz": bomb}, "w")
    with pytest.raises(InputError, match=r"b.tar: c.json.gz: it is larger than 4 MiB"):
        list(iterate_files(inside))


def test_empty_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there are no traces"):
        list(iterate_files(tmp_path))
    (tmp_path / "empty.json").write_bytes(b" \n")
    with pytest.raises(InputError, match="it is empty, expected a trace"):
        list(iterate_files(tmp_path / "empty.json"))
    with pytest.raises(InputError, match="cannot read"):
        list(iterate_files(tmp_path / "none.json"))
    whole = archive(tmp_path / "a.tar", {"a.json": b"x" * 5000}, "w").read_bytes()
    (tmp_path / "a.tar").write_bytes(whole[:3000])
    with pytest.raises(InputError, match=r"a.tar: it is a damaged archive"):
        list(iterate_files(tmp_path / "a.tar"))


def test_contents_reports_files_that_are_no_traces(tmp_path: Path) -> None:
    skipped: list[str] = []
    (tmp_path / "a.json").write_bytes(b"{1}")
    (tmp_path / ".hidden").write_bytes(b"")
    list(iterate_files(tmp_path, skipped.append))
    assert skipped == []
    for name in ("b.md", "c\x1b.pt", "c.txt.bak", "d", "e", "f"):
        (tmp_path / name).write_bytes(b"no trace")
    list(iterate_files(tmp_path, skipped.append))
    shown = r"b.md, c\x1b.pt, c.txt.bak, d, e and 1 more"
    assert skipped == [f"{tmp_path}: 6 files without traces: {shown}"]
    skipped.clear()
    made = archive(tmp_path / "all.tar", {"x/0.json": b"{4}", "x/notes": b"", "x/._0": b""})
    list(iterate_files(made, skipped.append))
    assert skipped == [f"{made}: 2 files without traces: x/notes, link.json"]
    with pytest.raises(InputError, match=r"none.tar: there are no traces \(.json, .*this archive"):
        list(iterate_files(archive(tmp_path / "none.tar", {"x/notes": b""})))


def test_contents_rejects_bytes_after_a_gzip_stream(tmp_path: Path) -> None:
    file = tmp_path / "a.json.gz"
    file.write_bytes(gzip.compress(b"{1}") + b"\0" * 700)
    assert [content for _, content in iterate_files(file)] == [b"{1}"]
    for rest in (b"garbage", b"\0\0garbage", b"\n"):
        file.write_bytes(gzip.compress(b"{1}") + rest)
        with pytest.raises(InputError, match=r"a.json.gz: other bytes follow its packed content"):
            list(iterate_files(file))
