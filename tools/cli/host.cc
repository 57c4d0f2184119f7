// The real host, asked with plain system calls.
#include "tools/cli/host.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "platform/base/unique_fd.h"

namespace uks::cli {

std::string Host::variable(const std::string& name) const {
  const std::string prefix = name + "=";
  for (const std::string& v : environment) {
    if (v.starts_with(prefix)) return v.substr(prefix.size());
  }
  return {};
}

RealHost::RealHost() {
  uid = ::getuid();
  gid = ::getgid();
  groups.resize(static_cast<size_t>(std::max(::getgroups(0, nullptr), 0)));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<size_t>(std::max(count, 0)));
  char* dir = ::getcwd(nullptr, 0);
  // A directory outside the root of the process is reported as "(unreachable)…" (getcwd(2)).
  if (dir && dir[0] == '/') cwd = dir;
  std::free(dir);
  for (char** v = ::environ; v && *v; ++v) environment.emplace_back(*v);
  accounts = parse_passwd(read_text("/etc/passwd", 8 << 20).value_or(""));
}

FileKind RealHost::kind(const std::string& path) const {
  const auto known = kinds_.find(path);
  if (known != kinds_.end()) return known->second;
  FileKind kind = FileKind::kMissing;
  // Most rules are for names that the host does not have, many in directories that it does not
  // have.
  const size_t slash = path.rfind('/');
  const bool may_exist = slash == std::string::npos || slash == 0 ||
                         this->kind(path.substr(0, slash)) != FileKind::kMissing;
  struct stat st;
  if (may_exist && ::lstat(path.c_str(), &st) == 0) {
    switch (st.st_mode & S_IFMT) {
      case S_IFREG:
        kind = FileKind::kFile;
        break;
      case S_IFDIR:
        kind = FileKind::kDirectory;
        break;
      case S_IFLNK:
        kind = FileKind::kLink;
        break;
      default:
        kind = FileKind::kOther;
    }
  }
  kinds_.emplace(path, kind);
  return kind;
}

std::optional<std::string> RealHost::real_path(const std::string& path) const {
  char* real = ::realpath(path.c_str(), nullptr);
  if (!real) return std::nullopt;
  std::string result(real);
  std::free(real);
  return result;
}

std::optional<std::string> RealHost::read_text(const std::string& path, size_t limit) const {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd) return std::nullopt;
  std::string text;
  char buffer[16384];
  while (text.size() < limit) {
    const ssize_t n = ::read(fd.get(), buffer, std::min(sizeof buffer, limit - text.size()));
    if (n < 0) return std::nullopt;
    if (n == 0) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  return text;
}

std::vector<Account> parse_passwd(const std::string& text) {
  constexpr size_t kMaxAccounts = 65536;
  std::vector<Account> accounts;
  std::string_view rest = text;
  while (!rest.empty() && accounts.size() < kMaxAccounts) {
    const size_t newline = rest.find('\n');
    std::string_view line = rest.substr(0, newline);
    rest = newline == std::string_view::npos ? std::string_view() : rest.substr(newline + 1);
    std::string_view fields[7];
    size_t count = 0;
    while (count < 7) {
      const size_t colon = line.find(':');
      fields[count++] = line.substr(0, colon);
      if (colon == std::string_view::npos) break;
      line.remove_prefix(colon + 1);
    }
    if (count != 7 || fields[5].empty() || fields[5][0] != '/') continue;
    Account account{0, 0, std::string(fields[5])};
    const auto number = [](std::string_view s, uint32_t& out) {
      const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), out);
      return error == std::errc() && end == s.data() + s.size() && !s.empty();
    };
    if (number(fields[2], account.uid) && number(fields[3], account.gid))
      accounts.push_back(account);
  }
  return accounts;
}

}  // namespace uks::cli
