/* part.h: a part of a file, which is the body of a response. The thread that handles connections sends it, so it must
   not wait for a disk: part_read reads what is in memory, and the loader (loader.h) the rest. */
#ifndef RUNNEL_HTTP_PART_H
#define RUNNEL_HTTP_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A part that is all zeros is none. */
typedef struct Part {
  bool is_open;  /* there is one */
  int fd;        /* of the file; owned while it is open */
  off_t at;      /* the offset of the next byte */
  uint64_t left; /* how many bytes are to be sent */
} Part;

/* Closes the file, if there is one. */
void part_close(Part *part);

/* Reads bytes of a file, at most `max`, if the system has them in memory. Returns their number; 0 at the end of the
   file; -1, with errno, on failure: EAGAIN if reading them may wait for a disk or a network, or if the system cannot
   tell. */
ptrdiff_t part_read(int fd, char *to, size_t max, off_t at);

/* The same, but waits. */
ptrdiff_t part_wait(int fd, char *to, size_t max, off_t at);

#endif
