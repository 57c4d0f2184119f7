#include "sentry/usermem/memory_access.h"

#include "platform/platform.h"
#include "sentry/task/dispatcher.h"
#include "sentry/task/kernel.h"
#include "sentry/task/kernel_lock.h"

namespace uks {

MemoryAccess::MemoryAccess(ThreadGroup& group, Ref<AddressSpace> mm)
    UKS_TSA(no_thread_safety_analysis)
    : group_(&group), mm_(std::move(mm)), way_(mm_->way()) {
  Kernel& kernel = group.kernel;
  // Where no other thread would be left to go on, the guest's own thread does it, which is not
  // waited for without end.
  if (way_ && kernel.platform && kernel.platform->is_last_of_its_kind())
    way_ = AddressSpace::Way::kOrders;
  locked_ = !way_ || *way_ == AddressSpace::Way::kOrders;
  if (kernel.dispatcher) start_ = kernel.dispatcher->slow_lane.begin(group);
  if (!locked_) drop_kernel_lock();
}

MemoryAccess::~MemoryAccess() UKS_TSA(no_thread_safety_analysis) {
  if (!locked_) retake_kernel_lock();
  if (Dispatcher* dispatcher = group_->kernel.dispatcher)
    dispatcher->slow_lane.end(*group_, start_, locked_);
}

}  // namespace uks
