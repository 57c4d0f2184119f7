// The stub's only system call instruction, its signal entries and its fault-tolerant copies.
#include "platform/stub/offsets.h"

        .section .head, "a"
        .globl stub_start
        .hidden stub_start
stub_start:
        .quad UKS_ASM_MAGIC
        .long stub_zygote_entry - stub_start
        .long stub_syscall_trap - stub_start
        .long stub_fault_trap - stub_start
        .long stub_kick_trap - stub_start
        .long stub_restorer - stub_start
        .long stub_after_syscall - stub_start
        .long stub_text_end - stub_start
        .long 0

        .text
// long stub_syscall(nr, a1, a2, a3, a4, a5, a6): the one place that asks the host.
        .globl stub_syscall
        .hidden stub_syscall
        .type stub_syscall, @function
stub_syscall:
        mov     %rdi, %rax
        mov     %rsi, %rdi
        mov     %rdx, %rsi
        mov     %rcx, %rdx
        mov     %r8, %r10
        mov     %r9, %r8
        mov     8(%rsp), %r9
stub_syscall_insn:
        syscall
        .globl stub_after_syscall
        .hidden stub_after_syscall
stub_after_syscall:
        // A new thread (CLONE_VM) comes back on its own fresh stack, whose top word is zero; every other
        // caller has a return address there.
        cmpq    $0, (%rsp)
        je      1f
        ret
1:      mov     %rsp, %rdi
        and     $-UKS_ASM_AREA_SIZE, %rdi
        xor     %ebp, %ebp
        call    stub_thread_main
        hlt

// Signal entries: (signo, siginfo*, ucontext*) as the kernel passes them. DF, AC and TF are already
// clear (the kernel clears DF and TF for handlers; AC cannot hurt aligned code).
        .globl stub_syscall_trap
        .hidden stub_syscall_trap
stub_syscall_trap:
        call    stub_on_syscall
        jmp     stub_restorer_here
        .globl stub_fault_trap
        .hidden stub_fault_trap
stub_fault_trap:
        call    stub_on_fault
        jmp     stub_restorer_here
        .globl stub_kick_trap
        .hidden stub_kick_trap
stub_kick_trap:
        call    stub_on_kick
stub_restorer_here:
        // rsp points at the frame's return address; rt_sigreturn wants it popped.
        add     $8, %rsp
        .globl stub_restorer
        .hidden stub_restorer
stub_restorer:
        mov     $15, %eax
        jmp     stub_syscall_insn

// void stub_sigreturn(ucontext*): leaves through a frame that was built by hand.
        .globl stub_sigreturn
        .hidden stub_sigreturn
stub_sigreturn:
        mov     %rdi, %rsp
        jmp     stub_restorer

// Copies that may fault: a fault between stub_copy_begin and stub_copy_end continues at
// stub_copy_fixup (see stub_on_fault), which returns -1. General registers only: no vector state here.
        .globl stub_copy_begin
        .hidden stub_copy_begin
stub_copy_begin:
// long stub_copy(void* to, const void* from, size_t n) -> 0 or -1
        .globl stub_copy
        .hidden stub_copy
stub_copy:
        mov     %rdx, %rcx
        rep movsb
        xor     %eax, %eax
        ret
// long stub_copy_string(char* to, const char* from, size_t max) -> length without NUL, max if there
// was none, or -1
        .globl stub_copy_string
        .hidden stub_copy_string
stub_copy_string:
        xor     %eax, %eax
2:      cmp     %rdx, %rax
        je      3f
        movzbl  (%rsi,%rax), %ecx
        movb    %cl, (%rdi,%rax)
        test    %cl, %cl
        je      3f
        inc     %rax
        jmp     2b
3:      ret
// long stub_zero(void* to, size_t n) -> 0 or -1
        .globl stub_zero
        .hidden stub_zero
stub_zero:
        mov     %rsi, %rcx
        xor     %eax, %eax
        rep stosb
        ret
// long stub_load64(const uint64_t* from, uint64_t* to) -> 0 or -1
        .globl stub_load64
        .hidden stub_load64
stub_load64:
        mov     (%rdi), %rcx
        mov     %rcx, (%rsi)
        xor     %eax, %eax
        ret
// long stub_cmpxchg32(uint32_t* p, uint32_t expected, uint32_t desired, uint32_t* old) -> 0 or -1
        .globl stub_cmpxchg32
        .hidden stub_cmpxchg32
stub_cmpxchg32:
        mov     %esi, %eax
        mov     %rcx, %r8
        lock cmpxchgl %edx, (%rdi)
        mov     %eax, (%r8)
        xor     %eax, %eax
        ret
// long stub_scatter(char* to, const uint16_t* from, uint64_t n, uint64_t stride) -> 0 or -1
        .globl stub_scatter
        .hidden stub_scatter
stub_scatter:
        xor     %eax, %eax
4:      test    %rdx, %rdx
        je      5f
        movzwl  (%rsi), %r8d
        movw    %r8w, (%rdi)
        add     $2, %rsi
        add     %rcx, %rdi
        dec     %rdx
        jmp     4b
5:      ret
// long stub_touch(char* at) -> 0 or -1. Whether a byte can be written, without a change of it.
        .globl stub_touch
        .hidden stub_touch
stub_touch:
        lock orb $0, (%rdi)
        xor     %eax, %eax
        ret
        .globl stub_copy_end
        .hidden stub_copy_end
stub_copy_end:
// uint64_t stub_copy_rest(void* to, const void* from, size_t n) -> bytes not copied. Its one faulting
// instruction continues at stub_rest_fixup, where rcx still counts what is left.
        .globl stub_copy_rest
        .hidden stub_copy_rest
stub_copy_rest:
        mov     %rdx, %rcx
        .globl stub_rest_insn
        .hidden stub_rest_insn
stub_rest_insn:
        rep movsb
        .globl stub_rest_fixup
        .hidden stub_rest_fixup
stub_rest_fixup:
        mov     %rcx, %rax
        ret

        .globl stub_copy_fixup
        .hidden stub_copy_fixup
stub_copy_fixup:
        mov     $-1, %rax
        ret

// void stub_set_fs(uint64_t base); only where the CPU and the kernel have FSGSBASE.
        .globl stub_set_fs
        .hidden stub_set_fs
stub_set_fs:
        wrfsbase %rdi
        ret
        .globl stub_get_fs
        .hidden stub_get_fs
stub_get_fs:
        rdfsbase %rax
        ret
        .globl stub_set_gs
        .hidden stub_set_gs
stub_set_gs:
        wrgsbase %rdi
        ret
        .globl stub_get_gs
        .hidden stub_get_gs
stub_get_gs:
        rdgsbase %rax
        ret

        .section .note.GNU-stack, "", @progbits
