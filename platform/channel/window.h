// A window: the memory that one stub process shares with the sentry.
#pragma once
#include "platform/base/result.h"
#include "platform/base/unique_fd.h"
#include "platform/channel/slot.h"

namespace uks {

class Window {
 public:
  // A fresh window, sealed against changes of size. ENOMEM, EMFILE.
  static Result<Window> create();
  Window() = default;
  Window(Window&& other) noexcept;
  Window& operator=(Window&& other) noexcept;
  ~Window();

  int fd() const { return fd_.get(); }
  uks_slot* slot(unsigned index) const {
    return reinterpret_cast<uks_slot*>(memory_ + size_t{index} * UKS_SLOT_SIZE);
  }
  char* data(unsigned index) const { return reinterpret_cast<char*>(slot(index)) + UKS_SLOT_DATA; }
  uks_copy* copy(unsigned index) const {
    return reinterpret_cast<uks_copy*>(memory_ + UKS_WINDOW_COPIES + size_t{index} * UKS_COPY_SIZE);
  }
  char* copy_data(unsigned index) const {
    return reinterpret_cast<char*>(copy(index)) + UKS_COPY_DATA;
  }
  bool valid() const { return memory_ != nullptr; }

 private:
  UniqueFd fd_;
  char* memory_ = nullptr;
};

}  // namespace uks
