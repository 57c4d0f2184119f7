#include "sentry/loader/stack_layout.h"

#include <elf.h>

#include <cstring>

namespace uks {

StackImage build_stack(const StackContents& contents, uint64_t top) {
  StackImage image;
  // Strings, from the top down: file name, environment, arguments; then platform and random bytes.
  std::string strings;
  const auto add = [&](const std::string& s) {
    const uint64_t offset = strings.size();
    strings += s;
    strings += '\0';
    return offset;
  };
  std::vector<uint64_t> argv, envp;
  for (const std::string& s : contents.argv) argv.push_back(add(s));
  const uint64_t env_offset = strings.size();
  for (const std::string& s : contents.envp) envp.push_back(add(s));
  const uint64_t name_offset = add(contents.exec_path);
  const uint64_t strings_at = (top - 8 - strings.size()) & ~uint64_t{15};
  strings.resize(top - strings_at, '\0');

  std::string middle(reinterpret_cast<const char*>(contents.random), sizeof contents.random);
  middle.append("x86_64", 7);
  middle.resize((middle.size() + 15) & ~size_t{15}, '\0');
  const uint64_t middle_at = strings_at - middle.size();

  image.auxv = contents.auxv;
  image.auxv.emplace_back(AT_RANDOM, middle_at);
  image.auxv.emplace_back(AT_EXECFN, strings_at + name_offset);
  image.auxv.emplace_back(AT_PLATFORM, middle_at + sizeof contents.random);
  image.auxv.emplace_back(AT_NULL, 0);

  std::vector<uint64_t> words;
  words.push_back(argv.size());
  for (const uint64_t offset : argv) words.push_back(strings_at + offset);
  words.push_back(0);
  for (const uint64_t offset : envp) words.push_back(strings_at + offset);
  words.push_back(0);
  for (const auto& [type, value] : image.auxv) {
    words.push_back(type);
    words.push_back(value);
  }
  image.start = (middle_at - words.size() * 8) & ~uint64_t{15};
  image.bytes.assign(reinterpret_cast<const char*>(words.data()), words.size() * 8);
  image.bytes.resize(middle_at - image.start, '\0');
  image.bytes += middle;
  image.bytes += strings;
  image.arg_start = strings_at;
  image.arg_end = image.env_start = strings_at + env_offset;
  image.env_end = strings_at + name_offset;
  return image;
}

}  // namespace uks
