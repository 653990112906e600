/* summary.c: see summary.h. */
#include "monitor/summary.h"

#include <lauxlib.h>

/* Adds "NAME":value and a comma. */
static void add_field(Text *to, const char *name, int64_t value) {
  text_puts(to, "\"");
  text_puts(to, name);
  text_puts(to, "\":");
  text_integer(to, value);
  text_puts(to, ",");
}

void summary_hello(Text *to, const char *program, bool control, int64_t pid) {
  text_puts(to, "\"hello\":{\"program\":");
  text_json(to, program);
  text_puts(to, control ? ",\"control\":true,\"pid\":" : ",\"control\":false,\"pid\":");
  text_integer(to, pid);
  text_puts(to, "},");
}

/* How long Lua has not served the scheduler, in ms, and what has run then. */
static void add_busy(Text *to, Watch *watch, int64_t late, bool is_blocked) {
  add_field(to, "busy", late / CLOCK_MS);
  if (!late) return;
  add_field(to, "blocked", is_blocked);
  char name[256];
  add_field(to, "runs", watch->running(watch, name, sizeof name));
  text_puts(to, "\"who\":");
  text_json(to, name);
  text_puts(to, ",");
}

void summary_add(Text *to, Watch *watch, const View *view, int64_t now, int64_t late, bool is_blocked) {
  int64_t waiting = atomic_load(&watch->waiting);
  add_field(to, "t", now / CLOCK_MS);
  add_field(to, "waited", (atomic_load(&watch->waited) + (waiting ? now - waiting : 0)) / CLOCK_MS);
  add_busy(to, watch, late, is_blocked);
  if (!view) return;
  const Snapshot *s = view->snapshot;
  add_field(to, "now", s->now / CLOCK_MS);
  add_field(to, "virtual", s->is_virtual);
  add_field(to, "memory", (int64_t)s->memory);
  add_field(to, "gos", s->gos.n - s->has_main);
  add_field(to, "chans", s->chans.n);
  add_field(to, "ready", s->ready);
  add_field(to, "taken", s->taken / 1000);
  add_field(to, "more", view->more);
  add_field(to, "more_chans", view->more_chans);
  add_field(to, "more_edges", (int64_t)view->more_edges);
  add_field(to, "at", s->began / CLOCK_MS);
  add_field(to, "puts", (int64_t)view->puts);
}

void summary_result(lua_State *L, Text *to) {
  int n = lua_gettop(L);
  for (int i = 4; i <= n; i++) luaL_checkstring(L, i);
  text_puts(to, lua_toboolean(L, 3) ? "true" : "false");
  for (int i = 4; i <= n; i++) {
    text_puts(to, ",");
    text_json(to, lua_tostring(L, i));
  }
}
