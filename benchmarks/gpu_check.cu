// Checks of one GPU with the primitives of a generated project, which lies in the include path (gpu_check.py builds this):
// machine, order, stale, speed, and pair, in which two processes share the GPU. Each check prints a line of JSON. Exit
// code 0: all are right, 1: one is wrong or failed, 3: there is no GPU.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "combine.hpp"
#include "gpu.hpp"
#include "sccl.h"

using namespace sccl;

namespace {

constexpr int WORDS = 4096;                // of a message
constexpr Epoch PATIENCE_NS = 5000000000;  // of a wait on the GPU
constexpr std::size_t EACH = 4 << 20;      // bytes that a block moves where speed is measured

// What checks share in memory of the GPU.
struct Board {
  Epoch wrong, late, left, next[8];
  alignas(128) Epoch sent;
  alignas(128) Epoch passed;
  alignas(128) Epoch credit[4];
  alignas(128) unsigned data[WORDS];
  unsigned chain[64];
  Packet packets[2][WORDS];
};

// All threads of a block wait for a word; false, which is the same for all of them: it came too late.
SCCL_DEVICE bool await(Board *board, const Epoch *word, Epoch value) {
  bool good = true;
  if (SCCL_THREAD == 0) {
    const Epoch begun = device_clock();
    while (good && load_flag(word) < value) {
      backoff();
      good = device_clock() - begun < PATIENCE_NS && !load_flag(&board->late);
    }
    if (!good) store_flag(&board->late, 1);
  }
  return !SCCL_BARRIER_OR(!good);
}

SCCL_DEVICE void announce(Epoch *word, Epoch value, bool same_gpu) {
  fence_for_barrier();
  SCCL_BARRIER();
  if (SCCL_THREAD == 0) same_gpu ? store_own(word, value) : store_flag(word, value);
}

SCCL_DEVICE unsigned pattern(Epoch round, int word) { return static_cast<unsigned>(round) * 2654435761u + static_cast<unsigned>(word); }

// Reads a message from other threads than those that wrote it.
SCCL_DEVICE void verify(Board *board, Epoch round, int shift) {
  for (int i = SCCL_THREAD; i < WORDS; i += SCCL_THREADS) {
    const int word = (i + shift) % WORDS;
    if (board->data[word] != pattern(round, word)) count_up(&board->wrong);
  }
}

// Block 0 writes a message and sets a flag of this GPU's scope. Block 1 reads it and passes a flag of the system's scope
// on to block 2, which reads what block 0 wrote. Both give credits, behind which block 0 overwrites the message.
SCCL_GLOBAL void order_of_messages(Board *board, int rounds) {
  for (Epoch round = 1; round <= static_cast<Epoch>(rounds); ++round) {
    if (SCCL_BLOCK == 0) {
      if (!await(board, &board->credit[1], round - 1) || !await(board, &board->credit[2], round - 1)) return;
      for (int i = SCCL_THREAD; i < WORDS; i += SCCL_THREADS) board->data[i] = pattern(round, i);
      announce(&board->sent, round, true);
    } else if (SCCL_BLOCK == 1) {
      if (!await(board, &board->sent, round)) return;
      verify(board, round, 33);
      announce(&board->passed, round, false);
      announce(&board->credit[1], round, false);
    } else {
      if (!await(board, &board->passed, round)) return;
      verify(board, round, 65);
      announce(&board->credit[2], round, false);
    }
  }
}

// Block 0 sends packets, which carry the number of their round in place of a flag, to two places in turn.
SCCL_GLOBAL void order_of_packets(Board *board, int rounds) {
  for (Epoch round = 1; round <= static_cast<Epoch>(rounds); ++round) {
    Packet *const packets = board->packets[round % 2];
    const Epoch number = round << 32;
    if (SCCL_BLOCK == 0) {
      if (round > 2 && !await(board, &board->credit[1], round - 2)) return;
      for (int i = SCCL_THREAD; i < WORDS; i += SCCL_THREADS)
        store_packet(packets + i, {number | pattern(round, i), number | pattern(~round, i)});
    } else {
      bool good = true;
      for (int i = SCCL_THREAD; good && i < WORDS; i += SCCL_THREADS) {
        const Epoch begun = device_clock();
        Packet packet = load_packet(packets + i);
        while (good && (packet.half[0] >> 32 != round || packet.half[1] >> 32 != round)) {
          good = device_clock() - begun < PATIENCE_NS;
          packet = load_packet(packets + i);
        }
        const bool right = static_cast<unsigned>(packet.half[0]) == pattern(round, i) && static_cast<unsigned>(packet.half[1]) == pattern(~round, i);
        if (good && !right) count_up(&board->wrong);
      }
      if (SCCL_BARRIER_OR(!good)) {
        if (SCCL_THREAD == 0) store_flag(&board->late, 1);
        return;
      }
      announce(&board->credit[1], round, false);
    }
  }
}

// Each block writes a word and counts itself; the last one reads the words of all, as a kernel's last block does.
SCCL_GLOBAL void order_of_counts(Board *board, int blocks, int rounds) {
  for (Epoch round = 1; round <= static_cast<Epoch>(rounds); ++round) {
    if (SCCL_THREAD == 0) board->chain[SCCL_BLOCK] = pattern(round, SCCL_BLOCK);
    SCCL_BARRIER();
    if (SCCL_THREAD == 0 && count_up(&board->left) + 1 == static_cast<Epoch>(blocks) * round) {
      for (int block = 0; block < blocks; ++block)
        if (board->chain[block] != pattern(round, block)) count_up(&board->wrong);
      store_flag(&board->sent, round);
    }
    if (!await(board, &board->sent, round)) return;
  }
}

SCCL_GLOBAL void compare(const unsigned *at, unsigned value, int words, Epoch *different) {
  for (int i = SCCL_THREAD; i < words; i += SCCL_THREADS)
    if (at[i] != value) count_up(different);
}

enum Move { COPY, SUM_FLOAT32, SUM_FLOAT16 };
const char *const MOVES[] = {"copy", "sum of float32", "sum of float16"};

SCCL_DEVICE void add(int type, char *into, const char *a, const char *b, std::size_t bytes) {
  const char *const others[] = {b};
  combine(type, SCCL_SUM, into, a, others, 1, bytes);
}

SCCL_GLOBAL void move(int what, char *into, const char *a, const char *b) {
  const std::size_t at = SCCL_BLOCK * EACH;
  if (what == COPY) copy_bytes(into + at, a + at, EACH);
  else add(what == SUM_FLOAT32 ? SCCL_FLOAT32 : SCCL_FLOAT16, into + at, a + at, b + at, EACH);
}

// Two ranks send one another a flag and then a message, which the other verifies.
SCCL_GLOBAL void exchange_messages(Board *mine, Board *peers, int rounds, int rank) {
  for (Epoch round = 1; round <= static_cast<Epoch>(rounds); ++round) {
    for (int turn = 0; turn < 2; ++turn) {
      if (turn == rank) {
        for (int i = SCCL_THREAD; i < WORDS; i += SCCL_THREADS) peers->data[i] = pattern(round, i);
        announce(&peers->sent, round, false);
      } else {
        if (!await(mine, &mine->sent, round)) return;
        verify(mine, round, 33);
      }
    }
    SCCL_BARRIER();
  }
}

// Two blocks, or processes, set a flag for one another: so long takes a wait.
SCCL_GLOBAL void exchange_flags(Board *mine, Board *peers, int rounds, int rank) {
  const int own = rank < 0 ? SCCL_BLOCK : rank;  // less than 0: the blocks of one kernel
  Epoch *const there = rank < 0 ? &peers->next[1 - own] : &peers->next[0], *const here = rank < 0 ? &mine->next[own] : &mine->next[0];
  for (Epoch round = 1; round <= static_cast<Epoch>(rounds); ++round) {
    if (own == 0) announce(there, round, rank < 0);
    if (!await(mine, here, round)) return;
    if (own == 1) announce(there, round, rank < 0);
  }
}

bool all_right = true;

void fail(const char *what) {
  std::printf("{\"check\": \"%s\", \"error\": \"%s\"}\n", what, gpu_error());
  std::fflush(stdout);
  std::_Exit(1);
}

void require(bool good, const char *what) {
  if (!good) fail(what);
}

template <class T>
T *allocate(std::size_t count) {
  void *at = nullptr;
  require(gpu_alloc(&at, count * sizeof(T)) && gpu_zero(at, count * sizeof(T), Stream{}), "allocation");
  return static_cast<T *>(at);
}

Stream create_stream() {
  Stream stream{};
  require(gpu_stream(&stream), "stream");
  return stream;
}

Epoch read_word(const Epoch *at) {
  Epoch value = 0;
  require(gpu_copy_now(&value, at, sizeof value), "copy to the host");
  return value;
}

// Milliseconds of one launch, of several in a row.
template <class Launch>
double time_launches(Stream stream, int times, const Launch &launch) {
  using Clock = std::chrono::steady_clock;
  require(launch() && gpu_sync(stream), "kernel");
  const auto begun = Clock::now();
  for (int i = 0; i < times; ++i) require(launch(), "launch");
  require(gpu_sync(stream), "kernel");
  return std::chrono::duration<double, std::milli>(Clock::now() - begun).count() / times;
}

#ifdef SCCL_EMULATED
int count_processors() { return 3; }

void describe_machine() { std::printf("{\"check\": \"machine\", \"gpu\": \"emulated\", \"bus_id\": \"%s\"}\n", gpu_bus_id(gpu_current()).c_str()); }
#else
int attribute(cudaDeviceAttr which) {
  int value = 0;
  require(gpu_try(cudaDeviceGetAttribute(&value, which, gpu_current())), "attribute");
  return value;
}

int count_processors() { return attribute(cudaDevAttrMultiProcessorCount); }

void describe_machine() {
  cudaDeviceProp properties;
  require(gpu_try(cudaGetDeviceProperties(&properties, gpu_current())), "properties");
  int driver = 0, runtime = 0;
  require(gpu_try(cudaDriverGetVersion(&driver)) && gpu_try(cudaRuntimeGetVersion(&runtime)), "version");
  std::printf(
      "{\"check\": \"machine\", \"gpu\": \"%s\", \"architecture\": \"sm_%d%d\", \"processors\": %d, \"cooperative\": %d, "
      "\"l2_bytes\": %d, \"driver\": %d, \"runtime\": %d, \"bus_id\": \"%s\"}\n",
      properties.name, properties.major, properties.minor, count_processors(), attribute(cudaDevAttrCooperativeLaunch),
      properties.l2CacheSize, driver, runtime, gpu_bus_id(gpu_current()).c_str());
}
#endif

void report_order(const char *check, const Board *board, int threads, int rounds) {
  const Epoch wrong = read_word(&board->wrong), late = read_word(&board->late);
  std::printf("{\"check\": \"%s\", \"threads\": %d, \"rounds\": %d, \"wrong\": %llu, \"late\": %llu}\n", check, threads, rounds, wrong, late);
  std::fflush(stdout);
  all_right = all_right && !wrong && !late;
}

void check_order(int most) {
  const Stream stream = create_stream();
  Board *const board = allocate<Board>(1);
  for (const int threads : {512, 96, 1}) {
    const int rounds = threads == 1 ? most / 100 + 1 : most;
    for (const bool packets : {false, true}) {
      require(gpu_zero(board, sizeof *board, stream), "zero");
      require(packets ? gpu_launch(true, order_of_packets, 2, threads, stream, board, rounds) : gpu_launch(true, order_of_messages, 3, threads, stream, board, rounds), "launch");
      require(gpu_sync(stream), "kernel");
      report_order(packets ? "order of packets" : "order of messages", board, threads, rounds);
    }
    constexpr int blocks = 64;
    require(gpu_zero(board, sizeof *board, stream) && gpu_launch(true, order_of_counts, blocks, threads, stream, board, blocks, rounds) && gpu_sync(stream), "kernel");
    report_order("order of counts", board, threads, rounds);
  }
}

bool copy_plainly(void *to, const void *from, std::size_t bytes) {
#ifdef SCCL_EMULATED
  return gpu_copy_now(to, from, bytes);
#else
  return gpu_try(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
#endif
}

// Whether a kernel sees what was copied from pageable memory before it was launched on another stream: by the project's
// copy, which has to ensure that, and by cudaMemcpy, which need not.
void check_stale() {
  const Stream stream = create_stream();
  Epoch *const different = allocate<Epoch>(1);
  for (const int words : {1, 64, 1024, 16000, 1 << 18}) {
    unsigned *const at = allocate<unsigned>(words);
    std::vector<unsigned> host(words);
    for (const bool own : {true, false}) {
      require(gpu_zero(different, sizeof *different, stream), "zero");
      const unsigned copies = words > 1024 ? 200 : 2000;
      for (unsigned copy = 1; copy <= copies; ++copy) {
        std::fill(host.begin(), host.end(), copy + own * copies);
        const bool copied = own ? gpu_copy_now(at, host.data(), words * sizeof(unsigned)) : copy_plainly(at, host.data(), words * sizeof(unsigned));
        require(copied && gpu_launch(false, compare, 1, 512, stream, at, host[0], words, different) && gpu_sync(stream), "copy");
      }
      const Epoch stale = read_word(different);
      std::printf("{\"check\": \"stale words\", \"copy\": \"%s\", \"words\": %d, \"copies\": %u, \"stale\": %llu}\n", own ? "project" : "cudaMemcpy", words, copies, stale);
      std::fflush(stdout);
      all_right = all_right && !(own && stale);
    }
    gpu_free(at);
  }
}

void measure_speed(int rounds) {
  const Stream stream = create_stream();
  const int processors = count_processors();
  const std::size_t bytes = EACH * processors;
  char *const into = allocate<char>(bytes), *const a = allocate<char>(bytes), *const b = allocate<char>(bytes);
  for (const int what : {COPY, SUM_FLOAT32, SUM_FLOAT16})
    for (const int blocks : {1, 8, 35, processors}) {
      if (blocks > processors) continue;
      const double ms = time_launches(stream, 10, [&] { return gpu_launch(false, move, blocks, 512, stream, what, into, a, b); });
      std::printf("{\"check\": \"speed of a block\", \"move\": \"%s\", \"blocks\": %d, \"gb_per_s\": %.2f}\n", MOVES[what], blocks, EACH / ms / 1e6);
      std::fflush(stdout);
    }
  Board *const board = allocate<Board>(1);
  const auto launch = [&] { return gpu_zero(board, sizeof *board, stream) && gpu_launch(true, exchange_flags, 2, 512, stream, board, board, rounds, -1); };
  const double ms = time_launches(stream, 1, launch);
  const Epoch late = read_word(&board->late);
  std::printf("{\"check\": \"wait of a block for another\", \"us\": %.3f, \"late\": %llu}\n", ms * 1e3 / rounds / 2, late);
  all_right = all_right && !late;
}

// What a process tells the other of its memory.
struct Offer {
  Handle board, small;
  std::uint64_t offset;
};

char *open_memory(const Handle &handle) {
  char *at = nullptr;
  require(gpu_open(at, handle), "opening memory of the other process");
  return at;
}

// Two processes share the GPU: each maps memory of the other, of which a small allocation may be a part of a larger one.
void check_pair(int rounds, int socket, int rank) {
  const Stream stream = create_stream();
  Board *const board = allocate<Board>(1);
  Epoch *const small = allocate<Epoch>(8);
  const Epoch tag = 0xabc0 + rank;
  std::uint64_t base = 0, rest = 0;
  Offer mine{}, theirs{};
  require(gpu_copy_now(small + 1, &tag, sizeof tag) && gpu_range(small + 1, base, mine.offset, rest), "small allocation");
  require(gpu_share(mine.board, board) && gpu_share(mine.small, reinterpret_cast<void *>(base)), "handle");
  if (write(socket, &mine, sizeof mine) != sizeof mine || read(socket, &theirs, sizeof theirs) != sizeof theirs) fail("exchange of handles");
  auto *const peers = reinterpret_cast<Board *>(open_memory(theirs.board));
  const Epoch seen = read_word(reinterpret_cast<Epoch *>(open_memory(theirs.small) + theirs.offset));
  const bool right = seen == 0xabc0u + (1 - rank);
  Handle again;
  require(gpu_share(again, board), "handle");
  std::printf("{\"check\": \"memory of another process\", \"rank\": %d, \"offset\": %llu, \"rest\": %llu, \"buffer\": %llu, \"right\": %s}\n", rank,
              static_cast<Epoch>(mine.offset), static_cast<Epoch>(rest), static_cast<Epoch>(gpu_buffer_id(small)), right ? "true" : "false");
  all_right = all_right && right;
  require(gpu_launch(false, exchange_messages, 1, 512, stream, board, peers, rounds, rank) && gpu_sync(stream), "kernel");
  report_order("order between processes", board, 512, rounds);
  const auto begun = std::chrono::steady_clock::now();
  require(gpu_launch(false, exchange_flags, 1, 512, stream, board, peers, rounds, rank) && gpu_sync(stream), "kernel");
  const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begun).count();
  std::printf("{\"check\": \"round trip between processes\", \"rank\": %d, \"us\": %.3f}\n", rank, us / rounds);
  report_order("flags between processes", board, 512, rounds);
  char done = 0;  // memory stays until the other one needs it no longer
  if (write(socket, &done, 1) != 1 || read(socket, &done, 1) != 1) fail("end of the other process");
}

int report_no_gpu() {
  std::printf("{\"check\": \"machine\", \"error\": \"no GPU: %s\"}\n", gpu_error());
  return 3;
}

int run_pair(int rounds) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) return 1;
  const pid_t child = fork();  // before either process touches the GPU
  const int rank = child ? 0 : 1;
  close(sockets[1 - rank]);
  if (!gpu_count()) return rank ? 3 : report_no_gpu();
  check_pair(rounds, sockets[rank], rank);
  std::fflush(stdout);
  if (!child) std::_Exit(all_right ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return all_right && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char **argv) {
  const std::string check = argc > 1 ? argv[1] : "";
  const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 20000;
  if (check == "pair") return run_pair(rounds);
  if (!gpu_count()) return report_no_gpu();
  if (check == "machine") describe_machine();
  else if (check == "order") check_order(rounds);
  else if (check == "stale") check_stale();
  else if (check == "speed") measure_speed(rounds);
  else return std::fprintf(stderr, "usage: gpu_check machine | order [ROUNDS] | stale | speed [ROUNDS] | pair [ROUNDS]\n"), 2;
  return all_right ? 0 : 1;
}
