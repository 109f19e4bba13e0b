// Times transfers between pairs of MPI ranks, one pair after another, for `sccl profile`.
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
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr int TAG = 1;
constexpr int ANSWERS = 8;  // empty messages there and back whose mean is the time of one
constexpr long REGION = 64L << 20;  // bytes that chunks are taken from in turn: more than caches hold
constexpr auto NAP = std::chrono::microseconds(200);

struct Row {
  long bytes;
  int count;
  bool at_once;
};

struct Plan {
  int repetitions;
  std::vector<Row> rows;
  std::vector<std::pair<int, int>> pairs;
  long most = 0;  // bytes of a row
};

std::vector<long> numbers(const char *text, char separator) {
  std::vector<long> found;
  for (const char *at = text; *at != 0;) {
    char *end = nullptr;
    found.push_back(std::strtol(at, &end, 10));
    if (end == at || (*end != 0 && *end != separator) || found.back() < 0) {
      throw std::invalid_argument(text);
    }
    at = *end != 0 ? end + 1 : end;
  }
  return found;
}

Plan plan_of(int argc, char **argv, int ranks) {
  if (argc < 5) {
    throw std::invalid_argument("expected REPETITIONS SIZES COUNTS PAIR...");
  }
  Plan plan{};
  plan.repetitions = std::atoi(argv[1]);
  for (long bytes : numbers(argv[2], ',')) {
    for (long count : numbers(argv[3], ',')) {
      if (plan.repetitions < 1 || bytes < 1 || bytes > 1L << 30 || count < 1) {
        throw std::invalid_argument("sizes are 1 to 2^30 bytes, counts at least 1");
      }
      plan.most = std::max(plan.most, bytes * count);
      plan.rows.push_back({bytes, static_cast<int>(count), false});
      if (count > 1) {
        plan.rows.push_back({bytes, static_cast<int>(count), true});
      }
    }
  }
  for (int i = 4; i < argc; ++i) {
    const std::vector<long> ends = numbers(argv[i], '-');
    if (ends.size() != 2 || ends[0] == ends[1] || std::max(ends[0], ends[1]) >= ranks) {
      throw std::invalid_argument(argv[i]);
    }
    plan.pairs.emplace_back(ends[0], ends[1]);
  }
  return plan;
}

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

// Memory that rows walk through, so that each byte comes from beyond the caches, whatever the size
// of chunks: what is sent in a collective was not sent just before.
class Region {
 public:
  Region(long most, char value) : memory_(static_cast<std::size_t>(std::max(REGION, most)), value) {}

  char *next(long bytes) {
    const long size = static_cast<long>(memory_.size());
    if (at_ + bytes > size) {
      at_ = 0;
    }
    char *found = memory_.data() + at_;
    at_ += (bytes + 63) / 64 * 64;
    return found;
  }

 private:
  std::vector<char> memory_;
  long at_ = 0;
};

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

void print_pair(const Plan &plan, std::pair<int, int> pair, const std::vector<double> &found) {
  const double *at = found.data();
  for (const Row &row : plan.rows) {
    std::printf("{\"src\": %d, \"dst\": %d, \"pacing\": \"%s\", \"chunks\": %d, "
                "\"chunk_bytes\": %ld, \"us\": %.3f, \"answer_us\": %.3f}\n",
                pair.first, pair.second, row.at_once ? "at-once" : "in-turn", row.count, row.bytes,
                at[0], at[1]);
    at += 2;
  }
  std::fflush(stdout);
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
  Region region(plan.most, static_cast<char>(rank));
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
