// Directories of processes and threads.
#include <linux/capability.h>

#include <algorithm>

#include "sentry/fs/proc/proc_fs.h"

namespace uks {
namespace {

using Generator = Result<std::string> (*)(const ProcTarget& target, Task& reader);
using Writer = Result<void> (*)(const ProcTarget& target, Task& writer, std::string_view data);

std::string_view trimmed(std::string_view text) {
  const size_t end = text.find_last_not_of(" \n\t");
  return end == std::string_view::npos ? std::string_view() : text.substr(0, end + 1);
}

Result<std::string> comm_text(const ProcTarget& t, Task&) { return t.comm() + "\n"; }

// Only one's own threads can be renamed (comm_write()).
Result<void> write_comm(const ProcTarget& t, Task& writer, std::string_view data) {
  Task* task = t.task();
  if (!task) return Err(ESRCH);
  if (&writer.group() != t.group.get()) return Err(EINVAL);
  if (data.ends_with('\n')) data.remove_suffix(1);
  data = data.substr(0, std::min(data.find('\0'), size_t{15}));
  task->comm = data;
  return {};
}

Result<std::string> oom_score_adj_text(const ProcTarget& t, Task&) {
  return std::to_string(t.group->oom_score_adj) + "\n";
}

// __set_oom_adj() of fs/proc/base.c. The host's own order of killing does not follow it.
Result<void> write_oom_score_adj(const ProcTarget& t, Task& writer, std::string_view data) {
  std::string_view text = trimmed(data);
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const int n = parse_number(text);
  if (n < 0 || n > 1000) return Err(EINVAL);
  const int value = negative ? -n : n;
  if (value < t.group->oom_score_adj_min && !writer.creds().has_cap(CAP_SYS_RESOURCE))
    return Err(EACCES);
  t.group->oom_score_adj = value;
  if (writer.creds().has_cap(CAP_SYS_RESOURCE)) t.group->oom_score_adj_min = value;
  return {};
}

Result<std::string> oom_score_text(const ProcTarget& t, Task&) {
  // Without knowledge of the share of memory in use: the base of 1000 points, moved and halved as
  // proc_oom_score() does.
  return std::to_string(std::max(0, (1000 + t.group->oom_score_adj) * 2 / 3)) + "\n";
}

Result<std::string> id_map_text(const ProcTarget&, Task&) {
  return std::string("         0          0 4294967295\n");
}
Result<std::string> setgroups_text(const ProcTarget&, Task&) { return std::string("allow\n"); }
Result<std::string> cgroup_text(const ProcTarget&, Task&) { return std::string("0::/\n"); }
Result<std::string> cpuset_text(const ProcTarget&, Task&) { return std::string("/\n"); }
Result<std::string> wchan_text(const ProcTarget&, Task&) { return std::string("0"); }
Result<std::string> personality_text(const ProcTarget&, Task&) { return std::string("00000000\n"); }
Result<std::string> no_id_text(const ProcTarget&, Task&) {
  return std::string("4294967295");
}  // not set

Result<std::string> schedstat_text(const ProcTarget& t, Task&) {
  Task* task = t.task();
  const auto ns = t.is_thread && task ? t.kernel().task_cpu_ns(*task)
                                      : t.kernel().cpu_times(*t.group).total_ns();
  return std::to_string(ns.value_or(0)) + " 0 0\n";
}

Result<std::string> children_text(const ProcTarget& t, Task&) {
  std::string out;
  for (const auto& child : t.group->children) out += std::to_string(child->pid) + " ";
  return out;
}

// Where an entry appears: in /proc/PID, in /proc/PID/task/TID.
enum Scope { kBoth, kProcess, kThread };
bool shows(Scope scope, const ProcTarget& target) {
  return scope == kBoth || (scope == kThread) == target.is_thread;
}

struct FileSpec {
  const char* name;
  uint32_t mode;
  Generator text;
  bool guarded;  // opening it asks may_inspect()
  Scope scope = kBoth;
  bool pollable = false;  // woken by mounts_changed
  Writer write = nullptr;
};

constexpr FileSpec kFiles[] = {
    {"auxv", 0400, auxv_text, true},
    {"cgroup", 0444, cgroup_text, false},
    {"children", 0444, children_text, false, kThread},
    {"cmdline", 0444, cmdline_text, false},
    {"comm", 0644, comm_text, false, kBoth, false, write_comm},
    {"cpuset", 0444, cpuset_text, false},
    {"environ", 0400, environ_text, true},
    {"gid_map", 0444, id_map_text, false},
    {"io", 0400, io_text, true},
    {"limits", 0444, limits_text, false},
    {"loginuid", 0444, no_id_text, false},
    {"maps", 0444, maps_text, true},
    {"mountinfo", 0444, mountinfo_text, false, kBoth, true},
    {"mounts", 0444, mounts_text, false, kBoth, true},
    {"oom_score", 0444, oom_score_text, false},
    {"oom_score_adj", 0644, oom_score_adj_text, false, kBoth, false, write_oom_score_adj},
    {"personality", 0400, personality_text, true},
    {"schedstat", 0444, schedstat_text, false},
    {"sessionid", 0444, no_id_text, false},
    {"setgroups", 0444, setgroups_text, false, kProcess},
    {"smaps", 0444, smaps_text, true},
    {"smaps_rollup", 0444, smaps_rollup_text, true},
    {"stat", 0444, stat_text, false},
    {"statm", 0444, statm_text, false},
    {"status", 0444, status_text, false},
    {"uid_map", 0444, id_map_text, false},
    {"wchan", 0444, wchan_text, false},
};

class TargetText final : public TextInode {
 public:
  TargetText(ProcFs& fs, uint64_t ino, const FileSpec& spec, ProcTarget target)
      : TextInode(fs, ino, spec.mode), spec_(spec), target_(std::move(target)) {}
  Result<std::string> generate(Task& task) override {
    if (!target_.exists()) return Err(ESRCH);
    return spec_.text(target_, task);
  }
  Result<void> store(Task& task, std::string_view data) override {
    if (!target_.exists()) return Err(ESRCH);
    return spec_.write(target_, task, data);
  }
  bool is_writable() const override { return spec_.write != nullptr; }
  Result<void> check_open(Task& task, int) override {
    if (!target_.exists()) return Err(ESRCH);
    return spec_.guarded ? may_inspect(task, target_) : Result<void>();
  }
  WaitQueue* wait_queue() override {
    return spec_.pollable ? &static_cast<ProcFs&>(fs()).mounts_changed : nullptr;
  }

 private:
  const FileSpec& spec_;
  ProcTarget target_;
};

// /proc/PID/task.
class ThreadsDir final : public PseudoInode {
 public:
  ThreadsDir(ProcFs& fs, uint64_t ino, ProcTarget target)
      : PseudoInode(fs, ino, S_IFDIR | 0555), target_(std::move(target)) {}
  Result<Attr> getattr() override {
    Attr attr = attr_;
    attr.nlink = static_cast<uint32_t>(2 + target_.group->threads.size());
    return attr;
  }
  Result<Ref<Inode>> lookup(Task&, std::string_view name) override {
    const int tid = parse_number(name);
    Task* task = tid > 0 ? target_.kernel().find_task(tid) : nullptr;
    if (!task || &task->group() != target_.group.get()) return Ref<Inode>();
    ProcTarget thread{target_.group, tid, true};
    return Ref<Inode>(
        make_target_dir(static_cast<ProcFs&>(fs()), std::move(thread), pseudo_ino(ino(), name)));
  }
  Result<std::vector<DirEntry>> read_dir(Task&) override {
    if (!target_.exists()) return Err(ENOENT);
    std::vector<pid_t> tids;
    for (const Task* task : target_.group->threads) tids.push_back(task->tid());
    std::ranges::sort(tids);
    std::vector<DirEntry> out;
    for (const pid_t tid : tids) {
      const std::string name = std::to_string(tid);
      out.push_back({name, pseudo_ino(ino(), name), dirent_type(S_IFDIR)});
    }
    return out;
  }

 private:
  ProcTarget target_;
};

Ref<PseudoInode> make_net_dir(ProcFs& fs, const ProcTarget&, uint64_t ino) {
  auto dir = make_ref<PseudoDir>(fs, ino);
  // Without a network of its own a sandbox has the loopback device alone, unused.
  dir->add_fixed("dev",
                 "Inter-|   Receive                                                |  Transmit\n"
                 " face |bytes    packets errs drop fifo frame compressed multicast|bytes    "
                 "packets errs drop fifo "
                 "colls carrier compressed\n"
                 "    lo:       0       0    0    0    0     0          0         0        0       "
                 "0    0    0    0     "
                 "0       0          0\n");
  return dir;
}

struct SubdirSpec {
  const char* name;
  uint32_t type;
  Ref<PseudoInode> (*make)(ProcFs& fs, ProcTarget target, uint64_t ino);
  Scope scope = kBoth;
};

constexpr SubdirSpec kOthers[] = {
    {"cwd", S_IFLNK,
     [](ProcFs& fs, ProcTarget t, uint64_t ino) {
       return make_place_link(fs, std::move(t), ino, PlaceLink::kCwd);
     }},
    {"exe", S_IFLNK,
     [](ProcFs& fs, ProcTarget t, uint64_t ino) {
       return make_place_link(fs, std::move(t), ino, PlaceLink::kExe);
     }},
    {"root", S_IFLNK,
     [](ProcFs& fs, ProcTarget t, uint64_t ino) {
       return make_place_link(fs, std::move(t), ino, PlaceLink::kRoot);
     }},
    {"fd", S_IFDIR, make_fd_dir},
    {"fdinfo", S_IFDIR, make_fdinfo_dir},
    {"net", S_IFDIR,
     [](ProcFs& fs, ProcTarget t, uint64_t ino) { return make_net_dir(fs, t, ino); }},
    {"ns", S_IFDIR, make_namespace_dir},
    {"task", S_IFDIR,
     [](ProcFs& fs, ProcTarget t, uint64_t ino) -> Ref<PseudoInode> {
       return make_ref<ThreadsDir>(fs, ino, std::move(t));
     },
     kProcess},
};

class TargetDir final : public PseudoInode {
 public:
  TargetDir(ProcFs& fs, uint64_t ino, ProcTarget target)
      : PseudoInode(fs, ino, S_IFDIR | 0555), target_(std::move(target)) {
    attr_.nlink = target_.is_thread ? 7 : 9;  // as on Linux, more or less: programs only want > 1
    set_owner(target_.uid(), target_.gid());
  }

  Result<Ref<Inode>> lookup(Task&, std::string_view name) override {
    if (!target_.exists()) return Ref<Inode>();
    auto& proc = static_cast<ProcFs&>(fs());
    const uint64_t number = pseudo_ino(ino(), name);
    for (const FileSpec& spec : kFiles) {
      if (name != spec.name || !shows(spec.scope, target_)) continue;
      auto file = make_ref<TargetText>(proc, number, spec, target_);
      own(*file);
      return Ref<Inode>(std::move(file));
    }
    for (const SubdirSpec& spec : kOthers) {
      if (name != spec.name || !shows(spec.scope, target_)) continue;
      auto child = spec.make(proc, target_, number);
      own(*child);
      return Ref<Inode>(std::move(child));
    }
    return Ref<Inode>();
  }

  Result<std::vector<DirEntry>> read_dir(Task&) override {
    if (!target_.exists()) return Err(ENOENT);
    std::vector<DirEntry> out;
    const auto add = [&](const char* name, uint32_t type, Scope scope) {
      if (shows(scope, target_)) out.push_back({name, pseudo_ino(ino(), name), dirent_type(type)});
    };
    for (const FileSpec& spec : kFiles) add(spec.name, S_IFREG, spec.scope);
    for (const SubdirSpec& spec : kOthers) add(spec.name, spec.type, spec.scope);
    return out;
  }

 private:
  // What belongs to an undumpable process is root's (task_dump_owner()), but its fd directory stays
  // readable for itself.
  void own(PseudoInode& child) {
    if (target_.group->dumpable || child.is_dir()) child.set_owner(target_.uid(), target_.gid());
  }
  ProcTarget target_;
};

}  // namespace

Ref<PseudoInode> make_target_dir(ProcFs& fs, ProcTarget target, uint64_t ino) {
  return make_ref<TargetDir>(fs, ino, std::move(target));
}

}  // namespace uks
