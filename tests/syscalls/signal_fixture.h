// What the signal tests share: sets, handlers that leave a note, and a fixture that puts everything
// back.
#pragma once
#include "tests/syscalls/test_util.h"

namespace test {

inline sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (int s : signals) sigaddset(&set, s);
  return set;
}

inline void handle(int signum, void (*handler)(int), int flags = 0) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = flags;
  ASSERT_EQ(sigaction(signum, &action, nullptr), 0);
}

inline void handle_info(int signum, void (*handler)(int, siginfo_t*, void*), int flags = 0) {
  struct sigaction action{};
  action.sa_sigaction = handler;
  action.sa_flags = flags | SA_SIGINFO;
  ASSERT_EQ(sigaction(signum, &action, nullptr), 0);
}

inline volatile sig_atomic_t g_count;
inline volatile sig_atomic_t g_signal;
inline siginfo_t g_info;

class SignalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    g_count = 0;
    g_signal = 0;
    memset(&g_info, 0, sizeof g_info);
  }
  void TearDown() override {
    for (int s = 1; s < 65; s++) {
      if (s == SIGKILL || s == SIGSTOP || s == 32 || s == 33) continue;
      signal(s, SIG_IGN);  // drops what is still pending
      signal(s, SIG_DFL);
    }
  }
  MaskGuard mask_guard_;
};

inline void count(int signum) {
  g_count = g_count + 1;
  g_signal = signum;
}
inline void note_info(int signum, siginfo_t* info, void*) {
  count(signum);
  g_info = *info;
}

}  // namespace test
