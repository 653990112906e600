/* sent_file.c: a file that is sent, as a body or in a part of a form. The request announces the size that the file has
   then. A file may change while it is sent, as a log does: what is added is not sent, since a server would take more
   bytes than were announced for the next request, and only libcurl since 8.7 leaves them out; and if bytes are missing,
   the request fails, since the server would wait for them. See client.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http/client/client.h"

struct SentFile {
  Transfer *transfer;   /* which sends it */
  int fd;               /* -1: not open */
  off_t start, at, end; /* what is sent, and where to read next; `end` is -1 if all is sent that comes */
  char path[];          /* what to open for the first read, until all is read; "": `fd` is open */
};

SentFile *sent_file_new(Transfer *t, int fd, const char *path, off_t start, off_t end) {
  SentFile *file = (SentFile *)malloc(sizeof *file + strlen(path) + 1);
  if (!file) return NULL;
  *file = (SentFile){.transfer = t, .fd = fd, .start = start, .at = start, .end = end};
  memcpy(file->path, path, strlen(path) + 1);
  return file;
}

static void end_reading(SentFile *file) {
  if (file->fd >= 0) (void)close(file->fd);
  file->fd = -1;
}

void sent_file_free(void *data) {
  end_reading((SentFile *)data);
  free(data);
}

/* It cannot be read, for this errno; 0: it has become shorter. Ends the request. */
static size_t refuse(SentFile *file, int error) {
  file->transfer->file_error = error;
  file->transfer->refusal = REFUSED_FILE;
  return CURL_READFUNC_ABORT;
}

/* Reads a pipe or a device, and waits for it. */
static size_t read_stream(SentFile *file, char *to, size_t size) {
  if (file->fd < 0) file->fd = open(file->path, O_RDONLY | O_CLOEXEC);
  ssize_t n = file->fd < 0 ? -1 : read(file->fd, to, size);
  return n < 0 ? refuse(file, errno) : (size_t)n;
}

size_t sent_file_read(char *to, size_t one, size_t size, void *data) {
  SentFile *file = (SentFile *)data;
  off_t left = file->end - file->at;
  (void)one;
  if (file->end < 0) return read_stream(file, to, size);
  if (left == 0) return 0;
  if (file->fd < 0) file->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* it may be a pipe now */
  ssize_t n = file->fd < 0 ? -1 : pread(file->fd, to, left < (off_t)size ? (size_t)left : size, file->at);
  if (n <= 0) return refuse(file, n < 0 ? errno : 0);
  file->at += n;
  if (n == left && *file->path) end_reading(file); /* there may be many parts */
  return (size_t)n;
}

int sent_file_seek(void *data, curl_off_t offset, int from) {
  SentFile *file = (SentFile *)data;
  if (from != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK; /* uncovered: libcurl only ever does this */
  file->at = file->start + (off_t)offset;
  return CURL_SEEKFUNC_OK;
}
