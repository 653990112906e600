/* monitor.c: see monitor.h. The module has the functions of csrc/monitor/module.c.

   There is one monitor at a time, and no other thread, so what it needs is in one static struct. */
#include "site/monitor.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/observe.h"
#include "lua/module.h"
#include "monitor/feed.h"
#include "monitor/summary.h"
#include "site/imports.h"

/* The time between two snapshots, in ms; and the least such time, as a multiple of the time for filling one. */
enum { PERIOD = 250, SHARE = 20 };

/* Bytes of a message. The rest is sent with the next one. */
enum { BYTES_A_MESSAGE = 256 * 1024 };

static struct {
  Watch *watch;           /* NULL: there is no monitor */
  const WatchHook *outer; /* the watch's own functions */
  Snapshot snapshot;      /* the one being filled, then shown */
  View view;              /* it, as rows */
  Feed feed;              /* what the page has received */
  Text message;           /* the message being made */
  Text results;           /* of commands, for the next message */
  char program[128];      /* the program's name */
  bool control;           /* the page may send commands that change the program */
  int64_t due;            /* when the next snapshot is due, in ns */
} page;

int64_t site_monitor_left(void) {
  if (!page.watch) return -1;
  int64_t left = page.due - clock_ns();
  return left > 0 ? left : 0;
}

/* Replaces the watch's own function: asks for a snapshot when one is due, which no other thread does here. First it
   lets in the page's data. */
static void poll_watch(lua_State *L, Sched *S) {
  if (!atomic_load(&page.watch->asked) && site_monitor_left() == 0) {
    page_sleep(0);
    page.due = clock_ns() + PERIOD * CLOCK_MS;
    atomic_store(&page.watch->asked, true);
  }
  page.outer->poll(L, S);
}

static void wait_begins(Sched *S) { page.outer->wait_begins(S); }
static void wait_ends(Sched *S) { page.outer->wait_ends(S); }

static const WatchHook hook = {.poll = poll_watch, .wait_begins = wait_begins, .wait_ends = wait_ends};

/* ---- the module ---- */

/* start(watch, port, control, program) -> server, url */
static int start(lua_State *L) {
  Watch *watch = (Watch *)lua_touserdata(L, 1);
  const char *program = luaL_checkstring(L, 4);
  lua_newuserdatauv(L, 0, 1);
  lua_pushvalue(L, 1); /* keeps the Watch */
  lua_setiuservalue(L, -2, 1);
  (void)module_push_sched(L);
  Sched *S = (Sched *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  page.watch = watch;
  page.outer = S->watch_hook;
  page.due = 0;
  S->watch_hook = &hook;
  strncpy(page.program, program, sizeof page.program - 1);
  page.control = lua_toboolean(L, 3);
  lua_pushliteral(L, "this page");
  return 2;
}

static int stop(lua_State *L) {
  (void)L;
  feed_free(&page.feed);
  view_free(&page.view);
  text_free(&page.message);
  text_free(&page.results);
  page.watch = NULL;
  return 0;
}

static int filling(lua_State *L) {
  lua_pushlightuserdata(L, &page.snapshot);
  return 1;
}

/* publish(server): that snapshot is complete: sends it. */
static int publish(lua_State *L) {
  (void)L;
  int64_t now = clock_ns(), share = page.snapshot.taken * SHARE;
  if (page.due < now + share) page.due = now + share;
  Text *to = &page.message;
  text_clear(to);
  text_puts(to, "{");
  if (!page.feed.begun) summary_hello(to, page.program, page.control, 0);
  text_puts(to, "\"r\":[");
  text_append(to, &page.results);
  text_puts(to, "],");
  text_clear(&page.results);
  bool has_view = view_make(&page.view, &page.snapshot);
  static const Runner nobody; /* no other thread looks */
  summary_add(to, page.watch, has_view ? &page.view : NULL, now, 0, &nobody, page.snapshot.turn, &nobody);
  feed_write(&page.feed, &page.view, to, BYTES_A_MESSAGE);
  text_puts(to, "}");
  if (!to->failed) page_message(bytes_first(&to->bytes), text_length(to));
  return 0;
}

/* ask(server): the snapshot is not complete: the watcher is called again soon. */
static int ask(lua_State *L) {
  (void)L;
  page.watch->ask(page.watch);
  return 0;
}

/* remind(server): see csrc/monitor/module.c. Here the watcher is called again in any case. */
static int remind(lua_State *L) {
  (void)L;
  return 0;
}

/* command(server) -> number, words... of the next command; or nothing */
static int command(lua_State *L) {
  size_t length;
  char *words = page_command(&length);
  if (!words) return 0;
  int n = 0;
  for (const char *at = words; at < words + length; at += strlen(at) + 1) {
    luaL_checkstack(L, 2, NULL);
    if (n++ == 0) lua_pushinteger(L, (lua_Integer)strtoll(at, NULL, 10));
    else lua_pushstring(L, at);
  }
  free(words);
  return n;
}

/* result(server, number, ok, lines...): the result of a command */
static int result(lua_State *L) {
  Text text = {0};
  summary_result(L, &text);
  text_puts(&page.results, text_length(&page.results) ? ",[" : "[");
  text_integer(&page.results, luaL_checkinteger(L, 2));
  text_puts(&page.results, ",");
  text_append(&page.results, &text);
  text_puts(&page.results, "]");
  text_free(&text);
  return 0;
}

int site_monitor_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"ask", ask},         {"command", command}, {"filling", filling},
                                       {"publish", publish}, {"remind", remind},   {"result", result},
                                       {"start", start},     {"stop", stop},       {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
