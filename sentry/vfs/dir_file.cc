// Open directories, and positions of seekable files.
#include "sentry/vfs/dir_file.h"

#include <dirent.h>

namespace uks {
namespace {

// Entries in all snapshots together: a guest with a large directory must not fill the kernel's
// memory by opening it again and again. Some 100 bytes each.
constexpr size_t kMaxSnapshots = 4'000'000;
size_t snapshot_entries = 0;  // under the kernel lock

}  // namespace

void DirFile::drop() {
  snapshot_entries -= entries_.size();
  entries_.clear();
  entries_.shrink_to_fit();
  loaded_ = false;
}

Result<void> DirFile::load(Task& task) {
  if (path().dentry->deleted()) return Err(ENOENT);
  Ref<Inode> dir = path().dentry->inode_ref();
  auto entries = TRY(dir->read_dir(task));
  if (snapshot_entries + entries.size() > kMaxSnapshots) return Err(ENOMEM);
  drop();
  entries_ = std::move(entries);
  snapshot_entries += entries_.size();
  loaded_ = true;
  return {};
}

Result<int64_t> DirFile::seek(Task&, int64_t offset, int whence) {
  if (whence == SEEK_CUR)
    offset += pos;
  else if (whence != SEEK_SET)
    return Err(EINVAL);
  if (offset < 0) return Err(EINVAL);
  if (offset == 0) drop();
  if (offset != pos) ended_ = false;
  pos = offset;
  return pos;
}

Result<void> DirFile::iterate(Task& task, const DirentSink& sink) {
  if (ended_) return {};
  if (!loaded_) TRY(load(task));
  if (pos < 2) {
    uint64_t self = TRY(inode()->getattr()).ino;
    if (pos == 0) {
      if (!sink(".", self, 1, DT_DIR)) return {};
      pos = 1;
    }
    uint64_t up = self;
    if (auto parent = path().dentry->parent()) up = TRY(parent->inode()->getattr()).ino;
    if (!sink("..", up, 2, DT_DIR)) return {};
    pos = 2;
  }
  while (static_cast<size_t>(pos - 2) < entries_.size()) {
    const DirEntry& e = entries_[static_cast<size_t>(pos - 2)];
    if (!sink(e.name, e.ino, pos + 1, e.type)) return {};
    ++pos;
  }
  drop();
  ended_ = true;
  return {};
}

Result<uint64_t> SeekableFile::file_size() { return TRY(inode()->getattr()).size; }

Result<int64_t> SeekableFile::seek_data_hole(int64_t offset, bool hole, int64_t size) {
  return hole ? size : offset;
}

Result<int64_t> SeekableFile::seek(Task&, int64_t offset, int whence) {
  int64_t base = 0;
  switch (whence) {
    case SEEK_SET:
      break;
    case SEEK_CUR:
      base = pos;
      break;
    case SEEK_END:
      base = static_cast<int64_t>(TRY(file_size()));
      break;
    case SEEK_DATA:
    case SEEK_HOLE: {
      int64_t size = static_cast<int64_t>(TRY(file_size()));
      if (offset < 0 || offset >= size) return Err(ENXIO);
      pos = TRY(seek_data_hole(offset, whence == SEEK_HOLE, size));
      return pos;
    }
    default:
      return Err(EINVAL);
  }
  int64_t to;
  if (__builtin_add_overflow(base, offset, &to)) return Err(EOVERFLOW);
  if (to < 0) return Err(EINVAL);
  pos = to;
  return pos;
}

}  // namespace uks
