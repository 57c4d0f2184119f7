// Building blocks of file systems whose files are generated: /proc and /sys.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "sentry/vfs/dir_file.h"
#include "sentry/vfs/inode.h"

namespace uks {

class PseudoFs : public FileSystem {
 public:
  // `type` as in /proc/mounts; `magic` as statfs(2) reports it.
  PseudoFs(const char* type, uint32_t magic)
      : type_(type), magic_(magic), created_(now_timespec()) {}
  const char* type() const override { return type_; }
  Result<struct statfs> statfs() override;
  // The time that files show which have no better one.
  const timespec& created() const { return created_; }

 private:
  const char* type_;
  uint32_t magic_;
  timespec created_;
};

// The inode number of `name` in the directory with number `parent`: the same at every lookup,
// though the inode objects come and go.
uint64_t pseudo_ino(uint64_t parent, std::string_view name);

// Fixed attributes; the owner is root unless set.
class PseudoInode : public Inode {
 public:
  PseudoInode(PseudoFs& fs, uint64_t ino, uint32_t mode);
  uint32_t type() const override { return attr_.mode & S_IFMT; }
  Result<Attr> getattr() override { return attr_; }
  uint64_t ino() const { return attr_.ino; }
  void set_owner(uint32_t uid, uint32_t gid) {
    attr_.uid = uid;
    attr_.gid = gid;
  }

 protected:
  PseudoFs& pseudo_fs() const { return static_cast<PseudoFs&>(fs()); }
  Attr attr_;
};

// A directory whose entries are put there at start.
class PseudoDir : public PseudoInode {
 public:
  PseudoDir(PseudoFs& fs, uint64_t ino, uint32_t mode = 0555)
      : PseudoInode(fs, ino, S_IFDIR | mode) {}
  Result<Ref<Inode>> lookup(Task& task, std::string_view name) override;
  Result<std::vector<DirEntry>> read_dir(Task& task) override;
  // Replaces nothing: the first entry of a name stays.
  void add(std::string_view name, Ref<PseudoInode> inode);
  // The directory `path` below this one ("a/b"), made as far as it is missing.
  PseudoDir& dir(std::string_view path);
  uint64_t child_ino(std::string_view name) const { return pseudo_ino(attr_.ino, name); }

  // A file that `text` generates at each read from its start; `store`, if set, takes writes.
  using Text = std::function<Result<std::string>(Task& task)>;
  using Store = std::function<Result<void>(Task& task, std::string_view data)>;
  void add_text(std::string_view name, uint32_t mode, Text text, Store store = {});
  void add_fixed(std::string_view name, std::string text, uint32_t mode = 0444);
  void add_link(std::string_view name, std::string target);

 private:
  std::map<std::string, Ref<PseudoInode>, std::less<>> children_;
};

// A regular file with generated content.
class TextInode : public PseudoInode {
 public:
  TextInode(PseudoFs& fs, uint64_t ino, uint32_t mode) : PseudoInode(fs, ino, S_IFREG | mode) {}
  virtual Result<std::string> generate(Task& task) = 0;
  // The bytes of one write(2), at most kMaxStore. EACCES at open unless is_writable().
  virtual Result<void> store(Task& task, std::string_view data);
  virtual bool is_writable() const { return false; }
  static constexpr size_t kMaxStore = 4096;

  // Asked at open; whoever has the file open may go on reading, as on Linux.
  virtual Result<void> check_open(Task& task, int flags);
  // For poll and epoll; null: not pollable.
  virtual WaitQueue* wait_queue() { return nullptr; }

  Result<void> setattr(const SetAttr& changes) override;
  Result<Ref<File>> open(Task& task, const Path& path, int flags) override;
};

class CallbackText final : public TextInode {
 public:
  CallbackText(PseudoFs& fs, uint64_t ino, uint32_t mode, PseudoDir::Text text,
               PseudoDir::Store store)
      : TextInode(fs, ino, mode), text_(std::move(text)), store_(std::move(store)) {}
  Result<std::string> generate(Task& task) override { return text_(task); }
  Result<void> store(Task& task, std::string_view data) override { return store_(task, data); }
  bool is_writable() const override { return static_cast<bool>(store_); }

 private:
  PseudoDir::Text text_;
  PseudoDir::Store store_;
};

// A symbolic link whose target is generated.
class PseudoLink final : public PseudoInode {
 public:
  PseudoLink(PseudoFs& fs, uint64_t ino, PseudoDir::Text target)
      : PseudoInode(fs, ino, S_IFLNK | 0777), target_(std::move(target)) {}
  Result<std::string> readlink(Task& task) override { return target_(task); }

 private:
  PseudoDir::Text target_;
};

// A decimal number without sign or leading zeros, as the kernel's name_to_int(); -1: none.
int parse_number(std::string_view text);

}  // namespace uks
