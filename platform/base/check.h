// Invariants. CHECK is for our own bugs and stays on in release builds; what a guest can cause is
// an error path, never a CHECK.
#pragma once

namespace uks {
// Writes `uks: internal: FILE:LINE: EXPR` to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* expr);
}  // namespace uks

#define CHECK(cond)                                   \
  do {                                                \
    if (!(cond)) [[unlikely]]                         \
      ::uks::check_failed(__FILE__, __LINE__, #cond); \
  } while (0)

#ifdef NDEBUG
#define DCHECK(cond) ((void)sizeof(!(cond)))
#else
#define DCHECK(cond) CHECK(cond)
#endif
