// A wait of the dma transport for what a rank has set that gave up before: compiled with a project's headers.
#include <cstdio>
#include <vector>

#include "machine.hpp"

using namespace sccl;

double sccl::timeout() { return 1; }

int main() {
  std::vector<Epoch> windows[2];
  Epoch status = 0;
  View view{};
  view.status = &status;
  Control *control[2];
  for (int r = 0; r < 2; ++r) {
    windows[r].assign(control_bytes / sizeof(Epoch), 0);
    view.window[r] = reinterpret_cast<char *>(windows[r].data());
    control[r] = reinterpret_cast<Control *>(view.window[r]);
  }
  const Epoch mark = abort_mark(gave_up, 1);
  for (const Epoch given : {Epoch{0}, mark}) {
    control[0]->entered[1] = 5, control[0]->aborted = given;
    await_word(&control[0]->entered[1], 5, view, 0, 0);
    if (status != given || control[1]->aborted != given) return std::puts("what never arrived is taken for data"), 1;
  }
  return 0;
}
