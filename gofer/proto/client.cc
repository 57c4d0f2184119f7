// The gofer client: picks an idle connection, sends one request, waits for its answer.
#include "gofer/proto/client.h"

#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "gofer/proto/channel.h"
#include "gofer/proto/codec.h"

namespace uks::gofer {

// An answer without its head. The bytes lie in a buffer of the calling thread, until its next call.
struct GoferClient::Answer {
  std::string_view bytes;
  UniqueFd fd;
};

namespace {

// Starts a request; the sequence number is filled in when it is sent.
Writer request_for(Op op) {
  Writer w;
  w.u32(static_cast<uint32_t>(op));
  w.u32(0);
  return w;
}

Writer request_for_names(Op op, NodeId start, std::span<const std::string_view> names) {
  Writer w = request_for(op);
  w.u64(start);
  w.u32(static_cast<uint32_t>(names.size()));
  for (std::string_view name : names) w.string(name);
  return w;
}

std::span<char> answer_buffer() {
  thread_local const auto buffer = std::make_unique_for_overwrite<char[]>(kMaxMessage);
  return {buffer.get(), kMaxMessage};
}

void put_owner(Writer& w, Owner owner) {
  w.u32(owner.uid);
  w.u32(owner.gid);
}

}  // namespace

GoferClient::GoferClient(std::vector<UniqueFd> connections) : connections_(std::move(connections)) {
  for (size_t i = connections_.size(); i > 0; --i) free_.push_back(i - 1);
  if (connections_.empty()) dead_ = true;
}

GoferClient::~GoferClient() = default;

void GoferClient::die() {
  if (dead_.exchange(true)) return;
  // Whoever waits on another connection sees its end at once, even if only one of them broke.
  for (const UniqueFd& fd : connections_) ::shutdown(fd.get(), SHUT_RDWR);
  std::lock_guard lock(mutex_);
  free_changed_.notify_all();
}

Result<GoferClient::Answer> GoferClient::call(Writer& request, bool wants_fd) {
  if (request.overflow()) return Err(E2BIG);
  size_t index;
  {
    std::unique_lock lock(mutex_);
    free_changed_.wait(lock, [&] { return dead() || !free_.empty(); });
    if (dead()) return Err(EIO);
    index = free_.back();
    free_.pop_back();
  }
  uint32_t seq = next_seq_.fetch_add(1, std::memory_order_relaxed);
  request.patch_u32(4, seq);
  int socket = connections_[index].get();
  Answer answer;
  int error = EIO;
  bool intact = false;
  if (send_packet(socket, request.bytes())) {
    auto packet = receive_packet(socket, answer_buffer());
    if (packet && !packet->bytes.empty()) {
      Reader r(packet->bytes);
      intact = r.u32() == seq;
      error = r.i32();
      intact = intact && r.ok() && error >= 0 && error < 4096;
      if (intact) {
        answer.bytes = packet->bytes.substr(8);
        answer.fd = std::move(packet->fd);
      }
    }
  }
  if (!intact) {
    die();
    return Err(EIO);
  }
  {
    std::lock_guard lock(mutex_);
    free_.push_back(index);
    free_changed_.notify_one();
  }
  if (error != 0) return Err(error);
  if (answer.fd.valid() != wants_fd) return Err(EIO);
  return answer;
}

Result<NodeAttr> GoferClient::call_for_node(Writer& request) {
  Answer answer = TRY(call(request, false));
  Reader r(answer.bytes);
  NodeAttr node = r.node();
  if (!r.done()) return Err(EIO);
  return node;
}

Result<NodeAttr> GoferClient::call_for_new(Writer& request, Attr* dir_after) {
  Answer answer = TRY(call(request, false));
  Reader r(answer.bytes);
  NodeAttr node = r.node();
  Attr dir = r.attr();
  if (!r.done()) return Err(EIO);
  if (dir_after) *dir_after = dir;
  return node;
}

Result<void> GoferClient::call_for_dir(Writer& request, Attr* dir_after) {
  Answer answer = TRY(call(request, false));
  Reader r(answer.bytes);
  Attr dir = r.attr();
  if (!r.done()) return Err(EIO);
  if (dir_after) *dir_after = dir;
  return {};
}

Result<void> GoferClient::call_for_nothing(Writer& request) {
  TRY(call(request, false));
  return {};
}

Result<NodeAttr> GoferClient::attach(uint32_t tree) {
  Writer w = request_for(Op::kAttach);
  w.u32(tree);
  return call_for_node(w);
}

Result<WalkResult> GoferClient::walk(NodeId start, std::span<const std::string_view> names) {
  if (names.size() > kMaxWalkNames) return Err(ENAMETOOLONG);
  Writer w = request_for_names(Op::kWalk, start, names);
  Answer answer = TRY(call(w, false));
  Reader r(answer.bytes);
  WalkResult result;
  result.error = Errno{r.i32()};
  uint32_t count = r.u32();
  if (count > names.size()) return Err(EIO);
  for (uint32_t i = 0; i < count; ++i) result.steps.push_back(r.node());
  result.target = r.string(kMaxLinkTarget);
  if (!r.done()) return Err(EIO);
  return result;
}

Result<std::vector<Looked>> GoferClient::look_each(NodeId dir,
                                                   std::span<const std::string_view> names) {
  if (names.size() > kMaxWalkNames) return Err(ENAMETOOLONG);
  Writer w = request_for_names(Op::kLookEach, dir, names);
  Answer answer = TRY(call(w, false));
  Reader r(answer.bytes);
  std::vector<Looked> result(names.size());
  for (Looked& looked : result) {
    looked.error = Errno{r.i32()};
    if (looked.error.value != 0) continue;
    looked.node = r.node();
    looked.target = r.string(kMaxLinkTarget);
  }
  if (!r.done()) return Err(EIO);
  return result;
}

Result<NodeAttr> GoferClient::lookup(NodeId dir, std::string_view name) {
  WalkResult result = TRY(walk(dir, std::span(&name, 1)));
  if (result.error.value != 0) return Err(result.error);
  if (result.steps.size() != 1) return Err(EIO);
  return result.steps[0];
}

Result<Attr> GoferClient::getattr(NodeId node) {
  Writer w = request_for(Op::kGetattr);
  w.u64(node);
  Answer answer = TRY(call(w, false));
  Reader r(answer.bytes);
  Attr attr = r.attr();
  if (!r.done()) return Err(EIO);
  return attr;
}

Result<Attr> GoferClient::setattr(NodeId node, const SetAttr& changes) {
  Writer w = request_for(Op::kSetattr);
  w.u64(node);
  w.u32(changes.mask);
  w.u32(changes.mode);
  w.u32(changes.uid);
  w.u32(changes.gid);
  w.u64(changes.size);
  w.time(changes.atime);
  w.time(changes.mtime);
  Answer answer = TRY(call(w, false));
  Reader r(answer.bytes);
  Attr attr = r.attr();
  if (!r.done()) return Err(EIO);
  return attr;
}

Result<OpenedFile> GoferClient::open(NodeId node, int flags) {
  Writer w = request_for(Op::kOpen);
  w.u64(node);
  w.i32(flags);
  Answer answer = TRY(call(w, true));
  Reader r(answer.bytes);
  OpenedFile file{std::move(answer.fd), r.attr()};
  if (!r.done()) return Err(EIO);
  return file;
}

Result<CreatedFile> GoferClient::create(NodeId dir, std::string_view name, uint32_t mode, int flags,
                                        Owner owner, Attr* dir_after) {
  Writer w = request_for(Op::kCreate);
  w.u64(dir);
  w.string(name);
  w.u32(mode);
  w.i32(flags);
  put_owner(w, owner);
  Answer answer = TRY(call(w, true));
  Reader r(answer.bytes);
  CreatedFile file;
  file.node = r.node();
  file.created = r.u32() != 0;
  Attr dir_attr = r.attr();
  file.fd = std::move(answer.fd);
  if (!r.done()) return Err(EIO);
  if (dir_after) *dir_after = dir_attr;
  return file;
}

Result<CreatedFile> GoferClient::create_unnamed(NodeId dir, uint32_t mode, Owner owner) {
  Writer w = request_for(Op::kCreateUnnamed);
  w.u64(dir);
  w.u32(mode);
  put_owner(w, owner);
  Answer answer = TRY(call(w, true));
  Reader r(answer.bytes);
  CreatedFile file;
  file.node = r.node();
  file.created = true;
  file.fd = std::move(answer.fd);
  if (!r.done()) return Err(EIO);
  return file;
}

Result<NodeAttr> GoferClient::mkdir(NodeId dir, std::string_view name, uint32_t mode, Owner owner,
                                    Attr* dir_after) {
  Writer w = request_for(Op::kMkdir);
  w.u64(dir);
  w.string(name);
  w.u32(mode);
  put_owner(w, owner);
  return call_for_new(w, dir_after);
}

Result<NodeAttr> GoferClient::symlink(NodeId dir, std::string_view name, std::string_view target,
                                      Owner owner, Attr* dir_after) {
  Writer w = request_for(Op::kSymlink);
  w.u64(dir);
  w.string(name);
  w.string(target);
  put_owner(w, owner);
  return call_for_new(w, dir_after);
}

Result<size_t> GoferClient::write(NodeId node, uint64_t offset, std::string_view bytes) {
  Writer w = request_for(Op::kWrite);
  w.u64(node);
  w.u64(offset);
  w.string(bytes);
  Answer answer = TRY(call(w, false));
  Reader r(answer.bytes);
  const size_t written = r.u32();
  if (!r.done() || written > bytes.size()) return Err(EIO);
  return written;
}

Result<NodeAttr> GoferClient::link(NodeId node, NodeId dir, std::string_view name,
                                   Attr* dir_after) {
  Writer w = request_for(Op::kLink);
  w.u64(node);
  w.u64(dir);
  w.string(name);
  return call_for_new(w, dir_after);
}

Result<void> GoferClient::unlink(NodeId dir, std::string_view name, Attr* dir_after) {
  Writer w = request_for(Op::kUnlink);
  w.u64(dir);
  w.string(name);
  return call_for_dir(w, dir_after);
}

Result<void> GoferClient::rmdir(NodeId dir, std::string_view name, Attr* dir_after) {
  Writer w = request_for(Op::kRmdir);
  w.u64(dir);
  w.string(name);
  return call_for_dir(w, dir_after);
}

Result<void> GoferClient::rename(NodeId old_dir, std::string_view old_name, NodeId new_dir,
                                 std::string_view new_name, uint32_t flags, Attr* old_dir_after,
                                 Attr* new_dir_after) {
  Writer w = request_for(Op::kRename);
  w.u64(old_dir);
  w.string(old_name);
  w.u64(new_dir);
  w.string(new_name);
  w.u32(flags);
  Answer answer = TRY(call(w, false));
  Reader r(answer.bytes);
  Attr old_attr = r.attr(), new_attr = r.attr();
  if (!r.done()) return Err(EIO);
  if (old_dir_after) *old_dir_after = old_attr;
  if (new_dir_after) *new_dir_after = new_attr;
  return {};
}

Result<NodeAttr> GoferClient::mknod(NodeId dir, std::string_view name, uint32_t mode, Owner owner,
                                    Attr* dir_after) {
  Writer w = request_for(Op::kMknod);
  w.u64(dir);
  w.string(name);
  w.u32(mode);
  put_owner(w, owner);
  return call_for_new(w, dir_after);
}

Result<std::string> GoferClient::readlink(NodeId node) {
  Writer w = request_for(Op::kReadlink);
  w.u64(node);
  Answer answer = TRY(call(w, false));
  Reader r(answer.bytes);
  std::string target(r.string(kMaxLinkTarget));
  if (!r.done()) return Err(EIO);
  return target;
}

Result<DirPage> GoferClient::readdir(NodeId dir, uint64_t cookie, bool with_ids) {
  Writer w = request_for(Op::kReaddir);
  w.u64(dir);
  w.u64(cookie);
  w.u32(with_ids);
  Answer answer = TRY(call(w, false));
  Reader r(answer.bytes);
  DirPage page;
  page.next = r.u64();
  uint32_t count = r.u32();
  for (uint32_t i = 0; i < count && r.ok(); ++i) {
    DirEntry entry;
    entry.name = r.string(kMaxName);
    entry.id = r.u64();
    entry.attr = r.attr();
    page.entries.push_back(std::move(entry));
  }
  if (!r.done()) return Err(EIO);
  return page;
}

Result<std::vector<DirEntry>> GoferClient::read_directory(NodeId dir, bool with_ids) {
  std::vector<DirEntry> all;
  uint64_t cookie = 0;
  do {
    auto page = readdir(dir, cookie, with_ids);
    if (!page) {
      // What came so far is not shown: its lookups go back.
      std::vector<Forget> forgets;
      for (const DirEntry& entry : all) {
        if (entry.id != kNoNode) forgets.push_back({entry.id, 1});
      }
      forget(forgets);
      return Err(page.error());
    }
    if (all.empty()) {
      all = std::move(page->entries);
    } else {
      for (DirEntry& entry : page->entries) all.push_back(std::move(entry));
    }
    cookie = page->next;
  } while (cookie != 0);
  return all;
}

Result<StatFs> GoferClient::statfs(NodeId node) {
  Writer w = request_for(Op::kStatfs);
  w.u64(node);
  Answer answer = TRY(call(w, false));
  Reader r(answer.bytes);
  StatFs s;
  for (uint64_t* field : {&s.type, &s.bsize, &s.blocks, &s.bfree, &s.bavail, &s.files, &s.ffree,
                          &s.namelen, &s.frsize}) {
    *field = r.u64();
  }
  if (!r.done()) return Err(EIO);
  return s;
}

Result<std::string> GoferClient::getxattr(NodeId node, std::string_view name) {
  Writer w = request_for(Op::kGetxattr);
  w.u64(node);
  w.string(name);
  Answer answer = TRY(call(w, false));
  Reader r(answer.bytes);
  std::string value(r.string(kMaxMessage));
  if (!r.done()) return Err(EIO);
  return value;
}

Result<void> GoferClient::setxattr(NodeId node, std::string_view name, std::string_view value,
                                   int flags) {
  Writer w = request_for(Op::kSetxattr);
  w.u64(node);
  w.string(name);
  w.string(value);
  w.i32(flags);
  return call_for_nothing(w);
}

Result<std::vector<std::string>> GoferClient::listxattr(NodeId node) {
  Writer w = request_for(Op::kListxattr);
  w.u64(node);
  Answer answer = TRY(call(w, false));
  Reader r(answer.bytes);
  std::vector<std::string> names;
  uint32_t count = r.u32();
  for (uint32_t i = 0; i < count && r.ok(); ++i) names.emplace_back(r.string(kMaxName));
  if (!r.done()) return Err(EIO);
  return names;
}

Result<void> GoferClient::removexattr(NodeId node, std::string_view name) {
  Writer w = request_for(Op::kRemovexattr);
  w.u64(node);
  w.string(name);
  return call_for_nothing(w);
}

Result<void> GoferClient::fsync(NodeId node, bool data_only) {
  Writer w = request_for(Op::kFsync);
  w.u64(node);
  w.u32(data_only);
  return call_for_nothing(w);
}

Result<WatchedFile> GoferClient::watch(NodeId node, uint32_t flags) {
  Writer w = request_for(Op::kWatch);
  w.u64(node);
  w.u32(flags);
  Answer answer = TRY(call(w, flags & kWatchInstance));
  Reader r(answer.bytes);
  WatchedFile watched{r.i32(), std::move(answer.fd)};
  if (!r.done()) return Err(EIO);
  return watched;
}

Result<void> GoferClient::unwatch(int watch) {
  Writer w = request_for(Op::kUnwatch);
  w.i32(watch);
  return call_for_nothing(w);
}

void GoferClient::forget(std::span<const Forget> forgets) {
  while (!forgets.empty()) {
    size_t count = std::min(forgets.size(), kMaxForgets);
    Writer w = request_for(Op::kForget);
    w.u32(static_cast<uint32_t>(count));
    for (const Forget& f : forgets.first(count)) {
      w.u64(f.id);
      w.u64(f.lookups);
    }
    if (!call_for_nothing(w)) return;
    forgets = forgets.subspan(count);
  }
}

void GoferClient::forget(NodeId node, uint64_t lookups) {
  Forget f{node, lookups};
  forget(std::span(&f, 1));
}

}  // namespace uks::gofer
