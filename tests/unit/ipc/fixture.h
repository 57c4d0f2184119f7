// A kernel with one task that never runs, for objects whose operations want a Task.
#pragma once
#include "sentry/task/kernel.h"
#include "sentry/task/task.h"

namespace uks {

struct OneTask {
  Kernel kernel;
  Ref<ThreadGroup> group = make_ref<ThreadGroup>(kernel, 1);
  Ref<Task> task = make_ref<Task>(kernel, group, 1);
};

}  // namespace uks
