// Copies and reductions of generated kernels, at every offset from sixteen bytes: what they write, and
// that they write nothing else. To be compiled so that accesses are seen which GPUs refuse.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>

#include "gpu.hpp"
#undef SCCL_THREAD
#undef SCCL_THREADS
#define SCCL_THREAD lane
#define SCCL_THREADS 3

static int lane = 0;

#include "combine.hpp"

namespace {

using namespace sccl;

// Bytes at an offset from sixteen, the last of which is the last that is allocated.
class Bytes {
 public:
  Bytes(std::size_t offset, std::size_t n, int seed)
      : all_(static_cast<char *>(std::malloc(offset + n))), offset_(offset) {
    std::memset(all_.get(), 0x5a, offset_);
    for (std::size_t i = 0; i < n; ++i) data()[i] = static_cast<char>(i * 37 + i / 250 + static_cast<std::size_t>(seed));
  }
  char *data() { return all_.get() + offset_; }
  bool intact() const {
    for (std::size_t i = 0; i < offset_; ++i)
      if (all_[i] != 0x5a) return false;
    return true;
  }

 private:
  struct Free {
    void operator()(char *at) const { std::free(at); }
  };
  std::unique_ptr<char[], Free> all_;
  std::size_t offset_;
};

void check(bool right, const char *what, std::size_t to, std::size_t from, std::size_t n) {
  if (right) return;
  std::fprintf(stderr, "%s of %zu bytes from offset %zu to %zu is wrong\n", what, n, from, to);
  std::exit(1);
}

template <class Work>
void on_all_lanes(const Work &work) {
  for (lane = 0; lane < SCCL_THREADS; ++lane) work();
}

void copies() {
  for (std::size_t to = 0; to < 16; ++to)
    for (std::size_t from = 0; from < 16; ++from)
      for (const std::size_t n : {0, 1, 2, 3, 7, 8, 15, 16, 17, 19, 20, 31, 32, 33, 36, 40, 47, 48, 49, 64, 100, 191, 211, 400}) {
        Bytes into(to, n, 0), source(from, n, 11);
        on_all_lanes([&] { copy_bytes(into.data(), source.data(), n); });
        check(into.intact() && std::memcmp(into.data(), source.data(), n) == 0, "a copy", to, from, n);
      }
}

void packed_loads() {
  for (std::size_t from = 0; from < 16; ++from)
    for (std::size_t n = 1; n < 12; ++n) {
      Bytes source(from, n, 7);
      const unsigned long long found = load_bytes(source.data(), n);
      check(std::memcmp(&found, source.data(), n < 8 ? n : 8) == 0, "a load", 0, from, n);
    }
}

void packed_stores() {
  for (std::size_t to = 0; to < 16; ++to)
    for (std::size_t n = 1; n < 12; ++n) {
      const std::size_t stored = n < 8 ? n : 8;
      Bytes into(to, stored, 0), source(0, 8, 7);
      store_bytes(into.data(), load_bytes(source.data(), 8), n);
      check(into.intact() && std::memcmp(into.data(), source.data(), stored) == 0, "a store", to, 0, n);
    }
}

// One other chunk, or three of which the last lies where the first does beside sixteen bytes.
template <class T>
void reductions(int type) {
  for (std::size_t to = 0; to < 16; to += sizeof(T))
    for (std::size_t from = 0; from < 16; from += sizeof(T))
      for (std::size_t other = 0; other < 16; other += sizeof(T) < 2 && other > 3 ? 4 : sizeof(T))
        for (const std::size_t count : {1, 2, 5, 9, 16, 23, 50, 230})
          for (const int many : {1, 3}) {
            const std::size_t n = count * sizeof(T);
            const bool in_place = other == to;  // then the result goes where the first operand is
            Bytes a(from, n, 3), b(other, n, 5), c(to, n, 40), d(other, n, 90), into(to, n, 0);
            if (in_place) std::memcpy(into.data(), a.data(), n);
            const char *const others[] = {b.data(), c.data(), d.data()};
            T want[230];
            for (std::size_t i = 0; i < count; ++i) {
              std::memcpy(&want[i], a.data() + i * sizeof(T), sizeof(T));
              for (int k = 0; k < many; ++k) {
                T next;
                std::memcpy(&next, others[k] + i * sizeof(T), sizeof(T));
                want[i] = combined<T, Max>(want[i], next);
              }
            }
            on_all_lanes([&] { combine(type, SCCL_MAX, into.data(), in_place ? into.data() : a.data(), others, many, n); });
            check(into.intact() && std::memcmp(into.data(), want, n) == 0, "a reduction", to, from, n);
          }
}

void words() {
  for (int type = 0; type < SCCL_TYPES; ++type)
    for (int op = 0; op < SCCL_OPS; ++op) {
      Bytes a(0, 8, 3), b(0, 8, 5), into(0, 8, 0);
      const char *const others[] = {b.data()};
      on_all_lanes([&] { combine(type, op, into.data(), a.data(), others, 1, 8); });
      const unsigned long long found = combine_word(type, op, load_bytes(a.data(), 8), load_bytes(b.data(), 8));
      check(std::memcmp(&found, into.data(), 8) == 0, "a reduction in registers", 0, 0, 8);
    }
}

}  // namespace

int main() {
  copies();
  packed_loads();
  packed_stores();
  words();
  reductions<std::int8_t>(SCCL_INT8);
  reductions<std::uint8_t>(SCCL_UINT8);
  reductions<std::int16_t>(SCCL_INT16);
  reductions<std::uint16_t>(SCCL_UINT16);
  reductions<std::int32_t>(SCCL_INT32);
  reductions<std::uint32_t>(SCCL_UINT32);
  reductions<std::int64_t>(SCCL_INT64);
  reductions<std::uint64_t>(SCCL_UINT64);
  reductions<DeviceHalf>(SCCL_FLOAT16);
  reductions<DeviceBFloat>(SCCL_BFLOAT16);
  reductions<float>(SCCL_FLOAT32);
  reductions<double>(SCCL_FLOAT64);
  std::puts("all are right");
}
