// Result<T> and TRY: the only way errors travel in the sentry, the gofer and the platform.
#pragma once
#include <expected>
#include <utility>

#include "platform/base/errno.h"

namespace uks {

template <typename T = void>
using Result = std::expected<T, Errno>;

// `return Err(EINVAL);`
[[nodiscard]] constexpr std::unexpected<Errno> Err(int value) {
  return std::unexpected(Errno{value});
}
[[nodiscard]] constexpr std::unexpected<Errno> Err(Errno e) { return std::unexpected(e); }

// The current host errno as an error.
[[nodiscard]] inline std::unexpected<Errno> HostErr() { return Err(errno); }

namespace internal {
template <typename T>
constexpr T&& take(std::expected<T, Errno>& r) {
  return std::move(*r);
}
constexpr void take(std::expected<void, Errno>&) {}
}  // namespace internal

}  // namespace uks

// Evaluates to the value of a Result expression, or returns its error from the enclosing function.
#define TRY(expr)                             \
  __extension__({                             \
    auto try_result_ = (expr);                \
    if (!try_result_) [[unlikely]]            \
      return ::uks::Err(try_result_.error()); \
    ::uks::internal::take(try_result_);       \
  })
