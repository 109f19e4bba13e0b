/* What OSU's benchmarks have in common, in little: their options, and how they print. A call takes 1 us,
 * they say, where generated code is before MPI's, and 2 us elsewhere. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const int sized; /* whether calls are of some bytes: a barrier has none */
void call(char *buffer, int bytes);

static int preloaded(void) {
  char line[4096];
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps))
    if (strstr(line, "/libsccl.so")) return 1;
  return 0;
}

int main(int argc, char **argv) {
  int rank, smallest = 0, largest = 0, calls = 0, untimed = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "-m")) sscanf(argv[i + 1], "%d:%d", &smallest, &largest);
    if (!strcmp(argv[i], "-i")) calls = atoi(argv[i + 1]);
    if (!strcmp(argv[i], "-x")) untimed = atoi(argv[i + 1]);
  }
  if (!calls || !untimed || sized != (0 < smallest && smallest < largest)) return 2;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char *buffer = calloc(1 << 20, 1);
  if (!rank) printf("\n# OSU MPI Latency Test v" PACKAGE_VERSION "\n%s\n", sized ? "# Size       Avg Latency(us)" : "# Avg Latency(us)");
  for (int bytes = smallest; bytes <= largest; bytes += bytes + !sized) {
    for (int i = 0; i < 3; ++i) call(buffer, bytes);
    if (rank) continue;
    if (sized) printf("%-*d", 10, bytes);
    printf("%*.*f\n", sized ? FIELD_WIDTH : 17, FLOAT_PRECISION, preloaded() ? 1.0 : 2.0);
  }
  MPI_Finalize();
  return 0;
}
