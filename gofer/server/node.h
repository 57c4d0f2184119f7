// The files that the client holds ids of, as a tree of names.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "gofer/proto/messages.h"
#include "gofer/server/rules.h"
#include "platform/base/ref.h"
#include "platform/base/result.h"
#include "platform/base/unique_fd.h"

namespace uks::gofer {

// A served tree, open.
struct Tree {
  std::string root;  // absolute host path
  UniqueFd fd;       // O_PATH
  bool writable = false;
  bool kernel_interface = false;  // the root itself lies in proc or the like: served as configured
  bool in_hooks = false;          // the root is, or lies in, the hooks directory of a repository
  RuleState rules;                // of the root
};

// A name in a tree, bound to the inode that was found under it. It holds no descriptor: operations
// resolve the path from the tree's root anew and compare the inode, so a file that the host moved
// away is ESTALE, and memory is all that a million nodes cost. Only what the sandbox itself unlinks
// keeps a descriptor.
class Node : public RefCounted {
 public:
  NodeId id = kNoNode;
  const Tree* tree = nullptr;
  uint64_t dev = 0, ino = 0;
  uint32_t type = 0;  // S_IFMT bits

  // The rest is guarded by NodeTable::mutex_.
  Ref<Node> parent;  // null: a root, or detached
  std::string name;
  RuleState rules;
  uint64_t lookups = 0;
  bool detached = false;  // no longer under its name
  UniqueFd pinned;        // only when detached; O_PATH, if the file had a name
  std::map<std::string, Node*, std::less<>> children;

  // Not by birth time: on an overlay file system that changes when the file is copied up.
  bool is(const Attr& attr) const {
    return attr.dev == dev && attr.ino == ino && (attr.mode & S_IFMT) == type;
  }
};

// Where a node is at this moment.
struct Located {
  Ref<Node> node;
  std::string path;  // below the tree's root; "" is the root. Meaningless if detached.
  RuleState rules;
  bool detached = false;
  int pinned = -1;  // valid as long as `node` is
  const Tree& tree() const { return *node->tree; }
  bool may_write() const { return rules.action == Action::kRw && node->tree->writable; }
};

// Thread-safe.
class NodeTable {
 public:
  // More nodes than this: ENFILE. (A node is about 300 bytes.)
  static constexpr size_t kMaxNodes = 4'000'000;
  // Descriptors kept for unlinked files; more are not kept, such files are then ESTALE by id.
  static constexpr size_t kMaxPinned = 4096;

  // The node of a tree's root, with one more lookup.
  Result<NodeId> enter_root(const Tree& tree, const Attr& attr);
  // The node of `name` in `parent`, with one more lookup. If another inode was known there, that
  // node is detached. ESTALE if the parent is detached.
  Result<Ref<Node>> enter(const Ref<Node>& parent, std::string_view name, const Attr& attr,
                          RuleState rules);
  // The node of a file without a name, with one lookup. `pin`: a descriptor of it. ENFILE.
  Result<Ref<Node>> enter_unnamed(const Tree& tree, const Attr& attr, RuleState rules,
                                  UniqueFd pin);
  // ESTALE: no such node, or an ancestor is detached (`allow_detached`: the node itself may be).
  Result<Located> locate(NodeId id, bool allow_detached = false);
  void forget(NodeId id, uint64_t lookups);

  // Whether the client knows `name` in `parent`.
  bool knows(const Node& parent, std::string_view name);
  // The name is gone. `pin`: an O_PATH descriptor for the inode that had it.
  void unlinked(Node& parent, std::string_view name, UniqueFd pin);
  // The name has moved, over whatever was there (`pin`: that one's descriptor).
  void renamed(Node& old_parent, std::string_view old_name, Node& new_parent,
               std::string_view new_name, RuleState new_rules, UniqueFd pin);
  void exchanged(Node& a, std::string_view a_name, RuleState a_rules, Node& b,
                 std::string_view b_name, RuleState b_rules);
  // Whether `ancestor` is `node` or above it.
  bool is_within(const Node& node, const Node& ancestor);
  size_t size();

 private:
  Result<void> add(const Ref<Node>& node);
  void detach(Node& node, UniqueFd pin);
  void attach(Node& node, Node& parent, std::string_view name, RuleState rules);
  Ref<Node> take_child(Node& parent, std::string_view name);
  // Drops the node if nobody needs it, then its ancestors likewise.
  void drop_unused(Ref<Node> node);

  std::mutex mutex_;
  std::unordered_map<NodeId, Ref<Node>> nodes_;
  std::map<const Tree*, Node*> roots_;
  NodeId next_id_ = 1;
  size_t pinned_count_ = 0;
};

}  // namespace uks::gofer
