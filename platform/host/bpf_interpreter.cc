// An interpreter for seccomp's BPF, for tests of policies.
#include <linux/audit.h>

#include <cstring>

#include "platform/host/bpf_dsl.h"

namespace uks::bpf {

uint32_t evaluate(std::span<const sock_filter> program, const seccomp_data& data) {
  uint32_t a = 0, x = 0;
  uint32_t memory[BPF_MEMWORDS] = {};
  constexpr uint32_t kBad = SECCOMP_RET_KILL_PROCESS;
  if (program.empty() || program.size() > BPF_MAXINSNS) return kBad;
  for (size_t pc = 0; pc < program.size(); ++pc) {
    const sock_filter& in = program[pc];
    uint32_t operand = BPF_SRC(in.code) == BPF_X ? x : in.k;
    switch (BPF_CLASS(in.code)) {
      case BPF_LD:
      case BPF_LDX: {
        uint32_t value;
        if (BPF_MODE(in.code) == BPF_ABS && BPF_CLASS(in.code) == BPF_LD &&
            BPF_SIZE(in.code) == BPF_W) {
          if (in.k % 4 || in.k > sizeof(data) - 4) return kBad;
          std::memcpy(&value, reinterpret_cast<const char*>(&data) + in.k, 4);
        } else if (BPF_MODE(in.code) == BPF_IMM) {
          value = in.k;
        } else if (BPF_MODE(in.code) == BPF_MEM) {
          if (in.k >= BPF_MEMWORDS) return kBad;
          value = memory[in.k];
        } else if (BPF_MODE(in.code) == BPF_LEN) {
          value = sizeof(data);
        } else {
          return kBad;
        }
        (BPF_CLASS(in.code) == BPF_LD ? a : x) = value;
        break;
      }
      case BPF_ST:
      case BPF_STX:
        if (in.k >= BPF_MEMWORDS) return kBad;
        memory[in.k] = BPF_CLASS(in.code) == BPF_ST ? a : x;
        break;
      case BPF_ALU:
        switch (BPF_OP(in.code)) {
          case BPF_AND:
            a &= operand;
            break;
          case BPF_OR:
            a |= operand;
            break;
          case BPF_XOR:
            a ^= operand;
            break;
          case BPF_ADD:
            a += operand;
            break;
          case BPF_SUB:
            a -= operand;
            break;
          case BPF_MUL:
            a *= operand;
            break;
          case BPF_LSH:
            a = operand < 32 ? a << operand : 0;
            break;
          case BPF_RSH:
            a = operand < 32 ? a >> operand : 0;
            break;
          case BPF_NEG:
            a = -a;
            break;
          default:
            return kBad;
        }
        break;
      case BPF_JMP: {
        if (BPF_OP(in.code) == BPF_JA) {
          if (in.k >= program.size()) return kBad;
          pc += in.k;
          break;
        }
        bool holds;
        switch (BPF_OP(in.code)) {
          case BPF_JEQ:
            holds = a == operand;
            break;
          case BPF_JGT:
            holds = a > operand;
            break;
          case BPF_JGE:
            holds = a >= operand;
            break;
          case BPF_JSET:
            holds = a & operand;
            break;
          default:
            return kBad;
        }
        pc += holds ? in.jt : in.jf;
        break;
      }
      case BPF_RET:
        return BPF_RVAL(in.code) == BPF_A ? a : in.k;
      case BPF_MISC:
        if (BPF_MISCOP(in.code) == BPF_TAX) {
          x = a;
        } else {
          a = x;
        }
        break;
      default:
        return kBad;
    }
  }
  return kBad;  // ran off the end: the kernel refuses such programs
}

uint32_t evaluate(std::span<const sock_filter> program, long number,
                  std::initializer_list<uint64_t> args, uint64_t instruction_pointer) {
  seccomp_data data{};
  data.nr = static_cast<int>(number);
  data.arch = AUDIT_ARCH_X86_64;
  data.instruction_pointer = instruction_pointer;
  size_t i = 0;
  for (uint64_t value : args) {
    if (i < 6) data.args[i++] = value;
  }
  return evaluate(program, data);
}

}  // namespace uks::bpf
