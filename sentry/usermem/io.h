// Where file data comes from and goes to: a cursor over guest buffers or kernel memory.
#pragma once
#include <sys/uio.h>

#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "platform/base/result.h"
#include "sentry/usermem/user_types.h"

namespace uks {

class Task;

// A list of guest ranges, already copied in and length-checked (the total fits SSIZE_MAX and is
// capped at MAX_RW_COUNT, 0x7ffff000 bytes, as Linux caps it).
using UserIovec = std::vector<iovec>;  // iov_base is a guest address

// Destination of a read. Bytes arrive in order.
class IoSink {
 public:
  virtual ~IoSink() = default;
  // Bytes that still fit.
  virtual size_t remaining() const = 0;
  // So many of them at least can be handed over, as far as is known. Less than remaining(): the
  // next one cannot. Who gives whole messages or records asks before it takes one.
  virtual size_t writable() const { return remaining(); }
  // Memory to place the next bytes in: 1..min(max, remaining()) bytes, empty only if remaining() is
  // 0. The memory may be shared with a hostile guest: write it, never read it back.
  virtual std::span<char> prepare(size_t max) = 0;
  // The first n bytes of the last prepare() now hold data: hands them to the reader. EFAULT.
  virtual Result<void> commit(size_t n) = 0;
  // prepare + copy + commit. Returns bytes taken (min(n, remaining())), or EFAULT if none were.
  Result<size_t> write(const void* data, size_t n);
  // All of them or none: EFAULT.
  Result<void> write_whole(const void* data, size_t n) {
    if (writable() < n || TRY(write(data, n)) != n) return Err(EFAULT);
    return {};
  }
  // n zero bytes (holes).
  Result<size_t> write_zeros(size_t n);
};

// Source of a write. Any of its errors may be kFetchFirst (sentry/usermem/guest_io.h): to be passed
// on as EFAULT is, with nothing changed, or as a short count if some bytes were taken.
class IoSource {
 public:
  virtual ~IoSource() = default;
  // RWF_APPEND (true) and RWF_NOAPPEND (false): instead of the file's O_APPEND.
  std::optional<bool> append;
  virtual size_t remaining() const = 0;
  // Of the guest's buffer that comes next.
  virtual size_t in_buffer() const { return remaining(); }
  // Copies the next min(n, remaining()) bytes to `dst` and advances. Returns bytes copied; EFAULT
  // if none could be.
  virtual Result<size_t> read(void* dst, size_t n) = 0;
  // The next bytes in place where that is possible without a copy, else in an internal buffer:
  // 1..min(max, remaining()) bytes, or EFAULT. They are stable private memory. Does not advance.
  virtual Result<std::span<const char>> peek(size_t max) = 0;
  virtual void advance(size_t n) = 0;
};

// Kernel memory as source or sink (sendfile, copy_file_range, loader, tests).
class BufferSink final : public IoSink {
 public:
  explicit BufferSink(std::span<char> buffer) : buffer_(buffer) {}
  size_t remaining() const override { return buffer_.size(); }
  std::span<char> prepare(size_t max) override {
    return buffer_.first(std::min(max, buffer_.size()));
  }
  Result<void> commit(size_t n) override {
    buffer_ = buffer_.subspan(n);
    return {};
  }

 private:
  std::span<char> buffer_;
};

class BufferSource final : public IoSource {
 public:
  explicit BufferSource(std::span<const char> buffer) : buffer_(buffer) {}
  size_t remaining() const override { return buffer_.size(); }
  Result<size_t> read(void* dst, size_t n) override {
    n = std::min(n, buffer_.size());
    memcpy(dst, buffer_.data(), n);
    buffer_ = buffer_.subspan(n);
    return n;
  }
  Result<std::span<const char>> peek(size_t max) override {
    return buffer_.first(std::min(max, buffer_.size()));
  }
  void advance(size_t n) override { buffer_ = buffer_.subspan(n); }

 private:
  std::span<const char> buffer_;
};

}  // namespace uks
