// Seccomp policies as value expressions, compiled to BPF, and an interpreter to test them with.
//
//   Policy policy(kill_process());
//   policy.on({SYS_read, SYS_write}, allow());
//   policy.on(SYS_fcntl, when(arg32(1).in({F_GETFL, F_GETFD}), allow()).otherwise(error(EPERM)));
//   auto program = policy.compile();
#pragma once
#include <linux/filter.h>
#include <linux/seccomp.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "platform/base/result.h"

namespace uks::bpf {

using Program = std::vector<sock_filter>;

namespace internal {
struct CondNode;
struct RuleNode;
}  // namespace internal

class Rule;

// A condition on the call's arguments. Copies share structure.
class Cond {
 public:
  friend Cond operator&&(const Cond& a, const Cond& b);
  friend Cond operator||(const Cond& a, const Cond& b);
  friend Cond operator!(const Cond& a);
  static Cond constant(bool value);

 private:
  friend class Value;
  friend class Compiler;
  friend Rule when(const Cond&, const Rule&);
  explicit Cond(std::shared_ptr<const internal::CondNode> node) : node_(std::move(node)) {}
  std::shared_ptr<const internal::CondNode> node_;
};

// A number of the call: an argument or the instruction pointer, perhaps masked. Comparisons are
// unsigned.
class Value {
 public:
  constexpr Value(uint32_t offset, bool wide, uint64_t mask)
      : offset_(offset), wide_(wide), mask_(mask) {}
  constexpr Value masked(uint64_t mask) const { return Value(offset_, wide_, mask_ & mask); }
  Cond equals(uint64_t value) const;
  Cond in(std::initializer_list<uint64_t> values) const;
  // No bit outside `bits` is set.
  Cond only(uint64_t bits) const { return Value(offset_, wide_, mask_ & ~bits).equals(0); }
  Cond at_least(uint64_t value) const;
  Cond below(uint64_t value) const { return !at_least(value); }
  Cond within(uint64_t low, uint64_t high) const {
    return at_least(low) && !at_least(high);
  }  // [low, high)

 private:
  uint32_t offset_;  // of the low half in seccomp_data
  bool wide_;
  uint64_t mask_;
};

// Argument 0–5, all 64 bits: for pointers, sizes and anything the kernel takes as a long.
Value arg(int index);
// The low 32 bits: for what the kernel takes as an int. The upper half is not looked at, as the
// kernel does not look at it either.
Value arg32(int index);
Value instruction_pointer();

// What to do with a call: a verdict, or a choice between rules.
class Rule {
 public:
  // Continues a when(): the rule for calls that no condition so far holds for. A when() without one
  // falls to the policy's default.
  Rule otherwise(const Rule& rule) const;

 private:
  friend class Compiler;
  friend Rule verdict(uint32_t);
  friend Rule when(const Cond&, const Rule&);
  explicit Rule(std::shared_ptr<const internal::RuleNode> node) : node_(std::move(node)) {}
  std::shared_ptr<const internal::RuleNode> node_;
};

Rule verdict(uint32_t seccomp_ret);
inline Rule allow() { return verdict(SECCOMP_RET_ALLOW); }
inline Rule kill_process() { return verdict(SECCOMP_RET_KILL_PROCESS); }
inline Rule trap(uint16_t data = 0) { return verdict(SECCOMP_RET_TRAP | data); }
inline Rule notify() { return verdict(SECCOMP_RET_USER_NOTIF); }
// A stop that the tracer answers; -ENOSYS without one.
inline Rule trace() { return verdict(SECCOMP_RET_TRACE); }
inline Rule error(uint16_t errno_value) { return verdict(SECCOMP_RET_ERRNO | errno_value); }
inline Rule log_call() { return verdict(SECCOMP_RET_LOG); }
Rule when(const Cond& cond, const Rule& rule);

class Policy {
 public:
  // `fallback` is for numbers without a rule (x32 numbers among them) and for when() without
  // otherwise(). `foreign` is for calls of another architecture (int 0x80).
  explicit Policy(const Rule& fallback) : fallback_(fallback), foreign_(kill_process()) {}
  Policy(const Rule& fallback, const Rule& foreign) : fallback_(fallback), foreign_(foreign) {}
  // Sets the rule of a call; a second one for the same number replaces the first.
  Policy& on(long number, const Rule& rule);
  Policy& on(std::initializer_list<long> numbers, const Rule& rule);
  // Dispatch is a binary search over the numbers.
  Program compile() const;

 private:
  Rule fallback_;
  Rule foreign_;
  std::map<uint32_t, Rule> rules_;
};

// What the kernel would answer: a SECCOMP_RET_* value. KILL_PROCESS for programs that it would not
// load.
uint32_t evaluate(std::span<const sock_filter> program, const seccomp_data& data);
// The same for an x86-64 call with these arguments.
uint32_t evaluate(std::span<const sock_filter> program, long number,
                  std::initializer_list<uint64_t> args = {}, uint64_t instruction_pointer = 0);

// seccomp(SECCOMP_SET_MODE_FILTER). The caller has no_new_privs set. Returns the listener's
// descriptor if `flags` asks for one, else 0.
Result<int> install(std::span<const sock_filter> program, unsigned flags = 0);

}  // namespace uks::bpf
