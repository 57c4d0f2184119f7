// The system call table as dispatch and strace see it.
#pragma once
#include "syscalls/table_types.h"

namespace uks {

// Null for a number that does not exist.
const SyscallEntry* find_syscall(uint64_t nr);

// Runs the handler of the task's call; ENOSYS where there is none.
Result<int64_t> dispatch_call(Task& task);

}  // namespace uks
