// Promises of a rank whose streams move its data, each with a short sequence that shows it on emulated GPUs.
#include <atomic>
#include <cstdio>

#include "machine.hpp"

namespace sccl {
inline double patience() { return 60; }
}  // namespace sccl

namespace {

using namespace sccl;

constexpr Epoch EPOCH = 3;  // of a call that rank 0 refuses
constexpr Epoch refusal(Epoch epoch) { return epoch << TAG_BITS | DECLINED; }

// The words of all ranks, and the streams of rank 0.
struct World {
  Lanes lanes[RANKS];
  View view{};
  Work work{};
  Stream stream{};
  char window = 0;

  World() {
    if (!share_lanes(lanes) || !open_lanes(lanes[0]) || !gpu_stream(&stream)) std::abort();
    std::fill(view.window, view.window + RANKS, &window);
    work.tag = DECLINED, work.parts = work.blocks = work.slices = 1;
    work.block_bytes = work.piece_bytes = 1;
    lanes[0].epoch = EPOCH;
    board(0).ended = EPOCH - 1;
  }
  ~World() { lanes[0].watch->leave(); }
  Control &board(int rank) { return lanes[0].board[rank]; }

  void refuse() {
    if (!start_declined(work, view, lanes[0], stream)) std::abort();
  }
  // What rank 0 finds when it has refused the call.
  Epoch mark() {
    if (!gpu_sync(stream)) std::abort();
    return told(&board(0).aborted);
  }
};

bool is(Epoch mark, Epoch wanted, const char *what) {
  if (mark != wanted) std::printf("%s: the mark is %llx, not %llx\n", what, mark, wanted);
  return mark == wanted;
}

// A neighbor that has refused a later call has not refused this one.
bool refusals_are_of_one_call() {
  auto &world = *new World;  // its watch may still look at it
  for (int p = 1; p < RANKS; ++p) {
    put(&world.board(0).declined[(EPOCH + 1) % COPIES][p], refusal(EPOCH + 1));
    put(&world.board(0).entered[p], refusal(EPOCH + 1));
  }
  world.refuse();
  return is(world.mark(), abort_mark(would_not, 0), "a refusal of a later call");
}

// The first sign of a neighbor that serves the call may be a flag: the reason is the refusal.
bool refusal_is_refused() {
  auto &world = *new World;  // as above
  for (int p = 1; p < RANKS; ++p) put(&world.board(0).entered[p], (EPOCH - 1) << TAG_BITS);
  put(&world.board(0).flags[EPOCH % COPIES][0][0], EPOCH << TAG_BITS);
  world.refuse();
  return is(world.mark(), abort_mark(would_not, 0), "a refusal among others");
}

// Neighbors may look at the refusal of the call before the last until they have left that one.
bool refusals_are_kept() {
  auto &world = *new World;
  static Epoch seen[RANKS];
  static std::atomic<bool> begin{false};
  Stream peers{};
  if (!gpu_stream(&peers)) std::abort();
  for (int p = 1; p < RANKS; ++p) put(&world.board(0).entered[p], (EPOCH - 2) << TAG_BITS);
  world.stream->put([] { while (!begin.load(std::memory_order_relaxed)) sched_yield(); });
  world.refuse();
  peers->put([&world] {
    for (int p = 1; p < RANKS; ++p) {
      seen[p] = world.board(p).declined[EPOCH % COPIES][0];  // not atomic: a later write is a race
      put(&world.board(0).entered[p], (EPOCH - 1) << TAG_BITS);
      put(&world.board(0).declined[EPOCH % COPIES][p], refusal(EPOCH));
      put(&world.board(0).entered[p], refusal(EPOCH));
    }
  });
  begin = true;  // who puts work on a stream synchronizes with it, which would hide the race
  return is(world.mark(), 0, "a refusal behind another") && gpu_sync(peers);
}

}  // namespace

int main() {
  const bool good = refusals_are_of_one_call() && refusal_is_refused() && refusals_are_kept();
  if (good) std::printf("all are kept\n");
  std::fflush(stdout);
  std::_Exit(!good);  // threads that watch are not waited for
}
