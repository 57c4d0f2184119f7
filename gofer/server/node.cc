// The node table.
#include "gofer/server/node.h"

#include <algorithm>
#include <vector>

namespace uks::gofer {

Result<void> NodeTable::add(const Ref<Node>& node) {
  if (nodes_.size() >= kMaxNodes) return Err(ENFILE);
  node->id = next_id_++;
  node->lookups = 1;
  nodes_.emplace(node->id, node);
  return {};
}

Result<NodeId> NodeTable::enter_root(const Tree& tree, const Attr& attr) {
  std::lock_guard lock(mutex_);
  if (auto found = roots_.find(&tree); found != roots_.end()) {
    ++found->second->lookups;
    return found->second->id;
  }
  auto node = make_ref<Node>();
  node->tree = &tree;
  node->dev = attr.dev;
  node->ino = attr.ino;
  node->type = attr.mode & S_IFMT;
  node->rules = tree.rules;
  TRY(add(node));
  roots_[&tree] = node.get();
  return node->id;
}

Result<Ref<Node>> NodeTable::enter(const Ref<Node>& parent, std::string_view name, const Attr& attr,
                                   RuleState rules) {
  std::lock_guard lock(mutex_);
  if (parent->detached || !nodes_.contains(parent->id)) return Err(ESTALE);
  if (auto found = parent->children.find(name); found != parent->children.end()) {
    Node* known = found->second;
    if (known->is(attr)) {
      ++known->lookups;
      return Ref<Node>(known);
    }
    // The parent gets a new child at once: it must not be dropped for having lost its last one.
    ++parent->lookups;
    detach(*known, UniqueFd());
    --parent->lookups;
  }
  auto node = make_ref<Node>();
  node->tree = parent->tree;
  node->dev = attr.dev;
  node->ino = attr.ino;
  node->type = attr.mode & S_IFMT;
  if (auto added = add(node); !added) {
    drop_unused(parent);
    return Err(added.error());
  }
  attach(*node, *parent, name, std::move(rules));
  return node;
}

Result<Ref<Node>> NodeTable::enter_unnamed(const Tree& tree, const Attr& attr, RuleState rules,
                                           UniqueFd pin) {
  std::lock_guard lock(mutex_);
  if (pinned_count_ >= kMaxPinned) return Err(ENFILE);
  auto node = make_ref<Node>();
  node->tree = &tree;
  node->dev = attr.dev;
  node->ino = attr.ino;
  node->type = attr.mode & S_IFMT;
  node->rules = std::move(rules);
  node->detached = true;
  TRY(add(node));
  node->pinned = std::move(pin);
  ++pinned_count_;
  return node;
}

Result<Located> NodeTable::locate(NodeId id, bool allow_detached) {
  std::lock_guard lock(mutex_);
  auto found = nodes_.find(id);
  if (found == nodes_.end()) return Err(ESTALE);
  Located located;
  located.node = found->second;
  located.rules = found->second->rules;
  if (found->second->detached) {
    if (!allow_detached || !found->second->pinned) return Err(ESTALE);
    located.detached = true;
    located.pinned = found->second->pinned.get();
    return located;
  }
  std::vector<const std::string*> names;
  size_t length = 0;
  for (Node* node = found->second.get(); node->parent; node = node->parent.get()) {
    names.push_back(&node->name);
    length += node->name.size() + 1;
    if (node->parent->detached) return Err(ESTALE);
  }
  located.path.reserve(length);
  for (size_t i = names.size(); i > 0; --i) {
    if (!located.path.empty()) located.path += '/';
    located.path += *names[i - 1];
  }
  return located;
}

void NodeTable::forget(NodeId id, uint64_t lookups) {
  std::lock_guard lock(mutex_);
  auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  Ref<Node> node = found->second;
  node->lookups -= std::min(node->lookups, lookups);
  drop_unused(std::move(node));
}

void NodeTable::drop_unused(Ref<Node> node) {
  // A loop: a chain of parents may be long enough to overflow a stack.
  while (node && node->lookups == 0 && node->children.empty()) {
    Ref<Node> parent = std::move(node->parent);
    if (parent) parent->children.erase(node->name);
    if (node->pinned) --pinned_count_;
    if (auto root = roots_.find(node->tree); root != roots_.end() && root->second == node.get()) {
      roots_.erase(root);
    }
    node->detached = true;  // for whoever still holds a reference
    nodes_.erase(node->id);
    node = std::move(parent);
  }
}

void NodeTable::detach(Node& node, UniqueFd pin) {
  Ref<Node> self(&node);
  node.detached = true;
  if (pin && node.lookups > 0 && pinned_count_ < kMaxPinned) {
    node.pinned = std::move(pin);
    ++pinned_count_;
  }
  Ref<Node> parent = std::move(node.parent);
  if (parent) {
    if (auto it = parent->children.find(node.name);
        it != parent->children.end() && it->second == &node) {
      parent->children.erase(it);
    }
  }
  drop_unused(std::move(self));
  drop_unused(std::move(parent));
}

void NodeTable::attach(Node& node, Node& parent, std::string_view name, RuleState rules) {
  node.parent = Ref<Node>(&parent);
  node.name = name;
  node.rules = std::move(rules);
  parent.children[node.name] = &node;
}

Ref<Node> NodeTable::take_child(Node& parent, std::string_view name) {
  auto found = parent.children.find(name);
  if (found == parent.children.end()) return nullptr;
  Ref<Node> node(found->second);
  parent.children.erase(found);
  node->parent = nullptr;
  return node;
}

bool NodeTable::knows(const Node& parent, std::string_view name) {
  std::lock_guard lock(mutex_);
  return parent.children.find(name) != parent.children.end();
}

void NodeTable::unlinked(Node& parent, std::string_view name, UniqueFd pin) {
  std::lock_guard lock(mutex_);
  if (auto found = parent.children.find(name); found != parent.children.end()) {
    detach(*found->second, std::move(pin));
  }
}

void NodeTable::renamed(Node& old_parent, std::string_view old_name, Node& new_parent,
                        std::string_view new_name, RuleState new_rules, UniqueFd pin) {
  std::lock_guard lock(mutex_);
  Ref<Node> old_ref(&old_parent), new_ref(&new_parent);
  if (auto found = new_parent.children.find(new_name); found != new_parent.children.end()) {
    ++new_parent.lookups;  // as in enter()
    detach(*found->second, std::move(pin));
    --new_parent.lookups;
  }
  Ref<Node> moved = take_child(old_parent, old_name);
  if (moved && new_parent.detached) {
    moved->detached = true;
  } else if (moved) {
    attach(*moved, new_parent, new_name, std::move(new_rules));
  }
  drop_unused(std::move(old_ref));
  drop_unused(std::move(new_ref));
}

void NodeTable::exchanged(Node& a, std::string_view a_name, RuleState a_rules, Node& b,
                          std::string_view b_name, RuleState b_rules) {
  std::lock_guard lock(mutex_);
  Ref<Node> a_ref(&a), b_ref(&b);
  Ref<Node> from_a = take_child(a, a_name);
  Ref<Node> from_b = take_child(b, b_name);
  if (from_b) attach(*from_b, a, a_name, std::move(a_rules));
  if (from_a) attach(*from_a, b, b_name, std::move(b_rules));
  drop_unused(std::move(a_ref));
  drop_unused(std::move(b_ref));
}

bool NodeTable::is_within(const Node& node, const Node& ancestor) {
  std::lock_guard lock(mutex_);
  for (const Node* n = &node; n; n = n->parent.get()) {
    if (n == &ancestor) return true;
  }
  return false;
}

size_t NodeTable::size() {
  std::lock_guard lock(mutex_);
  return nodes_.size();
}

}  // namespace uks::gofer
