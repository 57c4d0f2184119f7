// GuestThread: the slot of one host thread, read once and validated.
#include <algorithm>
#include <cstring>

#include "platform/channel/shared_cell.h"
#include "platform/platform.h"

namespace uks {

uks_slot* GuestThread::slot() const { return mm_->window.slot(index_); }
char* GuestThread::data() const { return mm_->window.data(index_); }
uks_copy* GuestThread::copy() const { return mm_->window.copy(index_); }
char* GuestThread::copy_data() const { return mm_->window.copy_data(index_); }

void GuestThread::load_call() {
  maps_donation = false;
  const uks_slot* s = slot();
  event = load_once(s->event);
  nr = load_once(s->nr);
  for (size_t i = 0; i < args.size(); i++) args[i] = load_once(s->args[i]);
  ip = load_once(s->ip);
  sp = load_once(s->sp);
  result = load_once(s->result);
  range_count_ = 0;
  data_base_ = 0;
  probed_ = 0;
  probe_fault_ = false;
  if (event == UKS_EVENT_SYSCALL) {
    probed_ = std::min<uint64_t>(load_once(s->probed), UKS_SLOT_DATA_SIZE);
    probe_fault_ = load_once(s->probe_fault) != 0;
    const uint32_t count = std::min<uint32_t>(load_once(s->range_count), UKS_MAX_RANGES);
    for (uint32_t i = 0; i < count; i++) {
      uks_range range;
      load_bytes(&range, &s->ranges[i], sizeof range);
      // Each bound on its own, so that no sum can overflow.
      if (range.offset > UKS_SLOT_DATA_SIZE || range.length > UKS_SLOT_DATA_SIZE - range.offset)
        continue;
      ranges_[range_count_++] = range;
      data_base_ = std::max<uint64_t>(data_base_, range.offset + range.length);
    }
    data_base_ = std::min<uint64_t>((data_base_ + 63) & ~uint64_t{63}, UKS_SLOT_DATA_SIZE);
  }
  clear_orders();
}

const char* GuestThread::prefetched(uint64_t addr, uint64_t n) const {
  for (unsigned i = 0; i < range_count_; i++) {
    const uks_range& r = ranges_[i];
    if (r.kind == UKS_RANGE_STRVEC) continue;
    if (addr >= r.addr && addr - r.addr <= r.length && n <= r.length - (addr - r.addr)) {
      return data() + r.offset + (addr - r.addr);
    }
  }
  return nullptr;
}

GuestThread::Piece GuestThread::prefetched_piece(uint64_t addr, uint64_t n) const {
  for (unsigned i = 0; i < range_count_; i++) {
    const uks_range& r = ranges_[i];
    if (r.kind == UKS_RANGE_STRVEC || addr < r.addr || addr - r.addr > r.length) continue;
    const uint64_t left = r.length - (addr - r.addr);
    const bool fault = r.kind == UKS_RANGE_CUT && left < n;
    if (left == 0 && !fault) continue;
    return {data() + r.offset + (addr - r.addr), std::min(left, n), fault};
  }
  return {};
}

std::optional<std::string> GuestThread::prefetched_string(uint64_t addr) const {
  for (unsigned i = 0; i < range_count_; i++) {
    const uks_range& r = ranges_[i];
    if (r.kind != UKS_RANGE_STRING || r.addr != addr || r.length == 0) continue;
    std::string bytes(r.length, '\0');
    load_bytes(bytes.data(), data() + r.offset, r.length);
    const size_t end = bytes.find('\0');
    if (end == std::string::npos) return std::nullopt;
    bytes.resize(end);
    return bytes;
  }
  return std::nullopt;
}

std::optional<std::vector<std::string>> GuestThread::prefetched_vector(uint64_t addr) const {
  for (unsigned i = 0; i < range_count_; i++) {
    const uks_range& r = ranges_[i];
    if (r.kind != UKS_RANGE_STRVEC || r.addr != addr) continue;
    std::string bytes(r.length, '\0');
    load_bytes(bytes.data(), data() + r.offset, r.length);
    std::vector<std::string> strings;
    size_t at = 0;
    while (at < bytes.size()) {
      const size_t end = bytes.find('\0', at);
      if (end == std::string::npos) return std::nullopt;
      strings.emplace_back(bytes, at, end - at);
      at = end + 1;
    }
    if (strings.size() != r.count) return std::nullopt;
    return strings;
  }
  return std::nullopt;
}

char* GuestThread::reserve_data(uint64_t n, uint64_t* offset) {
  if (n > data_room()) return nullptr;
  *offset = data_cursor_;
  data_cursor_ = std::min<uint64_t>((data_cursor_ + n + 7) & ~uint64_t{7}, UKS_SLOT_DATA_SIZE);
  return data() + *offset;
}

bool GuestThread::add_order(const uks_order& order) {
  if (order_count_ >= UKS_MAX_ORDERS) return false;
  slot()->orders[order_count_++] = order;
  return true;
}

bool GuestThread::order_copy_out(uint64_t addr, const void* from, uint64_t n) {
  uint64_t offset = 0;
  if (!has_order_room()) return false;
  char* to = reserve_data(n, &offset);
  if (!to) return false;
  memcpy(to, from, n);
  uks_order order{};
  order.op = UKS_ORDER_COPY_OUT;
  order.addr = addr;
  order.length = n;
  order.offset = offset;
  return add_order(order);
}

}  // namespace uks
