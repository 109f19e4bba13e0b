// What the programs are of: shapes of buffers, costs in slots and flags, names for messages.
#pragma once

#include <cstddef>

namespace sccl {

constexpr int RANKS = 3;
constexpr int FLAGS = 6;    // most flags that are set at a rank
constexpr int SLOTS = 6;    // most slots of scratch at a rank
constexpr int BLOCKS = 1;  // most thread blocks of a rank
constexpr int STEPS = 4;    // most steps of a program
constexpr int PROGRAMS = 2;
constexpr std::size_t SLOT_BYTES = 131072;
constexpr std::size_t PACKET_BYTES = 0;  // most of a chunk that packets carry; 0: there are none
constexpr char PROTOCOLS[] = "ade";  // letters of a selection
constexpr int PATTERNS = 1;  // most blocks in a buffer

// What keeps epochs apart (sccl/codegen/protocol.py): copies of flags and slots, and how many epochs a peer
// may be behind when it is written to.
constexpr int COPIES = 2;
constexpr int EAGER_BEHIND = 1;
constexpr int DIRECT_BEHIND = 0;
constexpr int PACKETS_BEHIND = 1;

// Which GPU each rank is, as the machines of the algorithms say: the one of its bus id, in lower case
// as 0000:0a:00.0; the ranks ascend with the bus ids of their GPUs; or nothing is said of it.
enum class Numbering { unstated, ascending, bus_ids };
constexpr Numbering NUMBERING = Numbering::unstated;
constexpr const char *const BUS_IDS[RANKS] = {};  // null where they are not known

// Whether two ranks send to one another in some program.
constexpr bool neighbours[RANKS][RANKS] = {
    {0, 1, 0},
    {1, 0, 1},
    {0, 1, 0},
};

// The blocks of a rank's buffer, by the number of the data they hold.
struct Blocks {
  int count;
  int pattern[PATTERNS];
};

struct Program {
  int number;
  int parts;         // parts of a block
  bool uses_scratch;
  int slices;        // thread blocks that share the work of a link, at most
  int slots[RANKS];  // slots of scratch
  int blocks[RANKS]; // thread blocks
  unsigned char saved[RANKS][PATTERNS];  // input blocks to copy aside when in place
};

// The block that each rank gives each, itself included, by giver and taker: its number among the blocks
// of the giver's input, and among those of the taker's output; -1: none.
struct Straight {
  short given[RANKS][RANKS];
  short taken[RANKS][RANKS];
};

struct Algorithm {
  const char *label;
  int root;
  int steps;
  bool links[RANKS][RANKS];  // whether two ranks send to one another
  Program eager;   // arrivals land in scratch
  Program direct;  // arrivals land in the output
  Blocks input[RANKS];
  Blocks output[RANKS];
  const Straight *straight;  // of those that have a root and one step; else null
};

struct Collective {
  const char *name;
  bool combining;
  bool rooted;
  const Algorithm *algorithms;
  int algorithm_count;
};

constexpr Algorithm algorithms_of_allreduce[] = {
    {"allreduce-line-3-c3-s4-r4", 0, 4,
     {{0, 1, 0}, {1, 0, 1}, {0, 1, 0}, },
     {0, 3, 1, 1,
      {3, 6, 3}, {1, 1, 1},
      {{0}, {0}, {0}, }},
     {1, 3, 1, 1,
      {1, 2, 1}, {1, 1, 1},
      {{0}, {0}, {0}, }},
     {{1, {0}}, {1, {0}}, {1, {0}}, },
     {{1, {0}}, {1, {0}}, {1, {0}}, },
     nullptr,
    },
};

enum CollectiveId {
  allreduce_id,
};

constexpr int COLLECTIVES = 1;
constexpr Collective collectives[] = {
    {"allreduce", 1, 0,
     algorithms_of_allreduce, 1},
};

}  // namespace sccl
