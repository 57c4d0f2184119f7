// Measuring from outside.
#include "tests/hostile/baseline.h"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

namespace hostile {
namespace {

// The sentry's own memory may differ by this much: malloc keeps freed pages, and which of them
// depends on what lay between them. A leak grows with the rounds, which are many for the cases that
// are short. 16 workers keep two buffers of 128 KiB each once they have needed them
// (sentry/usermem/guest_io.cc), and which of them do depends on the load.
constexpr uint64_t kSlackKib = 512 + 16 * 2 * 128;
// Workers that the platform makes when all others are busy, and keeps (kWorkers less kFirstWorkers
// of platform/trap/trap_platform.h, for two shards).
constexpr unsigned kLaterWorkers = 12;
// Each process that is there has used some pages of its slot and copy area, 128 KiB at most; which
// ones depends on its calls.
constexpr uint64_t kSlotKib = 128;
// The keeper kills, the reaper reaps, the pool is refilled: soon, not at once. A child that never
// said hello is looked for after ten seconds.
constexpr int64_t kPatienceMs = 25'000;
constexpr int64_t kSettleMs = 1'000;

int64_t now_ms() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * 1000 + ts.tv_nsec / 1'000'000;
}
void sleep_ms(long ms) {
  const timespec t{ms / 1000, ms % 1000 * 1'000'000};
  nanosleep(&t, nullptr);
}

void each_entry(const std::string& folder, const std::function<void(const std::string&)>& what) {
  DIR* dir = opendir(folder.c_str());
  if (!dir) return;
  while (const dirent* entry = readdir(dir)) {
    if (entry->d_name[0] != '.') what(entry->d_name);
  }
  closedir(dir);
}
std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
std::string proc(pid_t pid, const char* name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

// A number of /proc/PID/status.
uint64_t status(const std::string& text, const char* name) {
  const size_t at = text.find("\n" + std::string(name) + ":");
  return at == std::string::npos ? 0 : strtoull(text.c_str() + at + strlen(name) + 2, nullptr, 10);
}

void each_child(pid_t parent, const std::function<void(pid_t)>& what) {
  const std::string tasks = proc(parent, "task");
  const std::string own = tasks + "/" + std::to_string(parent) + "/children";
  if (access(own.c_str(), R_OK) != 0) {  // a kernel without CONFIG_PROC_CHILDREN
    each_entry("/proc", [&](const std::string& name) {
      if (!isdigit(static_cast<unsigned char>(name[0]))) return;
      if (status(text_of("/proc/" + name + "/status"), "PPid") == static_cast<uint64_t>(parent))
        what(atoi(name.c_str()));
    });
    return;
  }
  each_entry(tasks, [&](const std::string& thread) {
    std::istringstream pids(text_of(tasks + "/" + thread + "/children"));
    for (pid_t pid = 0; pids >> pid;) what(pid);
  });
}

pid_t find_sentry(pid_t keeper) {
  pid_t sentry = 0;
  each_child(keeper, [&](pid_t pid) {
    if (text_of(proc(pid, "comm")) == "uks-sentry\n") sentry = pid;
  });
  return sentry;
}

std::string kind_of(const std::string& target) {
  if (target.starts_with("/memfd:")) return "memfd";
  if (target.starts_with("/proc/")) return target.substr(target.rfind('/') + 1);  // mem, maps
  if (target.starts_with("socket:") || target.starts_with("pipe:"))
    return target.substr(0, target.find(':'));
  if (target.starts_with("anon_inode:")) return target;
  return "file";
}

Holdings measure(pid_t sentry) {
  Holdings found;
  const std::string text = text_of(proc(sentry, "status"));
  found.threads = status(text, "Threads");
  found.anonymous = status(text, "RssAnon");
  found.shared = status(text, "RssShmem");
  each_child(sentry, [&](pid_t) { found.processes++; });
  const std::string folder = proc(sentry, "fd");
  each_entry(folder, [&](const std::string& name) {
    char target[256];
    const ssize_t n = readlink((folder + "/" + name).c_str(), target, sizeof target);
    if (n <= 0) return;
    const std::string kind = kind_of(std::string(target, static_cast<size_t>(n)));
    found.descriptors[kind]++;
    struct stat s;
    if (kind == "memfd" && stat((folder + "/" + name).c_str(), &s) == 0) {
      found.in_memfds += static_cast<uint64_t>(s.st_blocks) / 2;
    }
  });
  std::istringstream maps(text_of(proc(sentry, "maps")));
  for (std::string line; std::getline(maps, line);)
    found.windows += line.find("/memfd:") != std::string::npos;
  return found;
}

std::string show(const std::map<std::string, uint64_t>& counts) {
  std::string text;
  for (const auto& [kind, count] : counts) text += " " + kind + " " + std::to_string(count);
  return text;
}
std::string show(const Holdings& h) {
  return std::to_string(h.threads) + " threads, " + std::to_string(h.processes) +
         " processes, descriptors:" + show(h.descriptors) + "; " + std::to_string(h.windows) +
         " mapped, " + std::to_string(h.anonymous) + " + " + std::to_string(h.shared) +
         " KiB, memfds " + std::to_string(h.in_memfds) + " KiB";
}

bool same_processes(const Holdings& now, const Holdings& base) {
  return now.threads >= base.threads && now.threads <= base.threads + kLaterWorkers &&
         now.processes == base.processes && now.windows == base.windows;
}
// What must be the same; memory is looked at with its slack.
bool same_counts(const Holdings& now, const Holdings& base) {
  return same_processes(now, base) && now.descriptors == base.descriptors;
}
// Besides: what the tests of a sanitizer's build are told (list_cases.cmake).
uint64_t more_slack_kib() {
  const char* text = getenv("UKS_HOSTILE_SLACK_KIB");
  return text ? strtoull(text, nullptr, 10) : 0;
}
bool no_more_memory(const Holdings& now, const Holdings& base) {
  const uint64_t in_slots = base.processes * kSlotKib;
  return now.anonymous <= base.anonymous + kSlackKib + more_slack_kib() &&
         now.shared <= base.shared + in_slots && now.in_memfds <= base.in_memfds + in_slots;
}

Holdings measure_until(pid_t sentry, int64_t patience_ms,
                       const std::function<bool(const Holdings&)>& good, bool* in_time) {
  const int64_t deadline = now_ms() + patience_ms;
  for (;;) {
    Holdings found = measure(sentry);
    *in_time = good(found);
    if (*in_time || now_ms() > deadline) return found;
    sleep_ms(20);
  }
}

class Guest {
 public:
  Guest(const char* uks, const char* program, const char* name, const std::string& rounds) {
    int in[2], out[2];
    if (pipe(in) != 0 || pipe(out) != 0) return;
    const char* platform = strncmp(name, "traced_", 7) == 0 ? "ptrace" : "trap";
    const std::string folder = std::string(program).substr(0, std::string(program).rfind('/'));
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      for (const int fd : {in[0], in[1], out[0], out[1]}) close(fd);
      execl(uks, uks, "exec", "--quiet", "--platform", platform, "--ro", folder.c_str(), "--",
            program, "--rounds", rounds.c_str(), name, static_cast<char*>(nullptr));
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    answers_ = in[1];
    lines_ = fdopen(out[0], "r");
  }
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;
  ~Guest() {
    if (lines_) fclose(lines_);
    close(answers_);
  }
  pid_t pid() const { return pid_; }
  bool next_line(std::string& line) {
    char* text = nullptr;
    size_t room = 0;
    const ssize_t n = lines_ ? getline(&text, &room, lines_) : -1;
    if (n > 0) line.assign(text, static_cast<size_t>(n - (text[n - 1] == '\n')));
    free(text);
    return n > 0;
  }
  void go_on() { (void)!write(answers_, "\n", 1); }
  int end() {
    close(answers_);
    answers_ = -1;
    int status = 0;
    waitpid(pid_, &status, 0);
    return status;
  }

 private:
  pid_t pid_ = -1;
  int answers_ = -1;
  FILE* lines_ = nullptr;
};

}  // namespace

int run_outside(const char* uks, const char* program, const char* name, unsigned rounds) {
  signal(SIGPIPE, SIG_IGN);
  Guest guest(uks, program, name, std::to_string(rounds));
  pid_t sentry = 0;
  Holdings before, base;
  bool good = true, measured = false;
  for (std::string line; guest.next_line(line);) {
    bool in_time = true;
    if (line == kBefore) {
      sentry = find_sentry(guest.pid());
      if (sentry == 0) {
        fprintf(stderr, "%s: the sentry was not found\n", name);
        good = false;
        break;
      }
      // The pool is being filled: until two looks agree.
      Holdings last;
      before = measure_until(
          sentry, kPatienceMs,
          [&](const Holdings& now) {
            const bool settled = same_counts(now, last);
            last = now;
            if (!settled) sleep_ms(80);
            return settled;
          },
          &in_time);
    } else if (line == kBase) {
      // The first round may leave opened files and used memory of those that live on. What it left
      // in processes has to go, but a child that never said hello only after ten seconds, for which
      // we wait once, at the end.
      base = measure_until(
          sentry, kSettleMs, [&](const Holdings& now) { return same_processes(now, before); },
          &in_time);
      base.threads = before.threads;
      base.processes = before.processes;
      base.windows = before.windows;
      base.descriptors["memfd"] = before.descriptors["memfd"];
    } else if (line == kAfter) {
      const Holdings after = measure_until(
          sentry, kPatienceMs,
          [&](const Holdings& now) { return same_counts(now, base) && no_more_memory(now, base); },
          &in_time);
      measured = true;
      if (!in_time) {
        fprintf(stderr,
                "%s: the sentry does not return to its base line\n  base:  %s\n  after: %s\n", name,
                show(base).c_str(), show(after).c_str());
        good = false;
      } else if (strcmp(name, "by_order_many_silent") == 0 && after.threads <= before.threads &&
                 more_slack_kib() == 0) {
        // All workers were kept: more must have come, which the sentry's filter has to allow.
        fprintf(stderr, "%s: no worker was made: %s\n", name, show(after).c_str());
        good = false;
      } else {
        printf("base:  %s\nafter: %s\n", show(base).c_str(), show(after).c_str());
      }
    } else {
      puts(line.c_str());
      continue;
    }
    guest.go_on();
  }
  const int status = guest.end();
  if (!measured) {
    fprintf(stderr, "%s: the sentry was not measured\n", name);
    good = false;
  }
  if (status != 0) {
    fprintf(stderr, "%s: the guest ended with status %#x\n", name, static_cast<unsigned>(status));
    good = false;
  }
  printf("%s %s, seen from outside\n", good ? "PASS" : "FAIL", name);
  return good ? 0 : 1;
}

}  // namespace hostile
