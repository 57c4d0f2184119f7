// The compiler from policy expressions to BPF. Code is generated backwards, so that every jump
// target is already placed when a jump to it is made.
#include "platform/host/bpf_dsl.h"

#include <linux/audit.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

#include "platform/base/check.h"

namespace uks::bpf {

namespace internal {

struct CondNode {
  enum class Kind { kConstant, kEquals, kAtLeast, kAnd, kOr, kNot };
  Kind kind = Kind::kConstant;
  bool constant = false;
  uint32_t offset = 0;
  bool wide = false;
  uint64_t mask = 0;
  uint64_t value = 0;
  std::shared_ptr<const CondNode> a, b;
};

struct RuleNode {
  uint32_t verdict = 0;
  std::shared_ptr<const CondNode> cond;  // null: `verdict` stands
  std::shared_ptr<const RuleNode> then_rule;
  std::shared_ptr<const RuleNode> else_rule;  // null: the policy's default
};

}  // namespace internal

using internal::CondNode;
using internal::RuleNode;

namespace {

std::shared_ptr<const CondNode> comparison(CondNode::Kind kind, uint32_t offset, bool wide,
                                           uint64_t mask, uint64_t value) {
  auto node = std::make_shared<CondNode>();
  node->kind = kind;
  node->offset = offset;
  node->wide = wide;
  node->mask = mask;
  node->value = value;
  return node;
}

// Puts `tail` at the end of a chain of choices.
std::shared_ptr<const RuleNode> append(const RuleNode& chain,
                                       const std::shared_ptr<const RuleNode>& tail) {
  auto copy = std::make_shared<RuleNode>(chain);
  if (!chain.else_rule) {
    copy->else_rule = tail;
  } else if (chain.else_rule->cond) {
    copy->else_rule = append(*chain.else_rule, tail);
  }
  return copy;
}

}  // namespace

Cond Cond::constant(bool value) {
  auto node = std::make_shared<CondNode>();
  node->constant = value;
  return Cond(node);
}

Cond operator&&(const Cond& a, const Cond& b) {
  auto node = std::make_shared<CondNode>();
  node->kind = CondNode::Kind::kAnd;
  node->a = a.node_;
  node->b = b.node_;
  return Cond(node);
}

Cond operator||(const Cond& a, const Cond& b) {
  auto node = std::make_shared<CondNode>();
  node->kind = CondNode::Kind::kOr;
  node->a = a.node_;
  node->b = b.node_;
  return Cond(node);
}

Cond operator!(const Cond& a) {
  auto node = std::make_shared<CondNode>();
  node->kind = CondNode::Kind::kNot;
  node->a = a.node_;
  return Cond(node);
}

Cond Value::equals(uint64_t value) const {
  return Cond(comparison(CondNode::Kind::kEquals, offset_, wide_, mask_, value));
}

Cond Value::in(std::initializer_list<uint64_t> values) const {
  Cond any = Cond::constant(false);
  bool first = true;
  for (uint64_t value : values) {
    any = first ? equals(value) : any || equals(value);
    first = false;
  }
  return any;
}

Cond Value::at_least(uint64_t value) const {
  return Cond(comparison(CondNode::Kind::kAtLeast, offset_, wide_, mask_, value));
}

Value arg(int index) {
  CHECK(index >= 0 && index < 6);
  return Value(static_cast<uint32_t>(offsetof(seccomp_data, args) + 8 * static_cast<size_t>(index)),
               true, ~0ull);
}

Value arg32(int index) {
  CHECK(index >= 0 && index < 6);
  return Value(static_cast<uint32_t>(offsetof(seccomp_data, args) + 8 * static_cast<size_t>(index)),
               false, 0xffffffffull);
}

Value instruction_pointer() {
  return Value(offsetof(seccomp_data, instruction_pointer), true, ~0ull);
}

Rule verdict(uint32_t seccomp_ret) {
  auto node = std::make_shared<RuleNode>();
  node->verdict = seccomp_ret;
  return Rule(node);
}

Rule when(const Cond& cond, const Rule& rule) {
  auto node = std::make_shared<RuleNode>();
  node->cond = cond.node_;
  node->then_rule = rule.node_;
  return Rule(node);
}

Rule Rule::otherwise(const Rule& rule) const {
  CHECK(node_->cond);
  return Rule(append(*node_, rule.node_));
}

Policy& Policy::on(long number, const Rule& rule) {
  rules_.insert_or_assign(static_cast<uint32_t>(number), rule);
  return *this;
}

Policy& Policy::on(std::initializer_list<long> numbers, const Rule& rule) {
  for (long number : numbers) on(number, rule);
  return *this;
}

class Compiler {
 public:
  explicit Compiler(const Rule& fallback) : fallback_(fallback.node_) {}

  // A place in the program, counted from its end.
  using Label = size_t;

  Label rule(const Rule& r) { return rule(r.node_); }
  Label fallback() { return rule(fallback_); }

  // Jumps to the label of the last entry of `starts` that is not above the accumulator.
  Label search(std::span<const std::pair<uint32_t, Label>> starts) {
    if (starts.size() == 1) return starts[0].second;
    size_t middle = starts.size() / 2;
    Label high = search(starts.subspan(middle));
    Label low = search(starts.first(middle));
    return branch(BPF_JMP | BPF_JGE | BPF_K, starts[middle].first, high, low);
  }

  Label load(uint32_t offset, Label next) {
    fall_to(next);
    return push(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
  }

  Label branch(uint16_t code, uint32_t k, Label yes, Label no) {
    yes = near(yes, 1);
    no = near(no, 0);
    return push(sock_filter{code, distance(yes), distance(no), k});
  }

  Program finish(Label entry) {
    fall_to(entry);
    CHECK(reversed_.size() <= BPF_MAXINSNS);
    return Program(reversed_.rbegin(), reversed_.rend());
  }

 private:
  Label push(sock_filter instruction) {
    reversed_.push_back(instruction);
    return reversed_.size() - 1;
  }

  uint8_t distance(Label target) const {
    size_t d = reversed_.size() - 1 - target;
    CHECK(d <= 255);
    return static_cast<uint8_t>(d);
  }

  // Makes a target reachable by a conditional jump's 8 bits, with `spare` more instructions in
  // between.
  Label near(Label target, size_t spare) {
    if (reversed_.size() - 1 - target + spare <= 255) return target;
    return jump(target);
  }

  Label jump(Label target) {
    return push(
        BPF_JUMP(BPF_JMP | BPF_JA, static_cast<uint32_t>(reversed_.size() - 1 - target), 0, 0));
  }

  void fall_to(Label target) {
    if (target != reversed_.size() - 1) jump(target);
  }

  Label rule(const std::shared_ptr<const RuleNode>& node) {
    if (auto found = rules_.find(node.get()); found != rules_.end()) return found->second;
    Label label;
    if (!node->cond) {
      auto [place, is_new] = verdicts_.try_emplace(node->verdict, 0);
      if (is_new) place->second = push(BPF_STMT(BPF_RET | BPF_K, node->verdict));
      label = place->second;
    } else {
      Label no = rule(node->else_rule ? node->else_rule : fallback_);
      Label yes = rule(node->then_rule);
      label = cond(*node->cond, yes, no);
    }
    rules_.emplace(node.get(), label);
    return label;
  }

  Label cond(const CondNode& c, Label yes, Label no) {
    switch (c.kind) {
      case CondNode::Kind::kConstant:
        return c.constant ? yes : no;
      case CondNode::Kind::kNot:
        return cond(*c.a, no, yes);
      case CondNode::Kind::kAnd:
        return cond(*c.a, cond(*c.b, yes, no), no);
      case CondNode::Kind::kOr:
        return cond(*c.a, yes, cond(*c.b, yes, no));
      case CondNode::Kind::kEquals:
        return equals(c, yes, no);
      case CondNode::Kind::kAtLeast:
        return at_least(c, yes, no);
    }
    CHECK(false);
  }

  // The accumulator gets one half of a value (little endian: the high half lies four bytes on).
  Label load_half(const CondNode& c, bool high, Label next) {
    uint32_t mask = static_cast<uint32_t>(high ? c.mask >> 32 : c.mask);
    fall_to(next);
    if (mask != ~0u) push(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
    return push(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, c.offset + (high ? 4 : 0)));
  }

  Label equals(const CondNode& c, Label yes, Label no) {
    if (c.value & ~c.mask) return no;  // can never hold
    auto low_value = static_cast<uint32_t>(c.value),
         high_value = static_cast<uint32_t>(c.value >> 32);
    Label low = yes;
    if (static_cast<uint32_t>(c.mask) != 0) {
      low = load_half(c, false, branch(BPF_JMP | BPF_JEQ | BPF_K, low_value, yes, no));
    }
    if (!c.wide || (c.mask >> 32) == 0) return low;
    return load_half(c, true, branch(BPF_JMP | BPF_JEQ | BPF_K, high_value, low, no));
  }

  Label at_least(const CondNode& c, Label yes, Label no) {
    auto low_value = static_cast<uint32_t>(c.value),
         high_value = static_cast<uint32_t>(c.value >> 32);
    if (!c.wide && high_value != 0) return no;
    Label low = load_half(c, false, branch(BPF_JMP | BPF_JGE | BPF_K, low_value, yes, no));
    if (!c.wide) return low;
    Label equal = branch(BPF_JMP | BPF_JEQ | BPF_K, high_value, low, no);
    return load_half(c, true, branch(BPF_JMP | BPF_JGT | BPF_K, high_value, yes, equal));
  }

  std::shared_ptr<const RuleNode> fallback_;
  std::vector<sock_filter> reversed_;
  std::map<const RuleNode*, Label> rules_;
  std::map<uint32_t, Label> verdicts_;
};

Program Policy::compile() const {
  Compiler compiler(fallback_);
  using Start = std::pair<uint32_t, Compiler::Label>;
  Compiler::Label other = compiler.fallback();
  std::vector<Start> starts{{0, other}};
  auto begin_at = [&](uint32_t number, Compiler::Label label) {
    if (starts.back().first == number) starts.pop_back();
    if (starts.empty() || starts.back().second != label) starts.push_back({number, label});
  };
  for (const auto& [number, rule] : rules_) {
    begin_at(number, compiler.rule(rule));
    if (number != ~0u) begin_at(number + 1, other);
  }
  Compiler::Label numbers = compiler.load(offsetof(seccomp_data, nr), compiler.search(starts));
  Compiler::Label foreign = compiler.rule(foreign_);
  Compiler::Label arch =
      compiler.branch(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, numbers, foreign);
  return compiler.finish(compiler.load(offsetof(seccomp_data, arch), arch));
}

Result<int> install(std::span<const sock_filter> program, unsigned flags) {
  sock_fprog fprog{static_cast<unsigned short>(program.size()),
                   const_cast<sock_filter*>(program.data())};
  long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &fprog);
  if (result < 0) return HostErr();
  return static_cast<int>(result);
}

}  // namespace uks::bpf
