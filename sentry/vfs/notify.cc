#include "sentry/vfs/notify.h"

#include "sentry/vfs/dentry.h"
#include "sentry/vfs/file.h"

namespace uks {

Watch::Watch(Watcher& owner_, Ref<Inode> inode_, int number_, uint32_t mask_)
    : owner(owner_), inode(std::move(inode_)), number(number_), mask(mask_) {
  // At the end: events are told in the order in which watches were made.
  Watch** end = &inode->watches;
  while (*end) {
    previous = *end;
    end = &(*end)->next;
  }
  *end = this;
  ++notify::watches;
}

Watch::~Watch() {
  (previous ? previous->next : inode->watches) = next;
  if (next) next->previous = previous;
  --notify::watches;
  if (!inode->watches) inode->end_watch();
}

namespace notify {

uint64_t watches = 0;

namespace {

void tell(Inode& inode, uint32_t event, uint32_t cookie, std::string_view name, bool unlinked) {
  const Ref<Inode> keep(&inode);
  for (Watch *watch = inode.watches, *next; watch; watch = next) {
    next = watch->next;
    if (!(watch->mask & event & IN_ALL_EVENTS)) continue;
    if (unlinked && (watch->mask & IN_EXCL_UNLINK)) continue;
    watch->owner.on_event(*watch, event, cookie, name);
  }
}

uint32_t directory_bit(const Inode& inode) { return inode.is_dir() ? IN_ISDIR : 0; }

// The file lost a name; the rest comes when nobody uses that one any more.
void lost_name(const Ref<Dentry>& victim, bool says_so) {
  Inode& inode = *victim->inode();
  if (!inode.watches) return;
  if (says_so) notify::inode(inode, IN_ATTRIB);
  const auto attr = inode.getattr();
  if (!inode.is_dir() && attr && attr->nlink > 0) return;
  victim->watch_end();
}

}  // namespace

void place(const Path& place, uint32_t event) {
  if (!anybody() || !place.dentry) return;
  const Ref<Dentry> dentry = place.dentry;
  const Ref<Inode> self = dentry->inode_ref();
  if (!self) return;
  event |= directory_bit(*self);
  if (const Ref<Dentry> parent = dentry->parent(); parent && parent->inode()->watches)
    tell(*parent->inode(), event, 0, dentry->name(), dentry->deleted());
  tell(*self, event, 0, {}, dentry->deleted());
}

void file(File& file, uint32_t event) {
  if (!anybody()) return;
  if (file.path()) return place(file.path(), event);
  if (Inode* self = file.inode()) inode(*self, event);
}

void inode(Inode& inode, uint32_t event) {
  if (inode.watches) tell(inode, event | directory_bit(inode), 0, {}, false);
}

void child(Inode& dir, std::string_view name, bool is_dir, uint32_t event, uint32_t cookie) {
  if (dir.watches) tell(dir, event | (is_dir ? IN_ISDIR : 0), cookie, name, false);
}

void name(const Dentry& dir, std::string_view name, bool is_dir, uint32_t event, uint32_t cookie) {
  if (anybody()) child(*dir.inode(), name, is_dir, event, cookie);
}

uint32_t new_cookie() {
  static uint32_t last = 0;
  return ++last;
}

void removed(const Dentry& dir, const Ref<Dentry>& victim) {
  if (!anybody()) return;
  const bool is_dir = victim->inode()->is_dir();
  lost_name(victim, !is_dir);
  // Unless somebody has it open, that is the end of the file; its own watchers hear it first.
  victim->tell_end_if_unused();
  name(dir, victim->name(), is_dir, IN_DELETE);
}

void moved(const Dentry& old_dir, std::string_view old_name, const Dentry& new_dir,
           std::string_view new_name, Inode& source, const Ref<Dentry>& replaced) {
  if (!anybody()) return;
  const uint32_t cookie = new_cookie();
  const bool is_dir = source.is_dir();
  name(old_dir, old_name, is_dir, IN_MOVED_FROM, cookie);
  name(new_dir, new_name, is_dir, IN_MOVED_TO, cookie);
  if (replaced) lost_name(replaced, true);
  inode(source, IN_MOVE_SELF);
  if (replaced) replaced->tell_end_if_unused();
}

void gone(Inode& inode) {
  const Ref<Inode> keep(&inode);
  notify::inode(inode, IN_DELETE_SELF);
  for (Watch *watch = inode.watches, *next; watch; watch = next) {
    next = watch->next;
    watch->owner.on_inode_gone(*watch);
  }
}

}  // namespace notify
}  // namespace uks
