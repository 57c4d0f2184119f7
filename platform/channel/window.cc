#include "platform/channel/window.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <utility>

namespace uks {

Result<Window> Window::create() {
  Window window;
  window.fd_.reset(memfd_create("uks-window", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!window.fd_) return HostErr();
  if (ftruncate(window.fd_.get(), UKS_WINDOW_SIZE) != 0) return HostErr();
  if (fcntl(window.fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return HostErr();
  void* memory =
      mmap(nullptr, UKS_WINDOW_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, window.fd_.get(), 0);
  if (memory == MAP_FAILED) return HostErr();
  window.memory_ = static_cast<char*>(memory);
  return window;
}

Window::Window(Window&& other) noexcept
    : fd_(std::move(other.fd_)), memory_(std::exchange(other.memory_, nullptr)) {}

Window& Window::operator=(Window&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(memory_, other.memory_);
  return *this;
}

Window::~Window() {
  if (memory_) munmap(memory_, UKS_WINDOW_SIZE);
}

}  // namespace uks
