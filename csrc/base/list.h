/* list.h: an intrusive, circular, doubly linked list. A member contains the Link. Adding and removing allocate nothing
   and take constant time, so that a committed alt can leave all its queues at once. */
#ifndef RUNNEL_LIST_H
#define RUNNEL_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* The struct of `type` whose member `field` is at `ptr`. */
#define CONTAINER_OF(ptr, type, field) ((type *)(void *)((char *)(ptr)-offsetof(type, field)))

typedef struct Link {
  struct Link *next; /* the next member; of the last one: the first; NULL if it is in no list */
  struct Link *prev; /* the previous member; of the first one: the last */
} Link;

typedef struct List {
  Link *first; /* NULL when the list is empty */
} List;

/* The member after this one, or NULL after the last one. */
static inline Link *list_next(const List *list, const Link *link) {
  return link->next == list->first ? NULL : link->next;
}

/* Adds a link, which must be in no list, at the end. */
static inline void list_append(List *list, Link *link) {
  Link *first = list->first;
  if (!first) {
    link->next = link->prev = list->first = link;
  } else {
    link->next = first;
    link->prev = first->prev;
    first->prev->next = link;
    first->prev = link;
  }
}

/* Takes a link out of the list that it is in. */
static inline void list_remove(List *list, Link *link) {
  if (link->next == link) {
    list->first = NULL;
  } else {
    link->next->prev = link->prev; /* NOLINT(clang-analyzer-core.NullDereference): it is in a list */
    link->prev->next = link->next;
    if (list->first == link) list->first = link->next;
  }
  link->next = NULL;
}

#endif
