// The codec of SandboxConfig. Decoding never throws: nlohmann-json is built without exceptions
// here, so every type is checked before it is taken.
#include "sentry/boot/config.h"

#define JSON_NOEXCEPTION 1
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

namespace uks {
namespace {

using nlohmann::json;

json encode_view(const ViewConfig& view) {
  json mounts = json::array();
  for (const ViewMount& m : view.mounts) {
    mounts.push_back({{"target", m.target},
                      {"kind", static_cast<unsigned>(m.kind)},
                      {"tree", m.tree},
                      {"read_only", m.read_only},
                      {"size_limit", m.size_limit},
                      {"mode", m.mode},
                      {"source", m.source}});
  }
  json files = json::array();
  for (const ViewFile& f : view.files) {
    files.push_back({{"path", f.path},
                     {"content", f.content},
                     {"mode", f.mode},
                     {"uid", f.uid},
                     {"gid", f.gid}});
  }
  return {{"mounts", std::move(mounts)},
          {"files", std::move(files)},
          {"uid", view.uid},
          {"gid", view.gid}};
}

// Takes fields out of an object; remembers whether one was missing or of another type.
class Fields {
 public:
  explicit Fields(const json& object) : object_(object), good_(object.is_object()) {}
  bool good() const { return good_; }

  Fields& take(const char* name, std::string& out) {
    if (const json* v = find(name); v && v->is_string()) {
      out = v->get_ref<const std::string&>();
    } else {
      good_ = false;
    }
    return *this;
  }
  Fields& take(const char* name, bool& out) {
    if (const json* v = find(name); v && v->is_boolean()) {
      out = v->get<bool>();
    } else {
      good_ = false;
    }
    return *this;
  }
  Fields& take(const char* name, uint64_t& out) {
    if (const json* v = find(name); v && v->is_number_unsigned()) {
      out = v->get<uint64_t>();
    } else {
      good_ = false;
    }
    return *this;
  }
  Fields& take(const char* name, uint32_t& out) {
    uint64_t wide = 0;
    take(name, wide);
    if (wide > UINT32_MAX) good_ = false;
    out = static_cast<uint32_t>(wide);
    return *this;
  }
  Fields& take(const char* name, std::vector<std::string>& out) {
    for (const json& item : array(name)) {
      if (!item.is_string()) {
        good_ = false;
        break;
      }
      out.push_back(item.get_ref<const std::string&>());
    }
    return *this;
  }
  // The array of that name; an empty one, and no good, if there is none.
  const json& array(const char* name) {
    static const json kEmpty = json::array();
    if (const json* v = find(name); v && v->is_array()) return *v;
    good_ = false;
    return kEmpty;
  }
  const json& object(const char* name) {
    static const json kEmpty = json::object();
    if (const json* v = find(name); v && v->is_object()) return *v;
    good_ = false;
    return kEmpty;
  }
  void fail() { good_ = false; }

 private:
  const json* find(const char* name) const {
    if (!object_.is_object()) return nullptr;
    const auto it = object_.find(name);
    return it == object_.end() ? nullptr : &*it;
  }

  const json& object_;
  bool good_;
};

bool decode_view(const json& object, ViewConfig& view) {
  Fields fields(object);
  for (const json& item : fields.array("mounts")) {
    ViewMount m;
    uint32_t kind = 0;
    Fields f(item);
    f.take("target", m.target)
        .take("kind", kind)
        .take("tree", m.tree)
        .take("read_only", m.read_only);
    f.take("size_limit", m.size_limit).take("mode", m.mode).take("source", m.source);
    if (!f.good() || kind > static_cast<uint32_t>(MountKind::kSys)) return false;
    m.kind = static_cast<MountKind>(kind);
    view.mounts.push_back(std::move(m));
  }
  for (const json& item : fields.array("files")) {
    ViewFile file;
    Fields f(item);
    f.take("path", file.path).take("content", file.content).take("mode", file.mode);
    f.take("uid", file.uid).take("gid", file.gid);
    if (!f.good()) return false;
    view.files.push_back(std::move(file));
  }
  fields.take("uid", view.uid).take("gid", view.gid);
  return fields.good();
}

}  // namespace

std::string encode_config(const SandboxConfig& c) {
  json limits = json::array();
  for (const SandboxConfig::Limit& limit : c.rlimits) limits.push_back({limit.soft, limit.hard});
  json object = {
      {"argv", c.argv},
      {"env", c.env},
      {"workdir", c.workdir},
      {"hostname", c.hostname},
      {"view", encode_view(c.view)},
      {"uid", c.uid},
      {"gid", c.gid},
      {"groups", c.groups},
      {"virtual_root", c.virtual_root},
      {"no_new_privs", c.no_new_privs},
      {"umask", c.umask},
      {"ignored_signals", c.ignored_signals},
      {"blocked_signals", c.blocked_signals},
      {"rlimits", std::move(limits)},
      {"stdio_open", c.stdio_open},
      {"strace", c.strace},
      {"quiet", c.quiet},
      {"summary", c.summary},
  };
  std::string bytes;
  json::to_msgpack(object, bytes);
  return bytes;
}

Result<SandboxConfig> decode_config(std::string_view bytes) {
  const json object = json::from_msgpack(bytes.begin(), bytes.end(), true, false);
  if (!object.is_object()) return Err(EINVAL);
  SandboxConfig c;
  Fields f(object);
  f.take("argv", c.argv).take("env", c.env).take("workdir", c.workdir).take("hostname", c.hostname);
  f.take("uid", c.uid).take("gid", c.gid).take("virtual_root", c.virtual_root);
  f.take("no_new_privs", c.no_new_privs).take("umask", c.umask);
  f.take("ignored_signals", c.ignored_signals).take("blocked_signals", c.blocked_signals);
  f.take("strace", c.strace).take("quiet", c.quiet).take("summary", c.summary);
  for (const json& group : f.array("groups")) {
    if (!group.is_number_unsigned() || group.get<uint64_t>() > UINT32_MAX) return Err(EINVAL);
    c.groups.push_back(group.get<uint32_t>());
  }
  const json& limits = f.array("rlimits");
  if (limits.size() != c.rlimits.size()) return Err(EINVAL);
  for (size_t i = 0; i < limits.size(); ++i) {
    const json& limit = limits[i];
    if (!limit.is_array() || limit.size() != 2) return Err(EINVAL);
    if (!limit[0].is_number_unsigned() || !limit[1].is_number_unsigned()) return Err(EINVAL);
    c.rlimits[i] = {limit[0].get<uint64_t>(), limit[1].get<uint64_t>()};
  }
  const json& stdio = f.array("stdio_open");
  if (stdio.size() != c.stdio_open.size()) return Err(EINVAL);
  for (size_t i = 0; i < stdio.size(); ++i) {
    if (!stdio[i].is_boolean()) return Err(EINVAL);
    c.stdio_open[i] = stdio[i].get<bool>();
  }
  if (!decode_view(f.object("view"), c.view)) return Err(EINVAL);
  if (!f.good() || c.argv.empty()) return Err(EINVAL);
  return c;
}

Result<SandboxConfig> read_config(int fd) {
  constexpr off_t kMaxBytes = 64 << 20;
  struct stat st;
  if (::fstat(fd, &st) != 0) return HostErr();
  if (st.st_size > kMaxBytes) return Err(EFBIG);
  std::string bytes(static_cast<size_t>(st.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n =
        ::pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return HostErr();
    if (n == 0) return Err(EINVAL);
    done += static_cast<size_t>(n);
  }
  return decode_config(bytes);
}

}  // namespace uks
