"""Shared functions of the compiled loops: random numbers, and chunks as bits of 64-bit words.

Integers are unsigned: Numba checks each signed index for negative values, and converts a sum of
both kinds to float.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sccl.compiled import compiled
from sccl.core.arrays import UInt64Array

ZERO, ONE, WIDTH = np.uint64(0), np.uint64(1), np.uint64(64)
TO_WORD, IN_WORD = np.uint64(6), np.uint64(63)
"""Chunk c is bit ``c & IN_WORD`` of word ``c >> TO_WORD``."""

ALL_BITS = np.uint64(2**64 - 1)

_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_MIX_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))

_XORSHIFTS = (np.uint64(12), np.uint64(25), np.uint64(27))
_XORSHIFT_MULTIPLIER = np.uint64(0x2545F4914F6CDD1D)
_HALF_BITS = np.uint64(32)


def random_state(seed: int) -> UInt64Array:
    """Return the state of a generator, never zero (Steele et al. 2014: splitmix64)."""
    mixed = (seed + 1) * 0x9E3779B97F4A7C15 % 2**64
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % 2**64
    return np.array([(mixed ^ (mixed >> 31)) or 1], dtype=np.uint64)


@compiled
def mix_bits(x: Any) -> Any:
    """Return a random number of 64 bits for each number (Steele et al. 2014: splitmix64)."""
    x = (x ^ (x >> _MIX_SHIFTS[0])) * _MULTIPLIERS[0]
    x = (x ^ (x >> _MIX_SHIFTS[1])) * _MULTIPLIERS[1]
    return x ^ (x >> _MIX_SHIFTS[2])


@compiled
def random_below(state: UInt64Array, end: Any) -> Any:
    """Return a random number of 0 to ``end - 1``, ``end`` < 2^32 (Vigna 2016: xorshift64*)."""
    x = state[0]
    x ^= x >> _XORSHIFTS[0]
    x ^= x << _XORSHIFTS[1]
    x ^= x >> _XORSHIFTS[2]
    state[0] = x
    return (((x * _XORSHIFT_MULTIPLIER) >> _HALF_BITS) * end) >> _HALF_BITS


@compiled
def chunk_bit(chunk: Any) -> Any:
    """Return the word of a chunk's one bit."""
    return ONE << (chunk & IN_WORD)


@compiled
def rotate_right(word: Any, shift: Any) -> Any:
    """Return a word with its bits rotated to the right by 0 to 63 places."""
    return (word >> shift) | (word << ((WIDTH - shift) & IN_WORD))


def shuffle_chunks(chunks: int, seed: int) -> NDArray[np.int64]:
    """Return the position of each chunk in a random permutation.

    A link chooses among chunks of one word, so these should not start on neighboring ranks. (An
    allgather on a torus of 32x32 takes 257 rounds with two of three seeds. Without a permutation
    all three take 258.)
    """
    return np.random.Generator(np.random.PCG64(seed)).permutation(chunks)


def bit_rows(
    rows: NDArray[np.int64], bits: NDArray[np.int64], shape: tuple[int, int]
) -> UInt64Array:
    """Return flat rows of words with the given bits set.

    Args:
        rows: Row of each bit.
        bits: Index of each bit in its row.
        shape: Number of rows, and number of bits in each row.
    """
    words = -(-shape[1] // 64)
    flat = np.zeros(shape[0] * words, dtype=np.uint64)
    np.bitwise_or.at(flat, rows * words + (bits >> 6), ONE << (bits & 63).astype(np.uint64))
    return flat
