// Programs of users on emulated GPUs, by name: linked with a project's emulated library, or preloaded.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

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
      Numbers send(n), recv(n * ranks), sum(n);
      for (std::size_t i = 0; i < n; ++i) send.at[i] = value(rank, call, i);
      MPI_Allgather(send.at, count, MPI_INT, recv.at, count, MPI_INT, MPI_COMM_WORLD);
      for (int r = 0; r < ranks; ++r)
        for (std::size_t i = 0; i < n; ++i) check(recv.at[r * n + i] == value(r, call, i), "allgather is wrong");
      MPI_Allreduce(send.at, sum.at, count, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
      for (std::size_t i = 0; i < n; ++i) check(sum.at[i] == value(ranks - 1, call, i), "allreduce is wrong");
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
