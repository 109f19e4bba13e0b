"""Sizes in bytes with decimal or binary units, and ranges of them."""

from __future__ import annotations

import re

import pytest

from sccl.core.sizes import parse_size, parse_sizes
from sccl.errors import ParameterError
from sccl.runtime.project_timing import size_range


def test_sizes_are_decimal_or_binary_as_they_say() -> None:
    sizes = ["7", "1KB", "1kb", "1K", "1KiB", "2MB", "3GiB"]
    assert [parse_size(s) for s in sizes] == [7, 1000, 1000, 1024, 1024, 2 * 10**6, 3 * 2**30]


def test_fractions_are_sizes_where_they_come_to_whole_bytes() -> None:
    sizes = ["62.5MB", "1.5GiB", "0.5K", "0.001KB", "3.0", "1.25kib"]
    bytes_of = [62_500_000, 3 * 2**29, 512, 1, 3, 1280]
    assert [parse_size(s) for s in sizes] == bytes_of
    assert parse_sizes("0.5KB..2.5KB") == (500, 2000, 2500)
    assert parse_sizes("1MB, 1KB..4KB,2KB") == (1000, 2000, 4000, 1_000_000)
    assert size_range("0.5KB..1.5M") == (500, 3 * 2**19)


def test_range_of_sizes_goes_by_fours_to_its_end() -> None:
    assert parse_sizes("1MB") == (10**6,)
    assert parse_sizes("64KiB..64KiB") == (2**16,)
    assert parse_sizes("1..16") == (1, 4, 16)
    assert parse_sizes("1KB .. 20KB") == (1000, 4000, 16_000, 20_000)
    assert len(parse_sizes("1KB..1GB")) == len(parse_sizes("1KiB..1GiB")) == 11


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1GB..1KB", "size is '1GB..1KB', from 1000000000 bytes to fewer, 1000: expected"),
        ("..1GB", "size is '', expected 1 to"),
        ("1KB..", "size is '', expected 1 to"),
        ("1..2..3", "size is '2..3', expected 1 to"),
        ("0..8", "size is '0', expected 1 to"),
        ("1.3KiB", "size is '1.3KiB', not a whole number of bytes: give 1331 or 1332"),
        ("1..2.5", "size is '2.5', not a whole number of bytes: give 2 or 3"),
        ("0.5", "size is '0.5', expected 1 to"),
        (".5MB", "size is '.5MB', expected 1 to"),
        ("1.MB", "size is '1.MB', expected 1 to"),
        ("1,5MB", "size is '1,5MB', sizes with and without a unit"),
        ("1.5.5MB", "size is '1.5.5MB', expected 1 to"),
        ("1KB..9999PiB", "size is '9999PiB', expected 1 to"),
        ("1e30", "size is '1e30'"),
        ("10EB", "size is '10EB'"),
        ("-1", "size is '-1'"),
    ],
)
def test_invalid_range_is_rejected(text: str, says: str) -> None:
    with pytest.raises(ParameterError, match=f"^{re.escape(says)}"):
        parse_sizes(text)
