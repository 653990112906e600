/* desk.c: see desk.h. */
#include "monitor/desk.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "monitor/task.h"

bool desk_init(Desk *desk, Watch *watch) {
  *desk = (Desk){.watch = watch, .task = task_self()};
  pthread_mutex_init(&desk->mutex, NULL);
  desk->filling = &desk->snapshots[0];
  desk->waiting = &desk->snapshots[1];
  desk->shown = &desk->snapshots[2];
  return thread_open(&desk->thread);
}

static void free_snapshot(Snapshot *s) {
  void *items[] = {s->gos.items, s->chans.items, s->edges.items, s->texts.items, s->labels.items};
  for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) free(items[i]);
  map_free(&s->index);
  map_free(&s->seen);
  *s = (Snapshot){0};
}

static Command *first_command(Desk *desk) {
  Link *first = desk->commands.first;
  if (!first) return NULL;
  list_remove(&desk->commands, first);
  desk->ncommands--;
  return CONTAINER_OF(first, Command, link);
}

void desk_free(Desk *desk) {
  for (int i = 0; i < 3; i++) free_snapshot(&desk->snapshots[i]);
  for (int i = 0; i < DESK_RESULTS; i++) free(desk->results[i].json);
  for (Command *c; (c = first_command(desk)) != NULL;) free(c); /* sent just before the end */
  pthread_mutex_destroy(&desk->mutex);
  thread_close(&desk->thread);
  *desk = (Desk){0};
}

void desk_ask(Desk *desk, bool wants) {
  if (wants) atomic_store(&desk->wants, true);
  if (!atomic_load(&desk->watch->asked)) desk->asked = clock_ns();
  desk->watch->ask(desk->watch);
}

int64_t desk_late(Desk *desk, int64_t now) {
  if (!atomic_load(&desk->watch->asked)) return 0;
  pthread_mutex_lock(&desk->mutex);
  int64_t since = desk->served > desk->asked ? desk->served : desk->asked; /* it comes once for each part */
  pthread_mutex_unlock(&desk->mutex);
  return now > since ? now - since : 1;
}

bool desk_has_news(Desk *desk) {
  pthread_mutex_lock(&desk->mutex);
  bool has_news = desk->has_news;
  desk->has_news = false;
  pthread_mutex_unlock(&desk->mutex);
  return has_news;
}

Snapshot *desk_filling(Desk *desk) { return atomic_load(&desk->wants) ? desk->filling : NULL; }

bool desk_fetch(Desk *desk) {
  pthread_mutex_lock(&desk->mutex);
  bool fresh = desk->fresh;
  if (fresh) {
    Snapshot *newest = desk->waiting;
    desk->waiting = desk->shown;
    desk->shown = newest;
    desk->fresh = false;
  }
  pthread_mutex_unlock(&desk->mutex);
  return fresh;
}

int64_t desk_command(Desk *desk, Command *command) {
  pthread_mutex_lock(&desk->mutex);
  int64_t number = 0;
  if (desk->ncommands < DESK_COMMANDS) {
    number = command->number = ++desk->number;
    list_append(&desk->commands, &command->link);
    desk->ncommands++;
  }
  pthread_mutex_unlock(&desk->mutex);
  if (number) desk_ask(desk, false);
  else free(command);
  return number;
}

void desk_publish(Desk *desk) {
  atomic_store(&desk->wants, false);
  pthread_mutex_lock(&desk->mutex);
  Snapshot *complete = desk->filling;
  desk->filling = desk->waiting;
  desk->waiting = complete;
  desk->fresh = true;
  pthread_mutex_unlock(&desk->mutex);
  thread_wake(&desk->thread);
}

Command *desk_take(Desk *desk) {
  int64_t now = clock_ns();
  pthread_mutex_lock(&desk->mutex);
  desk->served = now;
  Command *command = first_command(desk);
  pthread_mutex_unlock(&desk->mutex);
  return command;
}

void desk_result(Desk *desk, int64_t number, const char *json) {
  char *copy = strdup(json);
  pthread_mutex_lock(&desk->mutex);
  Result *result = &desk->results[desk->nresults++ % DESK_RESULTS];
  free(result->json);
  *result = (Result){.number = number, .json = copy};
  desk->has_news = true;
  pthread_mutex_unlock(&desk->mutex);
  thread_wake(&desk->thread);
}
