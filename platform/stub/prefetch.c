// Copies system call arguments into the slot, as the generated descriptors say, so that the sentry
// needs no access to guest memory for most calls. What cannot be copied is left out: the sentry then
// finds out by itself, with Linux's errno. Where the call's data will go is touched, so that the
// sentry takes nothing from a pipe or a socket that could not be delivered.
#include "platform/stub/stub.h"

#include "platform/channel/copy_descriptor.h"
#include "gen/copy_table.inc"

// Larger buffers are read by the sentry straight from guest memory.
enum { kLargestBuffer = 0x8000, kLongestString = 4096, kPage = 4096, kMostParts = 1024 };
#define TASK_SIZE_MAX 0x7ffffffff000ull

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

// Where it lies in the slot, if all of it is there.
static const char* prefetch_bytes(struct uks_slot* slot, uint64_t addr, uint64_t length) {
  if (length == 0 || length > kLargestBuffer || length > room(slot)) return 0;
  char* to = (char*)slot + UKS_SLOT_DATA + slot->data_used;
  const uint64_t rest = is_stubs(addr) ? length : stub_copy_rest(to, (const void*)addr, length);
  note_range(slot, addr, length - rest, rest ? UKS_RANGE_CUT : UKS_RANGE_BYTES, 0);
  return rest ? 0 : to;
}

// Data must not be taken from where it is before it is known that it can be put where it goes: the
// pages are touched. Not beyond what is handed over in the slot, though: a large buffer is not to be
// made of pages that nobody needs.
static uint64_t probe_limit(const struct uks_slot* slot) {
  const uint64_t used = (slot->data_used + 63) & ~63ull;  // as the sentry counts it
  return used < UKS_SLOT_DATA_SIZE ? UKS_SLOT_DATA_SIZE - used : 0;
}

// False: the limit is reached, or a byte cannot be written.
static int probe(struct uks_slot* slot, uint64_t limit, uint64_t addr, uint64_t length) {
  const uint64_t left = limit - slot->probed;
  const uint64_t wanted = length < left ? length : left;
  uint64_t done = 0;
  while (done < wanted) {
    const uint64_t at = addr + done;
    if (at >= TASK_SIZE_MAX || is_stubs(at) || stub_touch((char*)at)) {
      slot->probe_fault = 1;
      break;
    }
    done += kPage - at % kPage;
  }
  slot->probed += done < wanted ? done : wanted;
  return done >= length;
}

static void probe_vector(struct uks_slot* slot, uint64_t addr, uint64_t count) {
  struct {
    uint64_t base, length;
  } part;
  if (count > kMostParts) return;
  const char* parts = prefetch_bytes(slot, addr, count * sizeof part);
  const uint64_t limit = probe_limit(slot);
  for (uint64_t i = 0; parts && i < count; i++) {
    __builtin_memcpy(&part, parts + i * sizeof part, sizeof part);
    if (part.length && !probe(slot, limit, part.base, part.length)) return;
  }
}

// struct user_msghdr.
static void probe_message(struct uks_slot* slot, uint64_t addr) {
  enum { kSize = 56, kVector = 16, kCount = 24 };
  uint64_t vector, count;
  const char* message = prefetch_bytes(slot, addr, kSize);
  if (!message) return;
  __builtin_memcpy(&vector, message + kVector, sizeof vector);
  __builtin_memcpy(&count, message + kCount, sizeof count);
  probe_vector(slot, vector, count);
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
  slot->probed = 0;
  slot->probe_fault = 0;
  const struct copy_item* fill = 0;
  if (nr >= sizeof copy_descriptors / sizeof copy_descriptors[0]) return;
  const struct copy_descriptor* descriptor = &copy_descriptors[nr];
  for (unsigned i = 0; i < COPY_ITEMS_MAX && slot->range_count < UKS_MAX_RANGES; i++) {
    const struct copy_item* item = &descriptor->items[i];
    const uint64_t addr = args[item->arg];
    if (!addr && item->kind != COPY_FILL) continue;
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
      case COPY_FILL:
        fill = item;
        break;
      case COPY_FILL_VEC:
        probe_vector(slot, addr, args[item->length_arg]);
        break;
      case COPY_FILL_MSG:
        probe_message(slot, addr);
        break;
      default:
        i = COPY_ITEMS_MAX;
        break;
    }
  }
  // Last: what was fetched takes room from the data.
  if (fill) {
    const uint64_t limit = probe_limit(slot), units = args[fill->length_arg];
    // A count that overflows the product is beyond the limit anyway.
    probe(slot, limit, args[fill->arg], units > limit ? units : units * fill->size);
  }
}
