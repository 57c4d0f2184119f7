// The line discipline of a pseudo terminal: what N_TTY (drivers/tty/n_tty.c) makes of typed bytes
// and of written ones. Knows nothing of files, tasks or signals; the owner asks and is told.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace uks {

// The kernel's struct termios2; struct termios is its first 36 bytes.
struct KernelTermios {
  uint32_t iflag, oflag, cflag, lflag;
  uint8_t line;
  std::array<uint8_t, 19> cc;
  uint32_t ispeed, ospeed;
};
static_assert(sizeof(KernelTermios) == 44);

class LineDiscipline {
 public:
  // Bytes that the program has not read yet, at most (N_TTY_BUF_SIZE).
  static constexpr size_t kInputLimit = 4095;
  // Output beyond which writers wait, in bytes. Echoes may go a little further.
  static constexpr size_t kOutputLimit = 8192;
  static constexpr size_t kEchoSlack = 4096;

  LineDiscipline();

  const KernelTermios& termios() const { return termios_; }
  void set_termios(const KernelTermios& termios);

  // ---- Keyboard side.
  // How many bytes receive() takes now without losing any that matters: 0 when the program must
  // read first.
  size_t input_room() const;
  // One typed byte. Returns the signal that it stands for (SIGINT, SIGQUIT, SIGTSTP), else 0.
  int receive(char c);

  // ---- Program side.
  // Bytes, or at least an end-of-file mark, that read() gives at once.
  bool line_ready() const { return canon_count_ > 0; }
  bool canonical() const;
  // What FIONREAD says.
  size_t readable_bytes() const;
  // What one read(2) of at most `n` bytes gives, one line if canonical; empty also for an end of
  // file. `used`: what drop() is to be told once the reader has it.
  std::string peek(size_t n, size_t& used) const;
  void drop(size_t used);
  void flush_input();

  // ---- Output towards the screen.
  // How many bytes write() takes now; each may become eight.
  size_t output_room() const;
  void write(std::string_view bytes);
  // Past all processing.
  void write_raw(char c) { put_output(c); }
  const std::string& output() const { return output_; }
  void consume_output(size_t n) { output_.erase(0, n); }
  void flush_output() { output_.clear(); }

  // Flow control (IXON, TCXONC): stopped output is held back from writers.
  bool stopped() const { return stopped_; }
  void set_stopped(bool stopped) { stopped_ = stopped; }

 private:
  struct Cell {
    char c;
    bool end;  // the last of a line
    bool eof;  // an end-of-file mark, not a byte
  };

  bool local(uint32_t flag) const { return termios_.lflag & flag; }
  bool is_cc(char c, unsigned index) const;
  bool has_ixon() const;
  void put(char c);
  void end_line(char c, bool eof);
  void echo(char c);
  void echo_raw(char c);
  void erase_echo(char c);
  void erase(char c);
  bool receive_editing(char c);
  int receive_signal(char c, int signo);
  size_t tab_width() const;
  void reprint();
  void put_output(char c);
  void process_output(char c);

  KernelTermios termios_{};
  std::deque<Cell> input_;
  size_t canon_count_ = 0;  // leading cells that are complete lines
  std::string output_;
  size_t column_ = 0;
  size_t canon_column_ = 0;  // where the line being edited starts on the screen
  bool literal_next_ = false;
  bool erasing_ = false;  // between \ and / of ECHOPRT
  bool stopped_ = false;
};

}  // namespace uks
