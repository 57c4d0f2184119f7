// The dentry cache: a bounded list of recently used names over the tree of dentries.
#include "sentry/vfs/dentry.h"

#include <vector>

#include "platform/base/check.h"
#include "sentry/vfs/notify.h"

namespace uks {
namespace {

// About 200 bytes each, plus their inodes.
constexpr size_t kMaxCached = 32768;

// All under the kernel lock.
Dentry* lru_young = nullptr;
Dentry* lru_old = nullptr;
size_t lru_count = 0;
// Dentries whose last reference went while another one was being destroyed: a chain of parents as
// deep as a guest likes must not become a recursion as deep.
std::vector<Dentry*>* dying = nullptr;

}  // namespace

Ref<Dentry> Dentry::make_root(Ref<Inode> inode) {
  auto d = Ref<Dentry>::adopt(new Dentry);
  d->name_ = "/";
  d->inode_ = std::move(inode);
  d->valid_until_ = FileSystem::kForever;
  return d;
}

Ref<Dentry> Dentry::make(Ref<Dentry> parent, std::string_view name, Ref<Inode> inode) {
  auto d = Ref<Dentry>::adopt(new Dentry);
  d->parent_ = std::move(parent);
  d->name_ = name;
  d->inode_ = std::move(inode);
  return d;
}

void Dentry::last_ref() {
  if (dying) {
    dying->push_back(this);
    return;
  }
  std::vector<Dentry*> list;
  dying = &list;
  Dentry* next = this;
  while (next) {
    next->unhash();
    if (next->end_watched_) notify::gone(*next->inode_);
    delete next;
    next = nullptr;
    if (!list.empty()) {
      next = list.back();
      list.pop_back();
    }
  }
  dying = nullptr;
}

void Dentry::leave_lru() {
  if (!in_lru_) return;
  (lru_prev_ ? lru_prev_->lru_next_ : lru_young) = lru_next_;
  (lru_next_ ? lru_next_->lru_prev_ : lru_old) = lru_prev_;
  lru_prev_ = lru_next_ = nullptr;
  in_lru_ = false;
  --lru_count;
}

// Precondition: the caller holds a reference, so that nothing here is the last one.
void Dentry::touch() {
  if (in_lru_) {
    if (lru_young == this) return;
    leave_lru();
  } else {
    ref();
  }
  in_lru_ = true;
  ++lru_count;
  lru_next_ = lru_young;
  if (lru_young) lru_young->lru_prev_ = this;
  lru_young = this;
  if (!lru_old) lru_old = this;
  while (lru_count > kMaxCached && lru_old != this) {
    Dentry* victim = lru_old;
    victim->leave_lru();
    victim->unref();
  }
}

Ref<Dentry> Dentry::cached_child(std::string_view name) {
  auto it = children_.find(name);
  if (it == children_.end()) return {};
  Ref<Dentry> child(it->second);
  child->touch();
  return child;
}

void Dentry::hash(const Ref<Dentry>& child, MonotonicNs valid_until) {
  DCHECK(child->parent_.get() == this);
  auto it = children_.find(child->name_);
  if (it != children_.end()) {
    if (it->second == child.get()) {
      child->valid_until_ = valid_until;
      return;
    }
    Ref<Dentry> old(it->second);
    old->unhash();
  }
  children_.emplace(child->name_, child.get());
  child->hashed_ = true;
  child->valid_until_ = valid_until;
  child->touch();
}

void Dentry::unhash() {
  if (hashed_) {
    parent_->children_.erase(name_);
    hashed_ = false;
  }
  if (in_lru_) {
    leave_lru();
    // Only the caller's reference, or last_ref()'s zero, is left to care for the object.
    if (ref_count() > 0) unref();
  }
}

void Dentry::mark_deleted() {
  Ref<Dentry> self(this);
  unhash();
  deleted_ = true;
}

void Dentry::tell_end_if_unused() {
  if (!end_watched_) return;
  // The names below a removed directory are known to be absent; they would hold it.
  while (!children_.empty()) {
    const Ref<Dentry> child(children_.begin()->second);
    child->unhash();
  }
  if (ref_count() > 1) return;
  end_watched_ = false;
  notify::gone(*inode_);
}

void Dentry::move_to(const Ref<Dentry>& parent, std::string_view name, MonotonicNs valid_until) {
  Ref<Dentry> self(this);
  unhash();
  parent_ = parent;
  name_ = name;
  parent->hash(self, valid_until);
}

bool Dentry::is_ancestor_of(const Dentry& other) const {
  for (const Dentry* d = &other; d; d = d->parent_.get()) {
    if (d == this) return true;
  }
  return false;
}

void drop_dentry_cache() {
  while (lru_old) {
    Dentry* victim = lru_old;
    Ref<Dentry> keep(victim);
    victim->unhash();
  }
}

}  // namespace uks
