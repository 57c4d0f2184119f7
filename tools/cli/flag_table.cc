// The tables of the command line.
#include "tools/cli/flag_table.h"

#include <algorithm>
#include <array>

namespace uks::cli {
namespace {

using enum ValueKind;

constexpr std::string_view kLevels = "trace debug info warning error critical off";

constexpr Flag kHelp = {"--help", 'h', "", kNone, false, false, "Help", "Print this text and end.",
                        "",       ""};
constexpr Flag kLogLevel = {"--log-level",
                            0,
                            "LEVEL",
                            kChoice,
                            false,
                            false,
                            "Messages",
                            "Least severe log lines to write: trace, debug, info, warning, error, "
                            "critical or off. Default: warning.",
                            "Notices for the user (lines that begin with `uks:') are no log lines.",
                            kLevels};
constexpr Flag kLogFile = {
    "--log-file",
    0,
    "FILE",
    kPath,
    false,
    false,
    "Messages",
    "Write log lines to FILE instead of stderr. An existing file is emptied "
    "first.",
    "The file is opened with the caller's rights, before the sandbox exists; "
    "names such as /dev/fd/3 work.",
    ""};
constexpr Flag kQuiet = {
    "--quiet", 'q',   "",         kNone,
    false,     false, "Messages", "No notices on stderr. Errors are still told.",
    "",        ""};
constexpr Flag kJson = {"--json", 0,     "",       kNone,
                        false,    false, "Output", "Print one JSON object instead of text.",
                        "",       ""};

constexpr std::array kMainFlags = {
    kHelp,
    Flag{"--version", 0, "", kNone, false, false, "Help", "Print the version and end.", "", ""},
    kLogLevel, kLogFile, kQuiet};

constexpr std::array kExecFlags = {
    Flag{"--ro", 0, "PATH", kPath, false, true, "Files",
         "Show the file or directory PATH as it is on the host, read-only.",
         "`--ro ~' opens the home directory, less the secrets list, which stays refused "
         "(EACCES). Naming a secret itself opens it. A leading ~ is $HOME, and relative names "
         "start at the current directory; this goes for all flags that take a path.",
         ""},
    Flag{"--rw", 0, "PATH", kPath, false, true, "Files",
         "Show the file or directory PATH; changes reach the host. `--rw .' passes the current "
         "directory through where that does not happen by itself.",
         "PATH must exist. The current directory passes through by itself unless it is the home "
         "directory, contains it, or is a system directory.",
         ""},
    Flag{
        "--hide", 0, "PATH", kPath, false, true, "Files",
        "Refuse PATH (EACCES). It may hold the globs *, ? and **; it need not exist.",
        "What exists at start is refused under every name it has (hard links, links). --hide beats "
        "--ro and --rw for the same path; what those name below a hidden directory shows.",
        ""},
    Flag{"--unprotect", 0, "", kNone, false, false, "Files",
         "Let hooks and configuration of git repositories be changed freely.",
         "Without it, in a directory that passes through, the hooks of repositories, new ones too, "
         "are "
         "not changed, and a change of their configuration that would make git run a command is "
         "refused with one line: it would run outside the sandbox later. Do not continue a rebase "
         "or "
         "merge that a command left behind, nor check out from an index that it made up (`git "
         "reset' "
         "first): those are not guarded.",
         ""},
    Flag{
        "--tmpfs", 0, "PATH", kPath, false, true, "Files",
        "Put an empty directory of the sandbox's own at PATH. Its files live in memory and vanish.",
        "", ""},
    Flag{"--workdir", 0, "DIR", kDirectory, false, false, "Files",
         "Start in DIR. Default: the current directory.",
         "DIR is looked up inside: `--workdir /tmp' is the sandbox's own /tmp.", ""},
    Flag{"--env", 0, "NAME=VALUE", kText, false, true, "Environment and identity",
         "Set a variable.", "", ""},
    Flag{"--pass-env", 0, "NAME", kVariable, false, true, "Environment and identity",
         "Pass the caller's variable NAME, whatever its name or value. One that is not set is "
         "ignored.",
         "", ""},
    Flag{"--clean-env", 0, "", kNone, false, false, "Environment and identity",
         "Pass none but what --env and --pass-env name, and PATH, HOME, TERM and TMPDIR.", "", ""},
    Flag{"--user", 0, "UID[:GID]", kUser, false, false, "Environment and identity",
         "Run as this user, in numbers. 0 is a root whose power ends at the sandbox. Default: the "
         "caller.",
         "GID defaults to that of the account in /etc/passwd, else to UID. Without root's rights "
         "outside, changes of owner are kept in the overlay and refused (EPERM) in the workspace.",
         ""},
    Flag{"--hostname", 0, "NAME", kText, false, false, "Environment and identity",
         "The host name inside, 1 to 64 characters. Default: uks.", "", ""},
    Flag{"--timeout", 0, "TIME", kText, false, false, "Running",
         "End the command after TIME: seconds, or a number with ms, s, m, h or d (30, 1.5s, 2m). "
         "SIGTERM first, SIGKILL one second later; exit code 124. Default, and 0: none.",
         "At most ten years.", ""},
    Flag{"--platform", 0, "NAME", kChoice, false, false, "Running",
         "How system calls are intercepted: auto, trap or ptrace. Default: auto.",
         "trap needs Linux 5.19 and seccomp user notifications; ptrace is slower. auto takes trap "
         "where it works. uks doctor says what this host has.",
         "auto trap ptrace"},
    Flag{"--strace", 0, "FILE", kPath, true, false, "Running",
         "List the system calls on stderr or, with `--strace=FILE', in FILE.",
         "An existing file is emptied first.", ""},
    Flag{"--explain", 0, "", kNone, false, false, "Running",
         "Print what the command would see, and which rule or flag is the reason; run nothing.", "",
         ""},
    kLogLevel,
    kLogFile,
    kQuiet,
    Flag{"--summary", 0, "", kNone, false, false, "Messages",
         "Say how many files were discarded even if stderr is no terminal.", "", ""},
    kHelp};

constexpr std::array kDoctorFlags = {kJson, kHelp};
constexpr std::array kPsFlags = {
    Flag{"--processes", 0, "", kNone, false, false, "Output",
         "List all host processes of each sandbox too, with their role.", "", ""},
    kJson, kHelp};
constexpr std::array kHelpOnly = {kHelp};

constexpr std::array<std::string_view, 2> kMainSynopses = {
    "[GLOBAL] exec [FLAGS] -- COMMAND [ARG...]", "[GLOBAL] SUBCOMMAND [FLAGS]"};
constexpr std::array<std::string_view, 1> kExecSynopses = {
    "[GLOBAL] exec [FLAGS] -- COMMAND [ARG...]"};
constexpr std::array<std::string_view, 1> kDoctorSynopses = {"doctor [--json]"};
constexpr std::array<std::string_view, 1> kPsSynopses = {"ps [--processes] [--json]"};
constexpr std::array<std::string_view, 1> kCompletionSynopses = {"completion SHELL"};
constexpr std::array<std::string_view, 1> kManSynopses = {"man"};
constexpr std::array<std::string_view, 1> kHelpSynopses = {"help [SUBCOMMAND]"};

constexpr std::array kExecExamples = {
    Example{"uks exec -- make test",
            "The current directory is writable, the rest of the host read-only."},
    Example{"uks exec --hide .env --timeout 10m -- npm test",
            "Without the secrets in .env, for ten minutes at most."},
    Example{"uks exec --ro ~/notes --pass-env GH_TOKEN -- gh issue list",
            "With one more directory and one variable that would be withheld."},
    Example{"uks exec --strace=trace.txt -- ./configure", "With a list of its system calls."},
    Example{"uks exec --explain -- sh", "What sh would see, and why."},
};
constexpr std::array kDoctorExamples = {
    Example{"uks doctor", "What this host offers and what it lacks."},
    Example{"UKS_FEATURES=-landlock,-mseal uks doctor", "The same without two of its features."},
};
constexpr std::array kPsExamples = {
    Example{"uks ps --processes", "Every process of every sandbox."}};
constexpr std::array kCompletionExamples = {
    Example{"source <(uks completion bash)", "Completion in the running bash."}};
constexpr std::array kManExamples = {Example{"uks man | man -l -", "The manual page."}};
constexpr std::array kHelpExamples = {Example{"uks help exec", "The flags of exec."}};

constexpr Command kMain = {
    "",
    kMainSynopses,
    "run code that nobody has read yet, behind a kernel of its own",
    "uks runs a command behind a Linux-compatible kernel in user space. The command sees the "
    "host's "
    "files read-only; what it changes in the current directory stays, what it writes elsewhere "
    "works "
    "and vanishes. Of the home directory it sees a short list, secrets are refused, credentials do "
    "not enter its environment, and its network is a loopback of its own. No root, daemon or user "
    "namespace is needed.\n",
    kMainFlags,
    "",
    {}};

constexpr std::array kSubcommands = {
    Command{
        "exec", kExecSynopses, "run a command in a new sandbox (or in the one called NAME)",
        "Runs COMMAND in a new sandbox. It sees the host's files read-only; what it writes outside "
        "the current directory vanishes afterwards. Of the home directory it sees a short list "
        "(--explain). Flags end at `--'.\n",
        kExecFlags, "", kExecExamples},
    Command{"doctor", kDoctorSynopses,
            "say which features this host has, and what each missing one costs",
            "Tries each kernel feature that uks can use and prints whether it is there, what it is "
            "good "
            "for, and whether UKS_FEATURES has switched it off. The exit code is 0 if a sandbox "
            "can run "
            "here, else 1.\n",
            kDoctorFlags, "", kDoctorExamples},
    Command{"ps", kPsSynopses, "list the running sandboxes of this user",
            "Prints a line for each sandbox of the calling user (root: of all users): the process "
            "id of "
            "its uks, how long it has run, how many host processes it has, and its command.\n",
            kPsFlags, "", kPsExamples},
    Command{"completion", kCompletionSynopses, "print the completion script for a shell",
            "Prints the completion script for SHELL: bash, zsh or fish.\n", kHelpOnly,
            "bash zsh fish", kCompletionExamples},
    Command{"man", kManSynopses, "print the manual page as roff source",
            "Prints the manual page uks(1).\n", kHelpOnly, "", kManExamples},
    Command{"help", kHelpSynopses, "print the help of uks or of a subcommand",
            "Prints what `uks --help' or `uks SUBCOMMAND --help' prints.\n", kHelpOnly,
            "exec doctor ps completion man", kHelpExamples},
};

constexpr std::array kExitCodes = {
    ExitCode{"N", "the command ended with N"},
    ExitCode{"128+N", "signal N ended the command"},
    ExitCode{"124", "--timeout was over"},
    ExitCode{"125", "uks itself failed, wrong usage included; one line `uks: ...' says why"},
    ExitCode{"126", "the command is there but cannot be executed"},
    ExitCode{"127", "the command was not found"},
    ExitCode{"137", "also: a limit killed the command; one line says which"},
};

constexpr std::array kVariables = {
    Variable{"UKS_FEATURES",
             "Kernel features to do without, as a list such as -mseal,-landlock (for tests, and to "
             "find out what a feature is worth): wait_killable, sync_wake, mseal, pidfd_thread, "
             "landlock, "
             "notify, fsgsbase, userns, proc_mem. Unknown names are errors."},
    Variable{"HOME", "The home directory to protect, beside that of the account in /etc/passwd."},
};

}  // namespace

const Command& main_command() { return kMain; }
std::span<const Command> subcommands() { return kSubcommands; }
const Command* find_subcommand(std::string_view name) {
  const auto found = std::ranges::find(kSubcommands, name, &Command::name);
  return found == kSubcommands.end() ? nullptr : &*found;
}
std::span<const ExitCode> exit_codes() { return kExitCodes; }
std::span<const Variable> variables() { return kVariables; }

}  // namespace uks::cli
