#include "gofer/server/git_config.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace uks::gofer {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// Keys of whole sections, whatever the subsection: "section key". From git-config(1) and the manual
// pages that it includes, git 2.47.
constexpr std::array kCommands = {
    "core fsmonitor", "core hookspath", "core sshcommand", "core editor", "core pager", "core gitproxy",
    "core askpass", "core alternaterefscommand", "sequence editor", "credential helper", "filter clean",
    "filter smudge", "filter process", "diff external", "diff command", "diff textconv", "merge driver",
    "mergetool cmd", "mergetool path", "difftool cmd", "difftool path", "guitool cmd", "include path",
    "includeif path", "gpg program", "gpg defaultkeycommand", "browser cmd", "browser path", "web browser",
    "man cmd", "man path", "man viewer", "interactive difffilter", "remote uploadpack", "remote receivepack",
    "remote vcs", "uploadpack packobjectshook", "sendemail smtpserver", "sendemail sendmailcmd", "sendemail tocmd",
    "sendemail cccmd", "sendemail headercmd", "instaweb httpd", "instaweb browser", "trailer command",
    "trailer cmd", "init templatedir", "tar command", "imap tunnel", "hook command",
};

// Values that are commands only in a certain form.
bool is_command_by_value(const std::string& section, const std::string& key, std::string_view value) {
  if (section == "alias") return value.starts_with('!');
  if (section == "pager") return true;
  if (section == "submodule" && key == "update") return value.starts_with('!');
  const bool address = (section == "remote" && (key == "url" || key == "pushurl")) || section == "url" ||
                       (section == "submodule" && key == "url");
  // "ext::", "fd::" and other transport helpers run programs; a leading '-' is an option to ssh.
  return address && (value.contains("::") || value.starts_with('-'));
}

bool is_command(const std::string& section, const std::string& key, std::string_view value) {
  const std::string name = section + " " + key;
  return std::ranges::find(kCommands, name) != kCommands.end() || is_command_by_value(section, key, value);
}

// The syntax of git-config(1), "Syntax".
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
  }

  std::set<std::string> commands() {
    while (skip_blank()) {
      if (text_[at_] == '[') {
        section_header();
      } else {
        entry();
      }
    }
    return std::move(found_);
  }

 private:
  bool more() const { return at_ < text_.size(); }

  // To the next thing that is no blank and no comment.
  bool skip_blank() {
    while (more()) {
      const char c = text_[at_];
      if (c == '#' || c == ';') {
        while (more() && text_[at_] != '\n') at_++;
      } else if (std::isspace(static_cast<unsigned char>(c)) || c == '\0') {
        at_++;
      } else {
        return true;
      }
    }
    return false;
  }

  // [section], [section "sub section"] and the old [section.subsection].
  void section_header() {
    at_++;
    section_.clear();
    subsection_.clear();
    while (more() && text_[at_] != ']' && text_[at_] != '"' && text_[at_] != '\n') section_ += text_[at_++];
    if (more() && text_[at_] == '"') {
      at_++;
      while (more() && text_[at_] != '"' && text_[at_] != '\n') {
        if (text_[at_] == '\\' && at_ + 1 < text_.size()) at_++;
        subsection_ += text_[at_++];
      }
      while (more() && text_[at_] != ']' && text_[at_] != '\n') at_++;
    }
    if (more()) at_++;
    section_ = lower(section_);
    std::erase_if(section_, [](char c) { return std::isspace(static_cast<unsigned char>(c)); });
    if (const size_t dot = section_.find('.'); dot != std::string::npos && subsection_.empty()) {
      subsection_ = section_.substr(dot + 1);
      section_.resize(dot);
    }
  }

  void entry() {
    std::string key;
    while (more() && text_[at_] != '=' && text_[at_] != '\n' && text_[at_] != '#' && text_[at_] != ';') key += text_[at_++];
    key = lower(key);
    std::erase_if(key, [](char c) { return std::isspace(static_cast<unsigned char>(c)) || c == '\0'; });
    std::string value;
    if (more() && text_[at_] == '=') {
      at_++;
      value = read_value();
    }
    if (!is_command(section_, key, value)) return;
    found_.insert(section_ + (subsection_.empty() ? "" : "." + subsection_) + "." + key + "=" + value);
  }

  // Quotes, escapes and continued lines are taken apart; blanks at both ends are not part of it.
  std::string read_value() {
    std::string value;
    size_t length = 0;  // up to the last character that is no blank
    bool quoted = false;
    for (; more(); at_++) {
      char c = text_[at_];
      if (c == '\n') break;
      if (c == '"') {
        quoted = !quoted;
        continue;
      }
      if (!quoted && (c == '#' || c == ';')) {
        while (more() && text_[at_] != '\n') at_++;
        break;
      }
      if (c == '\\' && at_ + 1 < text_.size()) {
        c = text_[++at_];
        if (c == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') c = text_[++at_];
        if (c == '\n') continue;
        value += c == 'n' ? '\n' : c == 't' ? '\t' : c;
        length = value.size();
        continue;
      }
      const bool blank = std::isspace(static_cast<unsigned char>(c)) && !quoted;
      if (blank && length == 0) continue;
      value += c;
      if (!blank) length = value.size();
    }
    value.resize(length);
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string section_, subsection_;
  std::set<std::string> found_;
};

}  // namespace

std::set<std::string> commands_in_git_config(std::string_view text) { return Reader(text).commands(); }

}  // namespace uks::gofer
