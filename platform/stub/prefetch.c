// Copies system call arguments into the slot, as the generated descriptors say, so that the sentry
// needs no access to guest memory for most calls. What cannot be copied is left out: the sentry then
// finds out by itself, with Linux's errno.
#include "platform/stub/stub.h"

#include "platform/channel/copy_descriptor.h"
#include "gen/copy_table.inc"

// Larger buffers are read by the sentry straight from guest memory.
enum { kLargestBuffer = 0x8000, kLongestString = 4096 };

static void note_range(struct uks_slot* slot, uint64_t addr, uint64_t length, uint32_t kind, uint32_t count) {
  struct uks_range* range = &slot->ranges[slot->range_count++];
  range->addr = addr;
  range->length = (uint32_t)length;
  range->offset = (uint32_t)slot->data_used;
  range->kind = kind;
  range->count = count;
  slot->data_used = (slot->data_used + length + 7) & ~7ull;
}

static uint64_t room(const struct uks_slot* slot) {
  return slot->data_used < UKS_SLOT_DATA_SIZE ? UKS_SLOT_DATA_SIZE - slot->data_used : 0;
}

static void prefetch_bytes(struct uks_slot* slot, uint64_t addr, uint64_t length) {
  if (length == 0 || length > kLargestBuffer || length > room(slot)) return;
  char* to = (char*)slot + UKS_SLOT_DATA + slot->data_used;
  if (stub_copy(to, (const void*)addr, length)) return;
  note_range(slot, addr, length, UKS_RANGE_BYTES, 0);
}

static void prefetch_string(struct uks_slot* slot, uint64_t addr) {
  const uint64_t max = room(slot) < kLongestString ? room(slot) : kLongestString;
  char* to = (char*)slot + UKS_SLOT_DATA + slot->data_used;
  const long length = stub_copy_string(to, (const char*)addr, max);
  if (length < 0 || (uint64_t)length == max) return;
  note_range(slot, addr, (uint64_t)length + 1, UKS_RANGE_STRING, 0);
}

// argv or envp: all strings one after the other, each with its NUL. All or nothing.
static void prefetch_vector(struct uks_slot* slot, uint64_t addr) {
  char* to = (char*)slot + UKS_SLOT_DATA + slot->data_used;
  const uint64_t space = room(slot);
  uint64_t used = 0;
  uint32_t count = 0;
  for (;; count++) {
    uint64_t string = 0;
    if (stub_load64((const uint64_t*)(addr + 8ull * count), &string)) return;
    if (!string) break;
    const long length = stub_copy_string(to + used, (const char*)string, space - used);
    if (length < 0 || (uint64_t)length == space - used) return;
    used += (uint64_t)length + 1;
  }
  note_range(slot, addr, used, UKS_RANGE_STRVEC, count);
}

void prefetch_arguments(struct uks_slot* slot, uint64_t nr, const uint64_t* args) {
  slot->range_count = 0;
  slot->data_used = 0;
  if (nr >= sizeof copy_descriptors / sizeof copy_descriptors[0]) return;
  const struct copy_descriptor* descriptor = &copy_descriptors[nr];
  for (unsigned i = 0; i < COPY_ITEMS_MAX && slot->range_count < UKS_MAX_RANGES; i++) {
    const struct copy_item* item = &descriptor->items[i];
    const uint64_t addr = args[item->arg];
    if (!addr) continue;
    switch (item->kind) {
      case COPY_STR:
        prefetch_string(slot, addr);
        break;
      case COPY_BUF_ARG:
        // A count that overflows the product is beyond kLargestBuffer anyway.
        if (args[item->length_arg] <= kLargestBuffer) {
          prefetch_bytes(slot, addr, args[item->length_arg] * item->size);
        }
        break;
      case COPY_BUF_CONST:
        prefetch_bytes(slot, addr, item->size);
        break;
      case COPY_STRVEC:
        prefetch_vector(slot, addr);
        break;
      default:
        return;
    }
  }
}
