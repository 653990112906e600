/* loader.c: see loader.h. */
#include "http/server/loader.h"

#include <errno.h>
#include <stdlib.h>

#include "base/thread.h"

void load_free(Load *load) {
  part_close(&load->part);
  bytes_free(&load->bytes);
  free(load);
}

/* Reads a piece, in one of the threads. */
static void read_piece(Load *load) {
  Part *part = &load->part;
  ptrdiff_t n = part_wait(part->fd, load->bytes.start, load->bytes.capacity, part->at);
  load->error = n > 0 ? 0 : n == 0 ? -1 : errno;
  if (n <= 0) return;
  load->bytes.to = (size_t)n;
  part->at += n;
  part->left -= (uint64_t)n;
}

static void *run(void *data) {
  Loader *loader = (Loader *)data;
  (void)pthread_mutex_lock(&loader->lock);
  while (!loader->ends) {
    Link *first = loader->wanted.first;
    if (!first) {
      loader->nidle++;
      (void)pthread_cond_wait(&loader->news, &loader->lock);
      loader->nidle--;
      continue;
    }
    Load *load = CONTAINER_OF(first, Load, link);
    list_remove(&loader->wanted, &load->link);
    loader->nwanted--;
    (void)pthread_mutex_unlock(&loader->lock);
    read_piece(load);
    (void)pthread_mutex_lock(&loader->lock);
    list_append(&loader->done, &load->link);
    wakeup_signal(loader->wakeup);
  }
  (void)pthread_mutex_unlock(&loader->lock);
  return NULL;
}

static void open_loader(Loader *loader, Wakeup *wakeup) {
  if (loader->is_open) return;
  (void)pthread_mutex_init(&loader->lock, NULL);
  (void)pthread_cond_init(&loader->news, NULL);
  loader->wakeup = wakeup;
  loader->is_open = true;
}

Load *loader_add(Loader *loader, Wakeup *wakeup, void *owner, Part *part) {
  size_t size = part->left < LOAD_BLOCK ? (size_t)part->left : LOAD_BLOCK;
  Load *load = (Load *)calloc(1, sizeof *load);
  if (!load) return NULL;
  load->bytes = (Bytes){.start = (char *)malloc(size), .capacity = size};
  if (!load->bytes.start) {
    load_free(load); /* seldom covered: only when memory runs out */
    return NULL;
  }
  open_loader(loader, wakeup);
  (void)pthread_mutex_lock(&loader->lock);
  bool needs = loader->nidle <= loader->nwanted && loader->nthreads < LOADERS;
  if (needs && thread_spawn(&loader->ids[loader->nthreads], "runnel-loader", run, loader) == 0) loader->nthreads++;
  bool can = loader->nthreads > 0;
  if (can) {
    load->owner = owner;
    load->part = *part;
    *part = (Part){0};
    list_append(&loader->wanted, &load->link);
    loader->nwanted++;
    (void)pthread_cond_signal(&loader->news);
  }
  (void)pthread_mutex_unlock(&loader->lock);
  if (can) return load;
  load_free(load); /* uncovered: the system has no thread left */
  return NULL;
}

Load *loader_take(Loader *loader) {
  if (!loader->is_open) return NULL;
  (void)pthread_mutex_lock(&loader->lock);
  Link *first = loader->done.first;
  if (first) list_remove(&loader->done, first);
  (void)pthread_mutex_unlock(&loader->lock);
  return first ? CONTAINER_OF(first, Load, link) : NULL;
}

static void free_all(List *list) {
  for (Link *first; (first = list->first) != NULL;) {
    list_remove(list, first); /* seldom covered: the server is closed while a piece is read */
    load_free(CONTAINER_OF(first, Load, link));
  }
}

void loader_close(Loader *loader) {
  if (!loader->is_open) return;
  (void)pthread_mutex_lock(&loader->lock);
  loader->ends = true;
  (void)pthread_cond_broadcast(&loader->news);
  (void)pthread_mutex_unlock(&loader->lock);
  for (unsigned i = 0; i < loader->nthreads; i++) (void)pthread_join(loader->ids[i], NULL);
  free_all(&loader->wanted);
  free_all(&loader->done);
  (void)pthread_cond_destroy(&loader->news);
  (void)pthread_mutex_destroy(&loader->lock);
  *loader = (Loader){0};
}
