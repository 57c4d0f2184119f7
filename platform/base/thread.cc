#include "platform/base/thread.h"

#include <pthread.h>

#include <memory>

namespace uks {
namespace {

using Body = std::function<void()>;

void* run(void* body) {
  const std::unique_ptr<Body> self(static_cast<Body*>(body));
  (*self)();
  return nullptr;
}

}  // namespace

Result<void> start_thread(std::function<void()> body) {
  auto given = std::make_unique<Body>(std::move(body));
  pthread_t thread;
  if (const int error = pthread_create(&thread, nullptr, run, given.get()); error != 0)
    return Err(error);
  (void)given.release();
  pthread_detach(thread);
  return {};
}

}  // namespace uks
