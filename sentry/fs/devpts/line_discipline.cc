// N_TTY: editing, echo, special characters, output processing.
#include "sentry/fs/devpts/line_discipline.h"

#include <asm/termbits.h>
#include <signal.h>

#include <algorithm>
#include <utility>

namespace uks {
namespace {

constexpr char kEof = '\0';
// One written byte becomes a tab of eight spaces at most.
constexpr size_t kWidest = 8;

bool is_control(char c) {
  const auto u = static_cast<unsigned char>(c);
  return u < 0x20 || u == 0x7f;
}
bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }
bool is_word(char c) {
  const auto u = static_cast<unsigned char>(c);
  return (u >= '0' && u <= '9') || (u >= 'A' && u <= 'Z') || (u >= 'a' && u <= 'z') || u == '_' ||
         u >= 0xc0;
}
char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
char to_upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }

}  // namespace

// tty_std_termios and INIT_C_CC.
LineDiscipline::LineDiscipline() {
  termios_.iflag = ICRNL | IXON;
  termios_.oflag = OPOST | ONLCR;
  termios_.cflag = B38400 | CS8 | CREAD;
  termios_.lflag = ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN;
  termios_.ispeed = termios_.ospeed = 38400;
  auto& cc = termios_.cc;
  cc[VINTR] = 'C' - 0x40;
  cc[VQUIT] = '\\' - 0x40;
  cc[VERASE] = 0x7f;
  cc[VKILL] = 'U' - 0x40;
  cc[VEOF] = 'D' - 0x40;
  cc[VSTART] = 'Q' - 0x40;
  cc[VSTOP] = 'S' - 0x40;
  cc[VSUSP] = 'Z' - 0x40;
  cc[VREPRINT] = 'R' - 0x40;
  cc[VDISCARD] = 'O' - 0x40;
  cc[VWERASE] = 'W' - 0x40;
  cc[VLNEXT] = 'V' - 0x40;
  cc[VMIN] = 1;
}

bool LineDiscipline::canonical() const { return local(ICANON); }
bool LineDiscipline::has_ixon() const { return termios_.iflag & IXON; }

// 0 disables a special character (_POSIX_VDISABLE).
bool LineDiscipline::is_cc(char c, unsigned index) const {
  return c != '\0' && static_cast<uint8_t>(c) == termios_.cc[index];
}

// n_tty_set_termios(): what was typed so far becomes a line of its own, or plain bytes.
void LineDiscipline::set_termios(const KernelTermios& termios) {
  const uint32_t changed = termios_.lflag ^ termios.lflag;
  termios_ = termios;
  if (changed & (ICANON | EXTPROC)) {
    std::erase_if(input_, [](const Cell& cell) { return cell.eof; });
    for (Cell& cell : input_) cell.end = false;
    canon_count_ = 0;
    if (canonical() && !input_.empty()) {
      input_.back().end = true;
      canon_count_ = input_.size();
    }
    erasing_ = false;
    literal_next_ = false;
  }
  if (!has_ixon()) stopped_ = false;
}

// An unfinished line takes any amount (what does not fit is dropped): else nobody could end it.
size_t LineDiscipline::input_room() const {
  if (canonical() && canon_count_ == 0) return kInputLimit;
  const size_t limit = canonical() ? kInputLimit - 1 : kInputLimit;
  return limit - std::min(limit, input_.size());
}

void LineDiscipline::put(char c) {
  // The last place is the line end's.
  if (input_.size() + 1 >= kInputLimit + (canonical() ? 0 : 1)) {
    if (termios_.iflag & IMAXBEL) put_output('\a');
    return;
  }
  input_.push_back({c, false, false});
}

void LineDiscipline::end_line(char c, bool eof) {
  input_.push_back({c, true, eof});
  canon_count_ = input_.size();
}

int LineDiscipline::receive_signal(char c, int signo) {
  if (!local(NOFLSH)) {
    flush_input();
    flush_output();
  }
  if (has_ixon()) stopped_ = false;
  if (local(ECHO)) echo(c);
  return signo;
}

int LineDiscipline::receive(char c) {
  if (termios_.iflag & ISTRIP) c = static_cast<char>(c & 0x7f);
  if ((termios_.iflag & IUCLC) && local(IEXTEN)) c = to_lower(c);
  if (local(EXTPROC)) {
    put(c);
    return 0;
  }
  if (literal_next_) {
    literal_next_ = false;
    if (local(ECHO)) echo(c);
    put(c);
    return 0;
  }
  if (has_ixon()) {
    if (is_cc(c, VSTART)) {
      stopped_ = false;
      return 0;
    }
    if (is_cc(c, VSTOP)) {
      stopped_ = true;
      return 0;
    }
  }
  if (local(ISIG)) {
    if (is_cc(c, VINTR)) return receive_signal(c, SIGINT);
    if (is_cc(c, VQUIT)) return receive_signal(c, SIGQUIT);
    if (is_cc(c, VSUSP)) return receive_signal(c, SIGTSTP);
  }
  if (stopped_ && has_ixon() && (termios_.iflag & IXANY)) stopped_ = false;
  if (c == '\r') {
    if (termios_.iflag & IGNCR) return 0;
    if (termios_.iflag & ICRNL) c = '\n';
  } else if (c == '\n' && (termios_.iflag & INLCR)) {
    c = '\r';
  }
  if (canonical() && receive_editing(c)) return 0;
  if (local(ECHO)) {
    if (c == '\n') {
      echo_raw(c);
    } else {
      if (input_.size() == canon_count_) canon_column_ = column_;
      echo(c);
    }
  }
  if (c == '\377' && (termios_.iflag & PARMRK)) put(c);
  put(c);
  return 0;
}

// n_tty_receive_char_canon(): true if `c` was one of its characters.
bool LineDiscipline::receive_editing(char c) {
  if (is_cc(c, VERASE) || is_cc(c, VKILL) || (is_cc(c, VWERASE) && local(IEXTEN))) {
    erase(c);
    return true;
  }
  if (is_cc(c, VLNEXT) && local(IEXTEN)) {
    literal_next_ = true;
    if (local(ECHO) && local(ECHOCTL)) {
      echo_raw('^');
      echo_raw('\b');
    }
    return true;
  }
  if (is_cc(c, VREPRINT) && local(ECHO) && local(IEXTEN)) {
    reprint();
    return true;
  }
  if (c == '\n') {
    if (local(ECHO) || local(ECHONL)) echo_raw('\n');
    end_line(c, false);
    return true;
  }
  if (is_cc(c, VEOF)) {
    end_line(kEof, true);
    return true;
  }
  if (is_cc(c, VEOL) || (is_cc(c, VEOL2) && local(IEXTEN))) {
    if (local(ECHO)) {
      if (input_.size() == canon_count_) canon_column_ = column_;
      echo(c);
    }
    end_line(c, false);
    return true;
  }
  return false;
}

void LineDiscipline::reprint() {
  echo(static_cast<char>(termios_.cc[VREPRINT]));
  echo_raw('\n');
  // A line of 4095 characters for each VREPRINT: what finds no room would be lost anyway.
  for (size_t i = canon_count_; i < input_.size() && output_room() > 0; ++i) echo(input_[i].c);
}

// eraser().
void LineDiscipline::erase(char c) {
  if (input_.size() == canon_count_) return;
  const bool is_kill = !is_cc(c, VERASE) && is_cc(c, VKILL);
  const bool is_werase = !is_cc(c, VERASE) && !is_kill;
  if (is_kill) {
    if (!local(ECHO) || !local(ECHOK) || !local(ECHOKE) || !local(ECHOE)) {
      input_.resize(canon_count_);
      if (!local(ECHO)) return;
      erasing_ = false;
      echo(c);
      if (local(ECHOK)) echo_raw('\n');
      return;
    }
  }
  bool seen_word = false;
  while (input_.size() > canon_count_) {
    // All bytes of one character: continuation bytes and what they belong to.
    size_t n = 1;
    if (termios_.iflag & IUTF8) {
      while (n < input_.size() - canon_count_ && is_continuation(input_[input_.size() - n].c)) ++n;
    }
    const char gone = input_[input_.size() - n].c;
    if (is_werase) {
      if (is_word(gone)) {
        seen_word = true;
      } else if (seen_word) {
        break;
      }
    }
    if (local(ECHO) && local(ECHOPRT)) {
      if (!std::exchange(erasing_, true)) echo_raw('\\');
      for (size_t i = input_.size() - n; i < input_.size(); ++i) echo(input_[i].c);
    }
    input_.resize(input_.size() - n);
    if (local(ECHO) && !local(ECHOPRT)) {
      if (!is_kill && !is_werase && !local(ECHOE)) {
        echo(c);
      } else {
        erase_echo(gone);
      }
    }
    if (!is_kill && !is_werase) break;
  }
  if (input_.size() == canon_count_ && erasing_) {
    echo_raw('/');
    erasing_ = false;
  }
}

// How wide a tab at the end of the line is on the screen, by what stands before it.
size_t LineDiscipline::tab_width() const {
  size_t width = canon_column_;
  for (size_t i = canon_count_; i < input_.size(); ++i) {
    const char c = input_[i].c;
    if (c == '\t') {
      width = (width | 7) + 1;
    } else if (is_control(c)) {
      if (local(ECHOCTL)) width += 2;
    } else if (!((termios_.iflag & IUTF8) && is_continuation(c))) {
      ++width;
    }
  }
  return 8 - (width & 7);
}

void LineDiscipline::erase_echo(char c) {
  if (c == '\t') {
    for (size_t i = tab_width(); i > 0; --i) echo_raw('\b');
    return;
  }
  const int columns = !is_control(c) ? 1 : local(ECHOCTL) ? 2 : 0;
  for (int i = 0; i < columns; ++i) {
    echo_raw('\b');
    echo_raw(' ');
    echo_raw('\b');
  }
}

void LineDiscipline::echo(char c) {
  if (local(ECHOCTL) && is_control(c) && c != '\t') {
    echo_raw('^');
    echo_raw(static_cast<char>(c ^ 0100));
  } else {
    echo_raw(c);
  }
}

void LineDiscipline::echo_raw(char c) { process_output(c); }

size_t LineDiscipline::readable_bytes() const {
  if (!canonical()) return input_.size();
  return static_cast<size_t>(std::count_if(input_.begin(),
                                           input_.begin() + static_cast<ptrdiff_t>(canon_count_),
                                           [](const Cell& cell) { return !cell.eof; }));
}

std::string LineDiscipline::peek(size_t n, size_t& used) const {
  std::string out;
  const bool lines = canonical();
  used = 0;
  while (used < (lines ? canon_count_ : input_.size())) {
    const Cell cell = input_[used];
    // An end-of-file mark right behind the last byte that fits goes with it.
    if (out.size() == n && !(lines && cell.eof)) break;
    ++used;
    if (!cell.eof) out.push_back(cell.c);
    if (lines && cell.end) break;
  }
  return out;
}

void LineDiscipline::drop(size_t used) {
  input_.erase(input_.begin(), input_.begin() + static_cast<ptrdiff_t>(used));
  canon_count_ -= std::min(canon_count_, used);
}

void LineDiscipline::flush_input() {
  input_.clear();
  canon_count_ = 0;
  erasing_ = false;
  literal_next_ = false;
}

size_t LineDiscipline::output_room() const {
  if (stopped_ || output_.size() >= kOutputLimit) return 0;
  return (kOutputLimit - output_.size() + kWidest - 1) / kWidest;
}

void LineDiscipline::write(std::string_view bytes) {
  for (const char c : bytes) process_output(c);
}

void LineDiscipline::put_output(char c) {
  if (output_.size() < kOutputLimit + kEchoSlack) output_.push_back(c);
}

// do_output_char().
void LineDiscipline::process_output(char c) {
  const uint32_t flags = termios_.oflag;
  if (!(flags & OPOST)) {
    put_output(c);
    return;
  }
  switch (c) {
    case '\n':
      if (flags & ONLRET) column_ = 0;
      if (flags & ONLCR) {
        column_ = 0;
        put_output('\r');
      }
      canon_column_ = column_;
      break;
    case '\r':
      if ((flags & ONOCR) && column_ == 0) return;
      if (flags & OCRNL) {
        c = '\n';
        if (flags & ONLRET) column_ = 0;
      } else {
        column_ = 0;
      }
      canon_column_ = column_;
      break;
    case '\t': {
      const size_t spaces = 8 - (column_ & 7);
      column_ += spaces;
      if ((flags & TABDLY) == XTABS) {
        for (size_t i = 0; i < spaces; ++i) put_output(' ');
        return;
      }
      break;
    }
    case '\b':
      if (column_ > 0) --column_;
      break;
    default:
      if (is_control(c)) break;
      if (flags & OLCUC) c = to_upper(c);
      if (!((termios_.iflag & IUTF8) && is_continuation(c))) ++column_;
      break;
  }
  put_output(c);
}

}  // namespace uks
