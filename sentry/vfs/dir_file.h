// An open directory of any file system: walks a snapshot of the names taken when it is (re)wound.
#pragma once
#include <vector>

#include "sentry/vfs/file.h"

namespace uks {

class DirFile final : public File {
 public:
  DirFile(Path path, int flags) : File(std::move(path), flags) {}
  ~DirFile() override { drop(); }
  Result<size_t> read(Task&, IoSink&) override { return Err(EISDIR); }
  Result<size_t> pread(Task&, IoSink&, int64_t) override { return Err(EISDIR); }
  Result<size_t> write(Task&, IoSource&) override { return Err(EBADF); }
  Result<size_t> pwrite(Task&, IoSource&, int64_t) override { return Err(EBADF); }
  bool seekable() const override { return true; }
  Result<int64_t> seek(Task& task, int64_t offset, int whence) override;
  Result<void> iterate(Task& task, const DirentSink& sink) override;
  Result<void> sync(Task&, bool) override { return {}; }

 private:
  Result<void> load(Task& task);
  void drop();

  bool loaded_ = false;
  bool ended_ = false;  // everything was read: the snapshot is gone, only its end is known
  std::vector<DirEntry> entries_;
};

// A seekable file with a size; seek() by its inode's attributes.
class SeekableFile : public File {
 public:
  using File::File;
  bool seekable() const override { return true; }
  Result<int64_t> seek(Task& task, int64_t offset, int whence) override;

 protected:
  virtual Result<uint64_t> file_size();
  // SEEK_DATA and SEEK_HOLE for 0 <= offset < size; the default sees no holes.
  virtual Result<int64_t> seek_data_hole(int64_t offset, bool hole, int64_t size);
};

}  // namespace uks
