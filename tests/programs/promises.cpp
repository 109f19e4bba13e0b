// Promises of a kernel's primitives, each with a short sequence that shows it on emulated GPUs. An argument selects one.
// Whole programs may keep a promise by luck, since another instruction has a barrier in the same place.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>

#include "machine.hpp"

namespace {

using namespace sccl;

constexpr std::size_t BYTES = 256;  // of a chunk: the packets of three threads
constexpr Epoch EPOCH = 1;          // of the first piece
constexpr Epoch TAG = 3;

constexpr Slot scratch(int index) { return {Buffer::scratch, static_cast<short>(index)}; }
constexpr std::uint16_t number(int n) { return static_cast<std::uint16_t>(n); }
constexpr int scratch_bits = sccl::scratch;  // before the number of a slot, in a row

// Reductions of what a peer sends, by its flag and its slot.
void reduce_arrival(Machine &machine, int peer, int flag, Slot into, Slot from, int arrival) {
  const Instruction row = {Code::recv_reduce, 0, number(peer), number(flag), 0, 0, 0, number(scratch_bits | arrival)};
  machine.recv_reduce(&row, 1, 0, into, from);
}
void forward_arrival(Machine &machine, int peer, int flag, Slot into, Slot from, int arrival, int next, int next_flag, int credit) {
  const Instruction row = {Code::recv_reduce_send, 0, number(peer), number(flag), 0, 0, 0, number(scratch_bits | arrival)};
  machine.recv_reduce_send(&row, 1, 0, into, from, next, next_flag, credit);
}

// The work of all threads of a block in a piece.
using Act = void (*)(Machine &, const View &, int rank, int piece);

struct Sources {
  const char *at[ARRIVALS];
};

SCCL_GLOBAL void run_act(Work work, const View *views, Act act) {
  const int rank = SCCL_BLOCK / work.blocks;
  SCCL_SHARED(Sources, sources);
  Machine machine(work, views[rank], rank, 0, SCCL_BLOCK % work.blocks, sources.at);
  int piece = 0;
  for (bool more = machine.next(); more; more = machine.next()) act(machine, views[rank], rank, piece++);
  machine.leave();
}

char *slot_of(const View &view, int rank, int index) {
  return view.window[rank] + scratch_at + (EPOCH % COPIES * SLOTS + index) * SLOT_BYTES;
}

Packet *packets_of(const View &view, int rank, Epoch epoch) {
  return reinterpret_cast<Packet *>(view.window[rank] + control_bytes) + epoch % COPIES * FLAGS * PACKETS;
}

// Four ranks that see one another's windows.
struct World {
  char *windows = nullptr;
  Epoch status[RANKS]{};
  View views[RANKS]{};
  Work work{};
  Stream stream{};

  explicit World(int blocks = 1) {
    if (!gpu_alloc_flags(reinterpret_cast<void **>(&windows), RANKS * window_bytes) || !gpu_stream(&stream)) std::abort();
    for (int r = 0; r < RANKS; ++r) {
      for (int p = 0; p < RANKS; ++p) views[r].window[p] = windows + p * window_bytes;
      views[r].blocks = blocks, views[r].ends = status;
    }
    work.tag = TAG, work.parts = 1, work.blocks = blocks, work.slices = 1;
    work.block_bytes = work.piece_bytes = work.chunk_bytes = BYTES;
    work.type = SCCL_INT32, work.op = SCCL_SUM;
  }
  Control &control(int rank) { return *reinterpret_cast<Control *>(windows + rank * window_bytes); }
  void packets_have_come(int rank) {
    for (std::size_t i = 0; i < PACKETS; ++i) packets_of(views[rank], rank, EPOCH)[i] = {EPOCH << 32, EPOCH << 32};
  }
  void run(Act act, int ranks = RANKS) {
    gpu_launch(true, run_act, ranks * work.blocks, THREADS, stream, work, static_cast<const View *>(views), act);
    gpu_sync(stream);
  }
};

bool is(Epoch mark, Epoch wanted, const char *what) {
  if (mark != wanted) std::printf("%s: the mark is %llx, not %llx\n", what, mark, wanted);
  return mark == wanted;
}

// Each instruction of a block follows the one before, whatever threads they give the bytes to.
bool instructions_follow_one_another() {
  World world;
  world.work.packets = 1;
  world.run([](Machine &machine, const View &, int rank, int) {
    const int peer = rank ^ 1;
    machine.reduce(0, scratch(1), scratch(1), scratch(2)), machine.send(peer, 0, -1, 0, scratch(0), scratch(1));
    machine.reduce(0, scratch(1), scratch(1), scratch(2)), machine.recv(peer, 0, 0, scratch(0));
    machine.copy(0, scratch(2), scratch(0)), machine.send(peer, 1, -1, 0, scratch(0), scratch(2));
    machine.copy(0, scratch(2), scratch(0));
    forward_arrival(machine, peer, 1, scratch(0), scratch(1), 3, peer, 2, -1);
    machine.reduce(0, scratch(1), scratch(1), scratch(2)), machine.recv(peer, 2, 0, scratch(3));
  });
  return is(world.status[0], 0, "instructions");
}

// A chunk is there when its flag is set, and its slot is written again when its credit is.
bool flags_follow_chunks() {
  World world;
  world.run([](Machine &machine, const View &, int rank, int) {
    if (rank == 0) {
      machine.send(1, 0, -1, 0, scratch(0), scratch(1)), machine.send(1, 1, 2, 0, scratch(0), scratch(1));
    } else if (rank == 1) {
      forward_arrival(machine, 0, 0, scratch(0), scratch(1), 0, 2, 0, -1), machine.credit(0, 2, 0);
      forward_arrival(machine, 0, 1, scratch(0), scratch(1), 0, 2, 1, 3);
    } else if (rank == 2) {
      reduce_arrival(machine, 1, 0, scratch(1), scratch(1), 0), machine.credit(1, 3, 0);
      reduce_arrival(machine, 1, 1, scratch(1), scratch(1), 0), machine.reduce(0, scratch(1), scratch(1), scratch(2));
    }
  });
  return is(world.status[2], 0, "flags");
}

// Another block may read the data that a block's threads wrote before it published.
bool publish_follows_writes() {
  World world(2);
  world.run([](Machine &machine, const View &view, int rank, int) {
    if (rank) return;
    char *const at = slot_of(view, 0, 0);
    if (machine.block() == 0) {
      for (std::size_t i = SCCL_THREAD; i < BYTES; i += SCCL_THREADS) at[i] = static_cast<char>(i);
      machine.publish(1);
    } else {
      machine.after(0, 1);
      for (std::size_t i = SCCL_THREAD; i < BYTES; i += SCCL_THREADS) at[BYTES + i] = at[BYTES - 1 - i];
    }
  });
  return is(world.status[0], 0, "publish");
}

// The last piece that a rank has reached. It orders no memory, and makes others as late as they may be.
int reached;
void reach(int piece) { if (SCCL_THREAD == 0) __atomic_store_n(&reached, piece, __ATOMIC_RELAXED); }
void await_reached(int piece) { while (__atomic_load_n(&reached, __ATOMIC_RELAXED) < piece) sched_yield(); }

// A slot is written again two pieces later, when all blocks of its rank are done with it.
bool slots_are_free_again(int packets) {
  World world(2);
  constexpr int LAST = 4;
  world.work.packets = packets;
  world.work.block_bytes = (LAST + 1) * BYTES;
  reached = -1;
  world.run([](Machine &machine, const View &, int rank, int piece) {
    if (rank == 2 && machine.block() == 0) machine.open(0), machine.send(0, 0, -1, 0, scratch(0), scratch(1)), reach(piece);
    if (rank != 0) return;
    if (machine.block() == 1) {
      machine.recv(2, 0, 0, scratch(0)), machine.publish(1), machine.reduce(0, scratch(3), scratch(0), scratch(3));
    } else {
      machine.after(1, 1), machine.reduce(0, scratch(2), scratch(0), scratch(2)), await_reached(piece < LAST ? piece + 1 : LAST);
    }
  });
  return is(world.status[0], 0, "open");
}

bool slots_are_free_for_flags() { return slots_are_free_again(0); }
bool slots_are_free_for_packets() { return slots_are_free_again(1); }

// Packets are cleared when all blocks of their rank have read them, and before peers send them anew.
bool packets_are_cleared_between() {
  World world(2);
  constexpr Epoch before = (Epoch{1} << 32) - 3;
  world.work.packets = 1;
  world.work.block_bytes = 3 * BYTES;
  for (int r = 0; r < RANKS; ++r) world.control(r).ended = before;
  reached = -1;
  world.run([](Machine &machine, const View &view, int rank, int piece) {
    Packet *const packets = packets_of(view, 0, before + 1);
    if (rank == 2 && machine.block() == 0 && piece == 2) {
      machine.open(0);
      for (std::size_t i = SCCL_THREAD; i < PACKETS; i += SCCL_THREADS) packets[i] = {1, 1};
      SCCL_BARRIER();
      reach(1);
    }
    if (rank == 0 && piece == 1) await_reached(1);
    if (rank == 0 && machine.block() == 1 && piece == 0) {
      volatile Epoch sum = 0;
      for (std::size_t i = SCCL_THREAD; i < PACKETS; i += SCCL_THREADS) sum = sum + packets[i].half[0];
    }
  });
  return is(world.status[0], 0, "packets that are cleared");
}

// Threads read shared memory of their block that other threads wrote.
bool kernels_share_what_they_read() {
  const Program &program = collectives[0].algorithms[0].eager;
  World world(BLOCKS);
  Work &work = world.work;
  work.program = program.number, work.parts = program.parts, work.chunk_bytes = 64;
  work.block_bytes = work.piece_bytes = work.chunk_bytes * program.parts;
  void *buffers = nullptr;
  const std::size_t bytes = PATTERNS * work.block_bytes;
  if (!gpu_alloc(&buffers, 2 * RANKS * bytes)) std::abort();
  Stream streams[RANKS];
  for (int r = 0; r < RANKS; ++r) {
    View &view = world.views[r];
    view.blocks = std::max(1, program.blocks[r]);
    view.in = static_cast<char *>(buffers) + r * bytes, view.out[r] = static_cast<char *>(buffers) + (RANKS + r) * bytes;
    if (!gpu_stream(&streams[r])) std::abort();
  }
  gpu_launch(true, run_loopback, RANKS * BLOCKS, THREADS, world.stream, work, static_cast<const View *>(world.views));
  gpu_sync(world.stream);
  for (int r = 0; r < RANKS; ++r) work.rank = r, gpu_launch(true, run_collective, BLOCKS, THREADS, streams[r], work, world.views[r]);
  for (const Stream stream : streams) gpu_sync(stream);
  return is(world.status[0], 0, "kernels");
}

// A kernel that begins when the communicator has ended does nothing, in all threads.
bool ended_before() {
  World world;
  const Epoch mark = abort_mark(gave_up, 2);
  world.control(0).aborted = mark;
  world.run([](Machine &machine, const View &, int, int) { machine.reduce(0, scratch(1), scratch(1), scratch(2)); }, 1);
  return is(world.status[0], mark, "a kernel after the end");
}

// A rank that refuses a call waits until its neighbors have answered.
bool refusal_waits() {
  World world;
  world.work.tag = DECLINED, world.work.deadline = 1;
  gpu_launch(false, decline_call, 1, THREADS, world.stream, world.work, world.views[0]);
  gpu_sync(world.stream);
  return is(world.status[0], abort_mark(gave_up, 0), "a refusal without an answer");
}

// The refusal ends in all threads when one of them finds a neighbor that serves the call.
bool refusal_is_refused() {
  World world;
  world.work.tag = DECLINED;
  for (int p = 1; p < RANKS; ++p) {
    world.control(0).entered[p] = EPOCH << TAG_BITS | (p == 1 ? TAG : DECLINED);
    if (p != 1) world.control(0).declined[EPOCH % COPIES][p] = EPOCH << TAG_BITS | DECLINED;
  }
  gpu_launch(false, decline_call, 1, THREADS, world.stream, world.work, world.views[0]);
  gpu_sync(world.stream);
  return is(world.status[0], abort_mark(would_not, 0), "a refusal among others");
}

// So it does if that neighbor comes between two looks at its word: the reason is the refusal.
bool refusal_is_refused_meanwhile() {
  static World *world;
  static std::atomic<unsigned> looks;
  world = new World, looks = 0;
  world->work.tag = DECLINED;
  for (int p = 2; p < RANKS; ++p) world->control(0).entered[p] = world->control(0).declined[EPOCH % COPIES][p] = EPOCH << TAG_BITS | DECLINED;
  between_looks = [] {
    if (++looks == LOOKS) __atomic_store_n(&world->control(0).entered[1], EPOCH << TAG_BITS | TAG, __ATOMIC_RELEASE);
    return sched_yield();
  };
  gpu_launch(false, decline_call, 1, THREADS, world->stream, world->work, world->views[0]);
  gpu_sync(world->stream);
  between_looks = sched_yield;
  return is(world->status[0], abort_mark(would_not, 0), "a refusal and a late neighbor");
}

// A neighbor that has refused a later call has not refused this one.
bool refusals_are_of_one_call() {
  World world;
  world.work.tag = DECLINED;
  for (int p = 1; p < RANKS; ++p) {
    world.control(0).declined[EPOCH % COPIES][p] = EPOCH << TAG_BITS | DECLINED;
    world.control(0).declined[(EPOCH + 1) % COPIES][p] = world.control(0).entered[p] = (EPOCH + 1) << TAG_BITS | DECLINED;
  }
  world.control(0).declined[EPOCH % COPIES][1] = 0;
  gpu_launch(false, decline_call, 1, THREADS, world.stream, world.work, world.views[0]);
  gpu_sync(world.stream);
  return is(world.status[0], abort_mark(would_not, 0), "a refusal of a later call");
}

// Neighbors may look at the refusal of the call before the last until they have left that one.
bool refusals_are_kept() {
  World world;
  constexpr Epoch last = EPOCH + 1, refusal = EPOCH << TAG_BITS | DECLINED;
  world.work.tag = DECLINED, world.work.deadline = 1;
  world.control(0).ended = last;
  for (int p = 1; p < RANKS; ++p) {
    world.control(p).declined[EPOCH % COPIES][0] = refusal;
    world.control(0).entered[p] = (p == 1 ? EPOCH : last) << TAG_BITS;
  }
  gpu_launch(false, decline_call, 1, THREADS, world.stream, world.work, world.views[0]);
  gpu_sync(world.stream);
  return is(world.status[0], abort_mark(gave_up, 0), "a refusal behind another") && is(world.control(1).declined[EPOCH % COPIES][0], refusal, "the refusal before");
}

// The kernel that a GPU launches to show that it can has thread blocks without instructions.
bool blocks_without_work_return() {
  World world;
  Lanes lanes;
  lanes.ends = lanes.mapped = world.status;
  const int blocks = SLICES * BLOCKS;
  if (!can_start(0, world.windows, blocks, lanes, world.stream)) return false;
  return is(world.control(0).ended + world.control(0).left + world.status[0], 0, "a kernel without work");
}

// Packets of another call are no data.
bool packets_of_another_call(Act act, const char *what) {
  World world;
  world.work.packets = 1;
  world.packets_have_come(0);
  world.control(0).entered[1] = EPOCH << TAG_BITS | (TAG + 1);
  world.run(act, 1);
  return is(world.status[0], abort_mark(disagreed, 0), what);
}

bool recv_looks_at_the_call() {
  return packets_of_another_call([](Machine &machine, const View &, int, int) { machine.recv(1, 0, 0, scratch(0)); }, "recv");
}

bool forward_looks_at_the_call() {
  return packets_of_another_call(
      [](Machine &machine, const View &, int, int) { forward_arrival(machine, 1, 0, scratch(0), scratch(1), 2, 2, 1, -1); }, "forward");
}

}  // namespace

int main(int, char **argv) {
  const struct {
    const char *name;
    bool (*keeps)();
  } all[] = {{"instructions_follow_one_another", instructions_follow_one_another},
             {"flags_follow_chunks", flags_follow_chunks},
             {"kernels_share_what_they_read", kernels_share_what_they_read},
             {"publish_follows_writes", publish_follows_writes},
             {"slots_are_free_for_flags", slots_are_free_for_flags},
             {"slots_are_free_for_packets", slots_are_free_for_packets},
             {"packets_are_cleared_between", packets_are_cleared_between},
             {"ended_before", ended_before},
             {"refusal_waits", refusal_waits},
             {"refusal_is_refused", refusal_is_refused},
             {"refusal_is_refused_meanwhile", refusal_is_refused_meanwhile},
             {"refusals_are_of_one_call", refusals_are_of_one_call},
             {"refusals_are_kept", refusals_are_kept},
             {"blocks_without_work_return", blocks_without_work_return},
             {"recv_looks_at_the_call", recv_looks_at_the_call},
             {"forward_looks_at_the_call", forward_looks_at_the_call}};
  bool good = true;
  for (const auto &promise : all)
    if (!argv[1] || promise.name == std::string(argv[1])) good = promise.keeps() && good;
  if (good) std::printf("all are kept\n");
  return !good;
}
