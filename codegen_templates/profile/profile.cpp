// Times transfers between pairs of MPI ranks, one pair after another, for `sccl topo profile`.
//
//   mpirun -n RANKS ./profile REPETITIONS SIZE,SIZE,... COUNT,COUNT,... SRC-DST SRC-DST ...
//
// For each pair, size and count n: n chunks one after another, each once the receiver has answered
// that the one before has arrived; and n at once, with one answer. An answer is an empty message,
// whose time is measured beside: half of an empty message there and back. Rank 0 prints a line of
// JSON for each, and for each again in every repetition.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "plan.hpp"

namespace {

constexpr int TAG = 1;
constexpr int ANSWERS = 8;  // empty messages there and back whose mean is the time of one
constexpr long REGION = 64L << 20;  // bytes: more than caches hold
constexpr auto NAP = std::chrono::microseconds(200);

void empty_send(int peer) { MPI_Send(nullptr, 0, MPI_CHAR, peer, TAG, MPI_COMM_WORLD); }

void empty_recv(int peer) {
  MPI_Recv(nullptr, 0, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// Microseconds of an empty message, by the sender's clock.
double answer_us(int peer, bool sender) {
  const double begin = MPI_Wtime();
  for (int i = 0; i < ANSWERS; ++i) {
    if (sender) {
      empty_send(peer);
      empty_recv(peer);
    } else {
      empty_recv(peer);
      empty_send(peer);
    }
  }
  return (MPI_Wtime() - begin) * 1e6 / (2 * ANSWERS);
}

void in_turn(const Row &row, int peer, bool sender, char *buffer) {
  const int bytes = static_cast<int>(row.bytes);
  for (int i = 0; i < row.count; ++i) {
    char *at = buffer + i * row.bytes;
    if (sender) {
      MPI_Send(at, bytes, MPI_CHAR, peer, TAG, MPI_COMM_WORLD);
      empty_recv(peer);
    } else {
      MPI_Recv(at, bytes, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      empty_send(peer);
    }
  }
}

void at_once(const Row &row, int peer, bool sender, char *buffer) {
  const int bytes = static_cast<int>(row.bytes);
  std::vector<MPI_Request> requests(static_cast<std::size_t>(row.count));
  for (int i = 0; i < row.count; ++i) {
    char *at = buffer + i * row.bytes;
    MPI_Request *request = &requests[static_cast<std::size_t>(i)];
    if (sender) {
      MPI_Isend(at, bytes, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, request);
    } else {
      MPI_Irecv(at, bytes, MPI_CHAR, peer, TAG, MPI_COMM_WORLD, request);
    }
  }
  MPI_Waitall(row.count, requests.data(), MPI_STATUSES_IGNORE);
  if (sender) {
    empty_recv(peer);
  } else {
    empty_send(peer);
  }
}

// Microseconds of a row, and of one answer, at the sender.
std::pair<double, double> timed(const Row &row, int peer, bool sender, char *buffer) {
  const double answer = answer_us(peer, sender);
  const double begin = MPI_Wtime();
  (row.at_once ? at_once : in_turn)(row, peer, sender, buffer);
  return {(MPI_Wtime() - begin) * 1e6, answer};
}

// All rows of a pair, once: microseconds and those of an answer. What comes first is not counted: the
// other has perhaps slept.
std::vector<double> measured(const Plan &plan, int peer, bool sender, Region &region) {
  timed(plan.rows.front(), peer, sender, region.next(plan.most));
  std::vector<double> found;
  for (const Row &row : plan.rows) {
    const auto [us, answer] = timed(row, peer, sender, region.next(row.bytes * row.count));
    found.push_back(us);
    found.push_back(answer);
  }
  return found;
}

// Waits for all ranks without keeping a core busy, which those who measure may need.
void meet() {
  MPI_Request request;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) {
      std::this_thread::sleep_for(NAP);
    }
  }
}

void visit(const Plan &plan, std::pair<int, int> pair, int rank, Region &region) {
  const auto [src, dst] = pair;
  std::vector<double> found;
  if (rank == src || rank == dst) {
    found = measured(plan, rank == src ? dst : src, rank == src, region);
  }
  meet();
  const int count = static_cast<int>(2 * plan.rows.size());
  if (rank == src && src != 0) {
    MPI_Send(found.data(), count, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD);
  } else if (rank == 0 && src != 0) {
    found.resize(static_cast<std::size_t>(count));
    MPI_Recv(found.data(), count, MPI_DOUBLE, src, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (rank == 0) {
    print_pair(plan, pair, found);
  }
}

// Pairs take turns in each repetition, so that what else the machine does troubles all of them alike.
void run(const Plan &plan, int rank) {
  std::vector<char> memory(static_cast<std::size_t>(std::max(REGION, plan.most)), static_cast<char>(rank));
  Region region(memory.data(), static_cast<long>(memory.size()));
  for (int repetition = 0; repetition < plan.repetitions; ++repetition) {
    for (const auto &pair : plan.pairs) {
      visit(plan, pair, rank, region);
    }
  }
  meet();
}

}  // namespace

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  try {
    run(plan_of(argc, argv, ranks), rank);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "profile: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Finalize();
}
