// Telling watchers (inotify) what happens to files, as the kernel's fsnotify does. Who changes a
// tree says so here; it costs one test while nobody watches. All under the kernel lock.
#pragma once
#include <sys/inotify.h>

#include <cstdint>
#include <string_view>

#include "platform/base/ref.h"
#include "sentry/vfs/path.h"

namespace uks {

class Dentry;
class File;
class Inode;
struct Watch;

// Who watches: an inotify instance.
class Watcher {
 public:
  virtual ~Watcher() = default;
  // `mask`: one IN_* event, with IN_ISDIR. `name`: of the child that it happened to; empty: the
  // watched file itself. May end the watch, no other one.
  virtual void on_event(Watch& watch, uint32_t mask, uint32_t cookie, std::string_view name) = 0;
  // The file is gone for good: the watch has to end.
  virtual void on_inode_gone(Watch& watch) = 0;
  // The host has said that it could not tell of everything.
  virtual void on_lost() = 0;
};

// One file watched by one watcher. On the inode's list as long as it exists.
struct Watch {
  Watch(Watcher& owner, Ref<Inode> inode, int number, uint32_t mask);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  Watcher& owner;
  const Ref<Inode> inode;
  const int number;  // the watch descriptor
  uint32_t mask;     // IN_* events that are wanted, IN_ONESHOT, IN_EXCL_UNLINK
  Watch* next = nullptr;
  Watch* previous = nullptr;
};

namespace notify {

extern uint64_t watches;  // that exist
inline bool anybody() { return watches != 0; }

// `event` happened to the file at this place: its directory's watchers hear of it by its name.
void place(const Path& place, uint32_t event);
// The same by an open description, which may have no place.
void file(File& file, uint32_t event);
// Only the file's own watchers hear of it.
void inode(Inode& inode, uint32_t event);
// Only the directory's. `is_dir`: what has the name.
void name(const Dentry& dir, std::string_view name, bool is_dir, uint32_t event,
          uint32_t cookie = 0);

void child(Inode& dir, std::string_view name, bool is_dir, uint32_t event, uint32_t cookie);
// For the two events of a move.
uint32_t new_cookie();

// `victim`'s name in `dir` was removed; its dentry is marked so already.
void removed(const Dentry& dir, const Ref<Dentry>& victim);
// `source` was moved. `replaced`: what had the new name, or null.
void moved(const Dentry& old_dir, std::string_view old_name, const Dentry& new_dir,
           std::string_view new_name, Inode& source, const Ref<Dentry>& replaced);
// The last user of a removed name is gone, and the file with it.
void gone(Inode& inode);

}  // namespace notify
}  // namespace uks
