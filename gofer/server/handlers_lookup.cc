// Handlers that only look: walking, attributes, links, listings.
#include <fcntl.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <optional>

#include "gofer/server/host_fs.h"
#include "gofer/server/server.h"

namespace uks::gofer {
namespace {

// The last argument of a request: their number, then each; not looked at yet.
Result<std::vector<std::string>> read_names(Reader& in) {
  const uint32_t count = in.u32();
  if (!in.ok() || count > kMaxWalkNames) return Err(EINVAL);
  std::vector<std::string> names;
  for (uint32_t i = 0; i < count && in.ok(); ++i) names.emplace_back(in.string(kMaxMessage));
  if (!in.done()) return Err(EINVAL);
  return names;
}

}  // namespace

Result<void> Server::attach(Reader& in, Writer& out) {
  uint32_t index = in.u32();
  if (!in.done()) return Err(EINVAL);
  if (index >= trees_.size()) return Err(ENOENT);
  const Tree& tree = trees_[index];
  Attr attr = TRY(stat_at(tree.fd.get(), ""));
  NodeId id = TRY(nodes_.enter_root(tree, attr));
  out.node({id, shown(attr, tree.rules, tree)});
  return {};
}

Result<Server::Step> Server::look_up(const Ref<Node>& dir_node, const RuleState& dir_rules,
                                     int dir_fd, const Attr& dir_attr, const std::string& name) {
  Step step;
  step.rules = rules_.child(dir_rules, name);
  // Without a look at the host where the answer does not depend on it.
  if (int hidden = rules_.visibility(step.rules, true)) return Err(hidden);
  step.attr = TRY(stat_at(dir_fd, name.c_str()));
  if (int hidden = rules_.visibility(step.rules, step.attr.is_directory())) return Err(hidden);
  if (step.attr.is_directory() && step.attr.dev != dir_attr.dev &&
      !dir_node->tree->kernel_interface) {
    step.fd = TRY(open_beneath(dir_fd, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW));
    if (is_kernel_interface(step.fd.get())) {
      step.rules = RuleState{};
      step.rules.action = Action::kDeny;
      step.rules.exact = true;
    }
  }
  step.node = TRY(nodes_.enter(dir_node, name, step.attr, step.rules));
  return step;
}

// Of a link that was just looked up; empty if it is another by now, or not to be read.
std::string Server::target_of(int dir_fd, const std::string& name, const Step& link) {
  if (link.rules.action == Action::kDeny) return {};  // as readlink()
  const auto fd = open_beneath(dir_fd, name.c_str(), O_PATH | O_NOFOLLOW);
  if (!fd) return {};
  const auto attr = stat_at(fd->get(), "");
  if (!attr || !attr->is_symlink() || !link.node->is(*attr)) return {};
  char target[kMaxLinkTarget];
  const ssize_t size = ::readlinkat(fd->get(), "", target, sizeof target);
  return size < 0 ? std::string() : std::string(target, static_cast<size_t>(size));
}

Result<void> Server::look_each(Reader& in, Writer& out) {
  const NodeId id = in.u64();
  const std::vector<std::string> names = TRY(read_names(in));
  std::shared_lock lock(names_lock_);
  const Handle dir = TRY(find_directory(id));
  size_t room = kMaxMessage / 4;  // for targets: what an answer has no room for would be lost
  for (const std::string& name : names) {
    Errno error{check_name(name)};
    std::optional<Step> step;
    if (error.value == 0) {
      auto found = look_up(dir.at.node, dir.at.rules, dir.fd, dir.attr, name);
      if (found) {
        step = std::move(*found);
      } else {
        error = found.error();
      }
    }
    out.i32(error.value);
    if (!step) continue;
    out.node({step->node->id, shown(step->attr, step->rules, dir.at.tree())});
    std::string target;
    if (step->attr.is_symlink() && room >= kMaxLinkTarget) target = target_of(dir.fd, name, *step);
    room -= target.size();
    out.string(target);
  }
  return {};
}

Result<void> Server::walk(Reader& in, Writer& out) {
  NodeId start = in.u64();
  const std::vector<std::string> names = TRY(read_names(in));

  std::shared_lock lock(names_lock_);
  Handle handle = TRY(find(start));
  if (handle.at.detached && !names.empty())
    return Err(handle.attr.is_directory() ? ENOENT : ENOTDIR);
  Ref<Node> node = handle.at.node;
  RuleState rules = handle.at.rules;
  Attr attr = handle.attr;
  int dir_fd = handle.fd;
  UniqueFd below;  // owns dir_fd once it is not the handle's
  int error = 0;
  std::vector<NodeAttr> steps;
  std::string target;
  for (size_t i = 0; i < names.size(); ++i) {
    error = check_name(names[i]);
    if (error == 0 && !attr.is_directory()) error = ENOTDIR;
    if (error != 0) break;
    auto step = look_up(node, rules, dir_fd, attr, names[i]);
    if (!step) {
      error = step.error().value;
      break;
    }
    steps.push_back({step->node->id, shown(step->attr, step->rules, *node->tree)});
    if (i + 1 == names.size()) break;
    if (step->attr.is_symlink()) {
      // On the way it will be followed. Of the last name nobody knows, and reading a link is an
      // access: its time would change by an lstat(2).
      target = target_of(dir_fd, names[i], *step);
      break;
    }
    if (step->attr.is_directory()) {
      UniqueFd next = std::move(step->fd);
      if (!next) {
        auto opened = open_beneath(dir_fd, names[i].c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW);
        if (!opened) {
          error = opened.error().value;
          break;
        }
        next = std::move(*opened);
      }
      auto now = stat_at(next.get(), "");
      if (!now || !step->node->is(*now)) {
        error = ESTALE;
        break;
      }
      below = std::move(next);
      dir_fd = below.get();
    }
    node = step->node;
    rules = step->rules;
    attr = step->attr;
  }
  out.i32(error);
  out.u32(static_cast<uint32_t>(steps.size()));
  for (const NodeAttr& step : steps) out.node(step);
  out.string(target);
  return {};
}

Result<void> Server::getattr(Reader& in, Writer& out) {
  NodeId id = in.u64();
  if (!in.done()) return Err(EINVAL);
  std::shared_lock lock(names_lock_);
  Handle handle = TRY(find(id));
  out.attr(shown(handle.attr, handle.at.rules, handle.at.tree()));
  return {};
}

Result<void> Server::readlink(Reader& in, Writer& out) {
  NodeId id = in.u64();
  if (!in.done()) return Err(EINVAL);
  std::shared_lock lock(names_lock_);
  Handle handle = TRY(find(id));
  if (handle.at.rules.action == Action::kDeny) return Err(EACCES);
  if (!handle.attr.is_symlink()) return Err(EINVAL);
  char target[kMaxLinkTarget];
  ssize_t size = ::readlinkat(handle.fd, "", target, sizeof(target));
  if (size < 0) return HostErr();
  out.string({target, static_cast<size_t>(size)});
  return {};
}

Result<void> Server::readdir(Reader& in, Writer& out) {
  NodeId id = in.u64();
  uint64_t cookie = in.u64();
  bool with_ids = in.u32() != 0;
  if (!in.done()) return Err(EINVAL);
  std::shared_lock lock(names_lock_);
  Handle dir = TRY(find(id));
  if (!dir.attr.is_directory()) return Err(ENOTDIR);
  if (dir.at.rules.action == Action::kDeny) return Err(EACCES);
  UniqueFd fd;
  if (!dir.at.detached) fd = TRY(open_beneath(dir.fd, ".", O_RDONLY | O_DIRECTORY));
  Listing listing;
  if (cookie != 0) {
    listing = TRY(listings_.take(cookie, id));
  } else {
    listing.node = id;
    if (fd) listing.names = TRY(list_names(fd.get(), Listings::kMaxNames));
  }
  size_t head = out.size();
  out.u64(0);
  out.u32(0);
  uint32_t count = 0;
  while (fd && listing.next < listing.names.size()) {
    const std::string& name = listing.names[listing.next];
    if (out.room() < 4 + name.size() + kNodeSize) break;
    ++listing.next;
    // A host name that the protocol cannot carry (longer than NAME_MAX allows) is not shown.
    if (check_name(name) != 0) continue;
    NodeAttr entry;
    if (with_ids) {
      auto step = look_up(dir.at.node, dir.at.rules, fd.get(), dir.attr, name);
      if (step) {
        entry = {step->node->id, shown(step->attr, step->rules, dir.at.tree())};
      } else if (step.error() == EACCES || step.error() == ENFILE) {
        // There, but the host does not let us examine it: the entry has no attributes.
        if (rules_.visibility(rules_.child(dir.at.rules, name), true) != 0) continue;
      } else {
        continue;
      }
    } else {
      RuleState rules = rules_.child(dir.at.rules, name);
      if (rules_.visibility(rules, true) != 0) continue;
      auto attr = stat_at(fd.get(), name.c_str());
      if (attr) {
        if (rules_.visibility(rules, attr->is_directory()) != 0) continue;
        entry.attr = shown(*attr, rules, dir.at.tree());
      } else if (attr.error() != EACCES) {
        continue;
      }
    }
    out.string(name);
    out.node(entry);
    ++count;
  }
  out.patch_u32(head + 8, count);
  if (listing.next < listing.names.size() && fd) {
    uint64_t next = listings_.put(std::move(listing), cookie);
    out.patch_u32(head, static_cast<uint32_t>(next));
    out.patch_u32(head + 4, static_cast<uint32_t>(next >> 32));
  }
  return {};
}

Result<void> Server::statfs(Reader& in, Writer& out) {
  NodeId id = in.u64();
  if (!in.done()) return Err(EINVAL);
  std::shared_lock lock(names_lock_);
  Handle handle = TRY(find(id));
  struct statfs s;
  if (::fstatfs(handle.fd, &s) < 0) return HostErr();
  for (uint64_t field : {static_cast<uint64_t>(s.f_type), static_cast<uint64_t>(s.f_bsize),
                         static_cast<uint64_t>(s.f_blocks), static_cast<uint64_t>(s.f_bfree),
                         static_cast<uint64_t>(s.f_bavail), static_cast<uint64_t>(s.f_files),
                         static_cast<uint64_t>(s.f_ffree), static_cast<uint64_t>(s.f_namelen),
                         static_cast<uint64_t>(s.f_frsize)}) {
    out.u64(field);
  }
  return {};
}

Result<void> Server::forget(Reader& in) {
  uint32_t count = in.u32();
  if (!in.ok() || count > kMaxForgets) return Err(EINVAL);
  for (uint32_t i = 0; i < count; ++i) {
    NodeId id = in.u64();
    uint64_t lookups = in.u64();
    if (!in.ok()) return Err(EINVAL);
    nodes_.forget(id, lookups);
  }
  if (!in.done()) return Err(EINVAL);
  return {};
}

}  // namespace uks::gofer
