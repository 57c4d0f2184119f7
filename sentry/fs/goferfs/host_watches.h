// What others change in the host's trees, as the host's inotify says: told to those who watch
// inside, and the reason to believe what is known of a directory until then.
//
// Our own changes come back as well, and were told by the VFS. Events are queued before the call
// that makes them returns: whoever changes something announces it (OwnChange), and when the change
// is done all that the host has said of it is read and dropped.
#pragma once
#include <initializer_list>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gofer/proto/client.h"
#include "platform/base/ref.h"
#include "platform/base/unique_fd.h"
#include "sentry/task/event_loop.h"

struct inotify_event;

namespace uks {

class GoferInode;
class OwnChange;

// One for all trees of a gofer. Under the kernel lock.
class HostWatches final : public RefCounted, private HostWatcher {
 public:
  HostWatches(gofer::GoferClient& client, EventLoop& events) : client_(client), events_(events) {}
  ~HostWatches() override;

  // From now on the host tells of `inode`; false: it cannot. Drops the kernel lock. For those who
  // watch inside, or to believe what is known of a directory: then only if all changes are told.
  enum class Why { kToTell, kToBelieve };
  bool start(GoferInode& inode, Why why);
  void stop(GoferInode& inode);
  // A question about a name was put to the gofer. True once it is worth an inotify instance, of
  // which the user has not many, to save such questions.
  bool is_busy() {
    constexpr unsigned kMany = 100;
    return instance_ || ++questions_ > kMany;
  }
  bool active() const { return !watched_.empty(); }
  // Reads and tells all that there is: whatever the host had done before this call is known after
  // it. Half a microsecond if it is nothing.
  void drain();
  // Somebody inside watches: changes to contents matter, too.
  bool tells() const { return tells_; }
  // What is believed until the host tells of a change is good for as long as this stays the same.
  uint64_t coverage() const { return coverage_; }

 private:
  friend class OwnChange;
  void on_host_events(uint32_t events) override;
  void tell(const inotify_event& event, std::string_view name);
  bool is_own(const GoferInode& watched, uint32_t events, std::string_view name) const;
  void tell_lost();
  // Gives up watches that have ended. Drops the kernel lock.
  void give_up_ended();
  uint32_t guest_cookie(uint32_t host_cookie);

  gofer::GoferClient& client_;
  EventLoop& events_;
  UniqueFd instance_;
  bool asked_for_instance_ = false;
  bool tells_ = false;
  unsigned questions_ = 0;
  uint64_t coverage_ = 1;
  std::unordered_map<int, GoferInode*> watched_;
  std::vector<int> ended_;  // the host does not know yet
  unsigned giving_up_ = 0;  // who tells it at this moment
  OwnChange* own_ = nullptr;
  uint32_t last_host_cookie_ = 0, last_guest_cookie_ = 0;
};

// A change of ours, from before the host is asked for it until after. What it will say of that.
class OwnChange {
 public:
  // `name`: in the directory `inode`; empty: the file itself, by whatever name. `events`: IN_*.
  struct Part {
    const GoferInode* inode;
    std::string_view name;
    uint32_t events;
  };
  // As `name`: of whatever file without a name.
  static constexpr std::string_view kUnnamed = "#";
  // `watches` may be null. What the parts point to outlives this.
  OwnChange(HostWatches* watches, std::initializer_list<Part> parts);
  ~OwnChange();
  OwnChange(const OwnChange&) = delete;
  OwnChange& operator=(const OwnChange&) = delete;

 private:
  friend class HostWatches;
  HostWatches* watches_ = nullptr;
  std::vector<Part> parts_;
  OwnChange* next_ = nullptr;
};

}  // namespace uks
