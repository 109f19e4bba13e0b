// Times transfers between pairs of GPUs, one pair after another, for `sccl topo profile --gpus`.
//
//   ./gpus                 prints how many GPUs this process sees
//   ./gpus ORDER REPETITIONS SIZE,SIZE,... COUNT,COUNT,... SRC-DST SRC-DST ...
//
// ORDER says which GPU each number is: `device`, as the runtime counts them; `ascending`, by bus ids; or
// the bus ids themselves, with commas between. For each pair, size and count n: n copies into the other's
// memory one after another, each once the host has seen the end of the one before; and n at once, put on
// one stream, as the copies to a peer are in a collective, and awaited together. What the host needs to
// see the end of anything is measured beside, with an event in place of a copy. A line of JSON is printed
// for each, and for each again in every repetition.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gpu.hpp"
#include "plan.hpp"

namespace {

constexpr int ANSWERS = 8;           // events awaited, whose mean is the time of one
constexpr long REGION = 256L << 20;  // bytes: more than caches hold

void check(bool done, const std::string &what) {
  if (!done) {
    throw std::runtime_error(what + ": " + sccl::gpu_error());
  }
}

std::vector<int> order_of(const std::string &text) {
  std::vector<std::pair<std::string, int>> seen;
  for (int device = 0; device < sccl::gpu_count(); ++device) {
    seen.emplace_back(sccl::gpu_bus_id(device), device);
  }
  std::vector<int> found;
  if (text == "device" || text == "ascending") {
    if (text == "ascending") {
      std::sort(seen.begin(), seen.end());
    }
    for (const auto &[id, device] : seen) {
      found.push_back(device);
    }
    return found;
  }
  std::istringstream ids(text);
  for (std::string id; std::getline(ids, id, ',');) {
    found.push_back(sccl::gpu_by_bus_id(id.c_str()));
    if (found.back() < 0) {
      throw std::invalid_argument("no GPU has the bus id " + id);
    }
  }
  return found;
}

// One that sends or is sent to: its memory, and the stream of what it sends.
class Gpu {
 public:
  Gpu(int device, long bytes) : device(device), name_("GPU " + std::to_string(device)) {
    sccl::gpu_use(device);
    void *at = nullptr;
    check(sccl::gpu_alloc(&at, static_cast<std::size_t>(bytes)), name_ + " has no memory for " + std::to_string(bytes) + " bytes");
    region = Region(static_cast<char *>(at), bytes);
    check(sccl::gpu_stream(&stream_) && sccl::gpu_event(&event_), name_);
  }
  Gpu(const Gpu &) = delete;
  Gpu &operator=(const Gpu &) = delete;

  // From here on copies between the two go straight, where that is possible; else through the host.
  void open(const Gpu &peer) {
    if (opened_.insert(peer.device).second && sccl::gpu_reaches(device, peer.device)) {
      check(sccl::gpu_open_peer(device, peer.device), name_ + " cannot open the memory of GPU " + std::to_string(peer.device));
    }
  }

  // Puts a copy into a peer's memory on the stream. This GPU is the current one.
  void send(const char *from, char *to, const Gpu &peer, long bytes) const {
    check(sccl::gpu_copy_between(to, peer.device, from, device, static_cast<std::size_t>(bytes), stream_), name_);
  }
  void mark() const { check(sccl::gpu_record(event_, stream_), name_); }
  void await() const { check(sccl::gpu_sync(stream_), name_); }

  const int device;
  Region region{nullptr, 0};

 private:
  std::string name_;
  sccl::Stream stream_{};
  sccl::Event event_{};
  std::set<int> opened_;
};

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point begin) { return std::chrono::duration<double, std::micro>(Clock::now() - begin).count(); }

// Microseconds until the host has seen that a GPU is done, which had nothing to copy.
double answer_us(const Gpu &gpu) {
  const auto begin = Clock::now();
  for (int i = 0; i < ANSWERS; ++i) {
    gpu.mark();
    gpu.await();
  }
  return us_since(begin) / ANSWERS;
}

// Microseconds of a row, and of one answer.
std::pair<double, double> timed(const Row &row, Gpu &src, Gpu &dst) {
  const char *from = src.region.next(row.bytes * row.count);
  char *to = dst.region.next(row.bytes * row.count);
  const double answer = answer_us(src);
  const auto begin = Clock::now();
  for (int i = 0; i < row.count; ++i) {
    src.send(from + i * row.bytes, to + i * row.bytes, dst, row.bytes);
    if (!row.at_once) {
      src.await();
    }
  }
  if (row.at_once) {
    src.await();
  }
  return {us_since(begin), answer};
}

// All rows of a pair, once: microseconds and those of an answer. What comes first is not counted.
std::vector<double> measured(const Plan &plan, Gpu &src, Gpu &dst) {
  src.open(dst);
  dst.open(src);
  sccl::gpu_use(src.device);
  timed(plan.rows.front(), src, dst);
  std::vector<double> found;
  for (const Row &row : plan.rows) {
    const auto [us, answer] = timed(row, src, dst);
    found.push_back(us);
    found.push_back(answer);
  }
  return found;
}

// Pairs take turns in each repetition, so that what else the machine does troubles all of them alike.
void run(const std::vector<int> &order, const Plan &plan) {
  std::vector<std::unique_ptr<Gpu>> gpus(order.size());
  for (const auto &[src, dst] : plan.pairs) {
    for (const auto end : {static_cast<std::size_t>(src), static_cast<std::size_t>(dst)}) {
      if (!gpus[end]) {
        gpus[end] = std::make_unique<Gpu>(order[end], std::max(REGION, plan.most));
      }
    }
  }
  for (int repetition = 0; repetition < plan.repetitions; ++repetition) {
    for (const auto &pair : plan.pairs) {
      Gpu &src = *gpus[static_cast<std::size_t>(pair.first)];
      Gpu &dst = *gpus[static_cast<std::size_t>(pair.second)];
      print_pair(plan, pair, measured(plan, src, dst));
    }
  }
}

}  // namespace

int main(int argc, char **argv) {
  try {
    if (argc == 1) {
      const int count = sccl::gpu_count();
      std::printf("{\"gpus\": %d, \"why\": \"%s\"}\n", count, count > 0 ? "" : sccl::gpu_error());
      return 0;
    }
    const std::vector<int> order = order_of(argv[1]);
    run(order, plan_of(argc - 1, argv + 1, static_cast<int>(order.size())));
  } catch (const std::exception &error) {
    std::fprintf(stderr, "gpus: %s\n", error.what());
    return 2;
  }
}
