// ViewConfig: what the keeper tells the sentry to show as the file tree. Plain data, no behaviour.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace uks {

enum class MountKind : uint8_t {
  kOverlay,  // gofer tree `tree` below, a tmpfs of `size_limit` bytes above
  kGofer,    // gofer tree `tree` directly: changes reach the host (unless read_only)
  kTmpfs,    // empty, `size_limit` bytes, root directory mode `mode`
  kProc,
  kDev,  // device nodes, fd links, an own /dev/shm
  kSys,  // a generated skeleton of /sys
};

struct ViewMount {
  std::string target;  // absolute path in the guest's tree; the first mount must be "/"
  MountKind kind = MountKind::kTmpfs;
  uint32_t tree = 0;  // index of the gofer's tree, for kOverlay and kGofer
  bool read_only = false;
  uint64_t size_limit = 0;  // bytes; 0: the default, a quarter of the memory
  uint32_t mode = 0755;     // permission bits of the root directory, for kTmpfs (01777 for /tmp)
  std::string source;       // first column of /proc/mounts; empty: the kind's usual name
};

// A file, directory or link generated at start. Placed after all mounts are made, in whatever is
// mounted there: an overlay's upper layer, a tmpfs. Missing parent directories are made (0755,
// root).
struct ViewFile {
  std::string path;         // absolute
  std::string content;      // or the link's target
  uint32_t mode = 0100644;  // file type and permission bits: S_IFREG, S_IFDIR or S_IFLNK
  uint32_t uid = 0, gid = 0;
};

struct ViewConfig {
  std::vector<ViewMount> mounts;  // in order: later ones cover earlier ones
  std::vector<ViewFile> files;
  uint32_t uid = 0, gid = 0;  // the guest's identity: owns the roots of kTmpfs mounts
  // Texts of host files by path, read by the sentry itself before it gives up opening files
  // (boot/host_texts.h). A missing one gets a generated stand-in.
  std::map<std::string, std::string> host_texts;
};

}  // namespace uks
