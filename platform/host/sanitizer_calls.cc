#include "platform/host/sanitizer_calls.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

namespace uks {

using bpf::allow;
using bpf::arg32;
using bpf::when;

bpf::Cond report_reads_file() { return arg32(2).only(O_CLOEXEC); }

void allow_sanitizer_calls(bpf::Policy& policy) {
  // Shadow memory is reserved with PROT_NONE, hidden from core files and given back in other ways
  // than glibc's; symbols are read through mappings of files.
  policy.on({SYS_mmap, SYS_mprotect}, when(arg32(2).only(PROT_READ | PROT_WRITE), allow()));
  policy.on(SYS_madvise, allow());
  // TSan's own thread sleeps between its rounds.
  policy.on(
      {SYS_nanosleep, SYS_clock_nanosleep, SYS_sched_yield, SYS_sched_getaffinity, SYS_sigaltstack},
      allow());
  // A report: which files the addresses lie in, their symbols, the text on descriptor 2.
  policy.on(SYS_open, when(arg32(1).only(O_CLOEXEC), allow()));
  policy.on({SYS_read, SYS_pread64, SYS_lseek, SYS_readlink, SYS_readlinkat, SYS_stat, SYS_lstat,
             SYS_newfstatat, SYS_access, SYS_getcwd, SYS_getrusage},
            allow());
}

}  // namespace uks
