// /proc: what programs read there of themselves, their children and the system.
#include <dirent.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <thread>

#include "tests/syscalls/test_util.h"

namespace {

std::string link_text(const std::string& path) {
  char buffer[4096];
  const ssize_t n = readlink(path.c_str(), buffer, sizeof buffer);
  return n < 0 ? "" : std::string(buffer, static_cast<size_t>(n));
}

std::set<std::string> names_in(const std::string& path) {
  std::set<std::string> names;
  DIR* dir = opendir(path.c_str());
  if (!dir) return names;
  while (const dirent* e = readdir(dir)) names.insert(e->d_name);
  closedir(dir);
  return names;
}

std::string fd_path(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

TEST(Proc, SelfIsTheAskingProcess) {
  EXPECT_EQ(link_text("/proc/self"), std::to_string(getpid()));
  EXPECT_EQ(link_text("/proc/thread-self"),
            std::to_string(getpid()) + "/task/" + std::to_string(syscall(SYS_gettid)));
  EXPECT_CHILD_OK([] { return link_text("/proc/self") == std::to_string(getpid()) ? 0 : 1; });
  EXPECT_EQ(names_in("/proc").count(std::to_string(getpid())), 1u);
  EXPECT_ERRNO(access("/proc/99999999", F_OK), ENOENT);
  EXPECT_ERRNO(access(("/proc/0" + std::to_string(getpid())).c_str(), F_OK), ENOENT);
  struct statfs s;
  ASSERT_OK(statfs("/proc/self", &s));
  EXPECT_EQ(s.f_type, PROC_SUPER_MAGIC);
}

TEST(Proc, StatHas52FieldsAndTheRightOnes) {
  const std::string text = test::read_file("/proc/self/stat");
  ASSERT_TRUE(text.starts_with(std::to_string(getpid()) + " (")) << text;
  const std::string rest = text.substr(text.rfind(')') + 2);
  EXPECT_EQ(std::count(rest.begin(), rest.end(), ' '), 49) << text;
  char state;
  int ppid, pgrp, session;
  ASSERT_EQ(sscanf(rest.c_str(), "%c %d %d %d", &state, &ppid, &pgrp, &session), 4);
  EXPECT_EQ(state, 'R');
  EXPECT_EQ(ppid, getppid());
  EXPECT_EQ(pgrp, getpgrp());
  EXPECT_EQ(session, getsid(0));
}

TEST(Proc, StatusAgreesWithTheCalls) {
  const std::string text = test::read_file("/proc/self/status");
  const auto has = [&](const std::string& line) {
    return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
  };
  uid_t r, e, s;
  ASSERT_OK(getresuid(&r, &e, &s));
  EXPECT_TRUE(has("Pid:\t" + std::to_string(getpid()))) << text;
  EXPECT_TRUE(has("PPid:\t" + std::to_string(getppid()))) << text;
  EXPECT_TRUE(has("Threads:\t1")) << text;
  EXPECT_NE(text.find("\nUid:\t" + std::to_string(r) + "\t" + std::to_string(e) + "\t"),
            std::string::npos)
      << text;
  for (const char* key :
       {"VmRSS:", "VmSize:", "SigBlk:", "CapEff:", "NoNewPrivs:", "Cpus_allowed_list:"}) {
    EXPECT_NE(text.find(std::string("\n") + key), std::string::npos) << key;
  }
}

TEST(Proc, CommCanBeRead) {
  EXPECT_CHILD_OK([] {
    CHILD_CHECK(access("/proc/self/comm", W_OK) == 0);
    test::Fd fd(open("/proc/self/comm", O_WRONLY | O_TRUNC));
    CHILD_CHECK(fd.get() >= 0);
    CHILD_CHECK(write(fd, "a name that is too long\n", 24) == 24);
    CHILD_CHECK(test::read_file("/proc/self/comm") == "a name that is \n");
    CHILD_CHECK(test::read_file("/proc/self/stat").find("(a name that is )") != std::string::npos);
    return 0;
  });
}

TEST(Proc, ZombieKeepsItsName) {
  const pid_t pid = test::spawn([] { return 3; });
  siginfo_t info;
  ASSERT_OK(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT));
  const std::string base = "/proc/" + std::to_string(pid);
  const std::string text = test::read_file(base + "/stat");
  EXPECT_EQ(text.substr(text.rfind(')') + 2, 1), "Z");
  EXPECT_EQ(test::read_file(base + "/comm"), test::read_file("/proc/self/comm"));
  EXPECT_EQ(test::read_file(base + "/cmdline"), "");
  test::Fd stat(open((base + "/stat").c_str(), O_RDONLY));
  test::wait_for(pid);
  EXPECT_ERRNO(access(base.c_str(), F_OK), ENOENT);
  char c;
  EXPECT_ERRNO(read(stat, &c, 1), ESRCH);
}

TEST(Proc, LinksOfDescriptors) {
  const test::TempDir dir("/tmp");
  test::write_file(dir / "file", "content");
  test::Fd file(open((dir / "file").c_str(), O_RDONLY));
  EXPECT_EQ(link_text(fd_path(file)), dir / "file");
  struct stat st;
  ASSERT_OK(lstat(fd_path(file).c_str(), &st));
  EXPECT_EQ(st.st_mode, static_cast<mode_t>(S_IFLNK | 0500));
  EXPECT_EQ(st.st_size, 64);
  // Deleted, and still readable through the link, from its start.
  char c;
  ASSERT_EQ(read(file, &c, 1), 1);
  ASSERT_OK(unlink((dir / "file").c_str()));
  EXPECT_EQ(link_text(fd_path(file)), dir / "file" + " (deleted)");
  EXPECT_EQ(test::read_file(fd_path(file)), "content");

  int ends[2];
  ASSERT_OK(pipe(ends));
  test::Fd reader(ends[0]), writer(ends[1]);
  EXPECT_TRUE(link_text(fd_path(reader)).starts_with("pipe:["));
  ASSERT_OK(stat(fd_path(reader).c_str(), &st));
  EXPECT_TRUE(S_ISFIFO(st.st_mode));
  // The other direction of the same pipe.
  test::Fd again(open(fd_path(reader).c_str(), O_WRONLY));
  ASSERT_GE(again.get(), 0) << strerror(errno);
  ASSERT_EQ(write(again, "x", 1), 1);
  EXPECT_EQ(read(reader, &c, 1), 1);
  // By way of another link, also with O_CREAT.
  ASSERT_OK(symlink(fd_path(writer).c_str(), (dir / "link").c_str()));
  test::Fd through(open((dir / "link").c_str(), O_WRONLY | O_CREAT, 0600));
  ASSERT_GE(through.get(), 0) << strerror(errno);
  ASSERT_EQ(write(through, "y", 1), 1);
  EXPECT_EQ(read(reader, &c, 1), 1);
  EXPECT_EQ(c, 'y');

  test::Fd memory(memfd_create("named", 0));
  EXPECT_EQ(link_text(fd_path(memory)), "/memfd:named (deleted)");
  test::Fd epoll(epoll_create1(0));
  EXPECT_EQ(link_text(fd_path(epoll)), "anon_inode:[eventpoll]");
  EXPECT_EQ(names_in("/proc/self/fd").count(std::to_string(epoll.get())), 1u);
  EXPECT_ERRNO(access("/proc/self/fd/999", F_OK), ENOENT);
}

TEST(Proc, LinksOfPlaces) {
  const test::TempDir dir("/tmp");
  EXPECT_CHILD_OK([&] {
    CHILD_CHECK(chdir(dir.path().c_str()) == 0);
    CHILD_CHECK(link_text("/proc/self/cwd") == dir.path());
    test::write_file("here", "x");
    CHILD_CHECK(test::read_file("/proc/self/cwd/here") == "x");
    CHILD_CHECK(unlink("here") == 0);
    return 0;
  });
  EXPECT_EQ(link_text("/proc/self/root"), "/");
  struct stat a, b;
  ASSERT_OK(stat("/proc/self/exe", &a));
  ASSERT_OK(stat(link_text("/proc/self/exe").c_str(), &b));
  EXPECT_EQ(a.st_ino, b.st_ino);
  char magic[4];
  test::Fd exe(open("/proc/self/exe", O_RDONLY));
  ASSERT_EQ(read(exe, magic, 4), 4);
  EXPECT_EQ(memcmp(magic, "\177ELF", 4), 0);
}

TEST(Proc, FdinfoStartsWithThePosition) {
  const test::TempDir dir("/tmp");
  test::Fd fd(open((dir / "f").c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  ASSERT_EQ(write(fd, "12345", 5), 5);
  const std::string text = test::read_file("/proc/self/fdinfo/" + std::to_string(fd.get()));
  EXPECT_TRUE(text.starts_with("pos:\t5\nflags:\t02102002\nmnt_id:\t")) << text;
}

TEST(Proc, StringsOfTheProcess) {
  const std::string cmdline = test::read_file("/proc/self/cmdline");
  EXPECT_NE(cmdline.find(std::string(1, '\0')), std::string::npos);
  EXPECT_EQ(cmdline.back(), '\0');
  // What setproctitle(3) does: the arguments are changed where they lie.
  const std::string environment = test::read_file("/proc/self/environ");
  EXPECT_NE(environment.find('='), std::string::npos);
  const std::string auxv = test::read_file("/proc/self/auxv");
  EXPECT_EQ(auxv.size() % 16, 0u);
  EXPECT_GE(auxv.size(), 160u);
}

TEST(Proc, MapsNameWhatIsMapped) {
  const test::TempDir dir("/tmp");
  test::write_file(dir / "mapped file", std::string(8192, 'm'));
  test::Fd fd(open((dir / "mapped file").c_str(), O_RDONLY));
  void* at = mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
  ASSERT_NE(at, MAP_FAILED);
  const std::string maps = test::read_file("/proc/self/maps");
  char line[64];
  snprintf(line, sizeof line, "\n%lx-%lx r--p 00000000 ", reinterpret_cast<unsigned long>(at),
           reinterpret_cast<unsigned long>(at) + 8192);
  const size_t found = ("\n" + maps).find(line);
  ASSERT_NE(found, std::string::npos) << maps;
  EXPECT_EQ(maps.substr(found + 73, maps.find('\n', found) - found - 73), dir / "mapped file")
      << maps;
  EXPECT_NE(maps.find("[stack]"), std::string::npos) << maps;
  EXPECT_NE(maps.find(link_text("/proc/self/exe")), std::string::npos) << maps;
  munmap(at, 8192);
}

// The size of the address space is what maps shows, in stat, statm and status alike.
// Big texts are made in pieces.
TEST(Proc, ManyMappingsAreAllThereInOrder) {
  constexpr size_t kMany = 600;
  void* const memory =
      mmap(nullptr, 2 * kMany * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  char* const base = static_cast<char*>(memory);
  for (size_t i = 0; i < kMany; i++) ASSERT_EQ(mprotect(base + 2 * i * 4096, 4096, PROT_READ), 0);
  // From the one `base` lies in to the last of these.
  const auto heads = [&](const char* file) {
    std::vector<std::string> lines;
    std::istringstream text(test::read_file(file));
    for (std::string line; std::getline(text, line);) {
      unsigned long from = 0, to = 0;
      char rest[8];
      if (sscanf(line.c_str(), "%lx-%lx %7s", &from, &to, rest) != 3) continue;
      const auto first = reinterpret_cast<unsigned long>(base);
      if (from >= first && from < first + 2 * (kMany - 1) * 4096) lines.push_back(line);
    }
    return lines;
  };
  const auto maps = heads("/proc/self/maps");
  ASSERT_EQ(maps.size(), 2 * (kMany - 1));
  EXPECT_EQ(heads("/proc/self/smaps"), maps);
  for (size_t i = 0; i < maps.size(); i++)
    EXPECT_NE(maps[i].find(i % 2 == 0 ? " r--p " : " rw-p "), std::string::npos) << maps[i];
  munmap(memory, 2 * kMany * 4096);
}

TEST(Proc, SizesAgreeWithTheMaps) {
  const std::string maps = test::read_file("/proc/self/maps");
  uint64_t mapped = 0;
  for (size_t at = 0; at < maps.size(); at = maps.find('\n', at) + 1) {
    uint64_t from = 0, to = 0;
    ASSERT_EQ(sscanf(maps.c_str() + at, "%lx-%lx", &from, &to), 2);
    if (from >> 63 == 0) mapped += to - from;  // not the vsyscall page
  }
  uint64_t pages = 0, kib = 0, vsize = 0;
  ASSERT_EQ(sscanf(test::read_file("/proc/self/statm").c_str(), "%lu", &pages), 1);
  const std::string status = test::read_file("/proc/self/status");
  ASSERT_NE(status.find("\nVmSize:\t"), std::string::npos);
  ASSERT_EQ(sscanf(status.c_str() + status.find("\nVmSize:"), "\nVmSize: %lu kB\n", &kib), 1);
  ASSERT_EQ(sscanf(test::read_file("/proc/self/stat").c_str(),
                   "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
                   "%*d %*d %*d %*u %lu",
                   &vsize),
            1);
  constexpr double kSlack = 2 << 20;  // reading allocates
  EXPECT_NEAR(static_cast<double>(pages * 4096), static_cast<double>(mapped), kSlack);
  EXPECT_NEAR(static_cast<double>(kib << 10), static_cast<double>(mapped), kSlack);
  EXPECT_NEAR(static_cast<double>(vsize), static_cast<double>(mapped), kSlack);
}

TEST(Proc, ThreadsAreListed) {
  int ends[2];
  ASSERT_OK(pipe(ends));
  test::Fd reader(ends[0]), writer(ends[1]);
  std::thread other([&] {
    char c;
    (void)!read(reader, &c, 1);
  });
  EXPECT_EQ(names_in("/proc/self/task").size(), 4u);  // with . and ..
  EXPECT_NE(test::read_file("/proc/self/status").find("\nThreads:\t2\n"), std::string::npos);
  ASSERT_EQ(write(writer, "x", 1), 1);
  other.join();
  for (const std::string& name : names_in("/proc/self/task")) {
    if (name[0] == '.') continue;
    EXPECT_EQ(test::read_file("/proc/self/task/" + name + "/comm"),
              test::read_file("/proc/self/comm"));
  }
}

TEST(Proc, LimitsAndIo) {
  const std::string limits = test::read_file("/proc/self/limits");
  EXPECT_NE(limits.find("Max open files            "), std::string::npos) << limits;
  EXPECT_EQ(std::count(limits.begin(), limits.end(), '\n'), 17);
  const std::string io = test::read_file("/proc/self/io");
  for (const char* key :
       {"rchar: ", "wchar: ", "syscr: ", "syscw: ", "read_bytes: ", "write_bytes: "}) {
    EXPECT_NE(io.find(key), std::string::npos) << io;
  }
}

TEST(Proc, SystemFiles) {
  const std::string stat = test::read_file("/proc/stat");
  EXPECT_TRUE(stat.starts_with("cpu  ")) << stat;
  EXPECT_NE(stat.find("\nbtime "), std::string::npos);
  const std::string cpuinfo = test::read_file("/proc/cpuinfo");
  size_t processors = 0, lines = 0;
  for (size_t at = 0; (at = cpuinfo.find("processor\t:", at)) != std::string::npos; ++at)
    ++processors;
  for (size_t at = 0; (at = stat.find("\ncpu", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(processors, lines);
  EXPECT_NE(test::read_file("/proc/meminfo").find("MemAvailable:"), std::string::npos);
  double up = 0, idle = 0;
  EXPECT_EQ(sscanf(test::read_file("/proc/uptime").c_str(), "%lf %lf", &up, &idle), 2);
  EXPECT_NEAR(up, static_cast<double>(test::now_ns(CLOCK_BOOTTIME)) / 1e9, 1.0);
  int running = 0, total = 0, last = 0;
  EXPECT_EQ(sscanf(test::read_file("/proc/loadavg").c_str(), "%*f %*f %*f %d/%d %d", &running,
                   &total, &last),
            3);
  EXPECT_GE(running, 1);
  EXPECT_NE(test::read_file("/proc/filesystems").find("nodev\tproc\n"), std::string::npos);
}

TEST(Proc, Settings) {
  EXPECT_EQ(test::read_file("/proc/sys/kernel/ostype"), "Linux\n");
  const std::string boot_id = test::read_file("/proc/sys/kernel/random/boot_id");
  EXPECT_EQ(boot_id.size(), 37u);
  EXPECT_EQ(boot_id, test::read_file("/proc/sys/kernel/random/boot_id"));
  EXPECT_NE(test::read_file("/proc/sys/kernel/random/uuid"),
            test::read_file("/proc/sys/kernel/random/uuid"));
  EXPECT_GE(atoi(test::read_file("/proc/sys/kernel/pid_max").c_str()), 32768);
  EXPECT_ERRNO(access("/proc/sys/kernel/no_such_setting", F_OK), ENOENT);
}

TEST(Proc, MountsCanBeWaitedFor) {
  const std::string mounts = test::read_file("/proc/self/mounts");
  EXPECT_NE(mounts.find(" /proc proc rw"), std::string::npos) << mounts;
  EXPECT_EQ(link_text("/proc/mounts"), "self/mounts");
  test::Fd info(open("/proc/self/mountinfo", O_RDONLY));
  test::Fd epoll(epoll_create1(0));
  epoll_event event{};
  event.events = EPOLLPRI;
  EXPECT_OK(epoll_ctl(epoll, EPOLL_CTL_ADD, info, &event));
  EXPECT_EQ(epoll_wait(epoll, &event, 1, 0), 0);
  const std::string text = test::read_file("/proc/self/mountinfo");
  EXPECT_NE(text.find(" / / r"), std::string::npos) << text;
  EXPECT_NE(text.find(" - proc proc "), std::string::npos) << text;
}

TEST(Proc, CannotBeChanged) {
  EXPECT_NE(open("/proc/self/new", O_WRONLY | O_CREAT, 0600), 0);
  EXPECT_EQ(mkdir("/proc/new", 0700), -1);
  EXPECT_EQ(unlink("/proc/version"), -1);
  EXPECT_ERRNO(open("/proc/version", O_RDONLY | O_DIRECTORY), ENOTDIR);
}

}  // namespace
