// Programs of users on emulated GPUs, by name: linked with a project's emulated library before MPI's.
#include <dlfcn.h>
#include <mpi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu.hpp"
#include "sccl.h"

namespace {

using namespace sccl;

int rank, ranks;
int exchanges;  // of the library, on hosts
std::atomic<int> probes;  // while it waits for streams
std::chrono::steady_clock::time_point alone_until;  // so long this rank is alone where hosts meet: it sends nothing
std::function<int(MPI_Request *)> deferred;         // until then
int alone_from;                                     // its exchange of this number is the first of which it is alone; 0: none
std::function<void()> during_exchange;                // runs once in the next one
std::atomic<bool> no_memory{false};                 // the next allocation fails
std::atomic<int> allocating_gpu{-1};                // of the last allocation

void failed(const char *what, int line) {
  std::fprintf(stderr, "rank %d, line %d: %s; %s\n", rank, line, what, gpu_error());
  std::_Exit(3);
}

// What is wrong is asked for after the call that went wrong: of two arguments either may be first.
#define check(right, what)                \
  do {                                    \
    if (!(right)) failed(what, __LINE__); \
  } while (0)

// Numbers in the memory of the current GPU.
struct Numbers {
  int *at = nullptr;
  std::size_t count;
  explicit Numbers(std::size_t n) : count(n) {
    void *found = nullptr;
    check(gpu_alloc(&found, n * sizeof(int)), "no memory");
    at = static_cast<int *>(found);
  }
  Numbers(const Numbers &) = delete;
  Numbers &operator=(const Numbers &) = delete;
  ~Numbers() { gpu_free(at); }
};

int value(int from, int call, std::size_t i) { return from * 1000003 + call * 101 + static_cast<int>(i % 97); }

// MPI's own functions on memory of GPUs.
void plain_mpi() {
  for (const std::size_t n : {1u, 1000u, 70001u})
    for (int call = 0; call < 3; ++call) {
      const int count = static_cast<int>(n);
      Numbers send(n * ranks), recv(n * ranks), most(n);
      const auto block = [&](int from, int to, std::size_t i) { return value(from * ranks + to, call, i); };
      for (int r = 0; r < ranks; ++r)
        for (std::size_t i = 0; i < n; ++i) send.at[r * n + i] = block(rank, r, i);
      MPI_Alltoall(send.at, count, MPI_INT, recv.at, count, MPI_INT, MPI_COMM_WORLD);
      for (int r = 0; r < ranks; ++r)
        for (std::size_t i = 0; i < n; ++i) check(recv.at[r * n + i] == block(r, rank, i), "alltoall is wrong");
      MPI_Allgather(send.at, count, MPI_INT, recv.at, count, MPI_INT, MPI_COMM_WORLD);
      for (int r = 0; r < ranks; ++r)
        for (std::size_t i = 0; i < n; ++i) check(recv.at[r * n + i] == block(r, 0, i), "allgather is wrong");
      for (std::size_t i = 0; i < n; ++i) recv.at[rank * n + i] = block(rank, 1, i);
      MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, recv.at, count, MPI_INT, MPI_COMM_WORLD);
      for (int r = 0; r < ranks; ++r)
        for (std::size_t i = 0; i < n; ++i) check(recv.at[r * n + i] == block(r, 1, i), "allgather in place is wrong");
      MPI_Allreduce(send.at, most.at, count, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
      for (std::size_t i = 0; i < n; ++i) check(most.at[i] == block(ranks - 1, 0, i), "allreduce is wrong");
      std::copy(send.at, send.at + n * ranks, recv.at);
      MPI_Reduce_scatter_block(MPI_IN_PLACE, recv.at, count, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
      for (std::size_t i = 0; i < n; ++i) check(recv.at[i] == block(ranks - 1, rank, i), "reducescatter in place is wrong");
      for (int root = 0; root < ranks; ++root) {  // only one of them is served
        MPI_Gather(send.at, count, MPI_INT, recv.at, count, MPI_INT, root, MPI_COMM_WORLD);
        for (int r = 0; r < ranks && rank == root; ++r)
          for (std::size_t i = 0; i < n; ++i) check(recv.at[r * n + i] == block(r, 0, i), "gather is wrong");
      }
      for (const bool in_place : {false, true}) {
        MPI_Scatter(send.at, count, MPI_INT, rank == 0 && in_place ? MPI_IN_PLACE : most.at, count, MPI_INT, 0, MPI_COMM_WORLD);
        for (std::size_t i = 0; i < n; ++i)
          check((rank == 0 && in_place ? send.at : most.at)[i] == block(0, rank, i), "scatter is wrong");
      }
    }
}

// Counts for each rank and where its block is: the last first, with a gap of ones before each.
struct Places {
  std::vector<std::size_t> counts, at;
  std::size_t room = 0;
  Places(const std::vector<std::size_t> &many, std::size_t gap) : counts(many), at(many.size()) {
    for (std::size_t r = many.size(); r-- > 0;) at[r] = room + gap, room += gap + many[r];
  }
  std::vector<int> ints(const std::vector<std::size_t> &from) const { return {from.begin(), from.end()}; }
};

// Such a buffer on the GPU, in which what is not in a block has to stay as it is.
struct Spread {
  const Places places;
  Numbers data;
  Spread(const std::vector<std::size_t> &many, std::size_t gap) : places(many, gap), data(places.room + 1) { clear(); }
  void clear() { std::fill(data.at, data.at + data.count, -1); }
  template <class Value> void fill(int r, const Value &of) {
    for (std::size_t i = 0; i < places.counts[r]; ++i) data.at[places.at[r] + i] = of(i);
  }
  template <class Value> void expect(const char *what, const Value &of) const {
    std::vector<int> want(data.count, -1);
    for (std::size_t r = 0; r < places.counts.size(); ++r)
      for (std::size_t i = 0; i < places.counts[r]; ++i) want[places.at[r] + i] = of(static_cast<int>(r), i);
    check(std::equal(want.begin(), want.end(), data.at), what);
  }
};

// Numbers of a call in memory of the host or of the GPU.
struct Told {
  std::vector<std::size_t> here;
  void *there = nullptr;
  Told(const std::vector<std::size_t> &numbers, bool on_gpu) : here(numbers) {
    const std::size_t bytes = here.size() * sizeof here[0];
    if (on_gpu) check(gpu_alloc(&there, bytes) && gpu_copy_now(there, here.data(), bytes), "no memory");
  }
  Told(const Told &) = delete;
  Told &operator=(const Told &) = delete;
  ~Told() { if (there) gpu_free(there); }
  operator const std::size_t *() const { return there ? static_cast<const std::size_t *>(there) : here.data(); }
};

// Calls with other counts each, of which many are none: of the C API, then of MPI.
void counts_vary() {
  unsigned random = 7;
  const auto next = [&](unsigned below) { return (random = random * 1103515245 + 12345) / 65536 % below; };
  const char *const calls = std::getenv("CALLS");
  Stream stream{};
  check(gpu_stream(&stream), "no stream");
  for (int call = 0; call < (calls ? std::atoi(calls) : 12); ++call) {
    const unsigned most = (const unsigned[]){2, 40, 3000, 20000}[call % 4];
    std::vector<std::vector<std::size_t>> table(ranks);
    for (auto &row : table)
      for (int r = 0; r < ranks; ++r) row.push_back(next(3) ? next(most) : next(2));
    std::vector<std::size_t> column;
    for (const auto &row : table) column.push_back(row[rank]);
    const auto of = [&](int from, int to, std::size_t i) { return value(from * ranks + to, call, i); };
    const bool mpi = call % 3 == 2, on_gpu = call % 2;
    void *const on = call % 3 == 1 ? stream : nullptr;
    const auto done = [&](int code) {
      check(code == SCCL_SUCCESS, sccl_explain());
      check(gpu_sync(stream), "the call failed");
    };
    Spread out(table[rank], 1), in(column, 2);
    for (int r = 0; r < ranks; ++r) out.fill(r, [&](std::size_t i) { return of(rank, r, i); });
    {
      const Told counts(out.places.counts, on_gpu), at(out.places.at, on_gpu), own(column, on_gpu), there(in.places.at, false);
      const Places &o = out.places, &p = in.places;
      if (mpi) MPI_Alltoallv(out.data.at, o.ints(o.counts).data(), o.ints(o.at).data(), MPI_INT, in.data.at, p.ints(p.counts).data(), p.ints(p.at).data(), MPI_INT, MPI_COMM_WORLD);
      else done(sccl_alltoallv(out.data.at, counts, at, in.data.at, own, there, SCCL_INT32, MPI_COMM_WORLD, on));
      in.expect("alltoallv is wrong", [&](int r, std::size_t i) { return of(r, rank, i); });
    }
    std::vector<std::size_t> both;
    for (int r = 0; r < ranks; ++r) both.push_back(table[std::min(rank, r)][std::max(rank, r)]);
    Spread turned(both, 1);
    const Told both_counts(both, on_gpu), both_at(turned.places.at, on_gpu);
    for (int r = 0; r < ranks; ++r) turned.fill(r, [&](std::size_t i) { return of(rank, r, i); });
    done(sccl_alltoallv(SCCL_IN_PLACE, nullptr, nullptr, turned.data.at, both_counts, both_at, SCCL_INT32, MPI_COMM_WORLD, on));
    turned.expect("alltoallv in place is wrong", [&](int r, std::size_t i) { return of(r, rank, i); });

    std::size_t given = 0, got = 0;  // bytes at odd places
    for (int r = 0; r < ranks; ++r) given += table[rank][r], got += column[r];
    Numbers narrow(given / 4 + 1), taken(got / 4 + 2);
    char *const from = reinterpret_cast<char *>(narrow.at), *const into = reinterpret_cast<char *>(taken.at) + 1;
    for (int r = 0, n = 0; r < ranks; ++r)
      for (std::size_t i = 0; i < table[rank][r]; ++i) from[n++] = static_cast<char>(of(rank, r, i));
    done(sccl_alltoallv(from, table[rank].data(), nullptr, into, column.data(), nullptr, SCCL_INT8, MPI_COMM_WORLD, on));
    for (int r = 0, n = 0; r < ranks; ++r)
      for (std::size_t i = 0; i < column[r]; ++i) check(into[n++] == static_cast<char>(of(r, rank, i)), "alltoallv of bytes is wrong");

    const std::vector<std::size_t> &each = table[0];
    const auto part = [&](int r, std::size_t i) { return of(r, 0, i); };
    Spread own({each[rank]}, 0), whole(each, 3);
    const Told counts(each, on_gpu), at(whole.places.at, on_gpu);
    const auto ints = whole.places.ints(each), starts = whole.places.ints(whole.places.at);
    own.fill(0, [&](std::size_t i) { return part(rank, i); });
    if (mpi) MPI_Allgatherv(own.data.at, ints[rank], MPI_INT, whole.data.at, ints.data(), starts.data(), MPI_INT, MPI_COMM_WORLD);
    else done(sccl_allgatherv(own.data.at, each[rank], whole.data.at, counts, at, SCCL_INT32, MPI_COMM_WORLD, on));
    whole.expect("allgatherv is wrong", part);
    whole.clear();
    whole.fill(rank, [&](std::size_t i) { return part(rank, i); });
    done(sccl_allgatherv(SCCL_IN_PLACE, 0, whole.data.at, counts, at, SCCL_INT32, MPI_COMM_WORLD, on));
    whole.expect("allgatherv in place is wrong", part);
    for (const bool in_place : {false, true}) {
      const bool root = rank == 0;
      whole.clear();
      if (root && in_place) whole.fill(0, [&](std::size_t i) { return part(0, i); });
      const void *const from = root && in_place ? SCCL_IN_PLACE : own.data.at;
      if (mpi) MPI_Gatherv(from, ints[rank], MPI_INT, whole.data.at, ints.data(), starts.data(), MPI_INT, 0, MPI_COMM_WORLD);
      else done(sccl_gatherv(from, each[rank], whole.data.at, counts, at, SCCL_INT32, 0, MPI_COMM_WORLD, on));
      if (root) whole.expect("gatherv is wrong", part);
      Spread mine({each[rank]}, 0);
      void *const to = root && in_place ? SCCL_IN_PLACE : mine.data.at;
      if (mpi) MPI_Scatterv(whole.data.at, ints.data(), starts.data(), MPI_INT, to, ints[rank], MPI_INT, 0, MPI_COMM_WORLD);
      else done(sccl_scatterv(whole.data.at, counts, at, to, each[rank], SCCL_INT32, 0, MPI_COMM_WORLD, on));
      if (to == mine.data.at) mine.expect("scatterv is wrong", [&](int, std::size_t i) { return part(rank, i); });
    }
    Spread wide(each, 0), result({each[rank]}, 0);
    Numbers packed(wide.places.room + 1);
    std::vector<std::size_t> first(1, 0);
    for (int r = 0; r < ranks; ++r) first.push_back(first.back() + each[r]);
    const auto sum = [&](int, std::size_t i) {
      int total = 0;
      for (int r = 0; r < ranks; ++r) total += of(r, 1, first[rank] + i);
      return total;
    };
    for (std::size_t i = 0; i < wide.places.room; ++i) packed.at[i] = of(rank, 1, i);
    if (mpi) MPI_Reduce_scatter(packed.at, result.data.at, ints.data(), MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    else done(sccl_reducescatterv(packed.at, result.data.at, counts, SCCL_INT32, SCCL_SUM, MPI_COMM_WORLD, on));
    result.expect("reducescatterv is wrong", sum);
    done(sccl_reducescatterv(SCCL_IN_PLACE, packed.at, counts, SCCL_INT32, SCCL_SUM, MPI_COMM_WORLD, on));
    std::copy(packed.at, packed.at + each[rank], result.data.at);
    result.expect("reducescatterv in place is wrong", sum);
  }
}

// Counts that do not fit together, a buffer that is not on a GPU: all ranks refuse, and calls go on.
void counts_unlike() {
  Numbers send(8 * ranks), recv(8 * ranks);
  std::vector<std::size_t> few(ranks, 2), own(ranks, 2);
  if (rank == 1) own[2] = 3;
  const auto call = [&](const void *from, const std::size_t *counts) {
    return sccl_alltoallv(from, counts, nullptr, recv.at, few.data(), nullptr, SCCL_INT32, MPI_COMM_WORLD, nullptr);
  };
  check(call(send.at, own.data()) == SCCL_INVALID, "counts that differ were taken");
  if (rank == 0) std::printf("%s\n", sccl_explain());
  std::vector<int> host(8 * ranks);
  check(call(rank == 1 ? host.data() : send.at, few.data()) == SCCL_UNSUPPORTED, "memory of the host was taken");
  check(call(send.at, rank == 3 ? nullptr : few.data()) == SCCL_INVALID, "no counts were taken");
  if (rank == 3) std::printf("%s\n", sccl_explain());
  for (int i = 0; i < 2 * ranks; ++i) send.at[i] = value(rank, 0, i);
  check(call(send.at, few.data()) == SCCL_SUCCESS, sccl_explain());
  for (int r = 0; r < ranks; ++r) check(recv.at[2 * r] == value(r, 0, 2 * rank), "alltoallv is wrong");
}

// Calls of other counts each, of which nobody awaits one before the next: this thread waits for no stream.
void counts_in_a_row() {
  Stream stream = nullptr;
  check(gpu_stream(&stream), "no stream");
  std::deque<Numbers> sent, got;
  for (std::size_t call = 0; call < 12; ++call) {
    const std::vector<std::size_t> each(ranks, 100 * (call % 5 + 1));
    Numbers &from = sent.emplace_back(ranks * each[0]), &to = got.emplace_back(ranks * each[0]);
    for (std::size_t i = 0; i < from.count; ++i) from.at[i] = value(rank, static_cast<int>(call), i);
    check(sccl_alltoallv(from.at, each.data(), nullptr, to.at, each.data(), nullptr, SCCL_INT32, MPI_COMM_WORLD, stream) == SCCL_SUCCESS, sccl_explain());
  }
  check(gpu_sync(stream), "a call fails");
  for (std::size_t call = 0; call < 12; ++call)
    for (std::size_t i = 0, n = got[call].count / ranks; i < got[call].count; ++i)
      check(got[call].at[i] == value(static_cast<int>(i / n), static_cast<int>(call), rank * n + i % n), "alltoallv is wrong");
  check(!emulation().calls.count("copy of pageable memory"), "counts are copied from pageable memory");
}

// Rank 1 has its buffers elsewhere, or misaligned.
void mixed_memory() {
  const int n = 1000;
  Numbers send(n + 1), recv(n + 1);
  gpu_use((rank + 1) % gpu_count());
  Numbers other_send(n), other_recv(n);
  gpu_use(rank);
  std::vector<int> host_send(n), host_recv(n);
  char *const misaligned_send = reinterpret_cast<char *>(send.at) + 1, *const misaligned_recv = reinterpret_cast<char *>(recv.at) + 1;
  const struct { void *send, *recv; } cases[] = {
      {send.at, recv.at}, {host_send.data(), host_recv.data()}, {host_send.data(), recv.at},
      {other_send.at, other_recv.at}, {misaligned_send, misaligned_recv}, {send.at, recv.at}};
  for (const auto &one : cases) {
    void *const from = rank == 1 ? one.send : send.at, *const to = rank == 1 ? one.recv : recv.at;
    for (int i = 0; i < n; ++i) {
      const int own = value(rank, 0, i);
      std::memcpy(static_cast<char *>(from) + i * sizeof own, &own, sizeof own);
    }
    MPI_Allreduce(from, to, n, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    for (int i = 0; i < n; ++i) {
      int got;
      std::memcpy(&got, static_cast<char *>(to) + i * sizeof got, sizeof got);
      check(got == value(ranks - 1, 0, i), "allreduce is wrong");
    }
  }
}

// Calls that nobody waits for, of all sizes on two streams: a root goes ahead of its peers, who must not
// find in a slot what it sends them later.
void calls_in_a_row() {
  const std::size_t sizes[] = {1, 33, 1700, 4000, 6000, 13000, 20000}, most = 20000;
  Stream streams[2]{};
  check(gpu_stream(&streams[0]) && gpu_stream(&streams[1]), "no streams");
  std::deque<Numbers> sent, got;
  for (int c = 0; c < 12; ++c) sent.emplace_back(most), got.emplace_back(most * ranks);
  unsigned random = 1;
  const auto next = [&](unsigned below) { return (random = random * 1103515245 + 12345) / 65536 % below; };
  for (int round = 0; round < 25; ++round) {
    struct { std::size_t n; bool gathers; } calls[12];
    for (int c = 0; c < 12; ++c) {
      calls[c] = {sizes[next(7)], next(4) == 0};
      const std::size_t n = calls[c].n;
      for (std::size_t i = 0; i < n; ++i) sent[c].at[i] = value(rank, 12 * round + c, i);
      if (!calls[c].gathers && rank == 0) std::memcpy(got[c].at, sent[c].at, n * sizeof(int));
      Stream &stream = streams[next(2)];
      const int code = calls[c].gathers ? sccl_allgather(sent[c].at, got[c].at, n, SCCL_INT32, MPI_COMM_WORLD, stream)
                                        : sccl_broadcast(got[c].at, n, SCCL_INT32, 0, MPI_COMM_WORLD, stream);
      check(code == SCCL_SUCCESS, sccl_explain());
    }
    check(gpu_sync(streams[0]) && gpu_sync(streams[1]), "calls failed");
    for (int c = 0; c < 12; ++c)
      for (int r = 0; r < (calls[c].gathers ? ranks : 1); ++r)
        for (std::size_t i = 0; i < calls[c].n; ++i)
          check(got[c].at[r * calls[c].n + i] == value(r, 12 * round + c, i), "a call in a row is wrong");
  }
}

// One rank calls something else than the others do: no rank may take that for its data.
void calls_differ() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  Numbers send(ranks), recv(ranks);
  for (int call = 0; call < 3; ++call) {
    const bool other = call > 0 && rank == 1;
    const int code = other ? MPI_Alltoall(send.at, 1, MPI_INT, recv.at, 1, MPI_INT, MPI_COMM_WORLD)
                           : MPI_Allgather(send.at, 1, MPI_INT, recv.at, 1, MPI_INT, MPI_COMM_WORLD);
    check((code != MPI_SUCCESS) == (call > 0), "a call of another kind than that of its peers goes well");
  }
}

// A rank has no memory for the packed copy of a buffer, so its call and those of its peers go to MPI, and the next ones do not.
void no_memory_for_copies() {
  Numbers send(2 * ranks), recv(2 * ranks);
  std::vector<int> counts(ranks, 1), places(ranks);
  for (int r = 0; r < ranks; ++r) places[r] = r;
  MPI_Datatype pair;  // with a gap
  MPI_Type_vector(1, 1, 2, MPI_INT, &pair);
  MPI_Type_create_resized(pair, 0, 2 * sizeof(int), &pair);
  MPI_Type_commit(&pair);
  for (const bool counted : {false, true})
    for (int call = 0; call < 3; ++call) {
      std::fill(recv.at, recv.at + recv.count, -1);
      for (int r = 0; r < ranks; ++r) send.at[2 * r] = value(rank * ranks + r, call, 0);
      no_memory = call == 1 && rank == 1;
      if (counted) MPI_Alltoallv(send.at, counts.data(), places.data(), pair, recv.at, counts.data(), places.data(), pair, MPI_COMM_WORLD);
      else MPI_Alltoall(send.at, 1, pair, recv.at, 1, pair, MPI_COMM_WORLD);
      check(!no_memory, "no copy is allocated");
      for (int r = 0; r < ranks; ++r)
        check(recv.at[2 * r] == value(r * ranks + rank, call, 0) && recv.at[2 * r + 1] == -1, "alltoall of a type with gaps is wrong");
    }
}

// Another thread selects programs while ranks agree on a call: the call keeps the selection with which it began.
void selected_meanwhile() {
  Numbers send(1), recv(ranks);
  send.at[0] = value(rank, 0, 0);
  for (int call = 0; call < 3; ++call) {
    if (rank == 1) during_exchange = [] { std::thread([] { check(sccl_select("allgather:0=0e") == SCCL_SUCCESS, sccl_explain()); }).join(); };
    MPI_Allgather(send.at, 1, MPI_INT, recv.at, 1, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < ranks; ++r) check(recv.at[r] == value(r, 0, 0), "allgather is wrong");
    check(sccl_select("allgather:0=0d") == SCCL_SUCCESS, sccl_explain());
  }
}

// What these ranks or their GPUs cannot do: an error code and a sentence, and MPI does it.
void refused() {
  int on_host[2];
  void *memory = on_host;
  if (gpu_count()) check(gpu_alloc(&memory, sizeof on_host), "no memory");
  int *const own = static_cast<int *>(memory), *const most = own + 1;
  *own = rank;
  const int code = sccl_allreduce(own, most, 1, SCCL_INT32, SCCL_MAX, MPI_COMM_WORLD, nullptr);
  check(code == SCCL_UNSUPPORTED, "the C API does not refuse");
  if (rank == 0) std::printf("%s\n", sccl_explain());
  const bool serves_others = std::strstr(sccl_explain(), "its algorithms cannot run");
  check(serves_others || emulation().memory.size() == (gpu_count() ? 1 : 0), "a communicator that serves nothing keeps memory of its GPU");
  MPI_Allreduce(own, most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  check(*most == ranks - 1, "allreduce is wrong");
}

// A process has a context of its own on its GPU, where its memory is: it stays current.
void own_context() {
  emulated_context().own = 1;
  plain_mpi();
  check(emulated_context().own, "another context is current after a call");
}

// The C API with buffers that it cannot take, first of all ranks, where calls go on after that, then of one.
void unlike_memory() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  Numbers send(4), recv(4);
  gpu_use((rank + 1) % gpu_count());
  Numbers other(4);
  gpu_use(rank);
  int on_host[4] = {};
  const auto call = [&](const void *from, void *to) { return sccl_allreduce(from, to, 2, SCCL_INT32, SCCL_MAX, comm, nullptr); };
  const auto odd = reinterpret_cast<char *>(send.at) + 1;
  const struct { const void *from; void *to; const char *why; } cases[] = {
      {on_host, on_host + 2, "its buffers are not on a GPU"},
      {send.at, on_host, "one of its buffers is on a GPU and the other is not"},
      {on_host, recv.at, "one of its buffers is on a GPU and the other is not"},
      {nullptr, recv.at, "one of its buffers is on a GPU and the other is not"},
      {send.at, other.at, "its buffers are on another GPU than its communicator"},
      {odd, recv.at, "its buffers are not aligned to their elements"}};
  for (const auto &one : cases) {
    check(call(one.from, one.to) == SCCL_UNSUPPORTED, one.why);
    check(std::strstr(sccl_explain(), one.why) == sccl_explain(), sccl_explain());
    send.at[0] = send.at[1] = rank;
    check(call(send.at, recv.at) == SCCL_SUCCESS && recv.at[1] == ranks - 1, sccl_explain());
  }
  const auto strange = static_cast<sccl_type>(99);
  check(sccl_allreduce(send.at, recv.at, 2, strange, SCCL_MAX, comm, nullptr) == SCCL_INVALID, "there is no such type");
  check(call(send.at, recv.at) == SCCL_SUCCESS, sccl_explain());
  MPI_Barrier(MPI_COMM_WORLD);
  check(call(rank == 1 ? on_host : send.at, recv.at) == SCCL_FAILED, "nobody notices memory unlike that of others");
  check(std::strstr(sccl_explain(), "rank 1 refused a call that others make"), sccl_explain());
  check(rank != 1 || std::strstr(sccl_explain(), "one of its buffers is on a GPU and the other is not"), sccl_explain());
  check(call(send.at, recv.at) == SCCL_FAILED, "a call after that goes well");
  check(!emulation().calls.count("late load of a kernel"), "a kernel is loaded while others may run");
}

// One rank refuses a call without a stream: it waits until the others have answered, who never do.
void refusal_waits() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  Numbers send(1), recv(ranks);
  int on_host = 0;
  check(sccl_allgather(send.at, recv.at, 1, SCCL_INT32, comm, nullptr) == SCCL_SUCCESS, sccl_explain());
  MPI_Barrier(MPI_COMM_WORLD);  // it has ended everywhere
  check(rank != 1 || sccl_allgather(&on_host, recv.at, 1, SCCL_INT32, comm, nullptr) == SCCL_FAILED, "it does not wait for the others");
  MPI_Barrier(MPI_COMM_WORLD);
}

// One rank refuses a call on a stream. The others may end a short one without it, but not a long one.
void unlike_on_streams() {
  Stream stream = nullptr;
  check(gpu_stream(&stream), "no stream");
  for (const int n : {100, 30000})
    for (const bool strange : {false, true}) {
      MPI_Comm comm;
      MPI_Comm_dup(MPI_COMM_WORLD, &comm);
      std::vector<int> on_host(n);
      Numbers memory(n);
      const auto call = [&](int *at, int type) { return sccl_broadcast(at, n, static_cast<sccl_type>(type), 0, comm, stream); };
      check(call(memory.at, SCCL_INT32) == SCCL_SUCCESS && gpu_sync(stream), "the first call fails");
      MPI_Barrier(MPI_COMM_WORLD);  // it has ended everywhere
      const bool unlike = rank == 2;
      const int code = call(unlike && !strange ? on_host.data() : memory.at, unlike && strange ? 99 : SCCL_INT32);
      check(!unlike || code == (strange ? SCCL_INVALID : SCCL_UNSUPPORTED), "it is not refused");
      int after = unlike ? SCCL_SUCCESS : code;  // who is late may have been told already
      while (after == SCCL_SUCCESS) after = call(memory.at, SCCL_INT32), gpu_sync(stream);
      check(after == SCCL_FAILED && std::strstr(sccl_explain(), "rank 2 refused a call that others make"), sccl_explain());
    }
}

// One rank counts otherwise: the program is the same, and yet nobody takes what is sent for its data.
void counts_differ() {
  for (const char landing : {'p', 'e', 'd'}) {
    const std::string all = std::string("allgather:0=0") + landing + ";broadcast:0=0" + landing;
    if (sccl_select(all.c_str()) != SCCL_SUCCESS) continue;  // there are no packets in dma
    for (const int less : {0, 1}) {
      MPI_Comm gathers, sends;
      MPI_Comm_dup(MPI_COMM_WORLD, &gathers), MPI_Comm_dup(MPI_COMM_WORLD, &sends);
      const int n = 1000;
      Numbers send(n), recv(n * ranks);
      const bool begun = sccl_allgather(send.at, recv.at, n, SCCL_INT32, gathers, nullptr) == SCCL_SUCCESS &&
                         sccl_broadcast(recv.at, n, SCCL_INT32, 0, sends, nullptr) == SCCL_SUCCESS;
      check(begun, sccl_explain());
      MPI_Barrier(MPI_COMM_WORLD);  // they have ended everywhere
      const int own = (rank == 1) == less ? n : n - 1;
      for (int i = own * ranks; i < n * ranks; ++i) recv.at[i] = -1;
      check(sccl_allgather(send.at, recv.at, own, SCCL_INT32, gathers, nullptr) == SCCL_FAILED, "a call of another size than that of its peers goes well");
      check(std::strstr(sccl_explain(), "data of another call or size"), sccl_explain());
      for (int i = own * ranks; i < n * ranks; ++i) check(recv.at[i] == -1, "a peer writes behind the output");
      const int code = sccl_broadcast(recv.at, own, SCCL_INT32, 0, sends, nullptr);  // the root may be done with it already
      check(code == SCCL_FAILED || rank != 1, "what is sent in a call of another size is taken for data");
    }
  }
}

void one_call() {
  Numbers own(1), most(1);
  own.at[0] = rank;
  MPI_Allreduce(own.at, most.at, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  check(most.at[0] == ranks - 1, "allreduce is wrong");
}

// A process has two GPUs, each with a communicator of its own.
void two_gpus() {
  const int n = 100, other_gpu = (rank + 1) % ranks;
  MPI_Comm other;
  MPI_Comm_dup(MPI_COMM_WORLD, &other);
  Numbers send(n), recv(n * ranks);
  gpu_use(other_gpu);
  Numbers other_send(n), other_recv(n * ranks);
  for (int call = 0; call < 3; ++call)
    for (const bool on_other : {false, true}) {
      Numbers &from = on_other ? other_send : send, &to = on_other ? other_recv : recv;
      const MPI_Comm comm = on_other ? other : MPI_COMM_WORLD;
      if (call == 0) gpu_use(on_other ? other_gpu : rank);
      else emulated_context().own = call == 2;
      const int before = gpu_current();
      for (std::size_t i = 0; i < n; ++i) from.at[i] = value(rank, call, i);
      check(sccl_allgather(from.at, to.at, n, SCCL_INT32, comm, nullptr) == SCCL_SUCCESS, sccl_explain());
      for (int r = 0; r < ranks; ++r)
        for (std::size_t i = 0; i < n; ++i) check(to.at[r * n + i] == value(r, call, i), "allgather is wrong");
      check(gpu_current() == before, "another GPU is current after a call");
      check(emulated_context().own == (call == 2), "another context is current after a call");
    }
  check(sccl_allgather(send.at, recv.at, n, SCCL_INT32, other, nullptr) == SCCL_UNSUPPORTED, "memory of another GPU is taken");
  MPI_Datatype sparse;  // packed copies are where the buffers are
  MPI_Type_vector(n / 2, 1, 2, MPI_INT, &sparse), MPI_Type_commit(&sparse);
  gpu_use(other_gpu);
  std::fill(recv.at, recv.at + recv.count, -1);
  allocating_gpu = -1;
  MPI_Allgather(send.at, 1, sparse, recv.at, n / 2, MPI_INT, MPI_COMM_WORLD);
  check(allocating_gpu == rank, "a packed copy is on another GPU than its buffer");
  for (int r = 0; r < ranks; ++r)
    for (std::size_t i = 0; i < n / 2; ++i) check(recv.at[r * (n / 2) + i] == value(r, 2, 2 * i), "allgather of a sparse type is wrong");
  MPI_Type_free(&sparse);
  MPI_Comm_free(&other);
}

// Inputs and counts that are written on a default stream, of all threads or of this one, for calls without a stream. Copies
// of memory of the host land after they are put there.
void default_streams() {
  const int n = 1000;
  Numbers send(n * ranks), recv(n * ranks);
  const std::vector<std::size_t> each(ranks, n);
  void *counts = nullptr;
  check(gpu_alloc(&counts, ranks * sizeof each[0]), "no memory");
  int call = 0;
  for (const Stream standard : DEFAULT_STREAMS)
    for (const bool counted : {false, true}) {
      ++call;
      std::vector<int> host(n * ranks);
      for (int to = 0; to < ranks; ++to)
        for (std::size_t i = 0; i < n; ++i) host[to * n + i] = value(rank * ranks + to, call, i);
      check(gpu_copy(send.at, host.data(), host.size() * sizeof(int), standard), "the copy fails");
      check(send.at[0] != host[0], "the copy has landed before anybody waits for it");
      check(gpu_zero(counts, ranks * sizeof each[0], nullptr) && gpu_copy(counts, each.data(), ranks * sizeof each[0], standard), "the copy fails");
      const auto *const many = static_cast<const std::size_t *>(counts);
      const int code = counted ? sccl_alltoallv(send.at, many, nullptr, recv.at, many, nullptr, SCCL_INT32, MPI_COMM_WORLD, nullptr)
                               : sccl_alltoall(send.at, recv.at, n, SCCL_INT32, MPI_COMM_WORLD, nullptr);
      check(code == SCCL_SUCCESS, sccl_explain());
      for (int r = 0; r < ranks; ++r)
        for (std::size_t i = 0; i < n; ++i) check(recv.at[r * n + i] == value(r * ranks + rank, call, i), "a call overtakes a default stream");
    }
  std::deque<Numbers> inputs, outputs;  // all ranks in one process have no streams of the program
  std::vector<const void *> from;
  std::vector<void *> to;
  for (int r = 0; r < ranks; ++r) from.push_back(inputs.emplace_back(n).at), to.push_back(outputs.emplace_back(n * ranks).at);
  for (const Stream standard : DEFAULT_STREAMS) {
    ++call;
    for (int r = 0; r < ranks; ++r) {
      std::vector<int> host(n);
      for (std::size_t i = 0; i < n; ++i) host[i] = value(r, call, i);
      check(gpu_copy(inputs[r].at, host.data(), n * sizeof(int), standard), "the copy fails");
    }
    check(sccl_loopback("allgather", from.data(), to.data(), n, SCCL_INT32, SCCL_SUM, 0, 1) == SCCL_SUCCESS, sccl_explain());
    for (int r = 0; r < ranks; ++r)
      for (std::size_t i = 0; i < n; ++i) check(outputs[0].at[r * n + i] == value(r, call, i), "ranks in one process overtake a default stream");
  }
  Graph graph;
  emulated_stream(DEFAULT_STREAMS[1]).capture(&graph);
  check(sccl_allreduce(send.at, recv.at, n, SCCL_INT32, SCCL_SUM, MPI_COMM_WORLD, nullptr) == SCCL_UNSUPPORTED, "it is captured");
  check(std::strstr(sccl_explain(), "is being captured") && graph.empty(), sccl_explain());
  emulated_stream(DEFAULT_STREAMS[1]).capture(nullptr);
  check(sccl_allreduce(send.at, recv.at, n, SCCL_INT32, SCCL_SUM, MPI_COMM_WORLD, nullptr) == SCCL_SUCCESS, sccl_explain());
  gpu_free(counts);
}

// Another thread begins to capture a blocking stream while a call without a stream asks what default streams it follows.
void capture_begins_meanwhile() {
  const int n = 100;
  Numbers send(n), recv(n * ranks);
  for (const int begins : {0, -1, 1, 0}) {
    emulation().blocking_captures = begins;
    for (std::size_t i = 0; i < n; ++i) send.at[i] = value(rank, begins, i);
    check(sccl_allgather(send.at, recv.at, n, SCCL_INT32, MPI_COMM_WORLD, nullptr) == SCCL_SUCCESS, sccl_explain());
    for (int r = 0; r < ranks; ++r)
      for (std::size_t i = 0; i < n; ++i) check(recv.at[r * n + i] == value(r, begins, i), "allgather is wrong");
    check(emulation().blocking_captures == std::abs(begins), "no capture has begun");
  }
}

// A thread that has used no GPU makes calls, and has used none afterwards: its first one might be another rank's.
void thread_without_context() {
  const int n = 100;
  Numbers send(n), recv(n * ranks), registered(n * ranks);
  std::fill(send.at, send.at + n, rank);
  check(sccl_allgather(send.at, recv.at, n, SCCL_INT32, MPI_COMM_WORLD, nullptr) == SCCL_SUCCESS, sccl_explain());
  MPI_Datatype sparse;
  MPI_Type_vector(n / 2, 1, 2, MPI_INT, &sparse), MPI_Type_commit(&sparse);
  std::thread([&] {
    int on_host[1] = {};
    sccl_handle handle = -1;
    const std::vector<std::size_t> each(ranks, n);
    const auto is_gathered = [&](const Numbers &into, int code) {
      check(code == SCCL_SUCCESS, sccl_explain());
      for (int r = 0; r < ranks; ++r) check(into.at[r * n] == r, "allgather is wrong");
      std::fill(into.at, into.at + into.count, -1);
      check(!emulated_context().exists, "the thread has a context");
    };
    is_gathered(recv, MPI_Allgather(send.at, n, MPI_INT, recv.at, n, MPI_INT, MPI_COMM_WORLD));
    is_gathered(recv, sccl_allgather(send.at, recv.at, n, SCCL_INT32, MPI_COMM_WORLD, nullptr));
    is_gathered(recv, sccl_allgatherv(send.at, n, recv.at, each.data(), nullptr, SCCL_INT32, MPI_COMM_WORLD, nullptr));
    check(sccl_register(MPI_COMM_WORLD, registered.at, registered.count * sizeof(int), &handle) == SCCL_SUCCESS, sccl_explain());
    is_gathered(registered, sccl_allgather(send.at, registered.at, n, SCCL_INT32, MPI_COMM_WORLD, nullptr));
    check(sccl_deregister(MPI_COMM_WORLD, handle) == SCCL_SUCCESS, sccl_explain());
    check(sccl_allgather(on_host, recv.at, n, SCCL_INT32, MPI_COMM_WORLD, nullptr) == SCCL_UNSUPPORTED, "memory of the host is taken");
    MPI_Allgather(send.at, 1, sparse, recv.at, n / 2, MPI_INT, MPI_COMM_WORLD);
    check(recv.at[n / 2] == 1 && !emulated_context().exists, "allgather of a sparse type is wrong, or the thread has a context");
  }).join();
  MPI_Type_free(&sparse);
  check(emulation().used == std::set<int>{rank}, "a rank has a context on the GPU of another one");
}

// Links of PCIe under HIP, in calls of whole words: what is not flushed does not arrive.
void over_pcie() {
  const auto count_flushes = [] {
    int flushed = 0;
    for (int device = 0; device < ranks; ++device) {
      const bool by_pcie = emulation().pcie.count({rank, device}), any = emulation().registers[device] > 0;
      check(any == by_pcie, any ? "a link of xGMI is flushed" : "a link of PCIe is not flushed");
      flushed += any;
    }
    return flushed;
  };
  for (const std::size_t n : {256u, 4096u, 16384u})
    for (int call = 0; call < 3; ++call) {
      Numbers send(n * ranks), recv(n * ranks), most(n);
      const auto block = [&](int from, int to, std::size_t i) { return value(from * ranks + to, call, i); };
      for (int r = 0; r < ranks; ++r)
        for (std::size_t i = 0; i < n; ++i) send.at[r * n + i] = block(rank, r, i);
      check(sccl_alltoall(send.at, recv.at, n, SCCL_INT32, MPI_COMM_WORLD, nullptr) == SCCL_SUCCESS, sccl_explain());
      for (int r = 0; r < ranks; ++r)
        for (std::size_t i = 0; i < n; ++i) check(recv.at[r * n + i] == block(r, rank, i), "alltoall is wrong");
      check(sccl_allgather(send.at, recv.at, n, SCCL_INT32, MPI_COMM_WORLD, nullptr) == SCCL_SUCCESS, sccl_explain());
      for (int r = 0; r < ranks; ++r)
        for (std::size_t i = 0; i < n; ++i) check(recv.at[r * n + i] == block(r, 0, i), "allgather is wrong");
      check(sccl_allreduce(send.at, most.at, n, SCCL_INT32, SCCL_MAX, MPI_COMM_WORLD, nullptr) == SCCL_SUCCESS, sccl_explain());
      for (std::size_t i = 0; i < n; ++i) check(most.at[i] == block(ranks - 1, 0, i), "allreduce is wrong");
    }
  check(count_flushes() == 1, "each rank has a link of PCIe");
}

// Outputs come and go: no more than a few stay mapped at the peers, and calls with those that came back are right.
void outputs_come_and_go() {
  check(sccl_select("allgather:0=0d") == SCCL_SUCCESS, sccl_explain());
  const int n = 1000;
  Numbers send(n);
  const auto gather_to = [&](Numbers &recv, int call) {
    for (std::size_t i = 0; i < n; ++i) send.at[i] = value(rank, call, i);
    check(sccl_allgather(send.at, recv.at, n, SCCL_INT32, MPI_COMM_WORLD, nullptr) == SCCL_SUCCESS, sccl_explain());
    for (int r = 0; r < ranks; ++r)
      for (std::size_t i = 0; i < n; ++i) check(recv.at[r * n + i] == value(r, call, i), "allgather is wrong");
  };
  const auto count_mapped = [] {
    const std::lock_guard<std::mutex> lock(emulation().mutex);
    const auto &memory = emulation().memory;
    return std::count_if(memory.begin(), memory.end(), [](const auto &one) { return one.second.fd < 0; });
  };
  Numbers registered(n * ranks), first(n * ranks);
  sccl_handle handle = -1;
  check(sccl_register(MPI_COMM_WORLD, registered.at, n * ranks * sizeof(int), &handle) == SCCL_SUCCESS, sccl_explain());
  const auto before = count_mapped();
  std::deque<Numbers> others;
  int call = 0;
  for (; call < 30; ++call) {
    gather_to(others.emplace_back(n * ranks), call);
    if (call % 3 == 0) gather_to(first, 100 + call);
    if (call % 7 == 0) gather_to(registered, 200 + call);
    if (others.size() > 12) others.pop_front();
  }
  check(count_mapped() - before <= 2 * 8, "outputs that were freed stay mapped");  // of two neighbours
  for (Numbers &one : others) gather_to(one, ++call);
  gather_to(first, 300), gather_to(registered, 301);
}

// More outputs than stay mapped take turns, or each call has one of its own: few calls map one, and all are right. An output
// that stays is mapped in the end.
void outputs_take_turns() {
  check(sccl_select("allgather:0=0d") == SCCL_SUCCESS, sccl_explain());
  const int n = 100, calls = 192, neighbors = 2;
  Numbers send(n);
  int call = 0;
  const auto count_opened = [] { return static_cast<int>(emulation().calls["open"]); };
  const auto gather_to = [&](Numbers &recv) {
    ++call;
    for (std::size_t i = 0; i < n; ++i) send.at[i] = value(rank, call, i);
    check(sccl_allgather(send.at, recv.at, n, SCCL_INT32, MPI_COMM_WORLD, nullptr) == SCCL_SUCCESS, sccl_explain());
    for (int r = 0; r < ranks; ++r)
      for (std::size_t i = 0; i < n; ++i) check(recv.at[r * n + i] == value(r, call, i), "allgather is wrong");
  };
  std::deque<Numbers> turns;
  for (int i = 0; i < 12; ++i) turns.emplace_back(n * ranks);
  gather_to(turns[0]);
  const int few = neighbors * 8 * (calls / 64 + 1);
  int before = count_opened();
  for (int i = 0; i < calls; ++i) gather_to(turns[i % turns.size()]);
  check(count_opened() - before <= few, "outputs that take turns are mapped again and again");
  before = count_opened();
  for (int i = 0; i < calls; ++i) {
    Numbers own(n * ranks);
    gather_to(own);
  }
  check(count_opened() - before <= few, "outputs that come and go are mapped again and again");
  Numbers last(n * ranks);
  before = count_opened();
  for (int i = 0; i < calls; ++i) gather_to(last);
  check(count_opened() - before == neighbors, "an output that stays is not mapped once");
}

// A rank refuses a call on a stream, so its kernel waits for the others. They meet on hosts next, where that rank is for a
// while alone: it looks meanwhile whether the communicator has ended, and that must not wait for its own kernel.
void refused_before_hosts_meet() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int n = 1000;
  std::vector<int> host(n);
  Numbers send(n), recv(n);
  Stream stream = nullptr;
  check(gpu_stream(&stream), "no stream");
  const auto call = [&](void *from) { return sccl_allreduce(from, recv.at, n, SCCL_INT32, SCCL_SUM, MPI_COMM_WORLD, stream); };
  check(call(send.at) == SCCL_SUCCESS && gpu_sync(stream), "the first call fails");
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) {
    check(call(host.data()) == SCCL_UNSUPPORTED, "memory of the host is taken");
    alone_until = std::chrono::steady_clock::now() + std::chrono::milliseconds(60);  // three looks
  }
  emulation().calls.clear();
  check(MPI_Allreduce(send.at, recv.at, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS, "a call that a rank refused goes well");
  const std::string why = sccl_explain();
  check(why.find("rank 1 refused a call that others make") == 0, why.c_str());
  const auto &calls = emulation().calls;
  check(rank != 1 || !(calls.count("copy") + calls.count("sync")), "a rank that waits on hosts asks its GPU for something");
}

// Calls follow one another, whatever their streams, and a stream ends with all that its calls read and write. Refused calls
// are among them.
void calls_follow_one_another() {
  constexpr std::size_t n = 100;
  Stream streams[2]{};
  check(gpu_stream(&streams[0]) && gpu_stream(&streams[1]), "no streams");
  const std::vector<std::size_t> each(ranks, n), whole(ranks, n * ranks);
  Numbers send(n), first(n * ranks), then(n * ranks * ranks);
  int on_host[4] = {};
  for (int round = 0; round < 6; ++round) {
    const bool counted = round % 3 == 1, refused = round % 3 == 2;
    for (std::size_t i = 0; i < n; ++i) send.at[i] = value(rank, round, i);
    check((counted ? sccl_allgatherv(send.at, n, first.at, each.data(), nullptr, SCCL_INT32, MPI_COMM_WORLD, streams[0])
                   : sccl_allgather(send.at, first.at, n, SCCL_INT32, MPI_COMM_WORLD, streams[0])) == SCCL_SUCCESS, sccl_explain());
    if (refused) check(sccl_allgather(on_host, on_host, 1, SCCL_INT32, MPI_COMM_WORLD, streams[1]) == SCCL_UNSUPPORTED, "memory of the host is taken");
    check((counted ? sccl_allgatherv(first.at, n * ranks, then.at, whole.data(), nullptr, SCCL_INT32, MPI_COMM_WORLD, streams[1])
                   : sccl_allgather(first.at, then.at, n * ranks, SCCL_INT32, MPI_COMM_WORLD, streams[1])) == SCCL_SUCCESS, sccl_explain());
    check(gpu_sync(streams[1]), "a call fails");
    for (int r = 0; r < ranks * ranks; ++r)
      for (std::size_t i = 0; i < n; ++i) check(then.at[r * n + i] == value(r % ranks, round, i), "a call reads what the one before has not written");
  }
}

// A stream of the program is being captured: communicators come and go, and their calls are made, on other streams.
void during_a_capture() {
  constexpr int n = 100;
  Numbers send(n), recv(n * ranks);
  std::fill(send.at, send.at + n, rank);
  const std::vector<std::size_t> each(ranks, n);
  Stream captured = nullptr, stream = nullptr;
  check(gpu_stream(&captured) && gpu_stream(&stream), "no streams");
  Graph graph;
  captured->capture(&graph);
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  sccl_handle handle = -1;
  for (const char *const select : {"allgather:0=0e", "allgather:0=0d"}) {
    check(sccl_select(select) == SCCL_SUCCESS, sccl_explain());
    check(sccl_allgather(send.at, recv.at, n, SCCL_INT32, comm, stream) == SCCL_SUCCESS, sccl_explain());
    check(sccl_allgather(send.at, recv.at, n, SCCL_INT32, comm, nullptr) == SCCL_SUCCESS, sccl_explain());
    for (int r = 0; r < ranks; ++r) check(recv.at[r * n] == r, "allgather is wrong");
  }
  check(sccl_allgatherv(send.at, n, recv.at, each.data(), nullptr, SCCL_INT32, comm, stream) == SCCL_SUCCESS, sccl_explain());
  check(sccl_register(comm, recv.at, n * ranks * sizeof(int), &handle) == SCCL_SUCCESS, sccl_explain());
  check(sccl_deregister(comm, handle) == SCCL_SUCCESS, sccl_explain());
  MPI_Comm_free(&comm);
  captured->capture(nullptr);
  check(graph.empty(), "a call is captured");
}

// Graphs hold calls of one output while others come and go: only that one stays mapped for them.
void captured_outputs() {
  check(sccl_select("allgather:0=0d") == SCCL_SUCCESS, sccl_explain());
  constexpr int n = 100;
  Numbers send(n), kept(n * ranks);
  Stream stream = nullptr;
  check(gpu_stream(&stream), "no stream");
  Graph graph;
  stream->capture(&graph);
  check(sccl_allgather(send.at, kept.at, n, SCCL_INT32, MPI_COMM_WORLD, stream) == SCCL_SUCCESS, sccl_explain());
  stream->capture(nullptr);
  const auto gather_to = [&](Numbers &recv, int call) {
    for (std::size_t i = 0; i < n; ++i) send.at[i] = value(rank, call, i);
    check(sccl_allgather(send.at, recv.at, n, SCCL_INT32, MPI_COMM_WORLD, stream) == SCCL_SUCCESS && gpu_sync(stream), sccl_explain());
  };
  for (int call = 0; call < 300; ++call) {
    Numbers own(n * ranks);
    gather_to(own, call);
  }
  const auto count_mapped = [] {
    const std::lock_guard<std::mutex> lock(emulation().mutex);
    const auto &memory = emulation().memory;
    return std::count_if(memory.begin(), memory.end(), [](const auto &one) { return one.second.fd < 0; });
  };
  check(count_mapped() <= 2 * (8 + 2), "outputs that no graph uses stay mapped");  // of two neighbors, and their windows
  for (std::size_t i = 0; i < n; ++i) send.at[i] = value(rank, 1, i);
  for (const auto &task : graph) stream->put(task);
  check(gpu_sync(stream), "a replay fails");
  for (int r = 0; r < ranks; ++r)
    for (std::size_t i = 0; i < n; ++i) check(kept.at[r * n + i] == value(r, 1, i), "a replay is wrong");
}

// Calls of the runtime and meetings of hosts in a call that was made before: printed for each kind of call.
void costs_of_a_call() {
  constexpr int n = 100;
  Numbers send(n), recv(n * ranks);
  Stream stream = nullptr;
  sccl_handle handle = -1;
  check(gpu_stream(&stream), "no stream");
  const auto count = [&](const char *name, const std::function<void()> &call) {
    for (int i = 0; i < 3; ++i) call();
    check(gpu_sync(stream), "a call fails");
    const int met = exchanges;
    emulation().calls.clear();
    call();
    const auto calls = emulation().calls;
    check(gpu_sync(stream), "a call fails");
    if (rank) return;
    std::printf("%s: %d meetings", name, exchanges - met);
    for (const auto &[function, times] : calls)
      if (function != "done") std::printf(", %d %s", static_cast<int>(times), function.c_str());  // that is asked again and again
    std::printf("\n");
  };
  const auto gather = [&](void *on) { check(sccl_allgather(send.at, recv.at, n, SCCL_INT32, MPI_COMM_WORLD, on) == SCCL_SUCCESS, sccl_explain()); };
  const auto gather_by_mpi = [&] { check(MPI_Allgather(send.at, n, MPI_INT, recv.at, n, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS, "allgather fails"); };
  check(sccl_select("allgather:0=0e") == SCCL_SUCCESS, sccl_explain());
  count("eager", [&] { gather(stream); });
  count("eager, no stream", [&] { gather(nullptr); });
  count("eager, MPI", gather_by_mpi);
  check(sccl_select("allgather:0=0d") == SCCL_SUCCESS, sccl_explain());
  count("direct", [&] { gather(stream); });
  count("direct, MPI", gather_by_mpi);
  check(sccl_register(MPI_COMM_WORLD, recv.at, n * ranks * sizeof(int), &handle) == SCCL_SUCCESS, sccl_explain());
  count("registered", [&] { gather(stream); });
}

// A stream runs fewer thread blocks at the same time than a call has: all ranks refuse it, and calls go on.
void masked_stream() {
  const int n = 1000;
  Numbers send(n), recv(n * ranks);
  std::fill(send.at, send.at + n, rank);
  const std::vector<std::size_t> each(ranks, n);
  Stream stream = nullptr;
  check(gpu_stream(&stream), "no stream");
  for (const int resident : {1, 1 << 20})
    for (const bool counted : {false, true}) {
      stream->resident = resident;
      const int code = counted ? sccl_allgatherv(send.at, n, recv.at, each.data(), nullptr, SCCL_INT32, MPI_COMM_WORLD, stream)
                               : sccl_allgather(send.at, recv.at, n, SCCL_INT32, MPI_COMM_WORLD, stream);
      check(code == (resident == 1 ? SCCL_UNSUPPORTED : SCCL_SUCCESS) && gpu_sync(stream), sccl_explain());
      if (resident == 1 && !counted && rank == 0) std::printf("%s\n", sccl_explain());
    }
  for (int r = 0; r < ranks; ++r) check(recv.at[r * n] == r, "allgather is wrong");
}

// A call in place that does not fit its stream has copied its input aside there: the next call, on another stream, follows.
void refused_in_place() {
  const int n = 100;
  const std::vector<std::size_t> each(ranks, n);
  for (const bool counted : {false, true}) {
    Numbers memory(n * ranks);
    Stream narrow = nullptr, stream = nullptr;
    check(gpu_stream(&narrow) && gpu_stream(&stream), "no streams");
    narrow->resident = 1;
    std::atomic<bool> begun{false};
    narrow->put([&] { begun = true; });
    const auto call = [&](Stream on) {
      return counted ? sccl_reducescatterv(SCCL_IN_PLACE, memory.at, each.data(), SCCL_INT32, SCCL_SUM, MPI_COMM_WORLD, on)
                     : sccl_alltoall(SCCL_IN_PLACE, memory.at, n, SCCL_INT32, MPI_COMM_WORLD, on);
    };
    check(call(narrow) == SCCL_UNSUPPORTED, "it fits its stream");
    check(call(stream) == SCCL_SUCCESS && gpu_sync(stream), sccl_explain());
    check(begun, "a call does not follow the copies of the one before, which was refused");
    check(gpu_sync(narrow), "the copies fail");
  }
}

// One rank refuses a call for which others wait where hosts meet, or in a kernel: all hear of it, and no deadline is set. If
// all refuse it, calls go on.
void refused_by_one() {
  const int n = 100;
  Numbers send(n), recv(n * ranks);
  int on_host[1] = {};
  const std::vector<std::size_t> each(ranks, n);
  sccl_handle handle = -1;
  const auto gather = [&](MPI_Comm comm, const void *from, int type = SCCL_INT32) {
    return sccl_allgather(from, recv.at, n, static_cast<sccl_type>(type), comm, nullptr);
  };
  const struct {
    const char *what;
    bool registers;
    int code;  // of a rank that refuses it
    std::function<int(MPI_Comm, bool)> call;
  } cases[] = {
      {"memory of the host", false, SCCL_UNSUPPORTED, [&](MPI_Comm comm, bool odd) { return gather(comm, odd ? on_host : send.at); }},
      {"memory of the host, registered output", true, SCCL_UNSUPPORTED, [&](MPI_Comm comm, bool odd) { return gather(comm, odd ? on_host : send.at); }},
      {"a strange type", false, SCCL_INVALID, [&](MPI_Comm comm, bool odd) { return gather(comm, send.at, odd ? 99 : SCCL_INT32); }},
      {"a strange name", false, SCCL_INVALID, [&](MPI_Comm comm, bool odd) {
         return sccl_call(odd ? "nothing" : "allgather", send.at, recv.at, n, SCCL_INT32, SCCL_SUM, 0, comm, nullptr);
       }},
      {"a custom collective in place", false, SCCL_INVALID, [&](MPI_Comm comm, bool odd) {
         return sccl_call("custom_hop", odd ? SCCL_IN_PLACE : send.at, recv.at, n, SCCL_INT32, SCCL_SUM, 0, comm, nullptr);
       }},
      {"a strange root", false, SCCL_INVALID, [&](MPI_Comm comm, bool odd) {
         return sccl_gatherv(send.at, n, recv.at, each.data(), nullptr, SCCL_INT32, odd ? 99 : 0, comm, nullptr);
       }}};
  for (const auto &one : cases) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    check(gather(comm, send.at) == SCCL_SUCCESS, sccl_explain());
    if (one.registers) check(sccl_register(comm, recv.at, recv.count * sizeof(int), &handle) == SCCL_SUCCESS, sccl_explain());
    for (int call = 0; call < 2; ++call) check(one.call(comm, true) == one.code, one.what);
    check(gather(comm, send.at) == SCCL_SUCCESS, sccl_explain());
    MPI_Barrier(MPI_COMM_WORLD);  // it has ended everywhere
    int code = one.call(comm, rank == 1);
    while (code == SCCL_SUCCESS || code == one.code) code = gather(comm, send.at);  // not all need rank 1, and it need not wait
    check(code == SCCL_FAILED && std::strstr(sccl_explain(), "rank 1 refused a call that others make"), sccl_explain());
  }
}

// A rank refuses two calls before others wait where hosts meet for the first of them: they hear of it, without a deadline.
void refused_twice() {
  const int n = 100;
  Numbers send(n), recv(n * ranks);
  int on_host[1] = {};
  Stream stream = nullptr;
  check(gpu_stream(&stream), "no stream");
  const auto gather = [&](const void *from, Stream on) { return sccl_allgather(from, recv.at, n, SCCL_INT32, MPI_COMM_WORLD, on); };
  check(gather(send.at, nullptr) == SCCL_SUCCESS, sccl_explain());
  MPI_Barrier(MPI_COMM_WORLD);  // it has ended everywhere
  for (int call = 0; call < 2 && rank == 1; ++call) check(gather(on_host, stream) == SCCL_UNSUPPORTED, "memory of the host is taken");
  MPI_Barrier(MPI_COMM_WORLD);
  int code = SCCL_SUCCESS;  // of rank 1 until it has heard of the end
  while (code != SCCL_FAILED) code = gather(rank == 1 ? on_host : send.at, stream);
  check(std::strstr(sccl_explain(), "rank 1 refused a call that others make"), sccl_explain());
}

// Ranks whose hosts meet for different calls hear of it: none takes what another one says for an answer to its own.
void meetings_differ() {
  Numbers send(ranks), recv(ranks);
  const std::vector<std::size_t> each(ranks, 1);
  sccl_handle handle = -1;
  for (int kind = 0; kind < 3; ++kind) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    check(sccl_register(comm, recv.at, ranks * sizeof(int), &handle) == SCCL_SUCCESS, sccl_explain());
    MPI_Barrier(MPI_COMM_WORLD);  // it has ended everywhere
    const int which = rank == 1 ? kind : (kind + 1) % 3;
    const int code = which == 0   ? sccl_alltoallv(send.at, each.data(), nullptr, recv.at, each.data(), nullptr, SCCL_INT32, comm, nullptr)
                     : which == 1 ? sccl_register(comm, send.at, ranks * sizeof(int), &handle)
                                  : sccl_deregister(comm, handle);
    check(code == SCCL_FAILED && std::strstr(sccl_explain(), "ranks must make the same calls"), sccl_explain());
  }
  MPI_Comm comm;  // hosts meet for direct calls alone
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  const auto gather = [&] { return sccl_allgather(send.at, recv.at, 1, SCCL_INT32, comm, nullptr); };
  check(gather() == SCCL_SUCCESS, sccl_explain());
  MPI_Barrier(MPI_COMM_WORLD);
  check(sccl_select(rank == 1 ? "allgather:0=0e" : "allgather:0=0d") == SCCL_SUCCESS, sccl_explain());
  check(gather() == SCCL_FAILED && std::strstr(sccl_explain(), "ranks must make the same calls"), sccl_explain());
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);  // a rank that registers a buffer is asked nothing, and passes no call on to MPI
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  const int code = rank == 1 ? sccl_register(comm, recv.at, ranks * sizeof(int), &handle) : MPI_Allreduce(send.at, recv.at, 1, MPI_INT, MPI_SUM, comm);
  check(code != MPI_SUCCESS && std::strstr(sccl_explain(), "ranks must make the same calls"), sccl_explain());
}

// A rank is late when communicators are made: what its peers may have mapped stays when the communicator is freed.
void made_too_late() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  Numbers send(1), recv(ranks);
  if (rank == 1) alone_from = exchanges + 2;  // when all have mapped windows
  check(sccl_allgather(send.at, recv.at, 1, SCCL_INT32, comm, nullptr) != SCCL_SUCCESS, "no rank is late");
  const auto count_own = [] {
    const std::lock_guard<std::mutex> lock(emulation().mutex);
    const auto &memory = emulation().memory;
    return std::count_if(memory.begin(), memory.end(), [](const auto &one) { return one.second.fd >= 0; });
  };
  check(count_own() == 3, "a rank has no window");
  MPI_Comm_free(&comm);
  check(count_own() == 3, "a window is freed that peers have mapped");
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) std::printf("made_too_late is done\n");
  std::fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD);
  std::_Exit(0);  // a meeting has not ended, so MPI cannot: the first process to end may have the others killed
}

// A call in place needs more room for its input than the one before, which has not begun: it waits for that only where there
// is no more memory.
void grows_in_place() {
  Stream late = nullptr, stream = nullptr;
  check(gpu_stream(&late) && gpu_stream(&stream), "no streams");
  const auto count_own = [] {
    const std::lock_guard<std::mutex> lock(emulation().mutex);
    return emulation().memory.size();
  };
  for (const bool scarce : {false, true}) {
    const std::size_t few = scarce ? 1000 : 10;
    Numbers first(few * ranks), then(10 * few * ranks);
    const auto block = [&](int from, int to) { return value(from * ranks + to, scarce, 0); };
    for (Numbers *buffer : {&first, &then})
      for (std::size_t i = 0, n = buffer->count / ranks; i < buffer->count; ++i) buffer->at[i] = block(rank, static_cast<int>(i / n));
    std::atomic<bool> begin{false}, over{false};
    late->put([&] { while (!begin) sched_yield(); });
    const auto exchange_blocks = [&](Numbers &buffer, Stream on) {
      check(sccl_alltoall(SCCL_IN_PLACE, buffer.at, buffer.count / ranks, SCCL_INT32, MPI_COMM_WORLD, on) == SCCL_SUCCESS, sccl_explain());
    };
    exchange_blocks(first, late);
    const auto before = count_own();
    probes = 0, no_memory = scarce;
    std::thread watch([&] {
      while (!over && !probes) sched_yield();
      begin = true;
    });
    exchange_blocks(then, stream);
    check((probes > 0) == scarce, scarce ? "memory is released that a call uses" : "a call waits for the one before");
    check(count_own() == (scarce ? before - 2 : before + 1), "room that no call uses is not released");  // three of them
    over = true;
    watch.join();
    check(gpu_sync(late) && gpu_sync(stream), "a call fails");
    for (const Numbers *buffer : {&first, &then})
      for (std::size_t i = 0, n = buffer->count / ranks; i < buffer->count; ++i) check(buffer->at[i] == block(static_cast<int>(i / n), rank), "alltoall is wrong");
  }
}

// Ranks that disagree about what is registered hear of it, where hosts meet.
void registered_by_one() {
  Numbers first(ranks), second(ranks);
  const auto add = [](MPI_Comm comm, Numbers &buffer, sccl_handle *handle) { return sccl_register(comm, buffer.at, ranks * sizeof(int), handle); };
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  sccl_handle one = -1, other = -1;
  const bool odd = rank == 1;
  check(sccl_register(comm, odd ? nullptr : first.at, ranks * sizeof(int), &one) == (odd ? SCCL_INVALID : SCCL_UNSUPPORTED), "no buffer is registered");
  check(!odd || std::strstr(sccl_explain(), "there is no buffer to register"), sccl_explain());
  check(add(comm, first, odd ? nullptr : &one) == (odd ? SCCL_INVALID : SCCL_UNSUPPORTED), "a buffer is registered without a handle");
  check(add(comm, first, &one) == SCCL_SUCCESS && add(comm, second, &other) == SCCL_SUCCESS, sccl_explain());
  for (int call = 0; call < 2; ++call) check(sccl_deregister(comm, 99) == SCCL_INVALID, "there is no such handle");
  check(sccl_deregister(comm, one) == SCCL_SUCCESS && add(comm, first, &one) == SCCL_SUCCESS, sccl_explain());
  MPI_Barrier(MPI_COMM_WORLD);  // it has ended everywhere
  check(sccl_deregister(comm, odd ? other : one) == SCCL_FAILED, "ranks deregister different buffers");
  check(std::strstr(sccl_explain(), "ranks have to deregister the same buffers") || std::strstr(sccl_explain(), "ranks must make the same calls"), sccl_explain());
}

// Of registered buffers that overlap, an output lies in the first.
void registrations_overlap() {
  check(sccl_select("allgather:0=0d") == SCCL_SUCCESS, sccl_explain());
  const int n = 100, whole = n * ranks;
  Numbers send(n), memory(3 * whole);
  sccl_handle first = -1, second = -1;
  const auto add = [&](MPI_Comm comm, int *at, sccl_handle *handle) {
    check(sccl_register(comm, at, 2 * whole * sizeof(int), handle) == SCCL_SUCCESS, sccl_explain());
  };
  const auto gather_to = [&](int *to, MPI_Comm comm) { return sccl_allgather(send.at, to, n, SCCL_INT32, comm, nullptr); };
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  add(comm, memory.at, &first), add(comm, memory.at + whole, &second);
  for (int call = 0; call < 4; ++call) {
    if (call == 3) check(sccl_deregister(comm, first) == SCCL_SUCCESS, sccl_explain());
    for (std::size_t i = 0; i < n; ++i) send.at[i] = value(rank, call, i);
    int *const to = memory.at + (call == 1 ? 2 : 1) * whole;
    const int told = exchanges;
    check(gather_to(to, comm) == SCCL_SUCCESS && exchanges == told, sccl_explain());
    for (int r = 0; r < ranks; ++r)
      for (std::size_t i = 0; i < n; ++i) check(to[r * n + i] == value(r, call, i), "allgather is wrong");
  }
  add(comm, memory.at, &first);  // behind the other one
  check(gather_to(memory.at + (rank == 1 ? 0 : whole), comm) == SCCL_FAILED, "outputs in different buffers are taken for one");
  check(std::strstr(sccl_explain(), "ranks must make the same calls"), sccl_explain());
}

// Pointers that do not matter on a rank may be anything.
void unused_pointers() {
  const int n = 100;
  Numbers send(n), recv(n * ranks);
  std::fill(send.at, send.at + n, rank);
  int on_host = 0;
  for (void *const unused : {static_cast<void *>(nullptr), static_cast<void *>(&on_host), static_cast<void *>(reinterpret_cast<char *>(recv.at) + 1)}) {
    check(sccl_reduce(send.at, rank == 0 ? recv.at : unused, n, SCCL_INT32, SCCL_MAX, 0, MPI_COMM_WORLD, nullptr) == SCCL_SUCCESS, sccl_explain());
    check(rank || recv.at[n - 1] == ranks - 1, "reduce is wrong");
    check(sccl_gather(send.at, rank == 0 ? recv.at : unused, n, SCCL_INT32, 0, MPI_COMM_WORLD, nullptr) == SCCL_SUCCESS, sccl_explain());
    check(rank || recv.at[n * ranks - 1] == ranks - 1, "gather is wrong");
  }
}

// A rank cannot open the memory of another one, which can open its: they are no neighbors, in refusals either.
void one_way() {
  std::vector<int> on_host(ranks);
  Numbers send(1), recv(ranks);
  for (int round = 0; round < 2; ++round) {
    send.at[0] = value(rank, round, 0);
    check(sccl_gather(send.at, recv.at, 1, SCCL_INT32, 0, MPI_COMM_WORLD, nullptr) == SCCL_SUCCESS, sccl_explain());
    for (int r = 0; r < ranks && rank == 0; ++r) check(recv.at[r] == value(r, round, 0), "gather is wrong");
    check(sccl_gather(on_host.data(), on_host.data(), 1, SCCL_INT32, 0, MPI_COMM_WORLD, nullptr) == SCCL_UNSUPPORTED, sccl_explain());
  }
}

// A call is captured once, with what makes its input anew, and replayed.
void replays() {
  const int n = 333;
  Numbers send(n), recv(n);
  Stream stream = nullptr;
  check(gpu_stream(&stream), "no stream");
  Graph graph;
  stream->capture(&graph);
  check(gpu_capturing(stream), "the stream is not captured");
  stream->put([&] {
    for (std::size_t i = 0; i < n; ++i) send.at[i] += rank + 1;
  });
  check(sccl_allreduce(send.at, recv.at, n, SCCL_INT32, SCCL_SUM, MPI_COMM_WORLD, stream) == SCCL_SUCCESS, sccl_explain());
#ifndef __SANITIZE_THREAD__  // which does not see the order that other processes make between a rank's reads and its result
  check(sccl_allreduce(SCCL_IN_PLACE, recv.at, n, SCCL_INT32, SCCL_MAX, MPI_COMM_WORLD, stream) == SCCL_SUCCESS, sccl_explain());
#endif
  stream->capture(nullptr);
  check(graph.size() >= 2 && gpu_sync(stream) && send.at[0] == 0, "the call was not captured");
  const int all = ranks * (ranks + 1) / 2;
  int round = 0;
  for (int part = 0; part < 2; ++part) {
    for (int i = 0; i < std::atoi(std::getenv("REPLAYS")) / 2; ++i, ++round)
      for (const auto &task : graph) stream->put(task);
    check(gpu_sync(stream), "the replays fail");
    for (std::size_t i = 0; i < n; ++i) check(recv.at[i] == all * round, "a replay is wrong");
    Numbers own(n), most(n);  // between replays, calls as ever, and bigger ones than the graph's
    for (std::size_t i = 0; i < n; ++i) own.at[i] = value(rank, part, i);
    check(sccl_allreduce(own.at, most.at, n, SCCL_INT32, SCCL_MAX, MPI_COMM_WORLD, nullptr) == SCCL_SUCCESS, sccl_explain());
    for (std::size_t i = 0; i < n; ++i) check(most.at[i] == value(ranks - 1, part, i), "a call between replays is wrong");
    Numbers large(100 * n);
    check(sccl_alltoall(SCCL_IN_PLACE, large.at, 25 * n, SCCL_INT32, MPI_COMM_WORLD, nullptr) == SCCL_SUCCESS, sccl_explain());
  }
}

// A graph is replayed behind a call that all ranks have refused, of which no stream of the program knows the end.
void replays_follow_refusals() {
  const int n = 100;
  Numbers send(n), recv(n);
  int on_host[n] = {};
  Stream stream = nullptr;
  check(gpu_stream(&stream), "no stream");
  std::fill(send.at, send.at + n, rank);
  for (int round = 0; round < 12; ++round) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    Graph graph;
    const auto reduce = [&](const int *from, int type, Stream on) { return sccl_allreduce(from, recv.at, n, static_cast<sccl_type>(type), SCCL_MAX, comm, on); };
    const auto refuse = [&] {
      if (round % 2) check(reduce(on_host, SCCL_INT32, stream) == SCCL_UNSUPPORTED, "memory of the host is taken");
      else check(reduce(send.at, 99, nullptr) == SCCL_INVALID, "there is no such type");
    };
    if (round % 4 < 2) refuse();
    stream->capture(&graph);
    check(reduce(send.at, SCCL_INT32, stream) == SCCL_SUCCESS, sccl_explain());
    stream->capture(nullptr);
    if (round % 4 >= 2) refuse();
    for (const auto &task : graph) stream->put(task);
    check(gpu_sync(stream), "the replay fails");
    for (std::size_t i = 0; i < n; ++i) check(recv.at[i] == ranks - 1, "a replay overtakes a call that was refused");
    recv.at[0] = 0;
    check(reduce(send.at, SCCL_INT32, nullptr) == SCCL_SUCCESS && recv.at[0] == ranks - 1, sccl_explain());
    MPI_Comm_free(&comm);
  }
}

// All ranks refuse a call behind a replay, which has begun on one GPU alone: on its stream, or while another one is captured.
void refusals_follow_replays() {
  const int n = 100;
  Numbers send(n), recv(n);
  int on_host[n] = {};
  Stream stream = nullptr, other = nullptr;
  check(gpu_stream(&stream) && gpu_stream(&other), "no streams");
  std::fill(send.at, send.at + n, rank);
  const struct {
    const char *why;
    const int *from;
    int type, resident, code;
  } cases[] = {{"one of its buffers is on a GPU and the other is not", on_host, SCCL_INT32, 1 << 20, SCCL_UNSUPPORTED},
               {"unknown element type", send.at, 99, 1 << 20, SCCL_INVALID},
               {"its stream runs only", send.at, SCCL_INT32, 1, SCCL_UNSUPPORTED}};
  {  // a replayed refusal follows one before it
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    Graph refused;
    const auto reduce = [&](const int *from) { return sccl_allreduce(from, recv.at, n, SCCL_INT32, SCCL_MAX, comm, stream); };
    check(reduce(send.at) == SCCL_SUCCESS && gpu_sync(stream), sccl_explain());
    for (int i = 0; rank == 3 && i < 20000; ++i) sched_yield();  // it is late
    check(reduce(on_host) == SCCL_UNSUPPORTED, "memory of the host is taken");
    stream->capture(&refused);
    check(reduce(on_host) == SCCL_UNSUPPORTED && !refused.empty(), "memory of the host is taken");
    stream->capture(nullptr);
    for (const auto &task : refused) stream->put(task);
    check(reduce(send.at) == SCCL_SUCCESS && gpu_sync(stream), sccl_explain());
    check(reduce(send.at) == SCCL_SUCCESS, sccl_explain());
    MPI_Comm_free(&comm);
  }
  for (const bool captured : {false, true})
    for (const auto &one : cases) {
      MPI_Comm comm;
      MPI_Comm_dup(MPI_COMM_WORLD, &comm);
      Graph graph, refused;
      const auto reduce = [&](const int *from, int type, Stream on) { return sccl_allreduce(from, recv.at, n, static_cast<sccl_type>(type), SCCL_MAX, comm, on); };
      stream->capture(&graph);
      check(reduce(send.at, SCCL_INT32, stream) == SCCL_SUCCESS, sccl_explain());
      stream->capture(nullptr);
      std::atomic<bool> begun{false};
      stream->put([&] { begun = true; });
      for (const auto &task : graph) stream->put(task);
      for (bool good = false; rank == 0 && !begun; sched_yield()) gpu_done(stream, good);  // others have it begin later
      const Stream on = captured ? other : stream;
      if (captured) other->capture(&refused);
      on->resident = one.resident;
      check(reduce(one.from, one.type, on) == one.code && std::strstr(sccl_explain(), one.why), sccl_explain());
      on->resident = 1 << 20;
      if (captured) other->capture(nullptr);
      for (const auto &task : refused) stream->put(task);
      check(gpu_sync(stream) && recv.at[n - 1] == ranks - 1, "the replay fails");
      recv.at[n - 1] = 0;
      check(reduce(send.at, SCCL_INT32, nullptr) == SCCL_SUCCESS && recv.at[n - 1] == ranks - 1, sccl_explain());
      MPI_Comm_free(&comm);
    }
}

// The dma transport has to say that it cannot be captured.
void no_replays() {
  Numbers send(1), recv(1);
  Stream stream = nullptr;
  check(gpu_stream(&stream), "no stream");
  Graph graph;
  stream->capture(&graph);
  check(sccl_allreduce(send.at, recv.at, 1, SCCL_INT32, SCCL_SUM, MPI_COMM_WORLD, stream) == SCCL_UNSUPPORTED, "it is captured");
  check(std::strstr(sccl_explain(), "is being captured") && graph.empty(), sccl_explain());
  stream->capture(nullptr);
  check(sccl_allreduce(send.at, recv.at, 1, SCCL_INT32, SCCL_SUM, MPI_COMM_WORLD, stream) == SCCL_SUCCESS, sccl_explain());
  check(gpu_sync(stream), "the call fails");
}

// Outputs at other places of registered memory on each rank; hosts tell one another nothing for them.
void registered() {
  const int n = 3000;
  check(sccl_select("allgather:0=0d;allreduce:0=0d;alltoall:0=0d;gather:0=0d") == SCCL_SUCCESS, sccl_explain());
  Numbers send(n);
  sccl_handle handle = -1, other = -1;
  for (int round = 0; round < 2; ++round) {
    Numbers memory(n * (ranks + 10));
    check(sccl_register(MPI_COMM_WORLD, memory.at, memory.count * sizeof(int), &handle) == SCCL_SUCCESS, sccl_explain());
    const auto gather_to = [&](int *to, int code, MPI_Comm comm) {
      for (std::size_t i = 0; i < n; ++i) send.at[i] = value(rank, round, i);
      const int told = exchanges;
      check(sccl_allgather(send.at, to, n, SCCL_INT32, comm, nullptr) == code, sccl_explain());
      for (int r = 0; r < ranks && code == SCCL_SUCCESS; ++r)
        for (std::size_t i = 0; i < n; ++i) check(to[r * n + i] == value(r, round, i), "allgather is wrong");
      return exchanges - told;
    };
    for (int call = 0; call < 5; ++call)
      check(gather_to(memory.at + (call * ranks + rank) % 10 * n, SCCL_SUCCESS, MPI_COMM_WORLD) == 0, "something is told of registered memory");
    Numbers apart(n * ranks);
    check(gather_to(apart.at, SCCL_SUCCESS, MPI_COMM_WORLD) > 0, "nothing is told of other memory");
    check(sccl_deregister(MPI_COMM_WORLD, handle) == SCCL_SUCCESS, sccl_explain());
    check(sccl_deregister(MPI_COMM_WORLD, handle) == SCCL_INVALID, "it is registered twice");
    check(gather_to(memory.at, SCCL_SUCCESS, MPI_COMM_WORLD) > 0, "it is still registered");
    if (round == 0) continue;
    MPI_Comm comm;  // what is registered there is each rank's other half: no rank writes to the wrong one
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    Numbers second(n * ranks);
    check(sccl_register(comm, memory.at, n * ranks * sizeof(int), &handle) == SCCL_SUCCESS, sccl_explain());
    check(sccl_register(comm, second.at, n * ranks * sizeof(int), &other) == SCCL_SUCCESS, sccl_explain());
    MPI_Barrier(MPI_COMM_WORLD);  // else one that is wrong already ends the registration of one that is slow
    gather_to(rank == 1 ? second.at : memory.at, SCCL_FAILED, comm);
    check(std::strstr(sccl_explain(), "ranks must make the same calls"), sccl_explain());
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);  // not all outputs are registered: one rank waits where hosts meet
    check(sccl_register(comm, memory.at, n * ranks * sizeof(int), &handle) == SCCL_SUCCESS, sccl_explain());
    MPI_Barrier(MPI_COMM_WORLD);
    gather_to(rank == 1 ? apart.at : memory.at, SCCL_FAILED, comm);
    check(std::strstr(sccl_explain(), "ranks must make the same calls"), sccl_explain());
  }
  Numbers short_one(1);
  check(sccl_register(MPI_COMM_WORLD, short_one.at, rank == 1 ? 1 << 20 : 4, &handle) == SCCL_UNSUPPORTED, "it is longer than it is");
  int on_host = 0;
  check(sccl_register(MPI_COMM_WORLD, rank ? short_one.at : &on_host, 4, &handle) == SCCL_UNSUPPORTED, "memory of the host is registered");
  {
    auto *freed = new Numbers(n * ranks);
    check(sccl_register(MPI_COMM_WORLD, freed->at, n * ranks * sizeof(int), &handle) == SCCL_SUCCESS, sccl_explain());
    int *const at = freed->at;
    delete freed;
    Numbers again(n * ranks);
    int same = again.at == at, everywhere = 0;
    MPI_Allreduce(&same, &everywhere, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (everywhere) check(sccl_allgather(send.at, again.at, n, SCCL_INT32, MPI_COMM_WORLD, nullptr) == SCCL_INVALID, "it is taken for what was freed");
  }
}

// Communicators are freed while a call on a stream of the user is still to begin, from a graph the
// second time: it begins once they wait for it, or when nothing of them is left.
void freed_at_work() {
  const int n = 1000;
  Numbers send(n), recv(n * ranks);
  Stream stream = nullptr;
  check(gpu_stream(&stream), "no stream");
  for (const bool replayed : {false, true}) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (std::size_t i = 0; i < n; ++i) send.at[i] = value(rank, replayed, i);
    check(sccl_allgather(send.at, recv.at, n, SCCL_INT32, comm, nullptr) == SCCL_SUCCESS, sccl_explain());
    std::atomic<bool> begin{false}, freed{false};
    Graph graph;
    if (replayed) stream->capture(&graph);
    else stream->put([&] { while (!begin) sched_yield(); });
    check(sccl_allgather(send.at, recv.at, n, SCCL_INT32, comm, stream) == SCCL_SUCCESS, sccl_explain());
    if (replayed) {
      stream->capture(nullptr);
      stream->put([&] { while (!begin) sched_yield(); });
    }
    for (const auto &task : graph) stream->put(task);
    for (std::size_t i = 0; i < n * ranks; ++i) recv.at[i] = 0;
    probes = 0;
    std::thread watch([&] {
      const auto waited_for = [] {
        const std::lock_guard<std::mutex> lock(emulation().mutex);
        return emulation().waiting > 0;
      };
      while (!freed && !probes && !waited_for()) sched_yield();
      begin = true;
    });
    MPI_Comm_free(&comm);
    freed = true;
    watch.join();
    check(gpu_sync(stream), "the call fails");
    for (int r = 0; r < ranks; ++r)
      for (std::size_t i = 0; i < n; ++i) check(recv.at[r * n + i] == value(r, replayed, i), "allgather is wrong");
  }
}

// Ends the process, saying in a file what became of it.
[[noreturn]] void survive(const std::string &said) {
  const auto path = [](int of) { return std::string(std::getenv("TOLD")) + "/" + std::to_string(of); };
  std::FILE *file = std::fopen((path(rank) + ".part").c_str(), "w");
  check(file && std::fputs(said.c_str(), file) >= 0 && std::fclose(file) == 0, "cannot write");
  check(std::rename((path(rank) + ".part").c_str(), path(rank).c_str()) == 0, "cannot rename");
  std::_Exit(0);
}

// A process is killed with a call under way; no other waits for it for ever.
void killed() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int n = 5000;
  Numbers send(n), recv(n);
  Stream stream = nullptr;
  check(gpu_stream(&stream), "no stream");
  const auto call = [&](Stream on) { return sccl_allreduce(send.at, recv.at, n, SCCL_INT32, SCCL_SUM, MPI_COMM_WORLD, on); };
  check(call(nullptr) == SCCL_SUCCESS, sccl_explain());
  if (rank == 2) {
    check(call(stream) == SCCL_SUCCESS, sccl_explain());
    raise(SIGKILL);
  }
  int code = SCCL_SUCCESS;
  for (int i = 0; i < 3 && code == SCCL_SUCCESS; ++i) code = call(nullptr);
  check(code == SCCL_FAILED, "a call without a peer goes well");
  const std::string why = sccl_explain();
  check(call(stream) == SCCL_FAILED && sccl_explain() == why, "a call after that goes well");
  check(MPI_Allreduce(send.at, recv.at, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS, "a call of MPI after that goes well");
  survive(why);
}

// A process is killed where others have called on a stream, of whom one has a deadline: all hear of it, and
// their streams come to an end, whatever they hold.
void let_go() {
  check(sccl_select("allreduce:0=0e") == SCCL_SUCCESS, sccl_explain());  // hosts do not meet
  if (rank == 1) setenv("SCCL_TIMEOUT", "0.5", 1);
  const int n = 70001;
  Numbers send(n), recv(n);
  Stream stream = nullptr;
  check(gpu_stream(&stream), "no stream");
  const auto call = [&](Stream on) { return sccl_allreduce(send.at, recv.at, n, SCCL_INT32, SCCL_SUM, MPI_COMM_WORLD, on); };
  MPI_Barrier(MPI_COMM_WORLD);
  check(call(nullptr) == SCCL_SUCCESS, sccl_explain());
  if (rank == 2) raise(SIGKILL);
  int code = SCCL_SUCCESS;
  for (int i = 0; i < 3 && code == SCCL_SUCCESS; ++i) code = call(stream);
  check(gpu_sync(stream), "the stream fails");
  check(call(stream) == SCCL_FAILED && call(nullptr) == SCCL_FAILED, "a call after that goes well");
  survive(sccl_explain());
}

// A process is killed between calls of MPI.
void killed_between() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  Numbers send(1), recv(1);
  check(MPI_Allreduce(send.at, recv.at, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS, "the first call fails");
  if (rank == 2) raise(SIGKILL);
  check(MPI_Allreduce(send.at, recv.at, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS, "a call without a peer goes well");
  survive(sccl_explain());
}

// Two ranks disagree about a call of the C API, and make no other; the others come to one of MPI's, or free
// the communicator, where nobody will meet them: they are told.
void told_on_hosts(bool frees) {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  Numbers send(ranks), recv(ranks);
  check(sccl_allgather(send.at, recv.at, 1, SCCL_INT32, comm, nullptr) == SCCL_SUCCESS, "the first call fails");
  MPI_Barrier(MPI_COMM_WORLD);  // it has ended everywhere
  if (rank == 0)
    check(sccl_alltoall(send.at, recv.at, 1, SCCL_INT32, comm, nullptr) == SCCL_FAILED, "a call that differs goes well");
  else if (rank == 1)
    check(sccl_allgather(send.at, recv.at, 1, SCCL_INT32, comm, nullptr) == SCCL_FAILED, "a call that differs goes well");
  else if (frees)
    MPI_Comm_free(&comm);
  else
    check(MPI_Allgather(send.at, 1, MPI_INT, recv.at, 1, MPI_INT, comm) != MPI_SUCCESS, "a call without peers goes well");
  std::printf("rank %d has ended\n", rank);
  std::fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD);  // then nobody has to wait for what is left of the communicator
  if (rank) std::_Exit(0);
  std::printf("told_on_hosts is done\n");
  std::fflush(stdout);
  std::_Exit(0);
}

// One rank calls something else than the others do, on a stream or in a graph: nobody makes a call after that which could
// report it, so all ask by a call with no elements.
void failure_is_asked_for(bool replayed) {
  Numbers send(ranks), recv(ranks);
  Stream stream = nullptr;
  check(gpu_stream(&stream), "no stream");
  const auto code = [&] { return sccl_allgather(send.at, recv.at, 0, SCCL_INT32, MPI_COMM_WORLD, stream); };
  const auto call = [&](bool other) {
    const int made = other ? sccl_alltoall(send.at, recv.at, 1, SCCL_INT32, MPI_COMM_WORLD, stream)
                           : sccl_allgather(send.at, recv.at, 1, SCCL_INT32, MPI_COMM_WORLD, stream);
    check(made == SCCL_SUCCESS, sccl_explain());
  };
  call(false);
  check(gpu_sync(stream) && code() == SCCL_SUCCESS, "the first call fails");
  MPI_Barrier(MPI_COMM_WORLD);  // it has ended everywhere
  Graph graphs[2];
  for (int other = 0; other < 2 && replayed; ++other) {
    stream->capture(graphs + other);
    call(other);
    stream->capture(nullptr);
  }
  std::atomic<bool> begin{false};
  stream->put([&] { while (!begin) sched_yield(); });
  for (const auto &task : graphs[rank == 1]) stream->put(task);
  if (!replayed) call(rank == 1);
  MPI_Barrier(MPI_COMM_WORLD);  // nobody makes a call after it has failed
  begin = true;
  check(gpu_sync(stream), "the stream fails");
  MPI_Barrier(MPI_COMM_WORLD);
  check(code() == SCCL_FAILED && std::strstr(sccl_explain(), "all ranks must make the same calls"), sccl_explain());
}

// Ranks wait for their last calls before they map outputs. The communicator ends meanwhile, and the last call of rank 1 goes on
// only after that.
void told_while_mapping() {
  Numbers send(ranks), recv(ranks);
  Stream stream = nullptr, other = nullptr;
  check(gpu_stream(&stream) && gpu_stream(&other), "no streams");
  const auto reduce = [&] { return sccl_allreduce(send.at, recv.at, 1, SCCL_INT32, SCCL_SUM, MPI_COMM_WORLD, stream); };
  check(reduce() == SCCL_SUCCESS && gpu_sync(stream), sccl_explain());
  MPI_Barrier(MPI_COMM_WORLD);  // it has ended everywhere
  std::atomic<bool> begin{false};
  stream->put([&] { while (!begin) sched_yield(); });
  check((rank == 2 ? sccl_alltoall(send.at, recv.at, 1, SCCL_INT32, MPI_COMM_WORLD, stream) : reduce()) == SCCL_SUCCESS, sccl_explain());
  probes = 0;
  std::thread watch([&] {
    while (!probes && !begin) sched_yield();  // the call may fail before it waits for a meeting
    if (rank != 1) begin = true;
  });
  check(sccl_allgather(send.at, recv.at, 1, SCCL_INT32, MPI_COMM_WORLD, other) == SCCL_FAILED, "a call after a failure goes well");
  begin = true;
  watch.join();
  check(gpu_sync(stream), "the stream fails");
  std::printf("rank %d has ended\n", rank);
  std::fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD);
  std::_Exit(0);  // a meeting may not have ended
}

// The GPU of rank 1 cannot tell whether replays have ended, so nobody unmaps the memory of its peers.
void freed_on_a_broken_gpu() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  Numbers send(1), recv(ranks);
  Stream stream = nullptr;
  check(gpu_stream(&stream), "no stream");
  Graph graph;
  stream->capture(&graph);
  check(sccl_allgather(send.at, recv.at, 1, SCCL_INT32, comm, stream) == SCCL_SUCCESS, sccl_explain());
  stream->capture(nullptr);
  MPI_Barrier(MPI_COMM_WORLD);  // all have captured it
  emulation().calls.clear();
  emulation().broken = rank == 1;
  MPI_Comm_free(&comm);
  check(!emulation().calls.count("close"), "memory is unmapped that replays may use");
  std::printf("rank %d has ended\n", rank);
  std::fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD);
  std::_Exit(0);  // a meeting may not have ended
}

// Calls of all kinds in any order, on two streams and on two communicators, some of which nobody awaits before the next. Ranks
// are late at random: no call that all make or refuse fails.
void calls_of_all_kinds() {
  const char *const rounds = std::getenv("ROUNDS"), *const seed = std::getenv("SEED");
  unsigned random = seed ? std::atoi(seed) : 1, own_random = random * 31 + rank;
  const auto draw = [](unsigned &state, unsigned below) { return (state = state * 1103515245 + 12345) / 65536 % below; };
  const auto next = [&](unsigned below) { return draw(random, below); };
  constexpr std::size_t most = 3000;
  Stream streams[2]{};
  check(gpu_stream(&streams[0]) && gpu_stream(&streams[1]), "no streams");
  MPI_Comm comms[2];
  Numbers kept[2] = {Numbers(most * ranks), Numbers(most * ranks)};  // registered
  sccl_handle handles[2];
  const auto add = [&](int c) { check(sccl_register(comms[c], kept[c].at, kept[c].count * sizeof(int), &handles[c]) == SCCL_SUCCESS, sccl_explain()); };
  for (int c = 0; c < 2; ++c) MPI_Comm_dup(MPI_COMM_WORLD, &comms[c]), add(c);
  int on_host[1] = {};
  std::deque<Numbers> buffers;
  std::vector<std::function<void()>> results;
  const auto finish = [&] {
    check(gpu_sync(streams[0]) && gpu_sync(streams[1]), "calls fail");
    for (const auto &result : results) result();
    results.clear(), buffers.clear();
  };
  for (int round = 0; round < (rounds ? std::atoi(rounds) : 40); ++round) {
    const std::size_t n = (const std::size_t[]){1, 70, 700, most}[next(4)];
    const int which = static_cast<int>(next(2));
    const MPI_Comm comm = comms[which];
    const unsigned letter = next(3), kind = next(11);
    Stream stream = streams[next(2)], on = next(3) ? stream : nullptr;
    const std::string select = std::string("0=0") + "edp"[PACKET_BYTES ? letter : letter % 2];
    check(sccl_select(("allgather:" + select + ";allreduce:" + select + ";alltoall:" + select).c_str()) == SCCL_SUCCESS, sccl_explain());
    for (unsigned i = draw(own_random, 3) ? 0 : draw(own_random, 5000); i; --i) sched_yield();
    if (!next(3) || kind == 1 || kind == 10) finish();
    Numbers &send = buffers.emplace_back(n * ranks), &recv = buffers.emplace_back(n * ranks);
    const auto block = [round](int from, int to, std::size_t i) { return value(from * ranks + to, round, i); };
    for (int r = 0; r < ranks; ++r)
      for (std::size_t i = 0; i < n; ++i) send.at[r * n + i] = recv.at[r * n + i] = block(rank, r, i);
    const auto is_gathered = [=](const int *at) {
      for (int r = 0; r < ranks; ++r)
        for (std::size_t i = 0; i < n; ++i) check(at[r * n + i] == block(r, 0, i), "allgather is wrong");
    };
    const auto is_exchanged = [=](const int *at) {
      for (int r = 0; r < ranks; ++r)
        for (std::size_t i = 0; i < n; ++i) check(at[r * n + i] == block(r, rank, i), "alltoall is wrong");
    };
    const auto is_reduced = [=](const int *at) {
      for (std::size_t i = 0; i < n; ++i) check(at[i] == block(ranks - 1, 0, i), "allreduce is wrong");
    };
    const auto call = [&](int code, const auto &result, const int *at) {
      check(code == SCCL_SUCCESS, sccl_explain());
      results.push_back([=] { result(at); });
    };
    const std::vector<std::size_t> each(ranks, n);
    switch (kind) {
      case 0: call(sccl_allgather(send.at, recv.at, n, SCCL_INT32, comm, on), is_gathered, recv.at); break;
      case 1: call(sccl_allgather(send.at, kept[which].at, n, SCCL_INT32, comm, on), is_gathered, kept[which].at), finish(); break;
      case 2: call(sccl_alltoall(SCCL_IN_PLACE, recv.at, n, SCCL_INT32, comm, on), is_exchanged, recv.at); break;
      case 3: call(sccl_alltoallv(send.at, each.data(), nullptr, recv.at, each.data(), nullptr, SCCL_INT32, comm, on), is_exchanged, recv.at); break;
      case 4: MPI_Allreduce(MPI_IN_PLACE, recv.at, static_cast<int>(n), MPI_INT, MPI_MAX, comm), is_reduced(recv.at); break;
      case 5: MPI_Allreduce(rank == 1 ? on_host : send.at, recv.at, 1, MPI_INT, MPI_MIN, comm); break;
      case 6: check(sccl_allgather(on_host, recv.at, n, SCCL_INT32, comm, stream) == SCCL_UNSUPPORTED, sccl_explain()); break;
      case 7: check(sccl_allgather(send.at, recv.at, n, static_cast<sccl_type>(99), comm, on) == SCCL_INVALID, sccl_explain()); break;
      case 8:
        check(sccl_deregister(comm, handles[which]) == SCCL_SUCCESS, sccl_explain());
        add(which);
        break;
      case 9: MPI_Comm_free(&comms[which]), MPI_Comm_dup(MPI_COMM_WORLD, &comms[which]), add(which); break;
      default: {
        Graph graph;
        stream->capture(&graph);
        const int code = sccl_allreduce(SCCL_IN_PLACE, recv.at, n, SCCL_INT32, SCCL_MAX, comm, stream);
        stream->capture(nullptr);
        check(code == (graph.empty() ? SCCL_UNSUPPORTED : SCCL_SUCCESS), sccl_explain());
        for (int replay = 0; replay < 2 && !graph.empty(); ++replay) {
          for (const auto &task : graph) stream->put(task);
          check(gpu_sync(stream), "a replay fails");
          is_reduced(recv.at);
        }
      }
    }
  }
  finish();
}

const struct {
  const char *name;
  void (*run)();
} programs[] = {
    {"calls_of_all_kinds", calls_of_all_kinds},
    {"told_in_a_call", [] { told_on_hosts(false); }},
    {"told_when_freed", [] { told_on_hosts(true); }},
    {"plain_mpi", plain_mpi},
    {"counts_vary", counts_vary},
    {"counts_unlike", counts_unlike},
    {"counts_in_a_row", counts_in_a_row},
    {"refused", refused},
    {"own_context", own_context},
    {"unlike_memory", unlike_memory},
    {"unlike_on_streams", unlike_on_streams},
    {"refusal_waits", refusal_waits},
    {"refused_in_place", refused_in_place},
    {"refused_by_one", refused_by_one},
    {"registered_by_one", registered_by_one},
    {"refused_twice", refused_twice},
    {"meetings_differ", meetings_differ},
    {"made_too_late", made_too_late},
    {"grows_in_place", grows_in_place},
    {"one_way", one_way},
    {"two_gpus", two_gpus},
    {"outputs_come_and_go", outputs_come_and_go},
    {"outputs_take_turns", outputs_take_turns},
    {"refused_before_hosts_meet", refused_before_hosts_meet},
    {"capture_begins_meanwhile", capture_begins_meanwhile},
    {"thread_without_context", thread_without_context},
    {"registrations_overlap", registrations_overlap},
    {"unused_pointers", unused_pointers},
    {"over_pcie", over_pcie},
    {"default_streams", default_streams},
    {"masked_stream", masked_stream},
    {"during_a_capture", during_a_capture},
    {"captured_outputs", captured_outputs},
    {"costs_of_a_call", costs_of_a_call},
    {"calls_follow_one_another", calls_follow_one_another},
    {"registered", registered},
    {"replays", replays},
    {"replays_follow_refusals", replays_follow_refusals},
    {"refusals_follow_replays", refusals_follow_replays},
    {"no_replays", no_replays},
    {"freed_at_work", freed_at_work},
    {"killed", killed},
    {"let_go", let_go},
    {"killed_between", killed_between},
    {"calls_differ", calls_differ},
    {"counts_differ", counts_differ},
    {"mixed_memory", mixed_memory},
    {"calls_in_a_row", calls_in_a_row},
    {"no_memory_for_copies", no_memory_for_copies},
    {"selected_meanwhile", selected_meanwhile},
    {"failure_of_a_stream", [] { failure_is_asked_for(false); }},
    {"failure_of_replays", [] { failure_is_asked_for(true); }},
    {"told_while_mapping", told_while_mapping},
    {"freed_on_a_broken_gpu", freed_on_a_broken_gpu},
};

}  // namespace

// Stands before MPI's own, since the program is linked with -rdynamic.
extern "C" int PMPI_Iallgather(const void *from, int n, MPI_Datatype type, void *to, int m, MPI_Datatype other, MPI_Comm comm, MPI_Request *request) {
  static const auto next = reinterpret_cast<decltype(&PMPI_Iallgather)>(dlsym(RTLD_NEXT, "PMPI_Iallgather"));
  if (during_exchange) std::exchange(during_exchange, nullptr)();
  if (++exchanges == alone_from) alone_until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto begin = [=](MPI_Request *into) { return next(from, n, type, to, m, other, comm, into); };
  if (std::chrono::steady_clock::now() >= alone_until) return begin(request);
  deferred = begin;
  return MPI_SUCCESS;
}

extern "C" int PMPI_Test(MPI_Request *request, int *done, MPI_Status *status) {
  static const auto next = reinterpret_cast<decltype(&PMPI_Test)>(dlsym(RTLD_NEXT, "PMPI_Test"));
  if (deferred && std::chrono::steady_clock::now() < alone_until) return *done = 0, MPI_SUCCESS;
  if (deferred) std::exchange(deferred, nullptr)(request);
  return next(request, done, status);
}

extern "C" int memfd_create(const char *name, unsigned flags) noexcept {
  if (no_memory.exchange(false)) return -1;
  allocating_gpu = emulated_current();
  return static_cast<int>(syscall(SYS_memfd_create, name, flags));
}

extern "C" int PMPI_Iprobe(int source, int tag, MPI_Comm comm, int *found, MPI_Status *status) {
  static const auto next = reinterpret_cast<decltype(&PMPI_Iprobe)>(dlsym(RTLD_NEXT, "PMPI_Iprobe"));
  ++probes;
  return next(source, tag, comm, found, status);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (gpu_count()) gpu_use(rank % gpu_count());
  for (const auto &program : programs)
    if (std::string(argv[1]) == program.name) {
      program.run();
      if (rank == 0) std::printf("%s is done\n", program.name);
      MPI_Finalize();
      return 0;
    }
  return 2;
}
