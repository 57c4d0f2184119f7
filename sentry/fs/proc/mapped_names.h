// The names of mapped files: the host's maps know descriptors of the host, guests know their own
// paths.
#pragma once
#include <string>

namespace uks {

class File;
class Task;

// To be called whenever a guest maps `file` from the host descriptor `host_fd`: remembers the path
// that the guest's maps show for it. One fstat(2). Under the kernel lock.
void note_mapped_file(Task& task, const File& file, int host_fd);

// Lines of the host's maps, with the guest's names in place of the host's. What nobody noted shows
// no name. Under the kernel lock.
std::string name_mappings(const std::string& maps);

}  // namespace uks
