// Bounds-checked encoding of the gofer's messages. Neither side trusts the other's bytes.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "gofer/proto/messages.h"

namespace uks::gofer {

// Appends to a message. Whatever does not fit into `limit` bytes sets overflow() and is left out.
class Writer {
 public:
  explicit Writer(size_t limit = kMaxMessage) : limit_(limit) { bytes_.reserve(512); }
  void u32(uint32_t value) { raw(&value, sizeof(value)); }
  void i32(int32_t value) { raw(&value, sizeof(value)); }
  void u64(uint64_t value) { raw(&value, sizeof(value)); }
  void i64(int64_t value) { raw(&value, sizeof(value)); }
  void string(std::string_view s) {
    if (s.size() > limit_) {
      overflow_ = true;
      return;
    }
    u32(static_cast<uint32_t>(s.size()));
    raw(s.data(), s.size());
  }
  void time(const Time& t) {
    i64(t.sec);
    u32(t.nsec);
  }
  void attr(const Attr& a);
  void node(const NodeAttr& n) {
    u64(n.id);
    attr(n.attr);
  }

  bool overflow() const { return overflow_; }
  size_t size() const { return bytes_.size(); }
  size_t room() const { return limit_ - bytes_.size(); }
  const std::string& bytes() const { return bytes_; }
  void clear() {
    bytes_.clear();
    overflow_ = false;
  }
  // Overwrites four bytes written before.
  void patch_u32(size_t offset, uint32_t value) {
    std::memcpy(bytes_.data() + offset, &value, sizeof(value));
  }

 private:
  void raw(const void* data, size_t size) {
    if (size > room()) {
      overflow_ = true;
      return;
    }
    bytes_.append(static_cast<const char*>(data), size);
  }
  size_t limit_;
  std::string bytes_;
  bool overflow_ = false;
};

// Takes a message apart. After the first field that is not wholly there ok() is false and every
// value 0.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  uint32_t u32() { return number<uint32_t>(); }
  int32_t i32() { return number<int32_t>(); }
  uint64_t u64() { return number<uint64_t>(); }
  int64_t i64() { return number<int64_t>(); }
  // A view into the message. Longer than `max`: not ok.
  std::string_view string(size_t max) {
    size_t size = u32();
    if (!ok_ || size > max || size > bytes_.size()) {
      ok_ = false;
      return {};
    }
    std::string_view s = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return s;
  }
  Time time() {
    Time t;
    t.sec = i64();
    t.nsec = u32();
    return t;
  }
  Attr attr();
  NodeAttr node() {
    NodeAttr n;
    n.id = u64();
    n.attr = attr();
    return n;
  }
  bool ok() const { return ok_; }
  // All there, and nothing left over.
  bool done() const { return ok_ && bytes_.empty(); }

 private:
  template <typename T>
  T number() {
    T value{};
    if (!ok_ || bytes_.size() < sizeof(T)) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_.remove_prefix(sizeof(T));
    return value;
  }
  std::string_view bytes_;
  bool ok_ = true;
};

// Encoded size of an Attr and of a NodeAttr.
inline constexpr size_t kAttrSize = 8 * 2 + 4 * 4 + 8 * 3 + 4 * 2 + 4 * 12;
inline constexpr size_t kNodeSize = 8 + kAttrSize;

inline void Writer::attr(const Attr& a) {
  u64(a.dev);
  u64(a.ino);
  u32(a.mode);
  u32(a.nlink);
  u32(a.uid);
  u32(a.gid);
  u64(a.rdev);
  u64(a.size);
  u64(a.blocks);
  u32(a.blksize);
  u32(a.flags);
  time(a.atime);
  time(a.mtime);
  time(a.ctime);
  time(a.btime);
}

inline Attr Reader::attr() {
  Attr a;
  a.dev = u64();
  a.ino = u64();
  a.mode = u32();
  a.nlink = u32();
  a.uid = u32();
  a.gid = u32();
  a.rdev = u64();
  a.size = u64();
  a.blocks = u64();
  a.blksize = u32();
  a.flags = u32();
  a.atime = time();
  a.mtime = time();
  a.ctime = time();
  a.btime = time();
  return a;
}

// A single file name as the protocol allows it: not empty, not "." or "..", no '/' and no NUL, at
// most kMaxName bytes. Returns 0, EINVAL or ENAMETOOLONG.
inline int check_name(std::string_view name) {
  if (name.size() > kMaxName) return ENAMETOOLONG;
  if (name.empty() || name == "." || name == "..") return EINVAL;
  for (char c : name) {
    if (c == '/' || c == '\0') return EINVAL;
  }
  return 0;
}

}  // namespace uks::gofer
