#include "syscalls/dispatch.h"

#include "gen/syscalls.h"
#include "sentry/task/task.h"

namespace uks {
#include "gen/syscall_table.inc"

const SyscallEntry* find_syscall(uint64_t nr) {
  if (nr >= kSyscallTable.size() || !kSyscallTable[nr].name) return nullptr;
  return &kSyscallTable[nr];
}

Result<int64_t> dispatch_call(Task& task) {
  const SyscallEntry* entry = find_syscall(task.syscall_nr);
  if (!entry || !entry->handler) return Err(ENOSYS);
  return entry->handler(task, task.syscall_args);
}

}  // namespace uks
