// What the keeper says to a sentry before there is a configuration.
#include "platform/keeper/start.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>

#include "platform/base/unique_fd.h"
#include "platform/keeper/protocol.h"

namespace uks::keeper {
namespace {

class Start : public testing::Test {
 protected:
  void SetUp() override {
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    keeper_.reset(pair[0]);
    sentry_.reset(pair[1]);
  }
  int received() {
    const auto got = receive_preparation(sentry_.get());
    return got ? 0 : got.error().value;
  }

  UniqueFd keeper_, sentry_;
};

TEST_F(Start, ArrivesWhole) {
  ASSERT_TRUE(send_preparation(keeper_.get(), {"ptrace", "debug"}));
  const auto got = receive_preparation(sentry_.get());
  ASSERT_TRUE(got);
  EXPECT_EQ(got->platform, "ptrace");
  EXPECT_EQ(got->log_level, "debug");
  ASSERT_TRUE(send_preparation(keeper_.get(), {"", ""}));
  EXPECT_EQ(receive_preparation(sentry_.get())->platform, "");
}

TEST_F(Start, TooLongIsRefused) {
  const auto sent = send_preparation(keeper_.get(), {std::string(200, 'p'), std::string(60, 'l')});
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error(), EMSGSIZE);
}

TEST_F(Start, AKeeperThatGaveUp) {
  keeper_.reset();
  EXPECT_EQ(received(), EPIPE);
}

TEST_F(Start, AnythingElseIsRefused) {
  Message message{};
  message.op = Op::kSignal;
  ASSERT_EQ(send(keeper_.get(), &message, sizeof message, 0), ssize_t{sizeof message});
  EXPECT_EQ(received(), EPROTO);
  message.op = Op::kPrepare;
  memset(message.text, 'x', sizeof message.text);  // no end
  ASSERT_EQ(send(keeper_.get(), &message, sizeof message, 0), ssize_t{sizeof message});
  EXPECT_EQ(received(), EPROTO);
  ASSERT_EQ(send(keeper_.get(), &message, 12, 0), 12);
  EXPECT_EQ(received(), EPROTO);
}

}  // namespace
}  // namespace uks::keeper
