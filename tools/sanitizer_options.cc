// What the sanitizers of the presets asan and tsan are told; empty in other builds. The binary says
// it, since the roles start with an empty environment.
#ifdef UKS_SANITIZED

// LeakSanitizer stops the other threads with ptrace at exit; sentry and gofer may neither ptrace
// nor clone and end by SIGKILL, so unit_tests alone looks for leaks.
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0:abort_on_error=0:exitcode=99:quarantine_size_mb=16:strict_string_checks=1";
}

extern "C" const char* __ubsan_default_options() { return "print_stacktrace=1"; }

// The first report ends the process: a role that is killed at the end would keep its exit code to
// itself.
extern "C" const char* __tsan_default_options() {
  return "halt_on_error=1:exitcode=99:second_deadlock_stack=1";
}

#endif
