#include "gofer/server/git_config.h"

namespace uks::gofer {
namespace {

// git's own character classes (git-compat-util.h): no locale, and \v and \f are no blanks.
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_key_char(char c) { return is_alpha(c) || (c >= '0' && c <= '9') || c == '-'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// Each step answers false where git stops with an error.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
  }

  std::optional<std::vector<ConfigEntry>> parse() {
    // C strings end there for git.
    if (text_.contains('\0')) return std::nullopt;
    while (skip_blank()) {
      if (!(text_[at_] == '[' ? header() : entry())) return std::nullopt;
    }
    return std::move(entries_);
  }

 private:
  // The next character; at the end a line ends. "\r\n" is "\n".
  char next() {
    if (at_ >= text_.size()) {
      at_ = text_.size() + 1;
      return '\n';
    }
    char c = text_[at_++];
    if (c == '\r' && at_ < text_.size() && text_[at_] == '\n') c = text_[at_++];
    return c;
  }

  bool skip_blank() {
    for (bool comment = false; at_ < text_.size(); at_++) {
      const char c = text_[at_];
      if (c == '\n') comment = false;
      if (comment || is_blank(c)) continue;
      if (c != '#' && c != ';') return true;
      comment = true;
    }
    return false;
  }

  // [section], [section "sub section"], [section.subsection], and the last two joined.
  bool header() {
    at_++;
    base_.clear();
    for (;;) {
      char c = next();
      if (at_ > text_.size()) return false;
      if (c == ']') break;
      if (is_blank(c)) {
        while (c == ' ' || c == '\t' || c == '\r') c = next();
        if (c != '"' || !quoted_subsection()) return false;
        break;
      }
      if (!is_key_char(c) && c != '.') return false;
      base_ += lower(c);
    }
    return !base_.empty();
  }

  bool quoted_subsection() {
    base_ += '.';
    for (;;) {
      char c = next();
      if (c == '\n') return false;
      if (c == '"') return next() == ']';
      if (c == '\\' && (c = next()) == '\n') return false;
      base_ += c;
    }
  }

  bool entry() {
    if (!is_alpha(text_[at_]) || base_.empty()) return false;
    ConfigEntry entry;
    char c = next();
    while (at_ <= text_.size() && is_key_char(c)) {
      entry.key += lower(c);
      c = next();
    }
    while (c == ' ' || c == '\t') c = next();
    if (c != '\n') {
      entry.value.emplace();
      if (c != '=' || !value(*entry.value)) return false;
    }
    const size_t dot = base_.find('.');
    entry.section = base_.substr(0, dot);
    if (dot != std::string::npos) entry.subsection = base_.substr(dot + 1);
    entries_.push_back(std::move(entry));
    return true;
  }

  // Blanks at both ends are not part of it; within, outside quotes, each counts as a space.
  bool value(std::string& out) {
    bool quoted = false, comment = false;
    size_t blanks = 0;
    for (;;) {
      char c = next();
      if (c == '\n') return !quoted;
      if (comment) continue;
      if (!quoted && is_blank(c)) {
        if (!out.empty()) blanks++;
        continue;
      }
      if (!quoted && (c == '#' || c == ';')) {
        comment = true;
        continue;
      }
      out.append(blanks, ' ');
      blanks = 0;
      if (c == '"') {
        quoted = !quoted;
        continue;
      }
      if (c == '\\') {
        c = next();
        if (c == '\n') continue;
        if (c != 't' && c != 'b' && c != 'n' && c != '\\' && c != '"') return false;
        c = c == 't' ? '\t' : c == 'b' ? '\b' : c == 'n' ? '\n' : c;
      }
      out += c;
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string base_;  // "section" or "section.subsection"
  std::vector<ConfigEntry> entries_;
};

}  // namespace

std::string ConfigEntry::name() const {
  return section + (subsection ? "." + *subsection : "") + "." + key;
}

std::string ConfigEntry::text() const { return name() + (value ? "=" + *value : ""); }

std::optional<std::vector<ConfigEntry>> parse_git_config(std::string_view text) {
  return Parser(text).parse();
}

}  // namespace uks::gofer
