// One walk of /proc, then the family tree of it.
#include "tools/cli/sandbox_list.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <ctime>
#include <map>
#include <optional>
#include <string_view>

#include "tools/cli/args.h"
#include "tools/cli/flag_table.h"
#include "tools/cli/host.h"

namespace uks::cli {
namespace {

// The sentry makes so many zygotes before anything else: one for each listener (kShards in
// sentry/boot/boot.cc), or one that is traced.
constexpr size_t kZygotes = 2;
constexpr size_t kTracedZygotes = 1;

struct Entry {
  pid_t pid = 0;
  pid_t parent = 0;
  uid_t uid = 0;
  unsigned threads = 0;
  uint64_t start_ticks = 0;
  uint64_t resident_pages = 0;
};

std::string proc_path(pid_t pid, const char* name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

// Fields of /proc/PID/stat by their numbers in proc(5), from 3 (state) on.
std::optional<Entry> read_entry(const Host& host, pid_t pid) {
  struct stat st;
  if (::stat(("/proc/" + std::to_string(pid)).c_str(), &st) != 0) return std::nullopt;
  const auto text = host.read_text(proc_path(pid, "stat"), 4096);
  if (!text) return std::nullopt;
  const size_t bracket = text->rfind(')');
  if (bracket == std::string::npos) return std::nullopt;
  Entry entry;
  entry.pid = pid;
  entry.uid = st.st_uid;
  std::string_view rest = std::string_view(*text).substr(bracket + 1);
  for (int field = 3; !rest.empty(); ++field) {
    while (rest.starts_with(' ')) rest.remove_prefix(1);
    const std::string_view word = rest.substr(0, rest.find(' '));
    const auto number = [&](auto& out) {
      std::from_chars(word.data(), word.data() + word.size(), out);
    };
    if (field == 4) number(entry.parent);
    if (field == 20) number(entry.threads);
    if (field == 22) number(entry.start_ticks);
    if (field == 24) number(entry.resident_pages);
    rest.remove_prefix(word.size());
  }
  return entry;
}

std::map<pid_t, Entry> read_processes(const Host& host) {
  std::map<pid_t, Entry> processes;
  DIR* dir = ::opendir("/proc");
  if (!dir) return processes;
  while (const dirent* entry = ::readdir(dir)) {
    pid_t pid = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    const auto [rest, error] = std::from_chars(entry->d_name, end, pid);
    if (error != std::errc() || rest != end) continue;
    if (auto found = read_entry(host, pid)) processes[pid] = *found;
  }
  ::closedir(dir);
  return processes;
}

std::vector<std::string> arguments_of(const Host& host, pid_t pid) {
  std::vector<std::string> arguments;
  const std::string text = host.read_text(proc_path(pid, "cmdline"), 4 << 20).value_or("");
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\0', at), text.size());
    arguments.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return arguments;
}

bool same_program(pid_t a, pid_t b) {
  struct stat x, y;
  return ::stat(proc_path(a, "exe").c_str(), &x) == 0 &&
         ::stat(proc_path(b, "exe").c_str(), &y) == 0 && x.st_dev == y.st_dev &&
         x.st_ino == y.st_ino;
}

// "sentry", "gofer", "guard" or nothing.
std::string role_of(const Host& host, pid_t pid) {
  const std::string text = host.read_text(proc_path(pid, "cmdline"), 64).value_or("");
  for (const char* role : {"sentry", "gofer"}) {
    if (text == std::string("uks\0--role=", 11) + role + '\0') return role;
  }
  // A fork of the keeper, with its command line.
  if (host.read_text(proc_path(pid, "comm"), 64) == "uks-guard\n") return "guard";
  return {};
}

SandboxProcess describe(const Entry& entry, std::string role) {
  const auto page_kib = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) / 1024;
  return {entry.pid, std::move(role), entry.threads, entry.resident_pages * page_kib};
}

int64_t age_of(const Entry& entry) {
  timespec now;
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::max<int64_t>(
      0, now.tv_sec - static_cast<int64_t>(entry.start_ticks) / ::sysconf(_SC_CLK_TCK));
}

void add_stubs(RunningSandbox& sandbox, const std::map<pid_t, Entry>& processes, pid_t sentry) {
  std::vector<const Entry*> children;
  for (const auto& [pid, entry] : processes) {
    if (entry.parent == sentry) children.push_back(&entry);
  }
  std::ranges::sort(children, [](const Entry* a, const Entry* b) {
    return std::pair(a->start_ticks, a->pid) < std::pair(b->start_ticks, b->pid);
  });
  size_t zygotes = kZygotes;
  if (!children.empty()) {
    const std::string status =
        RealHost().read_text(proc_path(children[0]->pid, "status"), 4096).value_or("");
    const bool traced = status.find("\nTracerPid:\t") != std::string::npos &&
                        status.find("\nTracerPid:\t0\n") == std::string::npos;
    if (traced) zygotes = kTracedZygotes;
  }
  for (size_t i = 0; i < children.size(); ++i)
    sandbox.processes.push_back(describe(*children[i], i < zygotes ? "zygote" : "stub"));
}

}  // namespace

std::vector<std::string> command_of(const std::vector<std::string>& arguments) {
  const std::vector<std::string> rest(arguments.begin() + (arguments.empty() ? 0 : 1),
                                      arguments.end());
  const ParsedArgs parsed = parse_args(rest);
  const auto* options = std::get_if<ExecOptions>(&parsed);
  return options ? options->command : rest;
}

std::vector<RunningSandbox> find_sandboxes(uid_t uid, bool all) {
  const RealHost host;
  const std::map<pid_t, Entry> processes = read_processes(host);
  std::vector<RunningSandbox> sandboxes;
  for (const auto& [pid, entry] : processes) {
    if (role_of(host, pid) != "sentry") continue;
    const auto keeper = processes.find(entry.parent);
    if (keeper == processes.end() || (!all && keeper->second.uid != uid)) continue;
    if (!same_program(pid, keeper->first)) continue;
    RunningSandbox sandbox;
    sandbox.keeper = keeper->first;
    sandbox.uid = keeper->second.uid;
    sandbox.seconds = age_of(keeper->second);
    sandbox.command = command_of(arguments_of(host, keeper->first));
    sandbox.processes.push_back(describe(keeper->second, "keeper"));
    sandbox.processes.push_back(describe(entry, "sentry"));
    for (const auto& [other, its] : processes) {
      if (its.parent != keeper->first) continue;
      const std::string role = role_of(host, other);
      if (role == "gofer" || role == "guard") sandbox.processes.push_back(describe(its, role));
    }
    add_stubs(sandbox, processes, pid);
    sandboxes.push_back(std::move(sandbox));
  }
  std::ranges::sort(sandboxes, [](const RunningSandbox& a, const RunningSandbox& b) {
    return std::pair(-a.seconds, a.keeper) < std::pair(-b.seconds, b.keeper);
  });
  return sandboxes;
}

}  // namespace uks::cli
