// The stub's image inside the sentry's binary.
        .section .rodata
        .balign 4096
        .globl uks_stub_image
uks_stub_image:
        .incbin "stub.bin"
        .globl uks_stub_image_end
uks_stub_image_end:
        .section .note.GNU-stack, "", @progbits
