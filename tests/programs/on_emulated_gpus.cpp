// Programs of users on emulated GPUs, by name: linked with a project's emulated library before MPI's.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "gpu.hpp"
#include "sccl.h"

namespace {

using namespace sccl;

int rank, ranks;

void check(bool right, const char *what) {
  if (right) return;
  std::fprintf(stderr, "rank %d: %s; %s\n", rank, what, gpu_error());
  std::_Exit(3);
}

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
      for (int root = 0; root < ranks; ++root) {  // only one of them is served
        MPI_Gather(send.at, count, MPI_INT, recv.at, count, MPI_INT, root, MPI_COMM_WORLD);
        for (int r = 0; r < ranks && rank == root; ++r)
          for (std::size_t i = 0; i < n; ++i) check(recv.at[r * n + i] == block(r, 0, i), "gather is wrong");
      }
    }
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

const struct {
  const char *name;
  void (*run)();
} programs[] = {
    {"plain_mpi", plain_mpi},
    {"calls_differ", calls_differ},
    {"mixed_memory", mixed_memory},
};

}  // namespace

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  gpu_use(rank % gpu_count());
  for (const auto &program : programs)
    if (std::string(argv[1]) == program.name) {
      program.run();
      if (rank == 0) std::printf("%s is done\n", program.name);
      MPI_Finalize();
      return 0;
    }
  return 2;
}
