// Ranks as threads of one process, without MPI: barriers and exchanges of random lengths, for the
// thread sanitizer. Compiled within a project. Usage: exchange_in_threads CALLS
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "exchange.hpp"

using namespace sccl;

namespace {

char *memory;
std::atomic<bool> wrong{false};
std::atomic<long> begun[RANKS];

std::size_t length(std::mt19937 &draw) {
  static const std::size_t most[] = {1, 40, 300, 5000, 200'000};
  return draw() % 3 ? draw() % most[draw() % 5] / 8 * 8 : 0;
}

char content(int call, int from, int to, std::size_t i) { return static_cast<char>(call * 31 + from * 7 + to * 3 + i / 8); }

// What waiting ranks do now and then. Once all have slept, they are held here until the last rank has
// sent what they wait for: it comes between two looks of theirs.
enum Phase { early, asleep, sent };
std::atomic<int> phase{early}, held{0};

void poke(void *, bool) {
  if (phase == asleep) {
    ++held;
    while (phase == asleep) sched_yield();
  }
}

void late(Group &group) {
  std::int64_t numbers[RANKS] = {}, mine = group.rank + 1;
  Block out[RANKS], in[RANKS];
  for (int r = 0; r < RANKS; ++r) {
    out[r] = {reinterpret_cast<char *>(&mine), sizeof mine};
    in[r] = {reinterpret_cast<char *>(&numbers[r]), sizeof mine};
  }
  if (group.rank == RANKS - 1) {
    for (int r = 0; r < group.rank; ++r)
      while (!group.windows[r].header->sleepers) sched_yield();
    phase = asleep;
    while (held < group.rank) sched_yield();
  }
  Exchange(group, out, in, false, NEVER).run();
  if (group.rank == RANKS - 1) phase = sent;
  for (int r = 0; r < RANKS; ++r)
    if (r != group.rank && numbers[r] != r + 1) wrong = true;
}

void rank_of_many(int rank, int calls, bool reach) {
  Group group;
  group.rank = rank;
  for (int r = 0; r < RANKS; ++r) group.windows[r] = Window::at(memory + r * Window::bytes);
  group.threads = true;
  group.apart = reach;  // both ways of either
  const std::size_t direct_from = reach ? 16 * 1024 : NEVER;
  group.patience = Patience(0, poke, nullptr);
  std::mt19937 draw(5);  // all ranks draw the same
  for (int call = 1; call <= calls; ++call) {
    const int kind = static_cast<int>(draw() % 5), root = static_cast<int>(draw() % RANKS);
    std::vector<std::vector<char>> sent(RANKS), got(RANKS);
    Block out[RANKS] = {}, in[RANKS] = {};
    for (int from = 0; from < RANKS; ++from)
      for (int to = 0; to < RANKS; ++to) {
        std::size_t n = length(draw);
        if (kind == 1 && to != root) n = 0;    // a gather
        if (kind == 2 && from != root) n = 0;  // a scatter
        if (from == to) continue;
        if (from == rank) {
          for (std::size_t i = 0; i < n; ++i) sent[to].push_back(content(call, from, to, i));
          out[to] = {sent[to].data(), n};
        } else if (to == rank) {
          got[from].assign(n, 0);
          in[from] = {got[from].data(), n};
        }
      }
    if (kind == 3) {  // sums of 64-bit numbers, one block for each rank
      const std::size_t n = 1 + draw() % 9000;
      std::vector<std::int64_t> mine(n * RANKS, rank + 1), sum(mine.begin(), mine.begin() + static_cast<long>(n));
      for (int r = 0; r < RANKS; ++r) {
        out[r] = {reinterpret_cast<char *>(mine.data() + r * n), n * 8};
        in[r] = {reinterpret_cast<char *>(sum.data()), n * 8};
      }
      std::vector<std::int64_t> own = sum;
      const bool apart = draw() % 2;  // own numbers lie elsewhere, as out of place
      if (apart) std::fill(sum.begin(), sum.end(), -1);
      const Reduction reduction{SCCL_INT64, SCCL_SUM, apart ? reinterpret_cast<char *>(own.data()) : nullptr};
      Exchange(group, out, in, false, direct_from, {}, &reduction).run();
      for (const std::int64_t value : sum)
        if (value != RANKS * (RANKS + 1) / 2) wrong = true;
    } else if (kind == 4) {
      begun[rank].store(call, std::memory_order_relaxed);
      barrier(group);
      for (std::atomic<long> &other : begun)
        if (other.load(std::memory_order_relaxed) < call) wrong = true;
    } else {
      std::vector<char> mine(length(draw)), copy(mine.size());
      for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = content(call, rank, rank, i);
      Exchange(group, out, in, kind == 1, direct_from, {copy.data(), mine.data(), mine.size()}).run();
      if (copy != mine) wrong = true;
      for (int from = 0; from < RANKS; ++from)
        for (std::size_t i = 0; i < got[from].size(); ++i)
          if (got[from][i] != content(call, from, rank, i)) wrong = true;
    }
  }
  late(group);
}

}  // namespace

int main(int, char **arguments) {
  for (const bool reach : {true, false}) {
    memory = static_cast<char *>(std::aligned_alloc(4096, RANKS * Window::bytes));
    std::memset(memory, 0, RANKS * Window::bytes);
    for (std::atomic<long> &word : begun) word = 0;
    phase = early, held = 0;
    std::vector<std::thread> ranks;
    for (int r = 0; r < RANKS; ++r) ranks.emplace_back(rank_of_many, r, std::atoi(arguments[1]), reach);
    for (std::thread &rank : ranks) rank.join();
    std::free(memory);
  }
  std::puts(wrong ? "WRONG" : "all right");
  return wrong;
}
