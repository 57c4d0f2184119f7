// What values the kernel takes for options that have no effect here but are kept.
#pragma once
#include "platform/base/result.h"

namespace uks {

// The value as getsockopt(2) gives it back later. EINVAL out of range, EPERM above what needs a
// capability, EOPNOTSUPP for what nobody here would carry out.
Result<int> check_stored_option(int level, int option, int value, bool net_admin);

}  // namespace uks
