// The name of a passed-through terminal in the guest's /dev, so that ttyname(3) finds it.
#pragma once
#include "platform/base/result.h"

namespace uks {

class Task;
class HostFile;

// Puts a device node where the terminal is on the host ("/dev/pts/3") and makes it the inode that
// fstat on the stream shows. Nothing for other files. `index`: 0..2, the standard stream's number.
Result<void> expose_terminal(Task& task, HostFile& file, unsigned index);

}  // namespace uks
