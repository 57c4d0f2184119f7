// bench_micro: what single system calls, processes, pages and messages cost. Runs inside each
// sandbox; the current directory is the work directory. Select with --benchmark_filter=^calls/ and
// so on.
#include <benchmark/benchmark.h>

BENCHMARK_MAIN();
