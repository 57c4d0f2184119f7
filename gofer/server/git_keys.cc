#include "gofer/server/git_keys.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

namespace uks::gofer {
namespace {

bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_word(std::string_view text) {
  return !text.empty() && text[0] != '-' &&
         std::ranges::all_of(text, [](char c) { return is_alnum(c) || c == '-' || c == '_'; });
}

std::vector<std::string_view> words_of(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> words;
  while (true) {
    const size_t start = text.find_first_not_of(separators);
    if (start == std::string_view::npos) return words;
    text.remove_prefix(start);
    const size_t end = std::min(text.find_first_of(separators), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

bool is_one_of(std::string_view word, std::string_view list) {
  const std::vector<std::string_view> words = words_of(list, " ");
  return std::ranges::find(words, word) != words.end();
}

// A boolean or a number: as a command it would be a program called so, in $PATH.
bool is_switch(const std::optional<std::string>& value) {
  if (!value || value->empty()) return true;
  std::string text;
  for (const char c : *value) text += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  if (is_one_of(text, "true false yes no on off")) return true;
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// A git command without what could make it run another program, write to a file of its choice or
// use another repository. Aliases are a convenience: this list need not be long.
bool is_harmless_alias(std::string_view value) {
  if (!std::ranges::all_of(value, [](char c) {
        return is_alnum(c) || std::string_view(" .,=%_@^~{}()-").contains(c);
      })) {
    return false;
  }
  const std::vector<std::string_view> words = words_of(value, " ");
  if (words.empty() || !is_one_of(words[0],
                                  "add blame branch cat-file checkout cherry-pick clean commit "
                                  "describe diff fetch log ls-files ls-tree "
                                  "merge merge-base mv pull reflog reset restore "
                                  "rev-list rev-parse revert rm shortlog show "
                                  "show-branch stash status switch tag")) {
    return false;
  }
  const bool remote = is_one_of(words[0], "fetch pull");
  for (const std::string_view word : std::span(words).subspan(1)) {
    // git takes a part of a long option's name for the whole.
    for (const char* option : {"--ex", "--ou", "--upl", "--rece", "--rep"}) {
      if (word.starts_with(option)) return false;
    }
    if (remote && !word.starts_with('-') && !is_one_of(word, "origin HEAD")) return false;
    if (remote && word.starts_with("--e")) return false;
  }
  return true;
}

// What an address may begin with whatever comes after it: a known scheme, a host, a slash.
bool is_network_prefix(std::string_view text) {
  if (kind_of_address(text) != Address::kNetwork || !text.contains("://")) return false;
  const std::string_view host = text.substr(text.find("://") + 3);
  return host.find('/') != std::string_view::npos && host.find('/') > 0;
}

enum class Rule {
  kAny,
  kWord,
  kNever,
  kUrl,
  kRemoteName,
  kPath,
  kInsteadOf,
  kAlias,
  kProgram,  // a well-known one that shows or edits a text
  kSharing,
};

// The first row that fits decides. What no row names may be switched on and off, or numbered, but
// not be given any other value. No row: the key runs a command, names a file, or does not exist.
struct Row {
  std::string_view section;
  bool subsection;
  std::string_view keys;  // "*": all
  Rule rule;
};

constexpr std::string_view kHttpNever =
    "cookiefile savecookies proxy proxyauthmethod proxysslcainfo proxysslcert "
    "proxysslcertpasswordprotected proxysslkey proxysslverify schannelcheckrevoke "
    "schannelusesslcainfo sslbackend sslcainfo sslcapath sslcert sslcertpasswordprotected "
    "sslcerttype sslcipherlist sslkey sslkeytype ssltry sslverify sslversion";

constexpr std::array kRows = {
    // Paths that git reads configuration or hooks from: "1" is one too.
    Row{"include", false, "*", Rule::kNever},
    Row{"include", true, "*", Rule::kNever},
    Row{"includeif", false, "*", Rule::kNever},
    Row{"includeif", true, "*", Rule::kNever},
    Row{"hook", true, "*", Rule::kNever},
    Row{"core", false, "hookspath attributesfile protecthfs protectntfs", Rule::kNever},
    Row{"core", false, "editor pager", Rule::kProgram},
    Row{"core", false, "sharedrepository", Rule::kSharing},
    Row{"init", false, "templatedir", Rule::kNever},
    Row{"protocol", false, "*", Rule::kNever},
    Row{"protocol", true, "*", Rule::kNever},
    Row{"http", false, kHttpNever, Rule::kNever},
    Row{"http", true, kHttpNever, Rule::kNever},
    Row{"credential", false, "username", Rule::kAny},
    Row{"credential", true, "username", Rule::kAny},
    Row{"credential", false, "*", Rule::kNever},
    Row{"credential", true, "*", Rule::kNever},
    Row{"gpg", true, "*", Rule::kNever},
    Row{"remote", true, "proxy proxyauthmethod vcs", Rule::kNever},
    Row{"safe", false, "*", Rule::kNever},
    // What leads to other repositories and other files.
    Row{"core", false, "worktree", Rule::kPath},
    Row{"remote", false, "pushdefault", Rule::kRemoteName},
    Row{"remote", true, "url pushurl", Rule::kUrl},
    Row{"submodule", true, "url", Rule::kUrl},
    Row{"url", true, "insteadof pushinsteadof", Rule::kInsteadOf},
    Row{"branch", true, "remote pushremote", Rule::kRemoteName},
    Row{"extensions", false, "partialclone", Rule::kRemoteName},
    Row{"checkout", false, "defaultremote", Rule::kRemoteName},
    Row{"alias", false, "*", Rule::kAlias},
    Row{"alias", true, "*", Rule::kAlias},
    // Data.
    Row{"advice", false, "*", Rule::kAny},
    Row{"apply", false, "whitespace ignorewhitespace", Rule::kAny},
    Row{"author", false, "name email", Rule::kAny},
    Row{"blame", false, "*", Rule::kAny},
    Row{"branch", false, "autosetupmerge autosetuprebase sort", Rule::kAny},
    Row{"branch", true, "mergeoptions", Rule::kNever},
    Row{"branch", true, "*", Rule::kAny},
    Row{"clone", false, "defaultremotename", Rule::kWord},
    Row{"color", false, "*", Rule::kAny},
    Row{"color", true, "*", Rule::kAny},
    Row{"column", false, "*", Rule::kAny},
    Row{"commit", false, "cleanup gpgsign status template verbose", Rule::kAny},
    Row{"committer", false, "name email", Rule::kAny},
    Row{"core", false,
        "abbrev autocrlf bigfilethreshold checkstat commentchar commentstring commitgraph "
        "compression createobject "
        "deltabasecachelimit eol excludesfile filesreflocktimeout fsync fsyncmethod fscache "
        "hidedotfiles "
        "logallrefupdates loosecompression notesref packedgitlimit packedgitwindowsize "
        "packedrefstimeout quotepath "
        "safecrlf splitindex symlinks untrackedcache whitespace",
        Rule::kAny},
    Row{"diff", false, "guitool tool", Rule::kWord},
    Row{"diff", false,
        "algorithm colormoved colormovedws context dirstat dstprefix ignoresubmodules "
        "indentheuristic interhunkcontext "
        "mnemonicprefix noprefix relative renamelimit renames srcprefix statgraphwidth "
        "statnamewidth submodule "
        "suppressblankempty wordregex wserrorhighlight",
        Rule::kAny},
    Row{"diff", true, "algorithm binary funcname wordregex xfuncname", Rule::kAny},
    Row{"extensions", false, "compatobjectformat noop objectformat refstorage", Rule::kWord},
    Row{"feature", false, "*", Rule::kAny},
    Row{"fetch", false, "negotiationalgorithm output parallel prune prunetags recursesubmodules",
        Rule::kAny},
    Row{"filter", true, "required", Rule::kAny},
    Row{"format", false, "pretty subjectprefix", Rule::kAny},
    Row{"gc", false,
        "aggressivedepth aggressivewindow auto autodetach autopacklimit bigpackthreshold "
        "cruftpacks logexpiry maxcruftsize packrefs pruneexpire reflogexpire "
        "reflogexpireunreachable rerereresolved rerereunresolved worktreepruneexpire "
        "writecommitgraph",
        Rule::kAny},
    Row{"gc", false, "*", Rule::kNever},
    Row{"gitflow", true, "*", Rule::kAny},
    Row{"gc", true, "reflogexpire reflogexpireunreachable", Rule::kAny},
    Row{"gpg", false, "format mintrustlevel", Rule::kWord},
    Row{"grep", false, "*", Rule::kAny},
    Row{"http", false, "lowspeedlimit lowspeedtime maxrequests postbuffer version", Rule::kAny},
    Row{"i18n", false, "*", Rule::kAny},
    Row{"index", false, "*", Rule::kAny},
    Row{"init", false, "defaultbranch defaultobjectformat defaultrefformat", Rule::kAny},
    Row{"lfs", true, "access", Rule::kWord},
    Row{"log", false, "*", Rule::kAny},
    Row{"maintenance", false, "auto strategy", Rule::kWord},
    Row{"maintenance", true, "enabled schedule", Rule::kWord},
    Row{"merge", false, "guitool tool", Rule::kWord},
    Row{"merge", false,
        "autostash conflictstyle directoryrenames ff log renamelimit renames stat verbosity",
        Rule::kAny},
    Row{"merge", true, "name", Rule::kAny},
    Row{"merge", true, "recursive", Rule::kWord},
    Row{"notes", false, "*", Rule::kAny},
    Row{"pack", false, "*", Rule::kAny},
    Row{"pretty", false, "*", Rule::kAny},
    Row{"pull", false, "ff rebase", Rule::kWord},
    Row{"push", false, "autosetupremote default followtags gpgsign recursesubmodules", Rule::kWord},
    Row{"rebase", false, "backend missingcommitscheck", Rule::kWord},
    Row{"receive", false, "denycurrentbranch denydeletecurrent hiderefs", Rule::kAny},
    Row{"remote", true,
        "fetch followremotehead gh-resolved mirror partialclonefilter promisor prune prunetags "
        "push skipdefaultupdate "
        "skipfetchall tagopt",
        Rule::kAny},
    Row{"repack", false, "*", Rule::kAny},
    Row{"rerere", false, "*", Rule::kAny},
    Row{"status", false, "*", Rule::kAny},
    Row{"submodule", false, "active", Rule::kAny},
    Row{"submodule", true, "active branch fetchrecursesubmodules ignore", Rule::kAny},
    Row{"submodule", true, "update", Rule::kWord},
    Row{"tag", false, "sort", Rule::kAny},
    Row{"transfer", false, "credentialsinurl hiderefs", Rule::kAny},
    Row{"user", false, "email name signingkey", Rule::kAny},
    Row{"versionsort", false, "*", Rule::kAny},
};

// Sections that are listed as a whole may have such keys in later versions of git.
bool names_command(std::string_view key) {
  for (const char* part : {"command", "cmd", "hook", "program"}) {
    if (key.contains(part)) return true;
  }
  return false;
}

}  // namespace

Effect effect_of(const ConfigEntry& entry) {
  const std::string value = entry.value.value_or("");
  const auto row = std::ranges::find_if(kRows, [&](const Row& r) {
    return r.section == entry.section && r.subsection == entry.subsection.has_value() &&
           (r.keys == "*" ? r.rule != Rule::kAny || !names_command(entry.key)
                          : is_one_of(entry.key, r.keys));
  });
  const auto only_if = [](bool harmless) { return harmless ? Effect::kHarmless : Effect::kRuns; };
  if (row == kRows.end()) return only_if(is_switch(entry.value));
  switch (row->rule) {
    case Rule::kAny:
      return Effect::kHarmless;
    case Rule::kWord:
      return only_if(is_word(value) || is_switch(entry.value));
    case Rule::kAlias:
      return only_if(is_harmless_alias(value));
    case Rule::kUrl:
      return Effect::kRepository;
    case Rule::kRemoteName:
      // Without an address it is a directory here, guarded like all.
      return value == "." || is_word(value) ? Effect::kHarmless : Effect::kRepository;
    case Rule::kPath:
      return Effect::kWorkTree;
    case Rule::kInsteadOf:
      return only_if(is_network_prefix(entry.subsection.value_or("")));
    case Rule::kProgram:
      return only_if(is_one_of(value, "cat emacs less more nano nvim vi vim") ||
                     is_switch(entry.value));
    case Rule::kSharing:
      return only_if(is_one_of(value, "0 1 false group true umask"));
    case Rule::kNever:
      break;
  }
  return Effect::kRuns;
}

Address kind_of_address(std::string_view address) {
  if (address.empty() || address.starts_with('-') || address.contains('\n')) return Address::kOther;
  // As transport_get() and url_is_local_not_ssh() in git's transport.c and connect.c.
  const auto scheme_end = std::ranges::find_if(
      address, [](char c) { return !is_alnum(c) && c != '+' && c != '-' && c != '.'; });
  const std::string_view scheme(address.begin(), scheme_end);
  const std::string_view rest = address.substr(scheme.size());
  if (rest.starts_with("::")) return Address::kOther;
  if (rest.starts_with("://")) {
    if (scheme == "file") return Address::kPath;
    // A host that begins with '-' would be an option to ssh.
    const std::string_view host = rest.substr(3);
    const bool known = is_one_of(scheme, "http https ssh git git+ssh ssh+git ftp ftps");
    return known && !host.empty() && !host.starts_with('-') && !host.contains("@-")
               ? Address::kNetwork
               : Address::kOther;
  }
  const size_t colon = address.find(':'), slash = address.find('/');
  if (colon == std::string_view::npos || slash < colon) return Address::kPath;
  return address.contains("@-") ? Address::kOther : Address::kNetwork;  // host:path
}

}  // namespace uks::gofer
