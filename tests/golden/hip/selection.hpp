// Which program serves which size; "sccl project tune" rewrites this file with measured switch points.
#pragma once

// collective:from=program,from=program;... with `from` in bytes of one block, and the program
// named by the number of the algorithm and e (eager), d (direct) or p (packets).
#define SCCL_SELECTION "allreduce:0=0p,24576=0e"
