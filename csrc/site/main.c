/* main.c: runnel in a web page, compiled to WebAssembly: runs the text of a program in a worker of the page.
   `make site` builds it; csrc/site/runnel.site.lua does what is not C's. */
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/sleep.h"
#include "capi/api.h"
#include "capi/runnel.h"
#include "host/runtime/core.h"
#include "host/runtime/inspect.h"
#include "librunnel/modules.h"
#include "lua/module.h"
#include "lua/state/allocator.h"
#include "site/imports.h"
#include "site/monitor.h"

/* The modules of lua/runnel/host/ and csrc/site/: a generated array. */
extern const Module host_modules[];

/* Called by the page: runs the program and returns its exit status. Without a program it does nothing: emcc replaces
   the function of an export by the export itself at the first call, and the page needs that. */
int site_run(const char *code, const char *name, int monitored);

/* ---- what csrc/host/runtime/inspect.c needs of csrc/host/runtime/core.c ---- */

static Sched *sched;

/* Replaces lua/state/allocator.c (see site/site.mk). */
void allocator_install(lua_State *L) { (void)L; }

/* Replaces capi/functions.c: no C module can ask for functions here. */
void functions_open(lua_State *L) { (void)L; }

/* sigterm_watch(ch) -> nil: no SIGTERM comes to a page. */
static int sigterm_watch(lua_State *L) {
  (void)L;
  return 0;
}

/* Replace files of csrc/lua: a page has no threads, profiles, processes, descriptors and signals. */
void lua_blocking_open(lua_State *L) { (void)L; }
void lua_ending_open(lua_State *L) { (void)L; }
void lua_packing_open(lua_State *L) { (void)L; }
void lua_polled_open(lua_State *L) {
  lua_newtable(L);
  lua_setfield(L, -2, "descriptors");
}
void lua_pool_open(lua_State *L) { (void)L; }
void lua_profile_open(lua_State *L) { (void)L; }
void lua_resolver_open(lua_State *L) { (void)L; }
void lua_spawn_open(lua_State *L) { (void)L; }
void lua_sigterm_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"sigterm_watch", sigterm_watch}, {NULL, NULL}};
  module_register(L, functions);
}
void lua_thread_open(lua_State *L, lua_CFunction open_core) { (void)L, (void)open_core; }

Sched *core_sched(void) { return sched; }

void core_push_function(lua_State *L, lua_CFunction f) {
  (void)module_push_sched(L);
  lua_pushcclosure(L, f, 1);
}

/* ---- fetching ---- */

static struct Fetch {
  struct Fetch *next; /* the next pending one */
  runnel_port *port;  /* where the answer goes */
  int number;         /* names it to the page */
} * fetches;

/* A page's answer on its way to Lua. */
typedef struct Answer {
  char *body;    /* from malloc */
  size_t length; /* of the body */
  int status;    /* of HTTP; 0: a failure */
} Answer;

static void drop_answer(void *data) {
  Answer *answer = (Answer *)data;
  free(answer->body);
  free(answer);
}

/* Pushes { status, body }. */
static int push_answer(lua_State *L, void *data) {
  const Answer *answer = (const Answer *)data;
  lua_createtable(L, 2, 0);
  lua_pushinteger(L, answer->status);
  lua_rawseti(L, -2, 1);
  lua_pushlstring(L, answer->body, answer->length);
  lua_rawseti(L, -2, 2);
  drop_answer(data);
  return 1;
}

/* fetch(url, ch): puts { status, body } on the channel when the page has fetched the URL. */
static int fetch(lua_State *L) {
  const char *url = luaL_checkstring(L, 1);
  static int numbers;
  struct Fetch *one = malloc(sizeof *one);
  runnel_chan *ch;
  if (!one || runnel_chan_get(L, 2, &ch) != RUNNEL_OK) {
    free(one);
    return luaL_error(L, "fetch: not enough memory");
  }
  int code = runnel_port_open(L, ch, 1, RUNNEL_LEAVE_OPEN, &one->port);
  runnel_chan_release(L, ch);
  if (code != RUNNEL_OK) {
    free(one);
    return luaL_error(L, "fetch: %s", runnel_strerror(code));
  }
  one->number = ++numbers;
  one->next = fetches;
  fetches = one;
  page_fetch(one->number, url);
  return 0;
}

static void deliver(int number, const Answer *answer) {
  for (struct Fetch **at = &fetches; *at; at = &(*at)->next) {
    struct Fetch *one = *at;
    if (one->number != number) continue;
    Answer *copy = malloc(sizeof *copy);
    *at = one->next;
    if (copy) *copy = *answer;
    if (!copy || runnel_post_call(one->port, push_answer, drop_answer, copy) != RUNNEL_OK) {
      free(answer->body);
      free(copy);
    }
    runnel_port_close(one->port);
    runnel_port_release(one->port);
    free(one);
    return;
  }
  free(answer->body);
}

static void take_fetched(void) {
  Answer answer;
  int number;
  while (fetches && (number = page_fetched(&answer.status, &answer.body, &answer.length)) != 0)
    deliver(number, &answer);
}

/* ---- waiting ---- */

/* Replaces base/sleep.c. There are no descriptors to wait for. */
bool sleep_on(const int fds[SLEEP_FDS], int64_t ns, const sigset_t *blocked) {
  (void)fds, (void)blocked;
  double ms = ns < 0 ? 1e9 : (double)ns / 1e6;
  int64_t left = site_monitor_left();
  if (left >= 0 && (double)left / 1e6 < ms) ms = (double)left / 1e6;
  (void)fflush(stdout); /* an incomplete line */
  if (ms > 0) page_sleep(ms);
  take_fetched();
  return true;
}

/* ---- reading numbers ---- */

/* For Lua, which always asks for the end of the number. The C library's version computes with long doubles, which takes
   6 KB of the compressed module. */
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name)
double strtod(const char *restrict text, char **restrict end) { return page_number(text, end); }

/* ---- running a program ---- */

/* reaches() -> whether the page can reach the program while it runs */
static int reaches(lua_State *L) {
  lua_pushboolean(L, page_reaches());
  return 1;
}

/* module_text(name) -> the code of a module that few programs need, or nil */
static int module_text(lua_State *L) {
  size_t length = 0;
  char *code = page_module(luaL_checkstring(L, 1), &length);
  if (!code) return 0;
  lua_pushlstring(L, code, length);
  free(code);
  return 1;
}

/* story(json): the page draws the story of a simulated world (lua/runnel/search/world_story.lua) */
static int story(lua_State *L) {
  size_t length;
  const char *json = luaL_checklstring(L, 1, &length);
  page_story(json, length);
  return 0;
}

static int open_site(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"fetch", fetch}, {"module_text", module_text}, {"reaches", reaches}, {"story", story}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}

typedef struct Program {
  const char *code; /* its text */
  const char *name; /* its chunk name without the "@" */
  bool monitored;   /* a monitor shows it */
} Program;

/* Protected: (a Program) -> its exit status */
static int run(lua_State *L) {
  const Program *program = (const Program *)lua_touserdata(L, 1);
  static const luaL_Reg loaders[] = {{"runnel.site.core", open_site},
                                     {"runnel.monitor.core", site_monitor_open},
                                     {"runnel.host.inspect", inspect_open},
                                     {NULL, NULL}};
  luaL_openlibs(L);
  int code = runnel_open(L);
  if (code != RUNNEL_OK) return luaL_error(L, "cannot open the core: %s", runnel_strerror(code));
  modules_preload(L, host_modules);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  luaL_setfuncs(L, loaders, 0);
  (void)module_push_sched(L);
  sched = (Sched *)lua_touserdata(L, -1);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "runnel.site");
  lua_call(L, 1, 1);
  lua_pushstring(L, program->code);
  lua_pushstring(L, program->name);
  lua_pushboolean(L, program->monitored);
  lua_call(L, 3, 1);
  return 1;
}

int site_run(const char *code, const char *name, int monitored) {
  Program program = {code, name, monitored != 0};
  lua_State *L = code ? luaL_newstate() : NULL;
  if (!L) return 1;
  (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  lua_pushcfunction(L, run);
  lua_pushlightuserdata(L, &program);
  int status = 1;
  if (lua_pcall(L, 1, 1, 0) == LUA_OK) status = (int)lua_tointeger(L, -1);
  else (void)fprintf(stderr, "runnel: %s\n", lua_tostring(L, -1));
  (void)fflush(stdout);
  lua_close(L);
  (void)fflush(stdout);
  return status;
}
