#include "sentry/usermem/memory_access.h"

#include "platform/platform.h"
#include "sentry/task/dispatcher.h"
#include "sentry/task/kernel.h"
#include "sentry/task/kernel_lock.h"

namespace uks {

MemoryAccess::MemoryAccess(ThreadGroup& group, Ref<AddressSpace> mm, GuestThread* own, bool atomic)
    UKS_TSA(no_thread_safety_analysis)
    : group_(&group), mm_(std::move(mm)) {
  Kernel& kernel = group.kernel;
  if (kernel.dispatcher) start_ = kernel.dispatcher->slow_lane.begin(group);
  auto way = mm_->way();
  // Where no other thread would be left to go on, the guest's own thread does it, which is not
  // waited for without end.
  const bool by_stub =
      (atomic && own) || (kernel.platform && kernel.platform->is_last_of_its_kind());
  if (way && by_stub && mm_->by_order) way = AddressSpace::Way::kOrders;
  if (!way) {
    way_ = Err(way.error());
  } else if (*way == AddressSpace::Way::kOrders) {
    copier_ = mm_->by_order->take_to_copy(*mm_, own);
    if (!copier_) way_ = Err(EIO);
  }
  if (way_) drop_kernel_lock();
}

MemoryAccess::~MemoryAccess() UKS_TSA(no_thread_safety_analysis) {
  if (way_) retake_kernel_lock();
  if (copier_) mm_->by_order->give_back(*copier_);
  if (Dispatcher* dispatcher = group_->kernel.dispatcher)
    dispatcher->slow_lane.end(*group_, start_);
}

}  // namespace uks
