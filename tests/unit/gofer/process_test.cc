// The gofer as a process: its posture, its filter in force, its end.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include <fstream>
#include <set>

#include "gofer/server/config.h"
#include "gofer/server/main.h"
#include "platform/host/gofer_filter.h"
#include "tests/unit/gofer/fixture.h"

namespace uks::gofer {
namespace {

class GoferProcess : public GoferTest {
 protected:
  void launch(const std::string& config, int connections = 3) {
    UniqueFd config_fd(static_cast<int>(::memfd_create("config", 0)));
    ASSERT_EQ(::write(config_fd.get(), config.data(), config.size()),
              static_cast<ssize_t>(config.size()));
    std::vector<UniqueFd> ours;
    std::vector<int> theirs;
    for (int i = 0; i < connections; ++i) {
      int pair[2];
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
      ours.emplace_back(pair[0]);
      theirs.push_back(pair[1]);
    }
    if (extra_) theirs.push_back(extra_.get());
    child_ = ::fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) ::_exit(gofer_main(config_fd.get(), theirs));
    for (int fd : theirs) {
      if (fd != extra_.get()) ::close(fd);
    }
    client_ = std::make_unique<GoferClient>(std::move(ours));
  }
  void launch_here() {
    launch(encode_config({.trees = {{root_, true}}}));
    auto top = client_->attach(0);
    ASSERT_TRUE(top);
    top_ = top->id;
  }
  int wait_status() {
    int status = -1;
    if (child_ > 0) ::waitpid(child_, &status, 0);
    child_ = -1;
    return status;
  }
  ~GoferProcess() override {
    client_.reset();
    if (child_ > 0) wait_status();
  }
  std::string status_field(const std::string& key) {
    std::ifstream file(fmt::format("/proc/{}/status", child_));
    std::string line;
    while (std::getline(file, line)) {
      if (line.starts_with(key + ":\t")) return line.substr(key.size() + 2);
    }
    return {};
  }

  pid_t child_ = -1;
  UniqueFd extra_;  // the gofer's end of one more connection
};

// A message that is no request ends the connection: who waits there must not wait for ever.
TEST_F(GoferProcess, AnEndedConnectionIsClosed) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
  const UniqueFd ours(pair[0]);
  extra_ = UniqueFd(pair[1]);
  launch_here();
  extra_.reset();
  const int room = 1 << 20;
  ::setsockopt(ours.get(), SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  const std::string too_long(kMaxMessage + 1, 'x');
  ASSERT_EQ(::send(ours.get(), too_long.data(), too_long.size(), 0),
            static_cast<ssize_t>(too_long.size()));
  char byte;
  EXPECT_EQ(::recv(ours.get(), &byte, 1, 0), 0);
}

TEST_F(GoferProcess, EveryOperationPassesTheFilter) {
  put("f", "hello");
  put("d/g");
  launch_here();
  auto file = client_->open(look("f")->id, O_RDWR | O_TRUNC);
  ASSERT_TRUE(file);
  auto made = client_->create(top_, "n", 0640, O_RDWR | O_EXCL);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->node.attr.mode & 07777, 0640u);
  EXPECT_TRUE(client_->mkdir(top_, "m", 0777));
  EXPECT_TRUE(client_->symlink(top_, "l", "f"));
  EXPECT_TRUE(client_->readlink(look("l")->id));
  EXPECT_TRUE(client_->link(look("f")->id, top_, "f2"));
  EXPECT_TRUE(client_->open(look("f2")->id, O_RDONLY));  // scans for hidden inodes
  EXPECT_TRUE(client_->mknod(top_, "p", S_IFIFO | 0600));
  EXPECT_TRUE(client_->mknod(top_, "s", S_IFSOCK | 0600));
  EXPECT_TRUE(client_->mknod(top_, "r", S_IFREG | 0600));
  EXPECT_TRUE(client_->rename(top_, "r", look("m")->id, "r", 0));
  EXPECT_TRUE(client_->rename(top_, "p", top_, "s", RENAME_EXCHANGE));
  EXPECT_TRUE(client_->unlink(top_, "p"));
  EXPECT_TRUE(client_->unlink(look("m")->id, "r"));
  EXPECT_TRUE(client_->rmdir(top_, "m"));
  EXPECT_TRUE(client_->read_directory(top_, true));
  EXPECT_TRUE(client_->statfs(top_));
  EXPECT_TRUE(client_->fsync(top_, false));
  EXPECT_TRUE(client_->fsync(made->node.id, true));
  SetAttr c;
  c.mask = kSetMode | kSetUid | kSetSize | kSetAtime | kSetMtimeNow;
  c.mode = 0600;
  c.uid = ::getuid();
  c.size = 5000;
  EXPECT_TRUE(client_->setattr(made->node.id, c));
  c.mask = kSetMtimeNow;
  EXPECT_TRUE(client_->setattr(look("l")->id, c));
  int error = error_of(client_->setxattr(made->node.id, "user.a", "v", 0));
  EXPECT_TRUE(error == 0 || error == EOPNOTSUPP) << error;
  (void)client_->getxattr(made->node.id, "user.a");
  (void)client_->removexattr(made->node.id, "user.a");
  EXPECT_TRUE(client_->listxattr(made->node.id));
  client_->forget(made->node.id, 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 300; ++i) EXPECT_TRUE(look("d/g"));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(client_->dead());
  client_.reset();
  EXPECT_EQ(wait_status(), 0);
}

TEST_F(GoferProcess, Posture) {
  put("f");
  UniqueFd stray(::open("/etc/passwd", O_RDONLY));
  launch_here();
  EXPECT_EQ(status_field("NoNewPrivs"), "1");
  uint64_t want = ::geteuid() == 0 ? 1ull << 0 | 1ull << 1 | 1ull << 3 | 1ull << 4 : 0;
  EXPECT_EQ(std::stoull(status_field("CapPrm"), nullptr, 16) & ~want, 0u);
  EXPECT_EQ(std::stoull(status_field("CapEff"), nullptr, 16) & ~want, 0u);
  EXPECT_EQ(status_field("CapInh"), "0000000000000000");
  EXPECT_EQ(status_field("Umask"), "0000");
  EXPECT_EQ(status_field("Seccomp"), "2");
  for (const auto& task :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", child_))) {
    std::ifstream file(task.path() / "status");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    EXPECT_NE(text.find("Seccomp:\t2"), std::string::npos);
  }
  if (::geteuid() != 0) return;  // the process is not dumpable: its descriptors are root's to list
  std::set<std::string> targets;
  for (const auto& fd : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", child_))) {
    if (std::stoi(fd.path().filename().string()) < 3) continue;
    std::string target = std::filesystem::read_symlink(fd.path()).string();
    targets.insert(target.starts_with("socket:") ? "socket" : target);
  }
  std::string proc = fmt::format("/proc/{}/fd", child_);
  EXPECT_EQ(targets, (std::set<std::string>{"/", "socket", proc, root_}));
}

TEST_F(GoferProcess, DeathIsEio) {
  put("f");
  launch_here();
  NodeAttr f = *look("f");
  auto file = client_->open(f.id, O_RDONLY);
  ASSERT_TRUE(file);
  ::kill(child_, SIGKILL);
  wait_status();
  EXPECT_EQ(error_of(client_->getattr(f.id)), EIO);
  EXPECT_TRUE(client_->dead());
  EXPECT_EQ(error_of(client_->lookup(top_, "f")), EIO);
  EXPECT_EQ(read_fd(file->fd.get()), "text");  // donated descriptors live on
}

TEST_F(GoferProcess, BadConfigurations) {
  for (const std::string& text :
       {std::string("{"), encode_config({.trees = {{"/no/such/dir", false}}})}) {
    launch(text);
    int status = wait_status();
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 125);
    EXPECT_EQ(error_of(client_->attach(0)), EIO);
  }
}

TEST(GoferFilter, Interpreted) {
  using namespace bpf;
  int connections[] = {7, 8};
  Program p = gofer_filter({5, connections, 6, 9}, kill_process());
  auto allowed = [&](long nr, std::initializer_list<uint64_t> args = {}) {
    uint32_t verdict = evaluate(p, nr, args);
    EXPECT_TRUE(verdict == SECCOMP_RET_ALLOW || verdict == SECCOMP_RET_KILL_PROCESS);
    return verdict == SECCOMP_RET_ALLOW;
  };
  EXPECT_TRUE(allowed(SYS_recvmsg, {7}));
  EXPECT_TRUE(allowed(SYS_sendmsg, {8}));
  EXPECT_FALSE(allowed(SYS_sendmsg, {5}));
  EXPECT_TRUE(allowed(SYS_openat, {5, 0, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY}));
  EXPECT_FALSE(allowed(SYS_openat, {static_cast<uint64_t>(AT_FDCWD), 0, O_RDONLY}));
  EXPECT_FALSE(allowed(SYS_openat, {5, 0, O_RDWR | O_CREAT}));
  EXPECT_TRUE(allowed(SYS_openat2, {4, 0, 0, sizeof(open_how)}));
  EXPECT_TRUE(allowed(SYS_mknodat, {4, 0, S_IFIFO | 0644}));
  EXPECT_FALSE(allowed(SYS_mknodat, {4, 0, S_IFCHR | 0644}));
  EXPECT_FALSE(allowed(SYS_mknodat, {4, 0, S_IFBLK | 0644}));
  EXPECT_FALSE(allowed(SYS_mknodat, {4, 0, S_IFREG | 04755}));
  EXPECT_FALSE(allowed(SYS_linkat, {4, 0, 4, 0, 0}));
  EXPECT_TRUE(allowed(SYS_linkat, {5, 0, 4, 0, AT_SYMLINK_FOLLOW}));
  EXPECT_FALSE(allowed(SYS_renameat2, {4, 0, 4, 0, RENAME_WHITEOUT}));
  EXPECT_TRUE(allowed(SYS_mmap, {0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS}));
  EXPECT_FALSE(allowed(SYS_mmap, {0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS}));
  EXPECT_FALSE(allowed(SYS_mmap, {0, 4096, PROT_READ, MAP_SHARED}));
  EXPECT_FALSE(allowed(SYS_mprotect, {0, 4096, PROT_READ | PROT_EXEC}));
  EXPECT_TRUE(allowed(SYS_tgkill, {1, 1, SIGABRT}));
  EXPECT_FALSE(allowed(SYS_tgkill, {1, 1, SIGKILL}));
  EXPECT_TRUE(allowed(SYS_write, {9}));
  EXPECT_FALSE(allowed(SYS_write, {1}));
  EXPECT_TRUE(allowed(SYS_inotify_add_watch, {6}));
  EXPECT_TRUE(allowed(SYS_inotify_rm_watch, {6}));
  EXPECT_FALSE(allowed(SYS_inotify_add_watch, {5}));
  EXPECT_TRUE(allowed(SYS_inotify_init1, {IN_CLOEXEC | IN_NONBLOCK}));
  EXPECT_FALSE(allowed(SYS_inotify_init1, {0}));
  EXPECT_TRUE(allowed(SYS_dup3, {4, 6, O_CLOEXEC}));
  EXPECT_TRUE(allowed(SYS_fcntl, {4, F_DUPFD_CLOEXEC, 0}));
  EXPECT_FALSE(allowed(SYS_fcntl, {4, F_SETFL, 0}));
  EXPECT_FALSE(allowed(SYS_dup3, {4, 7, O_CLOEXEC}));
  // A gofer never needs these, whatever their arguments.
  for (long nr : {SYS_execve,
                  SYS_execveat,
                  SYS_clone,
                  SYS_clone3,
                  SYS_fork,
                  SYS_vfork,
                  SYS_socket,
                  SYS_connect,
                  SYS_bind,
                  SYS_ptrace,
                  SYS_process_vm_readv,
                  SYS_process_vm_writev,
                  SYS_kill,
                  SYS_ioctl,
                  SYS_open,
                  SYS_creat,
                  SYS_read,
                  SYS_mount,
                  SYS_chroot,
                  SYS_unshare,
                  SYS_setns,
                  SYS_prctl,
                  SYS_seccomp,
                  SYS_rt_sigaction,
                  SYS_io_uring_setup,
                  SYS_bpf,
                  SYS_memfd_create,
                  SYS_mknod,
                  SYS_chmod,
                  SYS_chown,
                  SYS_link,
                  SYS_symlink,
                  SYS_rename,
                  SYS_unlink,
                  SYS_truncate,
                  SYS_setuid,
                  SYS_capset,
                  SYS_dup,
                  SYS_dup2,
                  SYS_inotify_init,
                  SYS_fanotify_init,
                  SYS_open_by_handle_at,
                  SYS_pidfd_getfd}) {
    EXPECT_FALSE(allowed(nr, {5, 5, 0, 0, 0})) << nr;
    EXPECT_FALSE(allowed(nr | 0x40000000, {5, 5, 0, 0, 0})) << nr;
  }
}

}  // namespace
}  // namespace uks::gofer
