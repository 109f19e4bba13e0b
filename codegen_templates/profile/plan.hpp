// What `sccl topo profile` times, as its command line says, and what it prints: of MPI ranks and of GPUs.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <utility>
#include <vector>

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

inline std::vector<long> numbers(const char *text, char separator) {
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

inline Plan plan_of(int argc, char **argv, int ranks) {
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

// Memory that rows walk through, so that each byte comes from beyond the caches, whatever the size
// of chunks: what is sent in a collective was not sent just before.
class Region {
 public:
  Region(char *first, long size) : first_(first), size_(size) {}

  char *next(long bytes) {
    if (at_ + bytes > size_) {
      at_ = 0;
    }
    char *found = first_ + at_;
    at_ += (bytes + 63) / 64 * 64;
    return found;
  }

 private:
  char *first_;
  long size_;
  long at_ = 0;
};

// The rows of a pair: of each its microseconds, and those of an answer.
inline void print_pair(const Plan &plan, std::pair<int, int> pair, const std::vector<double> &found) {
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
