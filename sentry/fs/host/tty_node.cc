// Device nodes of passed-through terminals.
#include "sentry/fs/host/tty_node.h"

#include <cstring>
#include <string>

#include "sentry/fs/host/host_file.h"
#include "sentry/fs/tmpfs/tmpfs.h"
#include "sentry/task/task.h"
#include "sentry/vfs/fs_context.h"
#include "sentry/vfs/resolve.h"

namespace uks {
namespace {

constexpr uint32_t kTtyGroup = 5;
constexpr uint64_t kFirstInode = 90;  // below 100, which make_dev_root() leaves to device nodes
constexpr uint64_t kFirstInDevpts = 10000;  // beyond the numbers of our own terminals

class TtyNode final : public TmpfsInode {
 public:
  TtyNode(Tmpfs& fs, const NewNode& node, uint64_t ino, uint64_t device)
      : TmpfsInode(fs, node, ino), device_(device) {}

  // The guest's own descriptors of the terminal are the authority: with none left in its session,
  // there is nothing to open.
  Result<Ref<File>> open(Task& task, const Path& path, int flags) override {
    if (controlling_terminal_device(task.group()) != device_) return Err(ENXIO);
    return open_controlling_terminal(task, path, flags);
  }

 private:
  uint64_t device_;
};

}  // namespace

Result<void> expose_terminal(Task& task, HostFile& file, unsigned index) {
  HostStream& stream = file.stream();
  const std::string& name = stream.name();
  if (!stream.terminal || !name.starts_with("/dev/")) return {};
  const size_t slash = name.rfind('/');
  const Path place =
      TRY(resolve(task, task.fs().root, name.substr(0, slash), kFollowLast | kMustBeDir));
  // Only in the sandbox's own /dev. devpts, too, is a tmpfs at heart.
  const bool in_devpts = strcmp(place.inode()->fs().type(), "devpts") == 0;
  if (!in_devpts && strcmp(place.inode()->fs().type(), "tmpfs") != 0) return {};
  auto& dir = static_cast<TmpfsInode&>(*place.inode());
  const std::string last = name.substr(slash + 1);
  if (TmpfsInode* node = dir.child(last)) {
    // Another stream of the same terminal was here before; other names are not ours.
    if (node->attr().rdev == stream.terminal->device()) stream.set_inode(Ref<Inode>(node));
    return {};
  }
  NewNode attributes;
  attributes.mode = S_IFCHR | 0620;
  attributes.uid = task.creds().euid;
  attributes.gid = kTtyGroup;
  attributes.rdev = stream.terminal->device();
  auto node =
      make_ref<TtyNode>(static_cast<Tmpfs&>(dir.fs()), attributes,
                        (in_devpts ? kFirstInDevpts : kFirstInode) + index, attributes.rdev);
  TRY(dir.attach(last, node));
  stream.set_inode(node);
  return {};
}

}  // namespace uks
