// The steps of every program: one code path per rank, one per thread block.
// The same text for every target; what the calls do is the machine's business.
#pragma once

#include <cstddef>

namespace sccl {

enum class Buffer { input, output, scratch };

// Room for one chunk: a part of a block of input or output, or a slot of scratch.
struct Slot {
  Buffer buffer;
  int index;
};

SCCL_STEPS constexpr Slot in(int block) { return {Buffer::input, block}; }
SCCL_STEPS constexpr Slot out(int block) { return {Buffer::output, block}; }
SCCL_STEPS constexpr Slot scratch(int slot) { return {Buffer::scratch, slot}; }

// Where a part of a block begins, in bytes. Parts begin at multiples of 64 bytes; where there are
// fewer such units than parts, some are empty and nothing is sent for them.
SCCL_STEPS std::size_t part_first(std::size_t bytes, int part, int parts) {
  const std::size_t units = (bytes + 63) / 64;
  const std::size_t first = units * part / parts * 64;
  return first < bytes ? first : bytes;
}

// allreduce-line-3-c3-s4-r4, eager
template <class Machine>
SCCL_STEPS void steps_0(Machine &m) {
  switch (m.rank()) {
  case 0:
    switch (m.block()) {
    case 0:
      if (m.step(0)) {
        m.open(1);
        m.send(1, 1, -1, 2, scratch(1), in(0));
      }
      if (m.step(1)) {
        m.send(1, 2, -1, 1, scratch(2), in(0));
        m.recv_reduce(1, 0, 0, out(0), in(0), scratch(0));
      }
      if (m.step(2)) {
        m.send(1, 4, -1, 0, scratch(4), out(0));
        m.recv(1, 1, 1);
        m.copy(1, out(0), scratch(1));
      }
      if (m.step(3)) {
        m.recv(1, 2, 2);
        m.copy(2, out(0), scratch(2));
      }
      break;
    }
    break;
  case 1:
    switch (m.block()) {
    case 0:
      if (m.step(0)) {
        m.recv_reduce(0, 1, 2, out(0), in(0), scratch(1));
        m.publish(1);
      }
      if (m.step(1)) {
        m.after(1, 1);
        m.open(0);
        m.send(0, 0, -1, 0, scratch(0), out(0));
        m.recv_reduce(0, 2, 1, out(0), in(0), scratch(2));
        m.publish(2);
      }
      if (m.step(2)) {
        m.after(1, 2);
        m.send(0, 1, -1, 1, scratch(1), out(0));
        m.recv(0, 4, 0);
        m.copy(0, out(0), scratch(4));
        m.publish(3);
      }
      if (m.step(3)) {
        m.after(1, 3);
        m.send(0, 2, -1, 2, scratch(2), out(0));
      }
      break;
    case 1:
      if (m.step(0)) {
        m.recv_reduce(2, 0, 0, out(0), in(0), scratch(0));
        m.publish(1);
      }
      if (m.step(1)) {
        m.after(0, 1);
        m.open(2);
        m.send(2, 0, -1, 2, scratch(0), out(0));
        m.after(0, 2);
        m.recv_reduce(2, 3, 1, out(0), out(0), scratch(3));
        m.publish(2);
      }
      if (m.step(2)) {
        m.send(2, 1, -1, 1, scratch(1), out(0));
        m.recv(2, 5, 2);
        m.copy(2, out(0), scratch(5));
        m.publish(3);
      }
      if (m.step(3)) {
        m.after(0, 3);
        m.send(2, 2, -1, 0, scratch(2), out(0));
      }
      break;
    }
    break;
  case 2:
    switch (m.block()) {
    case 0:
      if (m.step(0)) {
        m.open(1);
        m.send(1, 0, -1, 0, scratch(0), in(0));
      }
      if (m.step(1)) {
        m.send(1, 3, -1, 1, scratch(3), in(0));
        m.recv_reduce(1, 0, 2, out(0), in(0), scratch(0));
      }
      if (m.step(2)) {
        m.send(1, 5, -1, 2, scratch(5), out(0));
        m.recv(1, 1, 1);
        m.copy(1, out(0), scratch(1));
      }
      if (m.step(3)) {
        m.recv(1, 2, 0);
        m.copy(0, out(0), scratch(2));
      }
      break;
    }
    break;
  }
}

// allreduce-line-3-c3-s4-r4, direct
template <class Machine>
SCCL_STEPS void steps_1(Machine &m) {
  switch (m.rank()) {
  case 0:
    switch (m.block()) {
    case 0:
      if (m.step(0)) {
        m.open(1);
        m.send(1, 1, -1, 2, scratch(1), in(0));
      }
      if (m.step(1)) {
        m.send(1, 2, 3, 1, scratch(0), in(0));
        m.recv_reduce(1, 0, 0, out(0), in(0), scratch(0));
      }
      if (m.step(2)) {
        m.send(1, 4, -1, 0, out(0), out(0));
        m.recv(1, 1, 1);
      }
      if (m.step(3)) {
        m.recv(1, 2, 2);
      }
      break;
    }
    break;
  case 1:
    switch (m.block()) {
    case 0:
      if (m.step(0)) {
        m.recv_reduce(0, 1, 2, out(0), in(0), scratch(1));
        m.publish(1);
        m.after(1, 1);
        m.open(0);
        m.credit(0, 3, 1);
      }
      if (m.step(1)) {
        m.send(0, 0, -1, 0, scratch(0), out(0));
        m.recv_reduce(0, 2, 1, out(0), in(0), scratch(0));
        m.publish(2);
      }
      if (m.step(2)) {
        m.after(1, 2);
        m.send(0, 1, -1, 1, out(0), out(0));
        m.recv(0, 4, 0);
        m.publish(3);
      }
      if (m.step(3)) {
        m.after(1, 3);
        m.send(0, 2, -1, 2, out(0), out(0));
      }
      break;
    case 1:
      if (m.step(0)) {
        m.recv_reduce(2, 0, 0, out(0), in(0), scratch(0));
        m.publish(1);
        m.after(0, 1);
        m.open(2);
        m.credit(2, 3, 1);
      }
      if (m.step(1)) {
        m.send(2, 0, -1, 2, scratch(0), out(0));
        m.after(0, 2);
        m.recv_reduce(2, 3, 1, out(0), out(0), scratch(1));
        m.publish(2);
      }
      if (m.step(2)) {
        m.send(2, 1, -1, 1, out(0), out(0));
        m.recv(2, 5, 2);
        m.publish(3);
      }
      if (m.step(3)) {
        m.after(0, 3);
        m.send(2, 2, -1, 0, out(0), out(0));
      }
      break;
    }
    break;
  case 2:
    switch (m.block()) {
    case 0:
      if (m.step(0)) {
        m.open(1);
        m.send(1, 0, -1, 0, scratch(0), in(0));
      }
      if (m.step(1)) {
        m.send(1, 3, 3, 1, scratch(1), in(0));
        m.recv_reduce(1, 0, 2, out(0), in(0), scratch(0));
      }
      if (m.step(2)) {
        m.send(1, 5, -1, 2, out(0), out(0));
        m.recv(1, 1, 1);
      }
      if (m.step(3)) {
        m.recv(1, 2, 0);
      }
      break;
    }
    break;
  }
}

template <class Machine>
SCCL_STEPS void run_steps(int program, Machine &m) {
  switch (program) {
  case 0: steps_0(m); break;
  case 1: steps_1(m); break;
  }
}

}  // namespace sccl
