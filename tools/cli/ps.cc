// Prints running sandboxes.
#include "tools/cli/ps.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tools/cli/explain.h"
#include "tools/cli/notice.h"

namespace uks::cli {
namespace {

// 75 is 1:15, 3661 is 1:01:01, as ps(1) prints ELAPSED.
std::string duration(int64_t seconds) {
  const int64_t days = seconds / 86400, hours = seconds / 3600 % 24, minutes = seconds / 60 % 60;
  if (days > 0) return fmt::format("{}-{:02}:{:02}:{:02}", days, hours, minutes, seconds % 60);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, seconds % 60);
  return fmt::format("{}:{:02}", minutes, seconds % 60);
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + escape_controls(word);
  return out;
}

}  // namespace

std::string sandboxes_text(const std::vector<RunningSandbox>& sandboxes, bool processes) {
  std::string out = fmt::format("{:>8} {:>6} {:>11} {:>9}  {}\n", "PID", "UID", "ELAPSED",
                                "PROCESSES", "COMMAND");
  for (const RunningSandbox& s : sandboxes) {
    out += fmt::format("{:>8} {:>6} {:>11} {:>9}  {}\n", s.keeper, s.uid, duration(s.seconds),
                       s.processes.size(), joined(s.command));
    if (!processes) continue;
    for (const SandboxProcess& p : s.processes) {
      out += fmt::format("{:>17}  {:<7} {:>4} thread{} {:>8} KiB\n", p.pid, p.role, p.threads,
                         p.threads == 1 ? " " : "s", p.resident_kib);
    }
  }
  return out;
}

std::string sandboxes_json(const std::vector<RunningSandbox>& sandboxes, bool processes) {
  using nlohmann::ordered_json;
  ordered_json list = ordered_json::array();
  for (const RunningSandbox& s : sandboxes) {
    ordered_json one = {{"pid", s.keeper},
                        {"uid", s.uid},
                        {"seconds", s.seconds},
                        {"process_count", s.processes.size()},
                        {"command", s.command}};
    if (processes) {
      one["processes"] = ordered_json::array();
      for (const SandboxProcess& p : s.processes) {
        one["processes"].push_back({{"pid", p.pid},
                                    {"role", p.role},
                                    {"threads", p.threads},
                                    {"resident_kib", p.resident_kib}});
      }
    }
    list.push_back(std::move(one));
  }
  const ordered_json json = {{"sandboxes", std::move(list)}};
  // Arguments are bytes; what is no UTF-8 is replaced.
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

int ps_command(const PsOptions& options) {
  const auto sandboxes = find_sandboxes(::getuid(), ::geteuid() == 0);
  const std::string text = options.json ? sandboxes_json(sandboxes, options.processes)
                                        : sandboxes_text(sandboxes, options.processes);
  return print_all(text) ? 0 : kExitFailure;
}

}  // namespace uks::cli
