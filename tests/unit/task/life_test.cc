// Processes and threads come and go: fork, vfork, exec, exit, wait, and stubs that vanish at any of
// it.
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "tests/unit/task/sandbox.h"

namespace uks {
namespace {

struct Life : Sandbox {
  static constexpr uint64_t kStatus = kMemory + 0x200, kPath = kMemory + 0x300,
                            kBuffer = kMemory + 0x1000, kArgv = kMemory + 0x400;

  // A program that execve takes: one segment, nothing in it.
  void make_program() {
    struct {
      Elf64_Ehdr header;
      Elf64_Phdr segment;
    } file{};
    memcpy(file.header.e_ident, ELFMAG, SELFMAG);
    file.header.e_ident[EI_CLASS] = ELFCLASS64;
    file.header.e_ident[EI_DATA] = ELFDATA2LSB;
    file.header.e_type = ET_EXEC;
    file.header.e_machine = EM_X86_64;
    file.header.e_phentsize = sizeof(Elf64_Phdr);
    file.header.e_phnum = 1;
    file.header.e_phoff = sizeof(Elf64_Ehdr);
    file.header.e_entry = kEntry;
    file.segment = {PT_LOAD, PF_R | PF_X, 0, kEntry & ~4095ull, 0, sizeof file, sizeof file, 4096};
    first->put_text(kPath, std::string_view("/program", 9));
    first->put(kBuffer, file);
    first->put(kArgv, std::array<uint64_t, 2>{kPath, 0});
    const int64_t fd = first->call(SYS_open, kPath, O_CREAT | O_WRONLY, 0755).value();
    ASSERT_GE(fd, 0);
    ASSERT_EQ(first->call(SYS_write, fd, kBuffer, sizeof file), static_cast<int64_t>(sizeof file));
    ASSERT_EQ(first->call(SYS_close, fd), 0);
  }
  static constexpr uint64_t kEntry = 0x400078;
  void expect_status(int status) { EXPECT_EQ(first->get<int>(kStatus), status); }

  // Nobody but the first process is left.
  void expect_alone() {
    EXPECT_EQ(kernel.task_count(), 1u);
    EXPECT_EQ(platform.process_count(), 1u);
    EXPECT_EQ(first->call(SYS_wait4, -1, 0, WNOHANG, 0), -ECHILD);
    EXPECT_EQ(first->call(SYS_getpid), first->pid());
  }
};

TEST_F(Life, WaitSeesAForkedChildsExit) {
  Guest child = fork(*first);
  EXPECT_EQ(child.result(), 0);
  EXPECT_EQ(child.call(SYS_getppid), first->pid());
  EXPECT_EQ(first->call(SYS_wait4, child.pid(), kStatus, WNOHANG, 0), 0);
  EXPECT_EQ(first->call(SYS_wait4, child.pid(), kStatus, 0, 0), std::nullopt);
  EXPECT_EQ(child.call(SYS_exit_group, 7), std::nullopt);
  EXPECT_EQ(first->result(), child.pid());
  expect_status(7 << 8);
  expect_alone();
}

TEST_F(Life, ForkGivesTheChildACopyOfTheMemory) {
  first->put(kBuffer, 1);
  Guest child = fork(*first);
  child.put(kBuffer, 2);
  EXPECT_EQ(first->get<int>(kBuffer), 1);
  Guest thread = new_thread(*first);
  thread.put(kBuffer, 3);
  EXPECT_EQ(first->get<int>(kBuffer), 3);
}

TEST_F(Life, ForkThatTheHostRefusesLeavesNothing) {
  platform.refuse_clones(ENOMEM);
  EXPECT_EQ(first->call(SYS_fork), -EAGAIN);
  EXPECT_EQ(first->call(SYS_clone, 0x50f00, kMemory), -EAGAIN);
  EXPECT_EQ(first->call(SYS_vfork), -EAGAIN);
  platform.refuse_clones(0);
  expect_alone();
  Guest child = fork(*first);
  child.call(SYS_exit_group, 0);
  EXPECT_EQ(first->call(SYS_wait4, -1, 0, 0, 0), child.pid());
  expect_alone();
}

TEST_F(Life, ExitGroupEndsABlockedSibling) {
  Guest child = fork(*first);
  Guest sibling = new_thread(child);
  const auto [in, out] = pipe(child);
  (void)out;
  EXPECT_EQ(sibling.call(SYS_read, in, kBuffer, 1), std::nullopt);
  EXPECT_EQ(first->call(SYS_wait4, child.pid(), kStatus, 0, 0), std::nullopt);
  EXPECT_EQ(child.call(SYS_exit_group, 3), std::nullopt);
  EXPECT_TRUE(sibling.dead());
  EXPECT_EQ(sibling.result(), std::nullopt);
  EXPECT_EQ(first->result(), child.pid());
  expect_status(3 << 8);
  expect_alone();
}

TEST_F(Life, LeaderThatExitsLeavesItsThreadsRunning) {
  Guest child = fork(*first);
  Guest sibling = new_thread(child);
  EXPECT_EQ(child.call(SYS_exit, 1), std::nullopt);
  EXPECT_TRUE(child.dead());
  EXPECT_EQ(sibling.call(SYS_getpid), child.pid());
  EXPECT_EQ(first->call(SYS_wait4, -1, kStatus, WNOHANG, 0), 0);
  EXPECT_EQ(sibling.call(SYS_exit, 2), std::nullopt);
  EXPECT_EQ(first->call(SYS_wait4, -1, kStatus, 0, 0), child.pid());
  expect_alone();
}

TEST_F(Life, OrphansAreAdoptedAndReaped) {
  Guest child = fork(*first);
  Guest grandchild = fork(child);
  EXPECT_EQ(child.call(SYS_exit_group, 0), std::nullopt);
  EXPECT_EQ(first->call(SYS_wait4, -1, 0, 0, 0), child.pid());
  EXPECT_EQ(grandchild.call(SYS_getppid), 1);
  EXPECT_EQ(grandchild.call(SYS_exit_group, 0), std::nullopt);
  expect_alone();
}

TEST_F(Life, KillReachesARunningProcess) {
  Guest child = fork(*first);
  EXPECT_TRUE(child.runs());
  EXPECT_EQ(first->call(SYS_kill, child.pid(), SIGKILL), 0);
  EXPECT_TRUE(child.dead());
  EXPECT_EQ(first->call(SYS_wait4, -1, kStatus, 0, 0), child.pid());
  expect_status(SIGKILL);
  expect_alone();
}

// ---- exec

TEST_F(Life, ExecGoesOnInAFreshStub) {
  make_program();
  Guest child = fork(*first);
  const Ref<AddressSpace> before(&child.mm());
  EXPECT_EQ(child.call(SYS_execve, kPath, kArgv, 0), std::nullopt);
  EXPECT_TRUE(before->gone);
  EXPECT_TRUE(child.runs());
  EXPECT_EQ(child.entry(), kEntry);
  EXPECT_EQ(child.get<uint32_t>(kEntry & ~4095ull), 0x464c457fu) << "the file is mapped";
  EXPECT_EQ(child.task().comm, "program");
  EXPECT_EQ(child.call(SYS_exit_group, 0), std::nullopt);
  EXPECT_EQ(first->call(SYS_wait4, -1, kStatus, 0, 0), child.pid());
  expect_alone();
}

TEST_F(Life, ExecThatFailsLeavesTheImage) {
  make_program();
  first->put_text(kPath + 1, std::string_view("nothing", 8));
  EXPECT_EQ(first->call(SYS_execve, kPath, kArgv, 0), -ENOENT);
  EXPECT_EQ(first->call(SYS_getpid), first->pid());
}

TEST_F(Life, ExecWaitsForAStub) {
  make_program();
  Guest child = fork(*first);
  platform.set_pool(0);
  EXPECT_EQ(child.call(SYS_execve, kPath, kArgv, 0), std::nullopt);
  EXPECT_TRUE(child.waits());
  EXPECT_EQ(child.entry(), 0u);
  platform.set_pool(1);
  platform.run();
  EXPECT_TRUE(child.runs());
  EXPECT_EQ(child.entry(), kEntry);
}

TEST_F(Life, ExecOfAThreadEndsTheOthersAndTakesTheLeadersNumber) {
  make_program();
  Guest child = fork(*first);
  Guest sibling = new_thread(child);
  const int pid = child.pid();
  EXPECT_EQ(sibling.call(SYS_execve, kPath, kArgv, 0), std::nullopt);
  EXPECT_TRUE(child.dead());
  EXPECT_EQ(sibling.tid(), pid);
  EXPECT_EQ(sibling.call(SYS_gettid), pid);
}

// ---- vfork

TEST_F(Life, VforkParentWaitsUntilTheChildsExit) {
  first->begin(SYS_vfork);
  platform.run();
  Guest child = guest(first->pid() + 1);
  EXPECT_EQ(first->result(), std::nullopt);
  EXPECT_FALSE(first->runs());
  EXPECT_EQ(&child.mm(), &first->mm());
  child.put(kBuffer, 42);
  EXPECT_EQ(child.call(SYS_getpid), child.pid());
  EXPECT_EQ(first->result(), std::nullopt);
  EXPECT_EQ(child.call(SYS_exit_group, 5), std::nullopt);
  EXPECT_EQ(first->result(), child.pid());
  EXPECT_EQ(first->get<int>(kBuffer), 42);
  EXPECT_EQ(first->call(SYS_wait4, -1, kStatus, 0, 0), child.pid());
  expect_status(5 << 8);
  expect_alone();
}

TEST_F(Life, VforkParentWaitsUntilTheChildsExec) {
  make_program();
  first->begin(SYS_vfork);
  platform.run();
  Guest child = guest(first->pid() + 1);
  EXPECT_EQ(first->result(), std::nullopt);
  EXPECT_EQ(child.call(SYS_execve, kPath, kArgv, 0), std::nullopt);
  EXPECT_EQ(first->result(), child.pid());
  EXPECT_NE(&child.mm(), &first->mm());
  EXPECT_TRUE(child.runs());
  EXPECT_TRUE(first->runs());
}

TEST_F(Life, VforkParentThatIsKilledLeavesItsChild) {
  Guest parent = fork(*first);
  parent.begin(SYS_vfork);
  platform.run();
  Guest child = guest(parent.pid() + 1);
  EXPECT_EQ(first->call(SYS_kill, parent.pid(), SIGKILL), 0);
  EXPECT_TRUE(parent.dead());
  EXPECT_EQ(first->call(SYS_wait4, -1, kStatus, 0, 0), parent.pid());
  expect_status(SIGKILL);
  EXPECT_EQ(child.call(SYS_getppid), 1);
  EXPECT_EQ(child.call(SYS_exit_group, 0), std::nullopt);
  expect_alone();
}

// ---- Stubs that vanish

TEST_F(Life, StubThatVanishesIsAProcessThatWasKilled) {
  Guest child = fork(*first), other = fork(*first);
  const auto [in, out] = pipe(other);
  (void)out;
  EXPECT_EQ(other.call(SYS_read, in, kBuffer, 1), std::nullopt);
  platform.vanish(child.mm());  // running
  platform.vanish(other.mm());  // waiting
  platform.run();
  for (Guest* gone : {&child, &other}) {
    EXPECT_TRUE(gone->dead());
    EXPECT_EQ(first->call(SYS_wait4, gone->pid(), kStatus, 0, 0), gone->pid());
    expect_status(SIGKILL);
  }
  expect_alone();
}

TEST_F(Life, ChildThatVanishesBeforeItsHello) {
  first->begin(SYS_fork);
  ASSERT_TRUE(platform.step());  // the host has made it
  Guest child = guest(first->pid() + 1);
  ASSERT_EQ(child.mm().host_pid, 0);
  platform.vanish(child.mm());
  platform.run();
  EXPECT_EQ(first->result(), child.pid());
  EXPECT_TRUE(child.dead());
  EXPECT_EQ(first->call(SYS_wait4, -1, kStatus, 0, 0), child.pid());
  expect_status(SIGKILL);
  expect_alone();
}

TEST_F(Life, ParentThatVanishesBeforeItsChildSpokeTakesItAlong) {
  Guest parent = fork(*first);
  parent.begin(SYS_fork);
  platform.vanish(parent.mm());
  platform.run();
  EXPECT_EQ(first->call(SYS_wait4, -1, kStatus, 0, 0), parent.pid());
  expect_status(SIGKILL);
  expect_alone();
}

TEST_F(Life, VforkChildsStubIsItsParentsToo) {
  Guest parent = fork(*first);
  parent.begin(SYS_vfork);
  platform.run();
  Guest child = guest(parent.pid() + 1);
  platform.vanish(child.mm());
  platform.run();
  EXPECT_TRUE(child.dead());
  EXPECT_TRUE(parent.dead());
  EXPECT_EQ(first->call(SYS_wait4, -1, kStatus, 0, 0), parent.pid());
  expect_alone();
}

// Whoever's stub vanishes, after however many steps of an operation: nothing hangs, nothing is
// left, and the first process learns of each death.
struct Vanishing : Life {
  // The processes that take part, by what they run in: 0 the parent's, 1 the child's, 2 what the
  // child execs into.
  std::vector<Ref<AddressSpace>> spaces(Guest& parent) {
    std::vector<Ref<AddressSpace>> found;
    const auto add = [&](const Ref<AddressSpace>& mm) {
      if (mm && !mm->gone && std::find(found.begin(), found.end(), mm) == found.end())
        found.push_back(mm);
    };
    if (!parent.dead()) add(Ref<AddressSpace>(&parent.mm()));
    for (const auto& [pid, group] : kernel.groups()) {
      for (Task* task : group->threads) {
        if (task->mm.get() != &first->mm()) add(task->mm);
      }
    }
    return found;
  }
  void clean_up() {
    platform.run();
    // Who is left, orphans too, can still be killed and waited for.
    const auto groups = kernel.groups();
    for (const auto& [pid, group] : groups) {
      if (pid == 1 || pid == first->pid() || group->zombie) continue;
      EXPECT_EQ(first->call(SYS_kill, pid, SIGKILL), 0);
    }
    while (first->call(SYS_wait4, -1, 0, WNOHANG, 0).value_or(0) > 0) {
    }
    expect_alone();
  }
  // Runs `operation` to its step `steps`, has the stub of `victim` vanish there, and looks at what
  // is left. False: there were not so many steps.
  bool run_one(int steps, size_t victim, const std::function<void(Guest&)>& operation) {
    SCOPED_TRACE(testing::Message() << "victim " << victim << " after " << steps << " steps");
    Guest parent = fork(*first);
    operation(parent);
    for (int i = 0; i < steps; i++) {
      if (!platform.step()) {
        clean_up();
        return false;
      }
    }
    const auto found = spaces(parent);
    if (victim < found.size()) platform.vanish(*found[victim]);
    clean_up();
    return true;
  }
  void run_all(const std::function<void(Guest&)>& operation) {
    for (size_t victim = 0; victim < 3; victim++) {
      int steps = 0;
      while (run_one(steps, victim, operation)) {
        ASSERT_LT(++steps, 100);
        if (HasFailure()) return;
      }
      EXPECT_GE(steps, 2);
    }
  }
};

TEST_F(Vanishing, AtEachStepOfFork) {
  run_all([](Guest& parent) { parent.begin(SYS_fork); });
}
TEST_F(Vanishing, AtEachStepOfVfork) {
  run_all([](Guest& parent) { parent.begin(SYS_vfork); });
}
TEST_F(Vanishing, AtEachStepOfANewThread) {
  run_all([](Guest& parent) { parent.begin(SYS_clone, 0x50f00, kMemory + 0x8000); });
}
TEST_F(Vanishing, AtEachStepOfExec) {
  make_program();
  run_all([](Guest& parent) { parent.begin(SYS_execve, kPath, kArgv, 0); });
}
TEST_F(Vanishing, AtEachStepOfExit) {
  run_all([this](Guest& parent) {
    (void)new_thread(parent);
    parent.begin(SYS_exit_group, 0);
  });
}
TEST_F(Vanishing, AtEachStepOfASignalsHandler) {
  run_all([this](Guest& parent) {
    handle(parent, SIGUSR1, 0);
    first->begin(SYS_kill, parent.pid(), SIGUSR1);
  });
}

}  // namespace
}  // namespace uks
