// AddressSpace: one stub process and the ways into its memory.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "platform/channel/shared_cell.h"
#include "platform/host/procmap_query.h"
#include "platform/platform.h"

namespace uks {

AddressSpace::~AddressSpace() = default;

Result<void> AddressSpace::open_memory() {
  const MutexLock lock(open_mutex_);
  if (memory_.valid()) return {};
  if (gone || host_pid == 0) return Err(EIO);
  memory_ = TRY(keeper_.open(keeper::Op::kOpenMem, host_pid));
  return {};
}

Result<void> AddressSpace::open_maps() {
  const MutexLock lock(open_mutex_);
  if (maps_.valid()) return {};
  if (gone || host_pid == 0) return Err(ESRCH);
  maps_ = TRY(keeper_.open(keeper::Op::kOpenMaps, host_pid, "maps"));
  return {};
}

void AddressSpace::request_memory() {
  (void)open_memory();
  (void)open_maps();
}

Result<std::string> AddressSpace::maps() {
  TRY(open_maps());
  std::string text;
  char buffer[16384];
  for (;;) {
    const ssize_t n = pread(maps_.get(), buffer, sizeof buffer, static_cast<off_t>(text.size()));
    if (n < 0) return HostErr();
    if (n == 0) return text;
    text.append(buffer, static_cast<size_t>(n));
  }
}

bool next_mapping(const char*& line, HostMapping& mapping) {
  // start-end perms offset major:minor inode name
  char* at = nullptr;
  mapping.start = strtoull(line, &at, 16);
  if (at == line || *at != '-') return false;
  mapping.end = strtoull(at + 1, &at, 16);
  if (strnlen(at, 6) < 6) return false;
  mapping.shared = at[4] == 's';
  mapping.offset = strtoull(at + 5, &at, 16);
  mapping.major = static_cast<unsigned>(strtoul(at, &at, 16));
  if (*at != ':') return false;
  mapping.minor = static_cast<unsigned>(strtoul(at + 1, &at, 16));
  mapping.inode = strtoull(at, &at, 10);
  line = strchrnul(at, '\n');
  if (*line) line++;
  return true;
}

namespace {

// The kernel writes through /proc/PID/mem whatever the protection (FOLL_FORCE); a system call must
// not. How much of what lies at `addr` the guest itself could read or write: the rest of one
// mapping at most. It may change before the access: then the guest does it to itself.
Result<size_t> accessible(AddressSpace& mm, int maps, uint64_t addr, size_t n, bool write,
                          AddressSpace::Allowed* allowed) {
  if (allowed && addr >= allowed->start && addr < allowed->end)
    return std::min<uint64_t>(n, allowed->end - addr);
  ProcmapQuery query{};
  query.size = sizeof query;
  query.query_addr = addr;
  if (ioctl(maps, kProcmapQuery, &query) == 0) {
    // x86 has no memory that can be written or executed but not read.
    const uint64_t needed =
        write ? kProcmapWritable : kProcmapReadable | kProcmapWritable | kProcmapExecutable;
    if (!(query.flags & needed)) return Err(EFAULT);
    if (allowed) *allowed = {query.start, query.end};
    return std::min<uint64_t>(n, query.end - addr);
  }
  if (errno != ENOTTY) return Err(EFAULT);
  // Before Linux 6.11: the whole text, whose length the guest decides. Too dear for a word that is
  // only read (futexes).
  if (!write && n <= sizeof(uint64_t)) return n;
  const std::string text = TRY(mm.maps());
  HostMapping found;
  for (const char* line = text.c_str();;) {
    const char* const start = line;
    if (!next_mapping(line, found) || addr < found.start) return Err(EFAULT);
    if (addr >= found.end) continue;
    const char* rights = strchr(start, ' ') + 1;
    if (rights[1] != 'w' && (write || (rights[0] != 'r' && rights[2] != 'x'))) return Err(EFAULT);
    return std::min<uint64_t>(n, found.end - addr);
  }
}

constexpr uint64_t kUserEnd = 0x7ffffffff000;

}  // namespace

// No system call has business in the stub's region.
Result<size_t> AddressSpace::guests_part(uint64_t addr, size_t n) const {
  if (addr >= kUserEnd) return Err(EFAULT);
  n = std::min<uint64_t>(n, kUserEnd - addr);
  if (addr - layout_.base < UKS_STUB_REGION) return Err(EFAULT);
  return addr < layout_.base ? std::min<uint64_t>(n, layout_.base - addr) : n;
}

Result<AddressSpace::Way> AddressSpace::way() {
  if (!memory_.valid() && by_order && by_order->memory_refused) return Way::kOrders;
  const auto opened = open_memory();
  if (opened) return Way::kFile;
  if (!by_order || (opened.error() != EPERM && opened.error() != EACCES))
    return Err(opened.error());
  by_order->memory_refused = true;
  return Way::kOrders;
}

Result<size_t> AddressSpace::copy_by_order(GuestThread& copier, uint32_t op, uint64_t addr,
                                           void* bytes, size_t n) {
  uks_order order{};
  order.op = op;
  order.addr = addr;
  order.length = std::min(n, MemoryByOrder::kMaxCopy);
  const int64_t copied = TRY(by_order->order_memory(copier, order, bytes));
  if (copied <= 0 || static_cast<uint64_t>(copied) > order.length) return Err(EFAULT);
  return static_cast<size_t>(copied);
}

Result<size_t> AddressSpace::read_some(GuestThread* copier, uint64_t addr, void* to, size_t n,
                                       Allowed* allowed) {
  if (n == 0) return 0;
  n = TRY(guests_part(addr, n));
  if (copier) return copy_by_order(*copier, UKS_ORDER_COPY_IN, addr, to, n);
  if (!open_maps()) return Err(EFAULT);
  n = TRY(accessible(*this, maps_.get(), addr, n, false, allowed));
  const ssize_t r = pread(memory_.get(), to, n, static_cast<off_t>(addr));
  // The file answers EIO for an address without memory, and 0 when the process is gone.
  if (r <= 0) return Err(EFAULT);
  return static_cast<size_t>(r);
}

Result<size_t> AddressSpace::write_some(GuestThread* copier, uint64_t addr, const void* from,
                                        size_t n, Allowed* allowed) {
  if (n == 0) return 0;
  n = TRY(guests_part(addr, n));
  if (copier) return copy_by_order(*copier, UKS_ORDER_COPY_OUT, addr, const_cast<void*>(from), n);
  if (!open_maps()) return Err(EFAULT);
  n = TRY(accessible(*this, maps_.get(), addr, n, true, allowed));
  const ssize_t r = pwrite(memory_.get(), from, n, static_cast<off_t>(addr));
  if (r <= 0) return Err(EFAULT);
  return static_cast<size_t>(r);
}

Result<void> AddressSpace::read(GuestThread* copier, uint64_t addr, void* to, size_t n) {
  size_t done = 0;
  while (done < n)
    done += TRY(read_some(copier, addr + done, static_cast<char*>(to) + done, n - done));
  return {};
}

Result<void> AddressSpace::write(GuestThread* copier, uint64_t addr, const void* from, size_t n) {
  size_t done = 0;
  while (done < n)
    done += TRY(write_some(copier, addr + done, static_cast<const char*>(from) + done, n - done));
  return {};
}

Result<uint32_t> AddressSpace::cmpxchg32(GuestThread* copier, uint64_t addr, uint32_t expected,
                                         uint32_t desired) {
  if (copier) {
    uks_order order{};
    order.op = UKS_ORDER_CMPXCHG;
    order.addr = addr;
    order.prot = expected;
    order.flags = desired;
    const int64_t result = TRY(by_order->order_memory(*copier, order, nullptr));
    if (result < 0) return Err(EFAULT);
    return static_cast<uint32_t>(result);
  }
  uint32_t old;
  TRY(read(copier, addr, &old, sizeof old));
  if (old == expected) TRY(write(copier, addr, &desired, sizeof desired));
  return old;
}

std::optional<SharedKey> AddressSpace::shared_key(uint64_t addr) {
  // The host is the authority on the address space; only processes with shared mappings pay for
  // asking.
  if (!has_shared_memory || !open_maps()) return std::nullopt;
  HostMapping found;
  ProcmapQuery query{};
  query.size = sizeof query;
  query.query_addr = addr;
  if (ioctl(maps_.get(), kProcmapQuery, &query) == 0) {
    found = {query.start,
             query.end,
             query.offset,
             query.major,
             query.minor,
             query.inode,
             (query.flags & kProcmapShared) != 0};
  } else if (errno == ENOTTY) {
    // Before Linux 6.11: the whole text, whose length the guest decides (65,530 mappings: some 3
    // MB).
    const auto text = maps();
    if (!text) return std::nullopt;
    const char* line = text->c_str();
    do {
      if (!next_mapping(line, found)) return std::nullopt;
    } while (addr < found.start || addr >= found.end);
  }
  if (!found.shared || found.inode == 0) return std::nullopt;
  return SharedKey{found.inode ^ (uint64_t{found.major} << 52) ^ (uint64_t{found.minor} << 40),
                   found.offset + (addr - found.start)};
}

void AddressSpace::hold(Ref<RefCounted> object, uint64_t ino) {
  held_[std::move(object)] = {ino, ++stamp_};
}

std::optional<uint64_t> AddressSpace::held_stamp() const {
  for (const Ref<GuestThread>& t : threads) {
    if (t->maps_donation) return std::nullopt;
  }
  return stamp_;
}

void AddressSpace::let_go(uint64_t stamp, const std::unordered_set<uint64_t>& mapped) {
  std::erase_if(held_, [&](const auto& entry) {
    const Held& held = entry.second;
    return held.ino != 0 && held.stamp <= stamp && !mapped.contains(held.ino);
  });
}

Result<unsigned> AddressSpace::allocate_slot() {
  for (unsigned i = 0; i < slots_.size(); i++) {
    // A freed slot is used again only when the kernel says that its thread is gone (PITFALLS 21).
    if (!slots_[i] && load_once(window.slot(i)->alive) == 0) {
      slots_[i] = true;
      return i;
    }
  }
  if (slots_.size() >= UKS_SLOTS) return Err(EAGAIN);
  slots_.push_back(true);
  return static_cast<unsigned>(slots_.size() - 1);
}

void AddressSpace::take_slot(unsigned index) {
  slots_.assign(index + 1, false);
  slots_[index] = true;
}

void AddressSpace::free_slot(unsigned index) {
  if (index < slots_.size()) slots_[index] = false;
}

Result<std::string> read_host_proc(AddressSpace& mm, const char* name) {
  if (mm.gone || mm.host_pid == 0) return Err(ESRCH);
  UniqueFd fd = TRY(mm.open_proc(name));
  std::string text;
  char buffer[16384];
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0) return HostErr();
    if (n == 0) return text;
    text.append(buffer, static_cast<size_t>(n));
  }
}

Result<std::string> read_maps(AddressSpace& mm) {
  const std::string text = TRY(mm.maps());
  const uint64_t base = mm.layout().base;
  std::string shown;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    uint64_t from = 0, to = 0;
    if (sscanf(line.c_str(), "%lx-%lx", &from, &to) != 2) continue;
    if (from >= base && from < base + UKS_STUB_REGION) continue;
    shown += line;
    // The host knows these only as anonymous memory.
    const bool nameless = line.size() < 74 || line.find_first_not_of(' ', 49) == std::string::npos;
    const char* name = nullptr;
    if (nameless && from < mm.stack_top && to >= mm.stack_top) name = "[stack]";
    if (nameless && mm.brk_start && from >= mm.brk_start && from < mm.brk_start + 0x1000)
      name = "[heap]";
    if (name) {
      if (shown.size() && line.size() < 73) shown.append(73 - line.size(), ' ');
      shown += name;
    }
    shown += '\n';
  }
  return shown;
}

}  // namespace uks
