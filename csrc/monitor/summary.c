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

static void add_text(Text *to, const char *name, const char *value) {
  text_puts(to, "\"");
  text_puts(to, name);
  text_puts(to, "\":");
  text_json(to, value);
  text_puts(to, ",");
}

/* How long Lua has not served the scheduler, in ms, and what has run then. */
static void add_busy(Text *to, int64_t now, int64_t late, const Runner *runs) {
  add_field(to, "busy", late / CLOCK_MS);
  if (!late || !runs->looks) return;
  add_field(to, "blocked", runs->is_blocked);
  add_text(to, "who", runs->name);
  if (runs->is_mixed) return;
  add_field(to, "runs", runs->id);
  add_field(to, "ran_for", (now - runs->since) / CLOCK_MS);
}

void summary_add(Text *to, Watch *watch, const View *view, int64_t now, int64_t late, const Runner *runs, int64_t turn,
                 const Runner *ran) {
  int64_t waiting = atomic_load(&watch->waiting);
  add_field(to, "t", now / CLOCK_MS);
  add_field(to, "waited", (atomic_load(&watch->waited) + (waiting ? now - waiting : 0)) / CLOCK_MS);
  add_busy(to, now, late, runs);
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
  add_field(to, "turn", turn / CLOCK_MS);
  add_field(to, "leaks", s->leaks);
  bool is_known = ran->looks && !ran->is_mixed && ran->last - ran->since >= RUNNER_SEEN * CLOCK_MS;
  if (is_known) add_text(to, "ran", ran->name);
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
