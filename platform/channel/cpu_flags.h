// What a stub has to know of the CPU and the kernel below it. In the page of uks_stub_process,
// written by the zygote and inherited; a guest that changes it fools only itself.
#pragma once
#include <stdint.h>

#define UKS_STUB_CPU_OFFSET 0x800u

struct uks_stub_cpu {
  uint64_t no_fsgsbase;  // FS and GS bases are set by arch_prctl(2), not by instructions
};
