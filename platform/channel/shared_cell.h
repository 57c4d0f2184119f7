// Reading and writing memory that a hostile process writes at the same time.
#pragma once
#include <cstring>
#include <type_traits>

namespace uks {

// One read of a shared field into private memory. Never read a shared field in any other way: the
// compiler may otherwise read it twice and see two values.
template <typename T>
  requires(std::is_integral_v<T>)
T load_once(const T& shared) {
  return __atomic_load_n(&shared, __ATOMIC_ACQUIRE);
}

template <typename T>
  requires(std::is_integral_v<T>)
void store(T& shared, std::type_identity_t<T> value) {
  __atomic_store_n(&shared, value, __ATOMIC_RELEASE);
}

// Copies bytes out of shared memory once; whatever mixture arrives is then private and stable.
inline void load_bytes(void* to, const void* shared, size_t n) {
  if (n > 0) memcpy(to, shared, n);  // with nothing to copy, `to` may be null
  __asm__ volatile("" ::: "memory");
}

}  // namespace uks
