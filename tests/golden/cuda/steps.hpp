// The instructions of every program as one table, and the loop that runs them: the same text for
// every target; what the calls do is the machine's business.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tables.hpp"

namespace sccl {

enum class Buffer { input, output, scratch };

// Room for one chunk: a part of a block of input or output, or a slot of scratch.
struct Slot {
  Buffer buffer;
  int index;
};

// What an instruction does: a call of the machine, with the fields that the call names.
enum class Code : std::uint16_t {
  after,             // peer (a thread block), flag (its mark), part, other (the part that the mark is about)
  publish,           // flag (a mark), part
  open,              // peer
  send,              // peer, flag, other (a credit), part, into, from
  recv,              // peer, flag, part, into
  recv_reduce,       // peer, flag, part, into, from, other (a slot)
  recv_reduce_send,  // the same, but into is of the peer in the row `onward`
  arrival,           // another chunk to reduce, in the rows behind these two: peer, flag, part, other (a slot)
  onward,            // the last row of a recv_reduce_send: peer, flag, part, other (a credit)
  reduce,            // part, into, from, other (a slot)
  copy,              // part, into, from
  credit             // peer, flag, part
};

// Loaded in one go. Slots are numbers with their buffer in the two highest bits.
struct alignas(16) Instruction {
  Code code;
  std::uint16_t step, peer, flag, part, into, from, other;
};

constexpr std::uint16_t in = 0, out = 1 << 14, scratch = 2 << 14;
constexpr std::uint16_t none = 0xffff;  // no credit

SCCL_STEPS int credit_of(std::uint16_t bits) { return bits == none ? -1 : bits; }

SCCL_STEPS Slot slot_of(std::uint16_t bits) {
  return {static_cast<Buffer>(bits >> 14), bits & ((1 << 14) - 1)};
}

// Where a part of a block begins, in bytes. Parts begin at multiples of 64 bytes; where there are
// fewer such units than parts, some are empty and nothing is sent for them.
SCCL_STEPS std::size_t part_first(std::size_t bytes, int part, int parts) {
  const std::size_t units = (bytes + 63) / 64;
  const std::size_t first = units * part / parts * 64;
  return first < bytes ? first : bytes;
}

SCCL_TABLE Instruction instructions[] = {
    // program 0: allreduce-line-3-c3-s4-r4, eager
    // rank 0, block 0
    {Code::open, 0, 1, 0, 0, 0, 0, 0},
    {Code::send, 0, 1, 1, 2, scratch | 1, in | 0, none},
    {Code::send, 1, 1, 2, 1, scratch | 2, in | 0, none},
    {Code::recv_reduce, 1, 1, 0, 0, out | 0, in | 0, scratch | 0},
    {Code::send, 2, 1, 4, 0, scratch | 4, out | 0, none},
    {Code::recv, 2, 1, 1, 1, scratch | 1, 0, 0},
    {Code::copy, 2, 0, 0, 1, out | 0, scratch | 1, 0},
    {Code::recv, 3, 1, 2, 2, scratch | 2, 0, 0},
    {Code::copy, 3, 0, 0, 2, out | 0, scratch | 2, 0},
    // rank 1, block 0
    {Code::open, 0, 2, 0, 0, 0, 0, 0},
    {Code::recv_reduce_send, 0, 0, 1, 2, scratch | 0, in | 0, scratch | 1},
    {Code::onward, 0, 2, 0, 2, none, none, none},
    {Code::recv_reduce, 1, 0, 2, 1, out | 0, in | 0, scratch | 2},
    {Code::arrival, 1, 2, 3, 1, 0, 0, scratch | 3},
    {Code::publish, 1, 0, 1, 1, 0, 0, 0},
    {Code::open, 2, 0, 0, 0, 0, 0, 0},
    {Code::send, 2, 0, 1, 1, scratch | 1, out | 0, none},
    {Code::recv, 2, 0, 4, 0, scratch | 4, 0, 0},
    {Code::copy, 2, 0, 0, 0, out | 0, scratch | 4, 0},
    {Code::publish, 2, 0, 2, 0, 0, 0, 0},
    {Code::after, 3, 1, 1, 2, 0, 0, 2},
    {Code::send, 3, 0, 2, 2, scratch | 2, out | 0, none},
    // rank 1, block 1
    {Code::open, 0, 0, 0, 0, 0, 0, 0},
    {Code::recv_reduce_send, 0, 2, 0, 0, scratch | 0, in | 0, scratch | 0},
    {Code::onward, 0, 0, 0, 0, none, none, none},
    {Code::after, 2, 0, 1, 1, 0, 0, 1},
    {Code::open, 2, 2, 0, 0, 0, 0, 0},
    {Code::send, 2, 2, 1, 1, scratch | 1, out | 0, none},
    {Code::recv, 2, 2, 5, 2, scratch | 5, 0, 0},
    {Code::copy, 2, 0, 0, 2, out | 0, scratch | 5, 0},
    {Code::publish, 2, 0, 1, 2, 0, 0, 0},
    {Code::after, 3, 0, 2, 0, 0, 0, 0},
    {Code::send, 3, 2, 2, 0, scratch | 2, out | 0, none},
    // rank 2, block 0
    {Code::open, 0, 1, 0, 0, 0, 0, 0},
    {Code::send, 0, 1, 0, 0, scratch | 0, in | 0, none},
    {Code::send, 1, 1, 3, 1, scratch | 3, in | 0, none},
    {Code::recv_reduce, 1, 1, 0, 2, out | 0, in | 0, scratch | 0},
    {Code::send, 2, 1, 5, 2, scratch | 5, out | 0, none},
    {Code::recv, 2, 1, 1, 1, scratch | 1, 0, 0},
    {Code::copy, 2, 0, 0, 1, out | 0, scratch | 1, 0},
    {Code::recv, 3, 1, 2, 0, scratch | 2, 0, 0},
    {Code::copy, 3, 0, 0, 0, out | 0, scratch | 2, 0},
    // program 1: allreduce-line-3-c3-s4-r4, direct
    // rank 0, block 0
    {Code::open, 0, 1, 0, 0, 0, 0, 0},
    {Code::send, 0, 1, 1, 2, scratch | 1, in | 0, none},
    {Code::send, 1, 1, 2, 1, scratch | 0, in | 0, 3},
    {Code::recv_reduce, 1, 1, 0, 0, out | 0, in | 0, scratch | 0},
    {Code::send, 2, 1, 4, 0, out | 0, out | 0, none},
    {Code::recv, 2, 1, 1, 1, out | 0, 0, 0},
    {Code::recv, 3, 1, 2, 2, out | 0, 0, 0},
    // rank 1, block 0
    {Code::open, 0, 2, 0, 0, 0, 0, 0},
    {Code::recv_reduce_send, 0, 0, 1, 2, scratch | 0, in | 0, scratch | 1},
    {Code::onward, 0, 2, 0, 2, none, none, none},
    {Code::publish, 0, 0, 1, 2, 0, 0, 0},
    {Code::after, 0, 1, 1, 1, 0, 0, 0},
    {Code::open, 0, 0, 0, 0, 0, 0, 0},
    {Code::credit, 0, 0, 3, 1, 0, 0, 0},
    {Code::recv_reduce, 1, 0, 2, 1, out | 0, in | 0, scratch | 0},
    {Code::arrival, 1, 2, 3, 1, 0, 0, scratch | 1},
    {Code::publish, 1, 0, 2, 1, 0, 0, 0},
    {Code::send, 2, 0, 1, 1, out | 0, out | 0, none},
    {Code::recv, 2, 0, 4, 0, out | 0, 0, 0},
    {Code::publish, 2, 0, 3, 0, 0, 0, 0},
    {Code::after, 3, 1, 2, 2, 0, 0, 2},
    {Code::send, 3, 0, 2, 2, out | 0, out | 0, none},
    // rank 1, block 1
    {Code::open, 0, 0, 0, 0, 0, 0, 0},
    {Code::recv_reduce_send, 0, 2, 0, 0, scratch | 0, in | 0, scratch | 0},
    {Code::onward, 0, 0, 0, 0, none, none, none},
    {Code::publish, 0, 0, 1, 0, 0, 0, 0},
    {Code::after, 0, 0, 1, 1, 0, 0, 2},
    {Code::open, 0, 2, 0, 0, 0, 0, 0},
    {Code::credit, 0, 2, 3, 1, 0, 0, 0},
    {Code::after, 2, 0, 2, 1, 0, 0, 1},
    {Code::send, 2, 2, 1, 1, out | 0, out | 0, none},
    {Code::recv, 2, 2, 5, 2, out | 0, 0, 0},
    {Code::publish, 2, 0, 2, 2, 0, 0, 0},
    {Code::after, 3, 0, 3, 0, 0, 0, 0},
    {Code::send, 3, 2, 2, 0, out | 0, out | 0, none},
    // rank 2, block 0
    {Code::open, 0, 1, 0, 0, 0, 0, 0},
    {Code::send, 0, 1, 0, 0, scratch | 0, in | 0, none},
    {Code::send, 1, 1, 3, 1, scratch | 1, in | 0, 3},
    {Code::recv_reduce, 1, 1, 0, 2, out | 0, in | 0, scratch | 0},
    {Code::send, 2, 1, 5, 2, out | 0, out | 0, none},
    {Code::recv, 2, 1, 1, 1, out | 0, 0, 0},
    {Code::recv, 3, 1, 2, 0, out | 0, 0, 0},
};

constexpr int LINES = 15;  // most instructions of a thread block
constexpr int ARRIVALS = 2;  // most chunks that an instruction receives

// Where in that table the instructions of each thread block begin; after the last, where they end.
SCCL_TABLE int begins[][RANKS][BLOCKS + 1] = {
    {{0, 9, 9}, {9, 22, 33}, {33, 42, 42}, },
    {{42, 49, 49}, {49, 64, 77}, {77, 84, 84}, },
};

// The data that each of those instructions is about, by its number: calls of counts have its length in a table.
SCCL_TABLE std::uint32_t about[] = {
    // program 0
    0, 0, 0, 0, 0, 0, 0, 0, 0, 
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 
    0, 0, 0, 0, 0, 0, 0, 0, 0, 
    // program 1
    0, 0, 0, 0, 0, 0, 0, 
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 
    0, 0, 0, 0, 0, 0, 0, 
};

// How many chunks a recv_reduce or recv_reduce_send receives: one in its own row, one in each `arrival` behind it.
SCCL_STEPS int count_arrivals(const Instruction *lines, int i, int count) {
  int n = 1;
  while (i + n < count && lines[i + n].code == Code::arrival) ++n;
  return n;
}

template <class Machine>
SCCL_STEPS void run_lines(const Instruction *lines, int count, Machine &m) {
  for (int i = 0; i < count; ++i) {
    const Instruction x = lines[i];
    if (!m.step(x.step, i)) continue;
    switch (x.code) {
      case Code::after: m.after(x.peer, x.flag); break;
      case Code::publish: m.publish(x.flag); break;
      case Code::open: m.open(x.peer); break;
      case Code::send: m.send(x.peer, x.flag, credit_of(x.other), x.part, slot_of(x.into), slot_of(x.from)); break;
      case Code::recv: m.recv(x.peer, x.flag, x.part, slot_of(x.into)); break;
      case Code::recv_reduce: {
        const int n = count_arrivals(lines, i, count);
        m.recv_reduce(lines + i, n, x.part, slot_of(x.into), slot_of(x.from));
        i += n - 1;
        break;
      }
      case Code::recv_reduce_send: {
        const int n = count_arrivals(lines, i, count);
        const Instruction y = lines[i + n];
        m.recv_reduce_send(lines + i, n, x.part, slot_of(x.into), slot_of(x.from), y.peer, y.flag, credit_of(y.other));
        i += n;
        break;
      }
      case Code::arrival:
      case Code::onward: break;
      case Code::reduce: m.reduce(x.part, slot_of(x.into), slot_of(x.from), slot_of(x.other)); break;
      case Code::copy: m.copy(x.part, slot_of(x.into), slot_of(x.from)); break;
      case Code::credit: m.credit(x.peer, x.flag, x.part); break;
    }
  }
}

template <class Machine>
SCCL_STEPS void run_steps(int program, Machine &m) {
  const int *const begin = &begins[program][m.rank()][m.block()];
  run_lines(instructions + begin[0], begin[1] - begin[0], m);
}

}  // namespace sccl
