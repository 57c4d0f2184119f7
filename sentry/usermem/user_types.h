// Typed guest addresses: never dereferenceable, direction is part of the type.
#pragma once
#include <cstddef>
#include <cstdint>

namespace uks {

// An address in a guest's address space.
struct UserAddr {
  uint64_t value = 0;
  explicit operator bool() const { return value != 0; }
  friend bool operator==(UserAddr, UserAddr) = default;
  UserAddr operator+(uint64_t n) const { return {value + n}; }
};

// Buffers whose length another argument gives.
struct UserIn : UserAddr {};     // the guest's bytes are read
struct UserOut : UserAddr {};    // the guest's bytes are written
struct UserInOut : UserAddr {};  // both
struct UserPath : UserAddr {};   // a NUL-terminated path, at most PATH_MAX bytes
struct UserStr : UserAddr {};    // any other NUL-terminated string

}  // namespace uks
