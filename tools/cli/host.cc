// The real host, asked with plain system calls.
#include "tools/cli/host.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "platform/base/unique_fd.h"
#include "tools/cli/paths.h"

namespace uks::cli {
namespace {

// Others (autofs, FUSE, network file systems) may have names that no listing shows.
bool lists_all(int dir) {
  struct statfs fs;
  if (::fstatfs(dir, &fs) != 0) return false;
  switch (static_cast<uint32_t>(fs.f_type)) {
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
    case TMPFS_MAGIC:
      return true;
    default:
      return false;
  }
}

// Directories may fold case (ext4's casefold): a name that differs in case alone may be there.
std::string lower_case(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name;
}

}  // namespace

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

void RealHost::list(const std::string& path, Directory& directory) {
  constexpr size_t kMaxNames = 4096;
  const auto close = [](DIR* d) { ::closedir(d); };
  const std::unique_ptr<DIR, decltype(close)> dir(::opendir(path.c_str()));
  if (!dir || !lists_all(::dirfd(dir.get()))) return;
  errno = 0;
  while (const dirent* entry = ::readdir(dir.get())) {
    if (directory.names.size() == kMaxNames) return;
    directory.names.insert(lower_case(entry->d_name));
  }
  directory.listed = errno == 0;
}

// Most rules are for names that the host does not have, many in directories that it does not have.
bool RealHost::is_missing(const std::string& path) const {
  constexpr unsigned kFewQuestions = 4;
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || path.size() == 1) return false;
  const std::string parent = path.substr(0, std::max<size_t>(slash, 1));
  if (kind(parent) == FileKind::kMissing) return true;
  Directory& directory = directories_[parent];
  if (++directory.questions == kFewQuestions) list(parent, directory);
  return directory.listed && !directory.names.contains(lower_case(path.substr(slash + 1)));
}

FileKind RealHost::kind(const std::string& path) const {
  const auto known = kinds_.find(path);
  if (known != kinds_.end()) return known->second;
  FileKind kind = FileKind::kMissing;
  struct stat st;
  if (!is_missing(path) && ::lstat(path.c_str(), &st) == 0) {
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
  bool plain = path.starts_with('/') && path == absolute_path(path, "/", "");
  for (size_t at = 0; plain && at != std::string::npos;) {
    at = path.find('/', at + 1);
    const FileKind kind = this->kind(path.substr(0, at));
    if (kind == FileKind::kMissing) return std::nullopt;
    plain = kind == FileKind::kDirectory || (at == std::string::npos && kind != FileKind::kLink);
  }
  if (plain) return path;
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
