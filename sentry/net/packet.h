// What lies in the receive queues of sockets: bytes, who sent them, and descriptors on their way.
#pragma once
#include <sys/socket.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "platform/base/ref.h"
#include "platform/base/result.h"
#include "sentry/usermem/io.h"
#include "sentry/vfs/file.h"

namespace uks {

class Socket;

// A sockaddr as the guest gave it or will get it; empty: none.
using RawAddress = std::string;

// Descriptors in flight (SCM_RIGHTS). Counted, so that no guest can hide any number of them.
class FilesInFlight {
 public:
  FilesInFlight() = default;
  FilesInFlight(FilesInFlight&& other) noexcept
      : files_(std::exchange(other.files_, {})), queued_(std::exchange(other.queued_, false)) {}
  FilesInFlight& operator=(FilesInFlight&& other) noexcept {
    std::swap(files_, other.files_);
    std::swap(queued_, other.queued_);
    return *this;
  }
  ~FilesInFlight();

  // ETOOMANYREFS: too many are in flight in the whole sandbox.
  [[nodiscard]] static Result<FilesInFlight> make(std::vector<Ref<File>> files);
  const std::vector<Ref<File>>& files() const { return files_; }
  bool empty() const { return files_.empty(); }
  // For MSG_PEEK, which gives descriptors too.
  [[nodiscard]] Result<FilesInFlight> copy() const { return make(files_); }
  // They lie in a queue, or no longer: what is not in any is being sent or received.
  void set_queued(bool queued);

 private:
  std::vector<Ref<File>> files_;
  bool queued_ = false;
};

// One datagram, or a run of stream bytes.
struct Packet {
  Packet() = default;
  Packet(Packet&&) = default;
  Packet& operator=(Packet&&) = delete;
  // Gives the room back to its sender.
  ~Packet();

  // Room for `capacity` bytes, which count against `sender`'s send buffer until the packet is gone.
  // ENOBUFS: the sandbox holds too much.
  static Result<Packet> make(Socket& sender, size_t capacity);

  size_t size() const { return end - begin; }
  const char* bytes() const { return data.get() + begin; }

  std::unique_ptr<char[]> data;
  size_t capacity = 0, begin = 0, end = 0;
  Ref<Socket> sender;
  ucred creds{};
  FilesInFlight files;
  RawAddress from;
  RawAddress to;  // where a UDP datagram was sent to (IP_PKTINFO)

  // What a packet counts for beyond its bytes: the host memory that small ones take.
  static constexpr size_t kOverhead = 512;
  size_t charge() const { return capacity + kOverhead; }
};

class PacketQueue {
 public:
  bool empty() const { return packets_.empty(); }
  size_t count() const { return packets_.size(); }
  // Bytes that can be read.
  size_t bytes() const { return bytes_; }
  size_t charged() const { return charged_; }
  Packet& front() { return packets_.front(); }

  void push(Packet packet);
  void pop();
  // Takes the files of the first packet.
  FilesInFlight take_files() { return taken(packets_.front()); }
  // f(FilesInFlight&) for each packet that has some.
  template <typename F>
  void each_files(F f) {
    for (Packet& packet : packets_) {
      if (!packet.files.empty()) f(packet.files);
    }
  }
  void clear();

  // Stream data: appends at most `room` bytes of the source, to the last packet where it has room
  // and the same sender's credentials, else in new packets. `files` go with the first byte. EFAULT:
  // nothing was appended. Of a packet that cannot be filled nothing is.
  Result<size_t> append(Socket& sender, IoSource& source, size_t room, const ucred& creds,
                        FilesInFlight& files);
  // Moves stream bytes out. Stops behind a packet that had files (they go to `files`) and, with
  // `same_creds`, before bytes of another sender; `creds` is the first byte's sender. EFAULT:
  // nothing was moved.
  struct StreamRead {
    bool peek = false;
    size_t peek_offset = 0;
    bool same_creds = false;
    ucred creds{};
    FilesInFlight files;
  };
  Result<size_t> take(IoSink& sink, StreamRead& how);
  // Drops n <= bytes() stream bytes.
  void drop(size_t n);
  // Puts back the last of what take() moved out.
  void prepend(std::span<const char> bytes);

 private:
  static FilesInFlight taken(Packet& packet);

  ucred taken_creds_{};  // of the bytes that take() moved last
  std::deque<Packet> packets_;
  size_t bytes_ = 0;
  size_t charged_ = 0;
};

}  // namespace uks
