#include "platform/base/check.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace uks {

void check_failed(const char* file, int line, const char* expr) {
  char text[512];
  const int n = snprintf(text, sizeof text, "uks: internal: %s:%d: %s\n", file, line, expr);
  if (n > 0)
    (void)!::write(2, text,
                   static_cast<size_t>(n) < sizeof text ? static_cast<size_t>(n) : sizeof text - 1);
  abort();
}

}  // namespace uks
