// A gofer over a temporary directory, in threads of the test.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gofer/proto/client.h"
#include "gofer/server/server.h"

namespace uks::gofer {

class GoferTest : public testing::Test {
 protected:
  GoferTest() {
    std::string name = (std::filesystem::temp_directory_path() / "uks_gofer_XXXXXX").string();
    root_ = std::filesystem::canonical(::mkdtemp(name.data())).string();
    ::umask(022);
  }
  ~GoferTest() override {
    stop();
    std::filesystem::remove_all(root_);
  }

  // Rule paths are relative to the temporary directory.
  void start(std::vector<Rule> rules = {}, bool writable = true) {
    Config config;
    config.trees.push_back({root_, writable});
    for (Rule& rule : rules) {
      rule.path = root_ + rule.path;
      config.rules.push_back(rule);
    }
    std::string problem;
    server_ = Server::create(std::move(config), problem);
    ASSERT_TRUE(server_) << problem;
    std::vector<UniqueFd> ends;
    for (int i = 0; i < 2; ++i) {
      int pair[2];
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
      ends.emplace_back(pair[0]);
      threads_.emplace_back([this, socket = pair[1]] {
        server_->serve(socket);
        ::close(socket);
      });
    }
    client_ = std::make_unique<GoferClient>(std::move(ends));
    auto attached = client_->attach(0);
    ASSERT_TRUE(attached);
    top_ = attached->id;
  }

  void stop() {
    client_.reset();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    server_.reset();
  }

  std::string host(std::string_view path) const { return root_ + "/" + std::string(path); }
  void put(std::string_view path, std::string_view text = "text") const {
    std::filesystem::create_directories(std::filesystem::path(host(path)).parent_path());
    std::ofstream(host(path)) << text;
  }
  std::string get(std::string_view path) const {
    std::ifstream file(host(path));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // The node of a path of existing names.
  Result<NodeAttr> look(std::string_view path) {
    NodeAttr at{top_, {}};
    while (!path.empty()) {
      size_t slash = path.find('/');
      at = TRY(client_->lookup(at.id, path.substr(0, slash)));
      path = slash == std::string_view::npos ? "" : path.substr(slash + 1);
    }
    return at;
  }
  int look_error(std::string_view path) {
    auto found = look(path);
    return found ? 0 : found.error().value;
  }
  int open_error(std::string_view path, int flags) {
    auto found = look(path);
    if (!found) return found.error().value;
    auto file = client_->open(found->id, flags);
    return file ? 0 : file.error().value;
  }

  static std::string read_fd(int fd) {
    char buffer[256];
    ssize_t size = ::pread(fd, buffer, sizeof(buffer), 0);
    return size < 0 ? "error" : std::string(buffer, static_cast<size_t>(size));
  }

  std::string root_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<GoferClient> client_;
  std::vector<std::thread> threads_;
  NodeId top_ = kNoNode;
};

template <typename T>
int error_of(const Result<T>& result) {
  return result ? 0 : result.error().value;
}

}  // namespace uks::gofer
