// Generated directories, files and links.
#include "sentry/fs/pseudo/pseudo.h"

#include <charconv>

namespace uks {
namespace {

// Bytes that all open files together keep; under the kernel lock. Beyond it texts are made anew for
// each read: a guest may have a million descriptors and texts of many megabytes.
constexpr size_t kMaxKept = 64 << 20;
size_t kept_bytes = 0;

// An open generated file: keeps the text of the last read from its start, so that a reader in
// pieces sees one state.
class TextFile final : public SeekableFile {
 public:
  TextFile(Path path, int flags, Ref<TextInode> inode)
      : SeekableFile(std::move(path), flags), inode_(std::move(inode)) {}
  ~TextFile() override { drop(); }
  Inode* inode() const override { return inode_.get(); }

  Result<size_t> pread(Task& task, IoSink& sink, int64_t pos) override {
    if (pos < 0) return Err(EINVAL);
    if (pos == 0 || !loaded_) {
      std::string text = TRY(inode_->generate(task));
      drop();
      text_ = std::move(text);
      loaded_ = true;
      kept_bytes += text_.size();
    }
    const auto at = static_cast<uint64_t>(pos);
    Result<size_t> n = 0;
    if (at < text_.size()) n = sink.write(text_.data() + at, text_.size() - at);
    // The end was read: a large text goes. Whoever asks again has it made again.
    if (kept_bytes > kMaxKept || (at >= text_.size() && text_.size() > kSmall)) drop();
    return n;
  }

  Result<size_t> pwrite(Task& task, IoSource& source, int64_t) override {
    if (!inode_->is_writable()) return Err(EINVAL);
    std::string data(std::min(source.remaining(), TextInode::kMaxStore), '\0');
    if (data.empty()) return 0;
    data.resize(TRY(source.read(data.data(), data.size())));
    TRY(inode_->store(task, data));
    return data.size();
  }

  uint32_t poll_events() override {
    return inode_->wait_queue() ? EPOLLIN | EPOLLRDNORM
                                : EPOLLIN | EPOLLOUT | EPOLLRDNORM | EPOLLWRNORM;
  }
  WaitQueue* wait_queue() override { return inode_->wait_queue(); }

 private:
  static constexpr size_t kSmall = 4096;
  void drop() {
    kept_bytes -= text_.size();
    text_ = {};
    loaded_ = false;
  }

  Ref<TextInode> inode_;
  std::string text_;
  bool loaded_ = false;
};

}  // namespace

Result<struct statfs> PseudoFs::statfs() {
  struct statfs s{};
  s.f_type = magic_;
  s.f_bsize = s.f_frsize = 4096;
  s.f_namelen = 255;
  return s;
}

uint64_t pseudo_ino(uint64_t parent, std::string_view name) {
  // FNV-1a, folded to 32 bits: programs built without large-file support see these numbers too.
  uint64_t h = 0xcbf29ce484222325 ^ (parent * 0x9e3779b97f4a7c15);
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  h ^= h >> 32;
  return (h & 0xffffffff) | 0x80000000;
}

PseudoInode::PseudoInode(PseudoFs& fs, uint64_t ino, uint32_t mode) : Inode(fs) {
  attr_.ino = ino;
  attr_.dev = fs.dev();
  attr_.mode = mode;
  attr_.nlink = S_ISDIR(mode) ? 2 : 1;
  attr_.blksize = 1024;
  attr_.atime = attr_.mtime = attr_.ctime = fs.created();
}

Result<Ref<Inode>> PseudoDir::lookup(Task&, std::string_view name) {
  const auto it = children_.find(name);
  if (it == children_.end()) return Ref<Inode>();
  return Ref<Inode>(it->second);
}

Result<std::vector<DirEntry>> PseudoDir::read_dir(Task&) {
  std::vector<DirEntry> out;
  out.reserve(children_.size());
  for (const auto& [name, inode] : children_)
    out.push_back({name, inode->ino(), dirent_type(inode->type())});
  return out;
}

void PseudoDir::add(std::string_view name, Ref<PseudoInode> inode) {
  if (inode->is_dir()) ++attr_.nlink;
  children_.emplace(name, std::move(inode));
}

PseudoDir& PseudoDir::dir(std::string_view path) {
  const size_t slash = path.find('/');
  const std::string_view name = path.substr(0, slash);
  auto it = children_.find(name);
  if (it == children_.end()) {
    add(name, make_ref<PseudoDir>(pseudo_fs(), child_ino(name)));
    it = children_.find(name);
  }
  auto& child = static_cast<PseudoDir&>(*it->second);
  return slash == std::string_view::npos ? child : child.dir(path.substr(slash + 1));
}

void PseudoDir::add_text(std::string_view name, uint32_t mode, Text text, Store store) {
  add(name, make_ref<CallbackText>(pseudo_fs(), child_ino(name), mode, std::move(text),
                                   std::move(store)));
}

void PseudoDir::add_fixed(std::string_view name, std::string text, uint32_t mode) {
  add_text(name, mode, [text = std::move(text)](Task&) -> Result<std::string> { return text; });
}

void PseudoDir::add_link(std::string_view name, std::string target) {
  add(name, make_ref<PseudoLink>(
                pseudo_fs(), child_ino(name),
                [target = std::move(target)](Task&) -> Result<std::string> { return target; }));
}

Result<void> TextInode::store(Task&, std::string_view) { return Err(EINVAL); }

Result<void> TextInode::check_open(Task&, int) { return {}; }

// O_TRUNC of a file that can be written is harmless; there is nothing else to change.
Result<void> TextInode::setattr(const SetAttr& c) {
  if (c.size && !c.mode && !c.uid && !c.gid && !c.atime && !c.mtime && is_writable()) return {};
  return Err(EPERM);
}

Result<Ref<File>> TextInode::open(Task& task, const Path& path, int flags) {
  // Mode bits do not stop CAP_DAC_OVERRIDE, but what cannot be written cannot be opened for it
  // either (sysctl_perm()).
  if ((flags & O_ACCMODE) != O_RDONLY && !is_writable()) return Err(EACCES);
  TRY(check_open(task, flags));
  return make_ref<TextFile>(path, flags, Ref<TextInode>(this));
}

int parse_number(std::string_view text) {
  int n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < 0) return -1;
  return text.size() > 1 && text[0] == '0' ? -1 : n;
}

}  // namespace uks
