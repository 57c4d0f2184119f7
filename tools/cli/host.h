// What the view policy asks of the host: a real one and, in tests, a made-up one.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace uks::cli {

enum class FileKind { kMissing, kFile, kDirectory, kLink, kOther };

// An account of /etc/passwd.
struct Account {
  uint32_t uid;
  uint32_t gid;
  std::string home;
};

class Host {
 public:
  virtual ~Host() = default;
  // Of the name itself, links not followed.
  virtual FileKind kind(const std::string& path) const = 0;
  // realpath(3); nothing if a component is missing or unreadable.
  virtual std::optional<std::string> real_path(const std::string& path) const = 0;
  // The whole text, at most `limit` bytes; nothing if it cannot be read.
  virtual std::optional<std::string> read_text(const std::string& path, size_t limit) const = 0;

  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> groups;
  std::string cwd;  // as getcwd(3) says; empty if it has none
  std::vector<std::string> environment;
  std::vector<Account> accounts;

  // The value of a variable of the caller; empty if it is not set.
  std::string variable(const std::string& name) const;
};

// Reads uid, groups, cwd, environment and /etc/passwd. No NSS: a static binary cannot use it, and
// its modules would run in the trusted process.
class RealHost final : public Host {
 public:
  RealHost();
  // Answers are kept: nothing is asked about a name twice, or below what is missing, and a
  // directory that many questions are about is listed.
  FileKind kind(const std::string& path) const override;
  std::optional<std::string> real_path(const std::string& path) const override;
  std::optional<std::string> read_text(const std::string& path, size_t limit) const override;

 private:
  struct Directory {
    unsigned questions = 0;
    bool listed = false;
    std::unordered_set<std::string> names;  // if listed
  };

  bool is_missing(const std::string& path) const;
  static void list(const std::string& path, Directory& directory);

  mutable std::unordered_map<std::string, FileKind> kinds_;
  mutable std::unordered_map<std::string, Directory> directories_;
};

// The lines of passwd(5) that are well formed; at most 65,536.
std::vector<Account> parse_passwd(const std::string& text);

}  // namespace uks::cli
