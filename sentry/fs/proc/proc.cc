// The root of /proc: process directories, self, and the files of the whole sandbox.
#include "sentry/fs/proc/proc.h"

#include <linux/capability.h>
#include <linux/magic.h>

#include "sentry/fs/proc/proc_fs.h"

namespace uks {
namespace {

constexpr uint64_t kRootIno = 1;

class ProcRoot final : public PseudoInode {
 public:
  explicit ProcRoot(ProcFs& fs)
      : PseudoInode(fs, kRootIno, S_IFDIR | 0555), fixed_(make_ref<PseudoDir>(fs, kRootIno)) {
    add_link(fs, "self",
             [](Task& task) -> Result<std::string> { return std::to_string(task.tgid()); });
    add_link(fs, "thread-self", [](Task& task) -> Result<std::string> {
      return std::to_string(task.tgid()) + "/task/" + std::to_string(task.tid());
    });
    fixed_->add_link("mounts", "self/mounts");
    fixed_->add_link("net", "self/net");
    add_global_files(fs, *fixed_);
    add_sysctl_files(fs, fixed_->dir("sys"));
  }

  Result<Attr> getattr() override {
    Attr attr = attr_;
    attr.nlink =
        static_cast<uint32_t>(TRY(fixed_->getattr()).nlink + proc().kernel().groups().size());
    return attr;
  }

  Result<Ref<Inode>> lookup(Task& task, std::string_view name) override {
    const int pid = parse_number(name);
    if (pid < 0) return fixed_->lookup(task, name);
    Kernel& kernel = proc().kernel();
    ProcTarget target;
    if (ThreadGroup* group = kernel.find_group(pid)) {
      target.group = Ref<ThreadGroup>(group);
    } else if (Task* thread = kernel.find_task(pid)) {
      // Threads have a directory as well, though the listing does not show it.
      target.group = Ref<ThreadGroup>(&thread->group());
    } else {
      return Ref<Inode>();
    }
    target.tid = target.group->pid;
    return Ref<Inode>(make_target_dir(proc(), std::move(target), pseudo_ino(kRootIno, name)));
  }

  Result<std::vector<DirEntry>> read_dir(Task& task) override {
    std::vector<DirEntry> out = TRY(fixed_->read_dir(task));
    for (const auto& [pid, group] : proc().kernel().groups()) {
      const std::string name = std::to_string(pid);
      out.push_back({name, pseudo_ino(kRootIno, name), dirent_type(S_IFDIR)});
    }
    return out;
  }

 private:
  ProcFs& proc() const { return static_cast<ProcFs&>(fs()); }
  void add_link(ProcFs& fs, const char* name, PseudoDir::Text target) {
    fixed_->add(name, make_ref<PseudoLink>(fs, pseudo_ino(kRootIno, name), std::move(target)));
  }
  Ref<PseudoDir> fixed_;
};

}  // namespace

ProcFs::ProcFs(Kernel& kernel, const ViewConfig& config)
    : PseudoFs("proc", PROC_SUPER_MAGIC), kernel_(kernel), host_texts_(config.host_texts) {
  ::uname(&host_name_);
}

const std::string& ProcFs::host_text(const std::string& path) const {
  static const std::string none;
  const auto it = host_texts_.find(path);
  return it == host_texts_.end() ? none : it->second;
}

bool ProcTarget::exists() const {
  if (is_thread) return task() != nullptr;
  return kernel().find_group(group->pid) == group.get();
}

Task* ProcTarget::task() const {
  Task* found = kernel().find_task(tid);
  if (found && &found->group() == group.get()) return found;
  if (is_thread || group->threads.empty()) return nullptr;
  return group->threads.front();
}

std::string ProcTarget::comm() const {
  if (const Task* t = task()) return t->comm;
  // Process 1 is the kernel's own and never had a thread.
  return group->pid == 1 ? "init" : group->epitaph.comm;
}

uint64_t ProcTarget::start_time_ns() const {
  // The kernel's own process is as old as the first one it started.
  if (ThreadGroup* first = kernel().init(); group->pid == 1 && first && first->pid != 1) {
    return ProcTarget{Ref<ThreadGroup>(first), first->pid, false}.start_time_ns();
  }
  const Task* t = task();
  return t ? t->start_time_ns : group->epitaph.start_time_ns;
}

uint32_t ProcTarget::uid() const {
  const Task* t = task();
  return t ? t->creds().euid : group->epitaph.uid;
}

uint32_t ProcTarget::gid() const {
  const Task* t = task();
  return t ? t->creds().egid : group->epitaph.gid;
}

Result<void> may_inspect(Task& reader, const ProcTarget& target) {
  if (&reader.group() == target.group.get()) return {};
  const Task* task = target.task();
  if (!task) return Err(EACCES);
  const Credentials& a = reader.creds();
  if (a.has_cap(CAP_SYS_PTRACE)) return {};
  const Credentials& b = task->creds();
  const bool same = a.fsuid == b.ruid && a.fsuid == b.euid && a.fsuid == b.suid &&
                    a.fsgid == b.rgid && a.fsgid == b.egid && a.fsgid == b.sgid;
  const bool not_more_capable = (b.cap_permitted & ~a.cap_permitted) == 0;
  return same && not_more_capable && target.group->dumpable ? Result<void>() : Err(EACCES);
}

Ref<Inode> make_proc_root(Kernel& kernel, const ViewConfig& config) {
  auto fs = make_ref<ProcFs>(kernel, config);
  return make_ref<ProcRoot>(*fs);
}

}  // namespace uks
