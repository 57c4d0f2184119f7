#include "platform/trap/layout.h"

#include <sys/auxv.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

extern "C" const char uks_stub_image[];
extern "C" const char uks_stub_image_end[];

namespace uks {

StubImage stub_image() {
  return {uks_stub_image, static_cast<uint64_t>(uks_stub_image_end - uks_stub_image)};
}

Result<StubLayout> find_layout() {
  StubLayout layout;
  const StubImage image = stub_image();
  if (image.size > UKS_STUB_TEXT_SIZE) return Err(E2BIG);
  memcpy(&layout.header, image.data, sizeof layout.header);
  if (layout.header.magic != UKS_STUB_MAGIC) return Err(ENOEXEC);

  constexpr uint64_t kSpan = uint64_t{UKS_STUB_REGION} + UKS_AREA_SIZE;
  void* reserved =
      mmap(nullptr, kSpan, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return HostErr();
  const auto start = reinterpret_cast<uint64_t>(reserved);
  layout.base = (start + UKS_AREA_SIZE - 1) & ~uint64_t{UKS_AREA_SIZE - 1};
  layout.mmap_top = layout.base;

  FILE* maps = fopen("/proc/self/maps", "re");
  if (!maps) return HostErr();
  char line[512];
  uint64_t stack_start = 0;
  layout.keep.push_back({layout.base, layout.base + UKS_STUB_REGION});
  while (fgets(line, sizeof line, maps)) {
    uint64_t from = 0;
    uint64_t to = 0;
    if (sscanf(line, "%lx-%lx", &from, &to) != 2) continue;
    if (strstr(line, "[vdso]") || strstr(line, "[vvar")) layout.keep.push_back({from, to});
    if (strstr(line, "[stack]")) stack_start = from;
  }
  fclose(maps);
  if (!stack_start || layout.keep.size() > 8) return Err(ENOENT);
  std::sort(layout.keep.begin(), layout.keep.end(),
            [](const uks_keep_range& a, const uks_keep_range& b) { return a.start < b.start; });
  layout.vdso = getauxval(AT_SYSINFO_EHDR);
  layout.stack_top = stack_start & ~uint64_t{0xffff};
  return layout;
}

}  // namespace uks
