/* What the stub may fetch from guest memory into its slot before it hands a call over. Plain C: the
 * freestanding stub includes it, with gen/copy_table.inc. */
#pragma once

enum copy_kind {
  COPY_NONE = 0,      /* end of the list */
  COPY_STR = 1,       /* a NUL-terminated string, at most 4096 bytes with the NUL */
  COPY_BUF_ARG = 2,   /* `size` bytes for each unit of argument `length_arg` */
  COPY_BUF_CONST = 3, /* `size` bytes */
  COPY_STRVEC = 4,    /* a NULL-terminated vector of strings */
  COPY_FILL = 5,      /* nothing is copied: a buffer, as COPY_BUF_ARG, that data will be put in */
  COPY_FILL_VEC = 6,  /* an iovec of such buffers, `length_arg` counts them */
  COPY_FILL_MSG = 7   /* a msghdr with such a vector */
};

struct copy_item {
  unsigned char arg;  /* index of the argument that holds the guest address (0 is legal: none) */
  unsigned char kind; /* enum copy_kind */
  unsigned char length_arg; /* COPY_BUF_ARG: index of the argument that counts */
  unsigned char reserved;
  unsigned int size; /* bytes, see the kinds */
};

enum { COPY_ITEMS_MAX = 3 };

struct copy_descriptor {
  struct copy_item items[COPY_ITEMS_MAX];
};
