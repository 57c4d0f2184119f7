// Dentry: a cached name. Holds its parent and its inode; a null inode is a name known to be absent.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>

#include "platform/base/ref.h"
#include "sentry/time/timer_queue.h"
#include "sentry/vfs/inode.h"

namespace uks {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
};

class Dentry : public RefCounted {
 public:
  // The root of a tree (or of an anonymous object): no parent, name "/".
  static Ref<Dentry> make_root(Ref<Inode> inode);
  // A name in `parent`, not in its cache yet.
  static Ref<Dentry> make(Ref<Dentry> parent, std::string_view name, Ref<Inode> inode);

  const std::string& name() const { return name_; }
  const Ref<Dentry>& parent() const { return parent_; }  // null for roots
  Inode* inode() const { return inode_.get(); }
  const Ref<Inode>& inode_ref() const { return inode_; }
  bool negative() const { return !inode_; }
  // Unlinked while in use.
  bool deleted() const { return deleted_; }

  // The cached child, or null. Moves it to the young end of the cache.
  Ref<Dentry> cached_child(std::string_view name);
  // Enters `child` (made with this as parent) in the cache, in place of one of the same name.
  void hash(const Ref<Dentry>& child, MonotonicNs valid_until);
  // Takes it out of the cache; it stays usable by those who hold it.
  void unhash();
  // The name is gone: unhash, and say "(deleted)" from now on.
  void mark_deleted();
  // Moves to another place after a rename. It is hashed there.
  void move_to(const Ref<Dentry>& parent, std::string_view name, MonotonicNs valid_until);

  MonotonicNs valid_until() const { return valid_until_; }
  void set_valid_until(MonotonicNs t) { valid_until_ = t; }
  // A mount point, or on the way to one: never revalidated.
  void pin() { ++pins_; }
  void unpin() { --pins_; }
  bool pinned() const { return pins_ > 0; }
  // The file ends with this name's last user: its watchers are told then (notify.h).
  void watch_end() { end_watched_ = true; }
  // Tells them now if nobody but the caller, by one reference, uses this any more.
  void tell_end_if_unused();
  // Goes up with every change to the names in this directory that this kernel makes.
  uint64_t changes = 0;
  // How many mounts cover it.
  int mount_count = 0;

  // True if `other` is this or lies below it.
  bool is_ancestor_of(const Dentry& other) const;

 private:
  Dentry() = default;
  void last_ref() override;
  void touch();
  void leave_lru();

  Ref<Dentry> parent_;
  std::string name_;
  Ref<Inode> inode_;
  // Children that exist; they hold this, not the other way round.
  std::unordered_map<std::string_view, Dentry*, StringHash, std::equal_to<>> children_;
  bool hashed_ = false;
  bool deleted_ = false;
  bool end_watched_ = false;
  int pins_ = 0;
  MonotonicNs valid_until_ = 0;
  // The cache's list, young to old; a dentry in it is held by it.
  bool in_lru_ = false;
  Dentry* lru_prev_ = nullptr;
  Dentry* lru_next_ = nullptr;
};

// Drops all cached dentries that nobody uses (tests, memory pressure).
void drop_dentry_cache();

}  // namespace uks
