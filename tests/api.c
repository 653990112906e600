/* api: tests the C API.

     api [NAME...]

   Runs the tests whose names begin with one of NAMES, or all. Those whose names begin with "threads" are for the thread
   sanitizer. */
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "capi/capi.h"
#include "memory.h"

/* ---- helpers ---- */

/* Returns a handle to the channel in a global variable. */
static runnel_chan *chan(lua_State *L, const char *name) {
  runnel_chan *ch = NULL;
  lua_getglobal(L, name);
  OK(runnel_chan_get(L, -1, &ch));
  lua_pop(L, 1);
  return ch;
}

static lua_Integer global(lua_State *L, const char *name) {
  lua_getglobal(L, name);
  lua_Integer n = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return n;
}

/* Steps until nothing is ready. */
static void settle(lua_State *L) {
  int64_t next = 0;
  while (next == 0) CHECK(runnel_step(L, 1000, &next) >= RUNNEL_OK);
}

static bool readable(int fd) {
  struct pollfd p = {.fd = fd, .events = POLLIN};
  return poll(&p, 1, 0) == 1;
}

static void pause_ms(long ms) { pause_us(ms * 1000); }

static int64_t now_us(void) {
  struct timespec ts;
  (void)clock_gettime(CLOCK_MONOTONIC, &ts);
  return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* ---- opening ---- */

static void open_needs_no_path(void) {
  lua_State *L = open_state();
  OK(runnel_open(L));
  CHECK(lua_gettop(L) == 0);
  lua(L, "assert(require 'runnel.core'.chan == rn.chan)");
  lua(L, "local sim = require 'runnel.sim'; sim.run(function() rn.sleep(1000) end); assert(sim.elapsed() == 1000)");
  lua(L, "assert(rn.run(function() return rn.into({}, rn.map(math.max, {rn.to_chan{1,2}, rn.to_chan{2,1}})):take()[2] "
         "end) == 2)");
  lua(L, "local ok, err = pcall(rn.mult); assert(err:find 'channel expected')");
  CHECK(strcmp(runnel_version(), RUNNEL_VERSION) == 0);
  lua_close(L);
}

static void open_without_libraries(void) {
  lua_State *L = luaL_newstate();
  OK(runnel_open(L));
  runnel_chan *ch = NULL;
  OK(runnel_chan_new(L, RUNNEL_FIXED, 1, &ch));
  OK(runnel_offer_integer(L, ch, 1));
  OK(runnel_poll(L, ch));
  CHECK(lua_tointeger(L, -1) == 1);
  lua_close(L);
}

static void open_refuses(void) {
  runnel_chan *ch = NULL;
  int64_t next;
  int fd;
  IS(RUNNEL_BAD_ARGUMENT, runnel_open(NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_step(NULL, 1, NULL));
  CHECK(!runnel_message(NULL));
  lua_State *L = luaL_newstate();
  IS(RUNNEL_NOT_OPEN, runnel_step(L, 1, NULL));
  IS(RUNNEL_NOT_OPEN, runnel_next(L, &next));
  IS(RUNNEL_NOT_OPEN, runnel_fd(L, &fd));
  IS(RUNNEL_NOT_OPEN, runnel_chan_new(L, RUNNEL_FIXED, 0, &ch));
  lua_pushinteger(L, 1);
  IS(RUNNEL_NOT_OPEN, runnel_offer(L, ch));
  CHECK(lua_gettop(L) == 0 && !runnel_message(L));
  lua_newtable(L); /* as another copy of the core would leave it */
  lua_setfield(L, LUA_REGISTRYINDEX, "runnel.core");
  IS(RUNNEL_FOREIGN, runnel_open(L));
  CHECK(lua_gettop(L) == 0);
  lua_close(L);
  L = luaL_newstate();
  luaL_openlibs(L);
  lua(L, "package.loaded['runnel.core'] = {}");
  IS(RUNNEL_FOREIGN, runnel_open(L));
  CHECK(lua_gettop(L) == 0);
  lua_close(L);
}

/* Protected: gets the functions for C modules, and uses them. */
static int use_functions(lua_State *L) {
  const runnel_functions *rn = runnel_get_functions(L);
  runnel_chan *ch = NULL;
  runnel_port *port = NULL;
  OK(rn->chan_new(L, RUNNEL_FIXED, 1, &ch));
  OK(rn->port_open(L, ch, 1, RUNNEL_LEAVE_OPEN, &port));
  OK(rn->post_integer(port, 42));
  OK(runnel_step(L, 10, NULL));
  OK(rn->poll(L, ch));
  OK(rn->port_release(port));
  return 1;
}

/* What use_functions raises when the registry has this table. */
static void functions_fail(lua_State *L, const runnel_functions *functions, const char *text) {
  lua_pushlightuserdata(L, (void *)(uintptr_t)functions);
  lua_setfield(L, LUA_REGISTRYINDEX, RUNNEL_FUNCTIONS_KEY);
  lua_pushcfunction(L, use_functions);
  CHECK(lua_pcall(L, 0, 1, 0) != LUA_OK);
  if (!strstr(lua_tostring(L, -1), text)) FAIL("%s", lua_tostring(L, -1));
  lua_pop(L, 1);
}

static void functions_for_modules(void) {
  lua_State *L = open_state();
  lua_pushcfunction(L, use_functions);
  CHECK(lua_pcall(L, 0, 1, 0) == LUA_OK && lua_tointeger(L, -1) == 42);
  lua_pop(L, 1);
  runnel_functions other = *runnel_get_functions(L);
  other.version++;
  functions_fail(L, &other, "compiled for version 1 of runnel's functions");
  other.version--;
  other.size -= sizeof(void *);
  functions_fail(L, &other, "compile the module with its runnel.h");
  functions_fail(L, NULL, "which is not loaded: require \"runnel\" before it");
  lua_close(L);
}

/* ---- tasks ---- */

static void add_one(void *data) { ++*(int *)data; }

/* Lua: add(task): puts it off */
static int add_task(lua_State *L) {
  OK(runnel_task_add(L, (runnel_task *)lua_touserdata(L, 1)));
  return 0;
}

/* Lua: cancel(task) */
static int cancel_task(lua_State *L) {
  OK(runnel_task_cancel((runnel_task *)lua_touserdata(L, 1)));
  return 0;
}

/* Lua: count(task) -> how often it was run */
static int count_task(lua_State *L) {
  lua_pushinteger(L, *(int *)((runnel_task *)lua_touserdata(L, 1))->data);
  return 1;
}

static void tasks_run_before_the_wait(void) {
  lua_State *L = open_state();
  int counts[3] = {0};
  runnel_task tasks[3];
  static const char *const names[] = {"a", "b", "c"};
  for (int i = 0; i < 3; i++) {
    tasks[i] = (runnel_task){.run = add_one, .data = &counts[i]};
    lua_pushlightuserdata(L, &tasks[i]);
    lua_setglobal(L, names[i]);
  }
  lua_register(L, "add", add_task);
  lua_register(L, "cancel", cancel_task);
  lua_register(L, "count", count_task);
  IS(RUNNEL_IDLE, runnel_task_add(L, &tasks[0]));
  IS(RUNNEL_BAD_ARGUMENT, runnel_task_add(L, NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_task_add(L, &(runnel_task){.data = NULL}));
  IS(RUNNEL_BAD_ARGUMENT, runnel_task_cancel(NULL));
  OK(runnel_task_cancel(&tasks[0]));
  lua(L, "rn.go(function() add(a) add(a) add(b) add(c) cancel(b) end)"
         "rn.go(function() assert(count(a) == 0 and count(c) == 0) end)");
  settle(L);
  CHECK(counts[0] == 1 && counts[1] == 0 && counts[2] == 1);
  lua(L, "rn.run(function() add(b) rn.sleep(1) assert(count(b) == 1) add(a) end)");
  CHECK(counts[0] == 2 && counts[1] == 1);
  /* A go block that is always ready does not put it off for long. */
  lua(L, "rn.run(function() add(c) local t = rn.now() while count(c) == 1 and rn.now() - t < 10000 do rn.yield() end "
         "assert(count(c) == 2) end)");
  /* Nor does a main program that takes what several ready go blocks put have it run after each of them. */
  lua(L, "local ch = rn.chan() for i = 1, 3 do rn.go(function() add(b) ch:put(i) end) end "
         "for i = 1, 3 do assert(count(b) == 1) ch:take() end assert(count(b) == 2)");
  lua_close(L);
}

/* ---- readers ---- */

typedef struct Reading {
  int fd;            /* a pipe's end */
  int calls;         /* how often `ready` was called */
  bool reads;        /* `ready` reads a byte */
  runnel_port *port; /* `ready` posts to it; or NULL */
} Reading;

static void note_reading(void *data) {
  Reading *reading = (Reading *)data;
  char byte;
  reading->calls++;
  if (reading->reads) CHECK(read(reading->fd, &byte, 1) == 1);
  if (reading->port) OK(runnel_post_integer(reading->port, reading->calls));
}

static bool is_readable(int fd) {
  struct pollfd polled = {.fd = fd, .events = POLLIN};
  return poll(&polled, 1, 0) == 1;
}

static void readers_are_called_in_steps(void) {
  lua_State *L = open_state();
  int ends[2], fd;
  int64_t next;
  runnel_reader *reader = NULL;
  CHECK(pipe(ends) == 0);
  Reading reading = {.fd = ends[0]};
  IS(RUNNEL_BAD_ARGUMENT, runnel_reader_open(L, NULL, &reading, &reader));
  IS(RUNNEL_BAD_ARGUMENT, runnel_reader_open(L, note_reading, &reading, NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_reader_watch(NULL, ends[0]));
  IS(RUNNEL_BAD_ARGUMENT, runnel_reader_close(NULL));
  OK(runnel_fd(L, &fd));
  int code = runnel_reader_open(L, note_reading, &reading, &reader);
  if (code == RUNNEL_IDLE) { /* not on Linux */
    lua_close(L);
    return;
  }
  OK(code);
  IS(RUNNEL_RAISED, runnel_reader_watch(reader, 1000000));
  OK(runnel_reader_watch(reader, ends[0]));
  (void)runnel_step(L, 1, &next);
  CHECK(reading.calls == 0 && !is_readable(fd));
  CHECK(write(ends[1], "ab", 2) == 2);
  CHECK(is_readable(fd)); /* the descriptor that a host got before there was a reader */
  (void)runnel_step(L, 1, &next);
  CHECK(reading.calls == 1 && is_readable(fd)); /* it has read nothing */
  reading.reads = true;
  for (int i = 2; i <= 4; i++) {
    (void)runnel_step(L, 1, &next);
    CHECK(reading.calls == (i < 3 ? i : 3));
  }
  CHECK(!is_readable(fd));
  CHECK(write(ends[1], "c", 1) == 1);
  OK(runnel_reader_watch(reader, -1));
  CHECK(!is_readable(fd));
  (void)runnel_step(L, 1, &next);
  CHECK(reading.calls == 3);
  OK(runnel_reader_watch(reader, ends[0]));
  (void)runnel_step(L, 1, &next);
  CHECK(reading.calls == 4);
  OK(runnel_reader_close(reader));
  CHECK(write(ends[1], "d", 1) == 1);
  (void)runnel_step(L, 1, &next);
  CHECK(reading.calls == 4 && !is_readable(fd));
  (void)close(ends[0]);
  (void)close(ends[1]);
  lua_close(L);
}

static void readers_end_a_wait_and_post(void) {
  lua_State *L = open_state();
  int ends[2];
  runnel_chan *ch = NULL;
  runnel_reader *reader = NULL;
  CHECK(pipe(ends) == 0);
  Reading reading = {.fd = ends[0], .reads = true};
  if (runnel_reader_open(L, note_reading, &reading, &reader) != RUNNEL_OK) {
    lua_close(L);
    return;
  }
  OK(runnel_reader_watch(reader, ends[0]));
  OK(runnel_chan_new(L, RUNNEL_FIXED, 0, &ch));
  OK(runnel_port_open(L, ch, 2, RUNNEL_LEAVE_OPEN, &reading.port));
  OK(runnel_chan_push(L, ch));
  lua_setglobal(L, "ch");
  CHECK(write(ends[1], "ab", 2) == 2);
  lua(L, "assert(ch:take() == 1 and ch:take() == 2)"); /* else it would wait for ever */
  CHECK(reading.calls == 2);
  OK(runnel_chan_release(L, ch));
  lua_close(L);
  OK(runnel_reader_watch(reader, -1));
  OK(runnel_reader_close(reader)); /* also when the state is closed */
  OK(runnel_port_release(reading.port));
  (void)close(ends[0]);
  (void)close(ends[1]);
}

static void codes_have_texts(void) {
  for (int code = RUNNEL_FOREIGN; code <= RUNNEL_CLOSED; code++) {
    for (int other = RUNNEL_FOREIGN; other < code; other++) {
      CHECK(strcmp(runnel_strerror(code), runnel_strerror(other)) != 0);
    }
  }
  CHECK(strstr(runnel_strerror(RUNNEL_CLOSED + 1), "unknown code"));
  CHECK(strstr(runnel_strerror(RUNNEL_FOREIGN - 1), "unknown code"));
}

/* ---- channels ---- */

static void chan_values(void) {
  lua_State *L = open_state();
  runnel_chan *ch = NULL;
  OK(runnel_chan_new(L, RUNNEL_FIXED, 5, &ch));
  OK(runnel_offer_boolean(L, ch, 7));
  OK(runnel_offer_integer(L, ch, LUA_MININTEGER));
  OK(runnel_offer_number(L, ch, 0.5));
  OK(runnel_offer_bytes(L, ch, "a\0b", 3));
  lua_newtable(L);
  OK(runnel_offer(L, ch));
  CHECK(lua_gettop(L) == 0);
  IS(RUNNEL_FULL, runnel_offer_integer(L, ch, 1));
  lua_pushinteger(L, 1);
  IS(RUNNEL_FULL, runnel_offer(L, ch));
  CHECK(lua_gettop(L) == 0);
  for (int i = 0; i < 5; i++) OK(runnel_poll(L, ch));
  CHECK(lua_gettop(L) == 5 && lua_isboolean(L, 1) && lua_toboolean(L, 1));
  CHECK(lua_isinteger(L, 2) && lua_tointeger(L, 2) == LUA_MININTEGER);
  CHECK(!lua_isinteger(L, 3) && lua_tonumber(L, 3) == 0.5);
  CHECK(lua_rawlen(L, 4) == 3 && memcmp(lua_tostring(L, 4), "a\0b", 3) == 0);
  CHECK(lua_istable(L, 5));
  IS(RUNNEL_EMPTY, runnel_poll(L, ch));
  CHECK(lua_gettop(L) == 5);
  OK(runnel_offer_bytes(L, ch, NULL, 0));
  OK(runnel_poll(L, ch));
  CHECK(lua_rawlen(L, 6) == 0);
  lua_close(L);
}

static void chan_closing(void) {
  lua_State *L = open_state();
  runnel_chan *ch = NULL;
  OK(runnel_chan_new(L, RUNNEL_FIXED, 1, &ch));
  OK(runnel_offer_integer(L, ch, 1));
  OK(runnel_chan_close(L, ch, "power cut"));
  OK(runnel_chan_close(L, ch, NULL));
  IS(RUNNEL_CLOSED, runnel_offer_integer(L, ch, 2));
  OK(runnel_poll(L, ch));
  IS(RUNNEL_CLOSED, runnel_poll(L, ch));
  CHECK(lua_gettop(L) == 1);
  CHECK(strcmp(runnel_message(L), "power cut") == 0);
  runnel_chan *other = NULL;
  OK(runnel_chan_new(L, RUNNEL_FIXED, 0, &other));
  OK(runnel_chan_close(L, other, NULL));
  IS(RUNNEL_CLOSED, runnel_poll(L, other));
  CHECK(!runnel_message(L));
  lua(L, "timeout, done = rn.timeout(1000), rn.chan():done()");
  IS(RUNNEL_BAD_ARGUMENT, runnel_chan_close(L, chan(L, "timeout"), NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_chan_close(L, chan(L, "done"), NULL));
  lua_close(L);
}

static void chan_between_c_and_lua(void) {
  lua_State *L = open_state();
  runnel_chan *in = NULL, *out = NULL;
  OK(runnel_chan_new(L, RUNNEL_SLIDING, 2, &in));
  OK(runnel_chan_new(L, RUNNEL_DROPPING, 2, &out));
  OK(runnel_chan_push(L, in));
  lua_setglobal(L, "input");
  OK(runnel_chan_push(L, out));
  lua_setglobal(L, "output");
  for (int i = 1; i <= 3; i++) OK(runnel_offer_integer(L, in, i));
  OK(runnel_chan_close(L, in, NULL));
  lua(L, "rn.go(function() for v in input do output:put(v * 10) end output:put 'more' output:close() end)");
  settle(L);
  OK(runnel_poll(L, out));
  OK(runnel_poll(L, out));
  CHECK(lua_tointeger(L, 1) == 20 && lua_tointeger(L, 2) == 30);
  IS(RUNNEL_CLOSED, runnel_poll(L, out));
  lua_close(L);
}

/* A foreign userdata may have the memory of a channel that was collected, and not initialize it. */
static void chan_foreign_memory(void) {
  lua_State *L = open_state();
  lua(L, "ch = rn.chan()");
  lua_getglobal(L, "ch");
  size_t size = lua_rawlen(L, -1);
  void *foreign = lua_newuserdatauv(L, size, 0);
  memcpy(foreign, lua_touserdata(L, -2), size);
  lua_setglobal(L, "foreign");
  lua_pop(L, 1);
  lua(L, "assert(rn.is_chan(ch) and not rn.is_chan(foreign))");
  lua(L, "debug.setmetatable(foreign, {}) assert(not rn.is_chan(foreign))");
  lua_close(L);
}

static void chan_bad_input(void) {
  lua_State *L = open_state();
  runnel_chan *ch = NULL, *same = NULL;
  IS(RUNNEL_BAD_ARGUMENT, runnel_chan_new(L, RUNNEL_FIXED, 0, NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_chan_new(L, RUNNEL_SLIDING, 0, &ch));
  IS(RUNNEL_BAD_ARGUMENT, runnel_chan_new(L, RUNNEL_FIXED, (size_t)-1, &ch));
  IS(RUNNEL_BAD_ARGUMENT, runnel_chan_new(L, 17, 1, &ch));
  IS(RUNNEL_BAD_ARGUMENT, runnel_chan_new(L, -1, 1, &ch));
  IS(RUNNEL_BAD_ARGUMENT, runnel_chan_push(L, NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_poll(L, NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_chan_release(L, NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_chan_close(L, NULL, NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_offer_integer(L, NULL, 1));
  IS(RUNNEL_BAD_ARGUMENT, runnel_offer(L, NULL)); /* the stack is empty */
  lua_pushliteral(L, "a string");
  lua_newuserdatauv(L, 1, 0);
  lua_pushlightuserdata(L, L);
  IS(RUNNEL_BAD_ARGUMENT, runnel_chan_get(L, 1, &ch));
  IS(RUNNEL_BAD_ARGUMENT, runnel_chan_get(L, 2, &ch));
  IS(RUNNEL_BAD_ARGUMENT, runnel_chan_get(L, 3, &ch));
  IS(RUNNEL_BAD_ARGUMENT, runnel_chan_get(L, 9, &ch));
  IS(RUNNEL_BAD_ARGUMENT, runnel_chan_get(NULL, 1, &ch));
  IS(RUNNEL_BAD_ARGUMENT, runnel_chan_get(L, 1, NULL));
  CHECK(lua_gettop(L) == 3);
  lua_settop(L, 0);
  OK(runnel_chan_new(L, RUNNEL_FIXED, 1, &ch));
  lua_pushnil(L);
  IS(RUNNEL_BAD_ARGUMENT, runnel_offer(L, ch));
  IS(RUNNEL_BAD_ARGUMENT, runnel_offer_bytes(L, ch, NULL, 1));
  IS(RUNNEL_EMPTY, runnel_poll(L, ch));
  OK(runnel_chan_push(L, ch));
  OK(runnel_chan_get(L, -1, &same));
  OK(runnel_chan_release(L, ch));
  IS(RUNNEL_BAD_ARGUMENT, runnel_chan_release(L, ch));
  IS(RUNNEL_BAD_ARGUMENT, runnel_offer_integer(L, ch, 1));
  OK(runnel_offer_integer(L, same, 1));
  CHECK(lua_gettop(L) == 1);
  /* A buffer policy that raises an error for a value. */
  lua(L, "bad = rn.chan { full = function() error 'no idea' end, add = print, remove = print, count = function() "
         "return 0 end }");
  IS(RUNNEL_RAISED, runnel_offer_integer(L, chan(L, "bad"), 1));
  CHECK(strstr(runnel_message(L), "no idea"));
  lua_close(L);
}

static void chan_on_a_full_stack(void) {
  lua_State *L = open_state();
  runnel_chan *ch = NULL, *same = NULL;
  int64_t next;
  OK(runnel_chan_new(L, RUNNEL_FIXED, 1, &ch));
  OK(runnel_chan_push(L, ch));
  for (int i = 0; i < 2; i++) { /* the first failure makes some more room in newer releases of Lua 5.4 */
    while (lua_checkstack(L, 1)) lua_pushboolean(L, 1);
  }
  int top = lua_gettop(L);
  IS(RUNNEL_NO_MEMORY, runnel_open(L));
  IS(RUNNEL_NO_MEMORY, runnel_chan_get(L, 1, &same));
  IS(RUNNEL_NO_MEMORY, runnel_chan_push(L, ch));
  IS(RUNNEL_NO_MEMORY, runnel_next(L, &next));
  CHECK(!runnel_message(L) && lua_gettop(L) == top);
  IS(RUNNEL_NO_MEMORY, runnel_offer(L, ch)); /* pops the value, as always */
  CHECK(lua_gettop(L) == top - 1);
  lua_settop(L, 0);
  IS(RUNNEL_EMPTY, runnel_poll(L, ch));
  lua_close(L);
}

static void chan_is_held(void) {
  lua_State *L = open_state();
  runnel_chan *ch = NULL;
  lua(L, "collected = setmetatable({}, {__mode = 'k'})");
  OK(runnel_chan_new(L, RUNNEL_FIXED, 1, &ch));
  OK(runnel_chan_push(L, ch));
  lua_setglobal(L, "held");
  lua(L, "collected[held] = true; held = nil; collectgarbage() collectgarbage() assert(next(collected))");
  OK(runnel_chan_release(L, ch));
  lua(L, "collectgarbage() collectgarbage() assert(not next(collected))");
  lua_close(L);
}

/* ---- running ---- */

/* (): calls runnel_step and returns its code. */
static int step_from_lua(lua_State *L) {
  lua_pushinteger(L, runnel_step(L, 1, NULL));
  return 1;
}

static void step_by_resumes(void) {
  lua_State *L = open_state();
  int64_t next = 99;
  IS(RUNNEL_IDLE, runnel_step(L, 10, &next));
  CHECK(next == -1);
  IS(RUNNEL_IDLE, runnel_next(L, &next));
  lua(L, "n = 0; for _ = 1, 10 do rn.go(function() n = n + 1 end) end");
  OK(runnel_next(L, &next));
  CHECK(next == 0);
  OK(runnel_step(L, 4, &next));
  CHECK(next == 0 && global(L, "n") == 4);
  OK(runnel_step(L, 0, NULL));
  CHECK(global(L, "n") == 4);
  IS(RUNNEL_IDLE, runnel_step(L, INT64_MAX, &next));
  CHECK(next == -1 && global(L, "n") == 10);
  lua(L, "late = rn.go(function() rn.sleep(60000) end)");
  OK(runnel_step(L, 100, &next));
  CHECK(next > 0 && next <= 60000000);
  int64_t again;
  OK(runnel_next(L, &again));
  CHECK(again > 0 && again <= next);
  lua(L, "rn.cancel(late) late:take() rn.go(function() rn.sleep(5) n = 11 end)");
  CHECK(runnel_step(L, 100, &next) >= RUNNEL_OK);
  pause_ms(10);
  IS(RUNNEL_IDLE, runnel_step(L, 100, &next));
  CHECK(global(L, "n") == 11);
  CHECK(lua_gettop(L) == 0);
  lua_close(L);
}

/* A timeout counts while something waits on it. */
static void step_with_a_timeout(void) {
  lua_State *L = open_state();
  int64_t next = 99;
  lua(L, "late, other = rn.timeout(60000), rn.chan()");
  IS(RUNNEL_IDLE, runnel_step(L, 10, &next));
  CHECK(next == -1);
  IS(RUNNEL_IDLE, runnel_take(L, chan(L, "other"), -1));
  lua(L, "rn.go(function() rn.alts { late, other } end)");
  OK(runnel_step(L, 10, &next));
  CHECK(next > 0 && next <= 60010000);
  lua(L, "other:put(1)");
  IS(RUNNEL_IDLE, runnel_step(L, 10, &next));
  IS(RUNNEL_IDLE, runnel_next(L, &next));
  CHECK(next == -1 && lua_gettop(L) == 0);
  lua_close(L);
}

static void step_by_time(void) {
  lua_State *L = open_state();
  int64_t next;
  lua(L, "n, ticks = 0, 0; rn.go(function() while true do n = n + 1 rn.yield() end end)"
         "rn.go(function() while true do rn.sleep(1) ticks = ticks + 1 end end)");
  /* A busy go block does not starve timers. Other processes may have the processor for most of the time. */
  for (int i = 0; i < 100 && (i == 0 || global(L, "n") <= 100 || global(L, "ticks") < 1); i++) {
    int64_t begun = now_us();
    OK(runnel_step_for(L, 20000, &next));
    int64_t took = now_us() - begun;
    CHECK(took >= 20000 && next == 0);
  }
  CHECK(global(L, "n") > 100);
  CHECK(global(L, "ticks") >= 1);
  lua_Integer n = global(L, "n");
  OK(runnel_step_for(L, 0, NULL)); /* resumes one go block even so, to make progress */
  CHECK(global(L, "n") - n <= 1);
  OK(runnel_step(L, 2, NULL));
  CHECK(global(L, "n") > n);
  lua_close(L);
}

static void step_reports_errors(void) {
  lua_State *L = open_state();
  int64_t next;
  lua(L, "reports = 0; rn.on_error(function() reports = reports + 1 end)"
         "require 'runnel.core'.internal.grace(1000) result = rn.go(error, 'oops')");
  IS(RUNNEL_IDLE, runnel_step(L, 100, &next));
  CHECK(next > 0 && next <= 1000000 && global(L, "reports") == 0); /* somebody may still take it */
  pause_ms(1005);
  IS(RUNNEL_IDLE, runnel_next(L, &next));
  CHECK(next == 0);
  IS(RUNNEL_IDLE, runnel_step(L, 100, &next));
  CHECK(next == -1 && global(L, "reports") == 1);
  lua_close(L);
}

static void step_bad_input(void) {
  lua_State *L = open_state();
  int64_t next;
  IS(RUNNEL_BAD_ARGUMENT, runnel_step(L, -1, NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_step_for(L, -1, NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_next(L, NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_fd(L, NULL));
  lua_register(L, "step", step_from_lua);
  lua(L, "rn.go(function() code = step() end)");
  IS(RUNNEL_IDLE, runnel_step_for(L, INT64_MAX, &next));
  CHECK(global(L, "code") == RUNNEL_RUNNING);
  lua(L, "local ch = rn.chan(1, rn.xf.map(function(v) code = step() return v end)) code = 0 ch:put(1)");
  CHECK(global(L, "code") == RUNNEL_RUNNING);
  lua(L, "coroutine.wrap(function() assert(step() == 1) end)()");
  lua(L, "rn.driver { wait = function() error { code = 7 } end, alive = function() return false end }");
  IS(RUNNEL_RAISED, runnel_step(L, 1, NULL));
  CHECK(strstr(runnel_message(L), "table:"));
  CHECK(lua_gettop(L) == 0);
  lua_close(L);
}

static void go_from_c(void) {
  lua_State *L = open_state();
  runnel_chan *result = NULL;
  lua_getglobal(L, "math");
  lua_getfield(L, -1, "max");
  lua_replace(L, 1);
  lua_pushinteger(L, 3);
  lua_pushinteger(L, 5);
  OK(runnel_go(L, 2, &result));
  CHECK(lua_gettop(L) == 0);
  IS(RUNNEL_EMPTY, runnel_poll(L, result));
  settle(L);
  OK(runnel_poll(L, result));
  CHECK(lua_tointeger(L, -1) == 5);
  lua_settop(L, 0);
  lua_pushinteger(L, 5);
  IS(RUNNEL_BAD_ARGUMENT, runnel_go(L, 0, NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_go(L, 0, NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_go(L, -1, NULL));
  lua(L, "callable = setmetatable({}, { __call = function(_, n) called = n end })");
  lua_getglobal(L, "callable");
  lua_pushinteger(L, 7);
  OK(runnel_go(L, 1, NULL));
  settle(L);
  CHECK(lua_gettop(L) == 0 && global(L, "called") == 7);
  lua(L, "rn.on_error(function(e) heard = tostring(e) end)");
  lua_getglobal(L, "error");
  lua_pushliteral(L, "oh");
  OK(runnel_go(L, 1, &result));
  settle(L);
  lua(L, "assert(heard == nil)"); /* it may still be taken */
  IS(RUNNEL_CLOSED, runnel_poll(L, result));
  CHECK(strcmp(runnel_message(L), "oh") == 0);
  lua(L, "core = require 'runnel.core' core.internal.report_unhandled() assert(heard == nil)");
  lua_getglobal(L, "error");
  lua_pushliteral(L, "ah");
  OK(runnel_go(L, 1, NULL));
  settle(L);
  lua(L, "core.internal.report_unhandled() assert(heard == 'ah')");
  lua_close(L);
}

/* ---- ports, in one thread ---- */

static void set_shared(lua_State *L, const char *name, runnel_shared *sh) {
  OK(runnel_shared_push(L, sh));
  lua_setglobal(L, name);
}

static int push_pair(lua_State *L, void *data) {
  lua_createtable(L, 2, 0);
  lua_pushinteger(L, *(int *)data);
  lua_rawseti(L, -2, 1);
  return 1;
}

static int push_nothing(lua_State *L, void *data) {
  (void)L;
  (void)data;
  return 0;
}

static int push_nil(lua_State *L, void *data) {
  (void)data;
  lua_pushnil(L);
  return 1;
}

static int push_error(lua_State *L, void *data) { return luaL_error(L, "no value for %d", *(int *)data); }

static int push_by_waiting(lua_State *L, void *data) {
  (void)data;
  lua(L, "local ok, err = pcall(function() rn.chan():take() end) waiting = err");
  lua_pushboolean(L, 1);
  return 1;
}

static void count_drop(void *data) { ++*(int *)data; }

static void port_carries(void) {
  lua_State *L = open_state();
  runnel_port *port = NULL;
  lua(L, "ch, got = rn.chan(), {}; rn.go(function() for v in ch do got[#got + 1] = v end finished = true end)"
         "rn.on_error(function(err) heard = err end)");
  OK(runnel_port_open(L, chan(L, "ch"), 100, RUNNEL_CLOSE_CHANNEL, &port));
  CHECK(lua_gettop(L) == 0);
  char big[1000];
  memset(big, 'x', sizeof big);
  int number = 7, drops = 0;
  OK(runnel_post_integer(port, 1));
  OK(runnel_post_number(port, 2.5));
  OK(runnel_post_boolean(port, 3));
  OK(runnel_post_bytes(port, "\0four", 5));
  OK(runnel_post_bytes(port, NULL, 0));
  OK(runnel_post_bytes(port, big, sizeof big));
  OK(runnel_post_bytes(port, big, 24));
  OK(runnel_post_bytes(port, big, 25));
  OK(runnel_post_call(port, push_nothing, count_drop, &drops));
  OK(runnel_post_call(port, push_nil, count_drop, &drops));
  OK(runnel_post_call(port, push_error, count_drop, &number));
  OK(runnel_post_call(port, push_by_waiting, count_drop, &drops));
  OK(runnel_post_call(port, push_pair, count_drop, &number));
  settle(L);
  lua(L,
      "assert(#got == 10, #got) assert(got[1] == 1 and math.type(got[1]) == 'integer' and got[2] == 2.5 and got[3] == "
      "true)"
      "assert(got[4] == '\\0four' and got[5] == '' and got[6] == ('x'):rep(1000) and #got[7] == 24 and #got[8] == 25)"
      "assert(got[9] == true and got[10][1] == 7)"
      "assert(heard == 'no value for 7') assert(waiting:find 'inside a callback of a port', waiting)"
      "assert(not finished)");
  CHECK(drops == 0 && number == 7);
  OK(runnel_post_integer(port, 11));
  OK(runnel_port_close(port));
  OK(runnel_port_close(port));
  IS(RUNNEL_CLOSED, runnel_post_integer(port, 12));
  IS(RUNNEL_CLOSED, runnel_post_call(port, push_pair, count_drop, &drops));
  IS(RUNNEL_CLOSED, runnel_port_wait(port));
  settle(L);
  lua(L, "assert(got[11] == 11 and #got == 11 and finished)");
  CHECK(drops == 0);
  IS(RUNNEL_IDLE, runnel_step(L, 1, NULL));
  OK(runnel_port_release(port));
  lua_close(L);
}

static void port_is_bounded(void) {
  lua_State *L = open_state();
  runnel_port *port = NULL;
  lua(L, "ch = rn.chan(2)");
  OK(runnel_port_open(L, chan(L, "ch"), 3, RUNNEL_LEAVE_OPEN, &port));
  for (int i = 1; i <= 3; i++) OK(runnel_post_integer(port, i));
  IS(RUNNEL_FULL, runnel_post_integer(port, 99));
  IS(RUNNEL_FULL, runnel_post_bytes(port, "a string that is longer than a message", 38));
  settle(L); /* two are in the buffer, the put of the third waits */
  OK(runnel_post_integer(port, 4));
  OK(runnel_post_integer(port, 5));
  IS(RUNNEL_FULL, runnel_post_integer(port, 99));
  lua(L, "assert(ch:take() == 1)");
  settle(L);
  OK(runnel_post_integer(port, 6));
  IS(RUNNEL_FULL, runnel_post_integer(port, 99));
  lua(L, "for i = 2, 6 do assert(ch:take() == i) end");
  settle(L);
  lua(L, "assert(ch:poll() == nil and not ch:closed())");
  OK(runnel_port_wait(port));
  OK(runnel_port_release(port)); /* the last reference: the port closes */
  settle(L);
  lua(L, "assert(not ch:closed()) assert(#rn.ps() == 0)");
  IS(RUNNEL_IDLE, runnel_step(L, 1, NULL));
  lua_close(L);
}

static void port_closes_with_its_channel(void) {
  lua_State *L = open_state();
  runnel_port *port = NULL;
  int drops = 0;
  lua(L, "ch = rn.chan()");
  OK(runnel_port_open(L, chan(L, "ch"), 3, RUNNEL_LEAVE_OPEN, &port));
  OK(runnel_step(L, 10, NULL));
  lua(L, "ch:close()");
  IS(RUNNEL_IDLE, runnel_step(L, 10, NULL));
  IS(RUNNEL_CLOSED, runnel_post_integer(port, 1));
  OK(runnel_port_release(port));
  /* The channel closes while a put waits and more messages follow. */
  lua(L, "ch = rn.chan()");
  OK(runnel_port_open(L, chan(L, "ch"), 3, RUNNEL_LEAVE_OPEN, &port));
  OK(runnel_post_integer(port, 1));
  OK(runnel_post_call(port, push_pair, count_drop, &drops));
  OK(runnel_step(L, 10, NULL));
  OK(runnel_post_call(port, push_pair, count_drop, &drops));
  lua(L, "ch:close() assert(ch:take() == 1)"); /* a put that waits can still be taken */
  IS(RUNNEL_IDLE, runnel_step(L, 10, NULL));
  CHECK(drops == 2);
  IS(RUNNEL_CLOSED, runnel_post_integer(port, 1));
  OK(runnel_port_release(port));
  /* The channel is already closed. */
  IS(RUNNEL_CLOSED, runnel_port_open(L, chan(L, "ch"), 3, RUNNEL_LEAVE_OPEN, &port));
  lua_close(L);
}

/* Its channel closes: posts are refused from then on, before any step, whoever closes it and whatever the port is
   doing. */
static void port_closes_at_once(void) {
  lua_State *L = open_state();
  for (int by_script = 0; by_script <= 1; by_script++) {
    for (int posts = 0; posts <= 4; posts++) {
      for (int stepped = 0; stepped <= 1; stepped++) {
        runnel_port *port = NULL, *second = NULL;
        int drops = 0;
        lua(L, "ch = rn.chan(1)");
        runnel_chan *ch = chan(L, "ch");
        OK(runnel_port_open(L, ch, 4, RUNNEL_CLOSE_CHANNEL, &port));
        OK(runnel_port_open(L, ch, 4, RUNNEL_LEAVE_OPEN, &second));
        for (int i = 0; i < posts; i++) OK(runnel_post_call(port, push_pair, count_drop, &drops));
        if (stepped) OK(runnel_step(L, 10, NULL));
        if (by_script) lua(L, "ch:close()");
        else OK(runnel_chan_close(L, ch, "why"));
        for (int i = 0; i < 5; i++) IS(RUNNEL_CLOSED, runnel_post_integer(port, i));
        IS(RUNNEL_CLOSED, runnel_post_integer(second, 1));
        IS(RUNNEL_CLOSED, runnel_port_wait(port));
        IS(RUNNEL_IDLE, runnel_step(L, 10, NULL));
        lua(L, "taken = 0 while ch:take() ~= nil do taken = taken + 1 end");
        int delivered = stepped ? posts < 2 ? posts : 2 : 0; /* the buffer has one, and a put waits with another */
        CHECK(global(L, "taken") == delivered);
        settle(L);
        CHECK(drops == posts - delivered);
        lua(L, "assert(#rn.ps() == 0)");
        OK(runnel_port_release(port));
        OK(runnel_port_release(second));
        OK(runnel_chan_release(L, ch));
      }
    }
  }
  lua_close(L);
}

/* A shared channel: by this state at once, by another one as soon as the scheduler runs. */
static void port_closes_with_a_shared_channel(void) {
  for (int here = 0; here <= 1; here++) {
    for (int posts = 0; posts <= 3; posts++) {
      lua_State *L = open_state();
      runnel_port *port = NULL;
      runnel_shared *sh = NULL;
      OK(runnel_shared_new(RUNNEL_FIXED, 1, &sh));
      set_shared(L, "ch", sh);
      OK(runnel_port_open(L, chan(L, "ch"), 3, RUNNEL_LEAVE_OPEN, &port));
      for (int i = 0; i < posts; i++) OK(runnel_post_integer(port, i));
      OK(runnel_step(L, 10, NULL));
      if (here) lua(L, "ch:close()");
      else OK(runnel_shared_close(sh, NULL));
      if (!here) CHECK(runnel_step(L, 10, NULL) >= RUNNEL_OK);
      for (int i = 0; i < 4; i++) IS(RUNNEL_CLOSED, runnel_post_integer(port, i));
      IS(RUNNEL_CLOSED, runnel_port_wait(port));
      OK(runnel_port_release(port));
      OK(runnel_shared_release(sh));
      lua_close(L);
    }
  }
}

static void port_outlives_the_state(void) {
  lua_State *L = open_state();
  runnel_port *port = NULL, *unstarted = NULL;
  int drops = 0;
  lua(L, "ch = rn.chan()");
  OK(runnel_port_open(L, chan(L, "ch"), 10, RUNNEL_LEAVE_OPEN, &port));
  for (int i = 0; i < 3; i++) OK(runnel_post_call(port, push_pair, count_drop, &drops));
  OK(runnel_step(L, 10, NULL)); /* the first value was made, and its put waits */
  OK(runnel_post_call(port, push_pair, count_drop, &drops));
  OK(runnel_post_bytes(port, "a string that is longer than a message", 38));
  OK(runnel_port_open(L, chan(L, "ch"), 10, RUNNEL_LEAVE_OPEN, &unstarted));
  OK(runnel_post_call(unstarted, push_pair, count_drop, &drops));
  OK(runnel_post_call(unstarted, push_pair, NULL, &drops));
  lua_close(L);
  CHECK(drops == 4);
  IS(RUNNEL_CLOSED, runnel_post_call(port, push_pair, count_drop, &drops));
  IS(RUNNEL_CLOSED, runnel_post_integer(unstarted, 1));
  IS(RUNNEL_CLOSED, runnel_port_wait(port));
  OK(runnel_port_hold(port));
  OK(runnel_port_close(port));
  OK(runnel_port_release(port));
  OK(runnel_port_release(port));
  OK(runnel_port_release(unstarted));
  CHECK(drops == 4);
}

static void port_is_alive(void) {
  lua_State *L = open_state();
  runnel_port *port = NULL;
  int64_t next = 0;
  lua(L, "ch = rn.chan()");
  OK(runnel_port_open(L, chan(L, "ch"), 10, RUNNEL_LEAVE_OPEN, &port));
  OK(runnel_step(L, 10, &next));
  CHECK(next == -1); /* not idle: a message may come */
  OK(runnel_next(L, &next));
  CHECK(next == -1);
  OK(runnel_port_close(port));
  OK(runnel_next(L, &next));
  CHECK(next == 0);
  IS(RUNNEL_IDLE, runnel_step(L, 10, &next));
  OK(runnel_port_release(port));
  lua(L, "rn.run() local ok, err = pcall(ch.take, ch) assert(err:find 'deadlock')");
  /* A port whose channel nothing can reach is kept alive while it is open. */
  lua(L, "ch = rn.chan()");
  runnel_chan *ch = chan(L, "ch");
  OK(runnel_port_open(L, ch, 10, RUNNEL_LEAVE_OPEN, &port));
  OK(runnel_post_integer(port, 1));
  OK(runnel_post_integer(port, 2));
  OK(runnel_chan_release(L, ch));
  OK(runnel_step(L, 10, NULL));
  lua(L, "ch = nil for _ = 1, 4 do collectgarbage() end");
  lua(L,
      "local ps = rn.ps() assert(#ps == 1 and ps[1].name:find '^a port to chan: #%d+$' and ps[1].operation == 'put')");
  OK(runnel_port_close(port));
  IS(RUNNEL_IDLE, runnel_step(L, 10, NULL));
  lua(L, "for _ = 1, 4 do collectgarbage() end assert(#rn.ps() == 0)");
  OK(runnel_port_release(port));
  lua_close(L);
}

/* A quiet port is alive only while a take waits on its channel, or it has a message. */
static void port_may_be_quiet(void) {
  lua_State *L = open_state();
  runnel_port *port = NULL;
  lua(L, "ch = rn.chan()");
  OK(runnel_port_open(L, chan(L, "ch"), 10, RUNNEL_LEAVE_OPEN | RUNNEL_QUIET, &port));
  IS(RUNNEL_IDLE, runnel_step(L, 10, NULL));
  OK(runnel_post_integer(port, 1));
  lua(L, "rn.run() assert(ch:poll() == 1) rn.run()");
  lua(L, "rn.go(function() got = ch:take() end)");
  OK(runnel_step(L, 10, NULL));
  OK(runnel_post_integer(port, 2));
  settle(L);
  CHECK(global(L, "got") == 2);
  OK(runnel_port_release(port));
  lua_close(L);
}

/* Messages posted before the port closed are delivered, even if the scheduler sees the close before the wakeup. */
static void port_delivers_what_a_closed_port_has(void) {
  lua_State *L = open_state();
  runnel_port *port = NULL;
  lua(L, "ch, got = rn.chan(), {}; rn.go(function() for v in ch do got[#got + 1] = v end end)");
  OK(runnel_port_open(L, chan(L, "ch"), 10, RUNNEL_CLOSE_CHANNEL, &port));
  settle(L);
  OK(runnel_post_integer(port, 1));
  OK(runnel_post_integer(port, 2));
  OK(runnel_port_release(port));
  lua(L, "rn.run() assert(#got == 2 and got[2] == 2 and ch:closed())");
  lua(L, "ch = rn.chan()");
  OK(runnel_port_open(L, chan(L, "ch"), 10, RUNNEL_LEAVE_OPEN, &port));
  settle(L);
  OK(runnel_post_integer(port, 3));
  OK(runnel_port_release(port));
  lua(L, "assert(ch:take() == 3) local ok, err = pcall(ch.take, ch) assert(err:find 'deadlock')");
  lua_close(L);
}

static int closing_code; /* what runnel_fd returned while the state was being closed */

static int fd_while_closing(lua_State *L) {
  int fd = -1;
  closing_code = runnel_fd(L, &fd);
  return 0;
}

/* A finalizer that runs after those of runnel, since its object is older, cannot make what nothing would free. One that
   runs before can. */
static void port_not_while_closing(void) {
  for (int is_older = 0; is_older < 2; is_older++) {
    lua_State *L = is_older ? luaL_newstate() : open_state();
    int fd = -1;
    lua_newuserdatauv(L, 0, 0);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, fd_while_closing);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_setglobal(L, "kept");
    OK(runnel_open(L));
    OK(runnel_fd(L, &fd));
    closing_code = RUNNEL_OK;
    lua_close(L);
    IS(is_older ? RUNNEL_RAISED : RUNNEL_OK, closing_code);
  }
}

static void port_wakes_once_a_burst(void) {
  lua_State *L = open_state();
  runnel_port *port = NULL, *other = NULL;
  int fd = -1, again = -1;
  lua(L, "ch, n = rn.chan(10), 0; rn.go(function() for _ in ch do n = n + 1 end end)");
  OK(runnel_fd(L, &fd));
  OK(runnel_fd(L, &again));
  CHECK(fd >= 0 && fd == again && readable(fd)); /* a go block is ready */
  settle(L);
  CHECK(!readable(fd));
  OK(runnel_port_open(L, chan(L, "ch"), 1000, RUNNEL_LEAVE_OPEN, &port));
  OK(runnel_port_open(L, chan(L, "ch"), 1000, RUNNEL_LEAVE_OPEN, &other));
  OK(runnel_post_integer(port, 1));
  CHECK(readable(fd)); /* the pump is ready, and checks the inbox without a wakeup */
  settle(L);
  CHECK(!readable(fd) && global(L, "n") == 1);
  for (int i = 0; i < 500; i++) {
    OK(runnel_post_integer(port, i));
    OK(runnel_post_integer(other, i));
  }
  CHECK(readable(fd));
  settle(L); /* the pipe had one byte, however many messages were posted */
  CHECK(!readable(fd) && global(L, "n") == 1001);
  OK(runnel_port_release(port));
  OK(runnel_port_release(other));
  CHECK(readable(fd));
  settle(L);
  CHECK(!readable(fd));
  lua_close(L);
}

static void port_bad_input(void) {
  lua_State *L = open_state();
  runnel_port *port = NULL;
  runnel_chan *ch = NULL;
  int data = 0;
  OK(runnel_chan_new(L, RUNNEL_FIXED, 0, &ch));
  IS(RUNNEL_BAD_ARGUMENT, runnel_port_open(L, ch, 0, RUNNEL_LEAVE_OPEN, &port));
  IS(RUNNEL_BAD_ARGUMENT, runnel_port_open(L, ch, (size_t)RUNNEL_PORT_MAX + 1, RUNNEL_LEAVE_OPEN, &port));
  IS(RUNNEL_BAD_ARGUMENT, runnel_port_open(L, ch, 1, 17, &port));
  IS(RUNNEL_BAD_ARGUMENT, runnel_port_open(L, ch, 1, RUNNEL_LEAVE_OPEN, NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_port_open(L, NULL, 1, RUNNEL_LEAVE_OPEN, &port));
  IS(RUNNEL_BAD_ARGUMENT, runnel_port_open(NULL, ch, 1, RUNNEL_LEAVE_OPEN, &port));
  lua(L, "timeout, done = rn.timeout(1000), rn.chan():done()");
  IS(RUNNEL_BAD_ARGUMENT, runnel_port_open(L, chan(L, "timeout"), 1, RUNNEL_LEAVE_OPEN, &port));
  IS(RUNNEL_BAD_ARGUMENT, runnel_port_open(L, chan(L, "done"), 1, RUNNEL_LEAVE_OPEN, &port));
  CHECK(!port);
  IS(RUNNEL_BAD_ARGUMENT, runnel_port_hold(NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_port_release(NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_port_close(NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_port_wait(NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_post_integer(NULL, 1));
  IS(RUNNEL_BAD_ARGUMENT, runnel_post_number(NULL, 1));
  IS(RUNNEL_BAD_ARGUMENT, runnel_post_boolean(NULL, 1));
  IS(RUNNEL_BAD_ARGUMENT, runnel_post_bytes(NULL, "", 0));
  IS(RUNNEL_BAD_ARGUMENT, runnel_post_call(NULL, push_pair, NULL, &data));
  OK(runnel_port_open(L, ch, 1, RUNNEL_LEAVE_OPEN, &port));
  IS(RUNNEL_BAD_ARGUMENT, runnel_post_bytes(port, NULL, 1));
  IS(RUNNEL_BAD_ARGUMENT, runnel_post_call(port, NULL, NULL, &data));
  OK(runnel_port_release(port));
  lua_close(L);
}

static void port_to_unlike_channels(void) {
  lua_State *L = open_state();
  runnel_port *port = NULL;
  lua(L, "xf = rn.chan(10, rn.xf.map(function(v) return v + 1 end)); promise = rn.promise_chan();"
         "slide = rn.chan(rn.sliding_buffer(2)); prio = rn.chan(rn.priority_buffer(5));"
         "bad = rn.chan { full = function() error 'no idea' end, add = print, remove = print, count = function() "
         "return 0 end };"
         "rn.on_error(function(err) heard = err end)");
  const char *const names[] = {"xf", "promise", "slide", "prio"};
  for (int i = 0; i < 4; i++) {
    OK(runnel_port_open(L, chan(L, names[i]), 1000, RUNNEL_CLOSE_CHANNEL, &port));
    for (int n = 5; n >= 1; n--) OK(runnel_post_integer(port, n));
    OK(runnel_port_release(port));
  }
  settle(L);
  lua(L, "assert(xf:take() == 6 and promise:take() == 5 and slide:take() == 2 and prio:take() == 1)");
  OK(runnel_port_open(L, chan(L, "bad"), 1000, RUNNEL_CLOSE_CHANNEL, &port));
  OK(runnel_post_integer(port, 1));
  settle(L);
  /* An error of the channel's buffer policy ends the port. */
  lua(L, "require('runnel.core').internal.report_unhandled() assert(heard:find 'no idea')");
  IS(RUNNEL_CLOSED, runnel_post_integer(port, 1));
  OK(runnel_port_release(port));
  lua_close(L);
}

/* With the address sanitizer, so many ports would take minutes. */
#if !defined(__has_feature)
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer)
enum { PORTS = 1000 };
#else
enum { PORTS = 65537 };
#endif

/* More puts wait than 16 bits can count; still every value goes through the transducer. */
static void port_after_port(void) {
  lua_State *L = open_state();
  lua(L, "ch = rn.chan(1, rn.xf.map(function(v) return 2 * v end))");
  runnel_chan *ch = chan(L, "ch");
  for (int i = 1; i <= PORTS; i++) {
    runnel_port *port = NULL;
    OK(runnel_port_open(L, ch, 1, RUNNEL_LEAVE_OPEN, &port));
    OK(runnel_post_integer(port, i));
    OK(runnel_port_release(port));
  }
  IS(RUNNEL_IDLE, runnel_step(L, (int64_t)4 * PORTS, NULL));
  lua(L, "puts = ch:stats().puts_waiting");
  CHECK(global(L, "puts") == PORTS - 1);
  lua(L, "sum = 0 for _ = 0, puts do sum = sum + ch:take() end");
  CHECK(global(L, "sum") == (lua_Integer)PORTS * (PORTS + 1));
  lua_close(L);
}

/* A port whose channel never makes it wait lets other go blocks run. */
static void port_starves_nobody(void) {
  lua_State *L = open_state();
  runnel_port *port = NULL;
  lua(L, "ch = rn.chan(rn.sliding_buffer(1)); seen = {};"
         "rn.go(function() while true do seen[ch:poll() or 0] = true rn.yield() end end)");
  OK(runnel_port_open(L, chan(L, "ch"), 10000, RUNNEL_LEAVE_OPEN, &port));
  for (int i = 1; i <= 10000; i++) OK(runnel_post_integer(port, i));
  OK(runnel_step(L, 500, NULL));
  lua(L, "local n = 0 for i in pairs(seen) do n = n + 1 end assert(seen[10000] and n > 10, n)");
  OK(runnel_port_release(port));
  lua_close(L);
}

static void port_without_descriptors(void) {
  lua_State *L = open_state();
  runnel_port *port = NULL;
  runnel_chan *ch = NULL;
  int fd;
  OK(runnel_chan_new(L, RUNNEL_FIXED, 1, &ch));
  struct rlimit limit, none = {.rlim_cur = 0};
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  none.rlim_max = limit.rlim_max;
  CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
  IS(RUNNEL_RAISED, runnel_fd(L, &fd));
  CHECK(strstr(runnel_message(L), "cannot make a file descriptor"));
  IS(RUNNEL_RAISED, runnel_port_open(L, ch, 1, RUNNEL_LEAVE_OPEN, &port));
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  OK(runnel_port_open(L, ch, 1, RUNNEL_LEAVE_OPEN, &port));
  OK(runnel_port_release(port));
  lua_close(L);
}

static void port_in_a_simulation(void) {
  lua_State *L = open_state();
  runnel_port *port = NULL;
  lua(L, "ch = rn.chan(10)");
  OK(runnel_port_open(L, chan(L, "ch"), 10, RUNNEL_LEAVE_OPEN, &port));
  settle(L);
  OK(runnel_post_integer(port, 1));
  /* In a simulation, a port is not alive, and its messages wait until the simulation has ended. */
  lua(L, "local sim = require 'runnel.sim' sim.run(function() rn.sleep(10) assert(ch:poll() == nil) end)"
         "local ok, err = pcall(sim.run, function() return rn.chan():take() end)"
         "assert(not ok and err:find 'deadlock') assert(#ch == 0)");
  lua(L, "assert(ch:take() == 1)");
  OK(runnel_port_release(port));
  lua_close(L);
}

/* The port's go block can be cancelled, whatever it waits for; that closes the port. */
static void port_is_cancelled(void) {
  for (int posts = 0; posts <= 2; posts++) {
    lua_State *L = open_state();
    runnel_port *port = NULL;
    lua(L, "ch = rn.chan()");
    OK(runnel_port_open(L, chan(L, "ch"), 10, RUNNEL_CLOSE_CHANNEL, &port));
    for (int i = 0; i < posts; i++) OK(runnel_post_integer(port, i));
    OK(runnel_step(L, 10, NULL));
    lua(L, "rn.on_error(function() end) rn.cancel(rn.ps()[1].result, 'no more')");
    settle(L);
    IS(RUNNEL_CLOSED, runnel_post_integer(port, 1));
    lua(L, "assert(#rn.ps() == 0 and not ch:closed() and ch:poll() == nil)");
    IS(RUNNEL_IDLE, runnel_step(L, 1, NULL));
    OK(runnel_port_release(port));
    lua_close(L);
  }
}

/* ---- shared channels ---- */

static runnel_shared *shared(lua_State *L, const char *name) {
  runnel_shared *sh = NULL;
  lua_getglobal(L, name);
  OK(runnel_shared_get(L, -1, &sh));
  lua_pop(L, 1);
  return sh;
}

static void shared_between_states(void) {
  lua_State *L = open_state(), *M = open_state();
  runnel_shared *sh = NULL;
  OK(runnel_shared_new(RUNNEL_FIXED, 5, &sh));
  set_shared(L, "ch", sh);
  set_shared(M, "ch", sh);
  OK(runnel_shared_put_boolean(sh, 1, 0));
  OK(runnel_shared_put_integer(sh, 7, 0));
  OK(runnel_shared_put_number(sh, 1.5, 0));
  OK(runnel_shared_put_bytes(sh, "a\0b", 3, 0));
  OK(runnel_shared_put_bytes(sh, "longer than a value itself", 26, 0));
  IS(RUNNEL_FULL, runnel_shared_put_integer(sh, 8, 0));
  lua(L, "assert(ch:take() == true and math.type(ch:take()) == 'integer')");
  lua(M, "assert(ch:take() == 1.5 and ch:take() == 'a\\0b' and ch:take() == 'longer than a value itself')");
  runnel_chan *local = chan(L, "ch");
  OK(runnel_shared_put_bytes(sh, NULL, 0, 0));
  OK(runnel_poll(L, local));
  CHECK(lua_rawlen(L, -1) == 0 && lua_type(L, -1) == LUA_TSTRING);
  lua_settop(L, 0);
  lua(M, "same = rn.shared_chan(1); same:put(ch); assert(same:take() == ch)");
  OK(runnel_shared_hold(sh));
  OK(runnel_shared_release(sh));
  OK(runnel_shared_close(sh, "the end"));
  OK(runnel_shared_close(sh, NULL));
  IS(RUNNEL_CLOSED, runnel_shared_put_integer(sh, 1, 0));
  IS(RUNNEL_CLOSED, runnel_shared_put_bytes(sh, "longer than a value itself", 26, -1));
  lua(L, "local v, err = ch:take(); assert(v == nil and err == 'the end')");
  lua_close(L);
  lua_close(M);
  OK(runnel_shared_release(sh));
  OK(runnel_shared_new(RUNNEL_SLIDING, 1, &sh));
  OK(runnel_shared_put_bytes(sh, "longer than a value itself", 26, 0));
  OK(runnel_shared_put_integer(sh, 1, 0));
  OK(runnel_shared_release(sh));
}

static void shared_waits(void) {
  lua_State *L = open_state();
  lua(L, "ch = rn.shared_chan()");
  runnel_shared *sh = shared(L, "ch");
  int64_t before = now_us();
  IS(RUNNEL_FULL, runnel_shared_put_integer(sh, 1, 20000));
  CHECK(now_us() - before >= 20000);
  lua(L, "rn.go(function() got = ch:take() end) rn.yield()");
  OK(runnel_shared_put_integer(sh, 7, -1));
  settle(L);
  CHECK(global(L, "got") == 7);
  lua(L, "rn.go(function() got = rn.alts{ch} end) rn.yield() ch = nil collectgarbage() collectgarbage()");
  OK(runnel_shared_put_integer(sh, 8, -1)); /* the go block is kept, since C has the channel */
  settle(L);
  CHECK(global(L, "got") == 8);
  lua(L, "collectgarbage() collectgarbage()");
  IS(RUNNEL_IDLE, runnel_shared_put_bytes(sh, "nobody else has the channel", 27, -1));
  lua_close(L);
  OK(runnel_shared_release(sh));
}

static void shared_bad_input(void) {
  lua_State *L = open_state();
  runnel_shared *sh = NULL;
  IS(RUNNEL_BAD_ARGUMENT, runnel_shared_new(RUNNEL_FIXED, 0, NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_shared_new(RUNNEL_DROPPING, 0, &sh));
  IS(RUNNEL_BAD_ARGUMENT, runnel_shared_new(RUNNEL_FIXED, (size_t)INT32_MAX + 1, &sh));
  IS(RUNNEL_BAD_ARGUMENT, runnel_shared_new(3, 1, &sh));
  lua_newtable(L);
  IS(RUNNEL_BAD_ARGUMENT, runnel_shared_get(L, -1, &sh));
  lua(L, "ch = rn.chan()");
  lua_getglobal(L, "ch");
  IS(RUNNEL_BAD_ARGUMENT, runnel_shared_get(L, -1, &sh));
  IS(RUNNEL_BAD_ARGUMENT, runnel_shared_get(L, -1, NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_shared_get(NULL, -1, &sh));
  IS(RUNNEL_BAD_ARGUMENT, runnel_shared_push(L, NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_shared_hold(NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_shared_release(NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_shared_close(NULL, "why"));
  IS(RUNNEL_BAD_ARGUMENT, runnel_shared_put_integer(NULL, 1, 0));
  IS(RUNNEL_BAD_ARGUMENT, runnel_shared_put_bytes(NULL, "", 0, 0));
  OK(runnel_shared_new(RUNNEL_FIXED, 1, &sh));
  IS(RUNNEL_BAD_ARGUMENT, runnel_shared_put_bytes(sh, NULL, 1, 0));
  lua_State *bare = luaL_newstate();
  IS(RUNNEL_NOT_OPEN, runnel_shared_push(bare, sh));
  OK(runnel_shared_release(sh));
  lua_close(bare);
  lua_close(L);
}

/* ---- out of memory ---- */

/* Calls each function that allocates in Lua once; returns the first code that is not RUNNEL_OK. */
static int reports; /* errors that were reported */

static void count_report(void *data, const char *error, const char *where, const char *traceback) {
  (void)error, (void)where, (void)traceback;
  ++*(int *)data;
}

/* Waits that end by their limit, by an operation, and because nothing can come. */
static int use_waits(lua_State *L, runnel_chan *ch, runnel_chan *other) {
  const runnel_op takes[] = {{ch, 0}, {other, 0}}, puts[] = {{ch, -1}};
  runnel_chan *timeout = NULL, *block = NULL;
  int code, done;
  if ((code = runnel_on_error(L, count_report, &reports)) != RUNNEL_OK) return code;
  while ((code = runnel_poll(L, ch)) == RUNNEL_OK) lua_pop(L, 1);
  if (code != RUNNEL_EMPTY) return code;
  if ((code = runnel_alts(L, takes, 2, 0, 50, &done)) != RUNNEL_EMPTY) return code;
  lua_pushinteger(L, 8);
  code = runnel_alts(L, puts, 1, RUNNEL_PRIORITY, -1, &done);
  lua_pop(L, 1);
  if (code != RUNNEL_OK) return code;
  if ((code = runnel_take(L, ch, 1000)) != RUNNEL_OK) return code;
  if (lua_tointeger(L, -1) != 8) memory_die("another value was taken");
  lua_pop(L, 1);
  if ((code = runnel_timeout(L, 50, &timeout)) != RUNNEL_OK) return code;
  if ((code = runnel_take(L, timeout, -1)) != RUNNEL_CLOSED) return code;
  lua_pushcfunction(L, luaopen_base);
  if ((code = runnel_go(L, 0, &block)) != RUNNEL_OK) return code;
  if ((code = runnel_cancel(L, block, "a reason that is not in the state yet")) != RUNNEL_OK) return code;
  if ((code = runnel_chan_release(L, timeout)) != RUNNEL_OK) return code;
  return runnel_step(L, 100, NULL) < RUNNEL_OK ? RUNNEL_NO_MEMORY : RUNNEL_OK;
}

/* Values that are taken without a state. */
static int use_values(lua_State *L, runnel_shared *sh) {
  static const char text[] = "a string that is put, and taken by no state";
  runnel_value *value = NULL;
  int code = runnel_shared_take(sh, 10, &value);
  if (code == RUNNEL_OK || value) memory_die("a value has come");
  if (code != RUNNEL_EMPTY) return code;
  if ((code = runnel_shared_put_bytes(sh, text, sizeof text, 0)) != RUNNEL_OK) return code;
  if ((code = runnel_shared_take(sh, 0, &value)) == RUNNEL_OK) {
    code = runnel_value_push(L, value);
    if (code == RUNNEL_OK) lua_pop(L, 1);
    if (memcmp(value->as.bytes.start, text, sizeof text) != 0) memory_die("the value has changed");
    (void)runnel_value_release(value);
  }
  return code;
}

static int use_all(lua_State *L, runnel_port **port, runnel_shared **sh) {
  runnel_chan *ch = NULL, *same = NULL, *result = NULL;
  runnel_reader *reader = NULL;
  int fd, code;
  if ((code = runnel_open(L)) != RUNNEL_OK) return code;
  code = runnel_reader_open(L, note_reading, NULL, &reader); /* makes the wakeup, which may fail */
  if (code == RUNNEL_OK) OK(runnel_reader_close(reader));
  else if (code != RUNNEL_IDLE) return code; /* RUNNEL_IDLE: not on Linux */
  if ((code = runnel_chan_new(L, RUNNEL_FIXED, 100, &ch)) != RUNNEL_OK) return code;
  if ((code = runnel_offer_bytes(L, ch, "some bytes that are not in the state yet, by their number", 50)) != RUNNEL_OK)
    return code;
  if ((code = runnel_chan_push(L, ch)) != RUNNEL_OK) return code;
  code = runnel_chan_get(L, -1, &same);
  lua_pop(L, 1);
  if (code != RUNNEL_OK) return code;
  if ((code = runnel_fd(L, &fd)) != RUNNEL_OK) return code;
  if ((code = runnel_port_open(L, ch, 10, RUNNEL_LEAVE_OPEN, port)) != RUNNEL_OK) return code;
  if ((code = runnel_post_bytes(*port, "and some that are posted, which are others", 42)) != RUNNEL_OK) return code;
  lua_pushcfunction(L, luaopen_base);
  if ((code = runnel_go(L, 0, &result)) != RUNNEL_OK) return code;
  if ((code = runnel_step(L, 100, NULL)) < RUNNEL_OK) return code;
  if ((code = runnel_poll(L, ch)) != RUNNEL_OK) return code;
  lua_pop(L, 1);
  if ((code = runnel_shared_new(RUNNEL_FIXED, 1, sh)) != RUNNEL_OK) return code;
  if ((code = runnel_shared_push(L, *sh)) != RUNNEL_OK) return code;
  code = runnel_chan_get(L, -1, &same);
  lua_pop(L, 1);
  if (code != RUNNEL_OK) return code;
  if ((code = runnel_shared_put_bytes(*sh, "a string that needs memory of its own", 37, 0)) != RUNNEL_OK) return code;
  if ((code = runnel_shared_put_bytes(*sh, "and another one, which will not fit in", 38, 1)) != RUNNEL_FULL)
    return code;
  if ((code = runnel_poll(L, same)) != RUNNEL_OK) return code;
  lua_pop(L, 1);
  if ((code = use_waits(L, ch, same)) != RUNNEL_OK) return code;
  if ((code = use_values(L, *sh)) != RUNNEL_OK) return code;
  if ((code = runnel_shared_close(*sh, "a reason that needs memory of its own")) != RUNNEL_OK) return code;
  return runnel_chan_close(L, ch, "a reason of its own");
}

/* The memory of a state, and whose allocations fail: that of the state, or what the library takes from malloc. */
typedef struct Scarce {
  Memory state, own;
  Memory *failing;
} Scarce;

/* Calls all functions. */
static void attempt(void *data) {
  Scarce *scarce = (Scarce *)data;
  static const luaL_Reg no_modules[] = {{NULL, NULL}};
  memory_now(scarce->failing, 60, "api: memory of %s", scarce->failing == &scarce->own ? "the library" : "Lua");
  lua_State *L = memory_open(&scarce->state, no_modules);
  runnel_port *port = NULL;
  runnel_shared *sh = NULL;
  memory_here = &scarce->own;
  scarce->failing->armed = true;
  int code = use_all(L, &port, &sh);
  scarce->failing->armed = false;
  memory_here = NULL;
  if (lua_gettop(L) != 0) memory_die("values are left on the stack");
  /* If it fails in the scheduler, the port's go block dies, and the port closes. */
  if (code != RUNNEL_OK && code != RUNNEL_NO_MEMORY && code != RUNNEL_EMPTY && code != RUNNEL_CLOSED)
    memory_die("code %d", code);
  if (code != RUNNEL_OK && !scarce->failing->refused) memory_die("code %d without a failure", code);
  if (runnel_open(L) != RUNNEL_OK || runnel_step(L, 100, NULL) < RUNNEL_OK) memory_die("the state cannot be used");
  memory_close(L);
  if (port) (void)runnel_port_release(port);
  if (sh) (void)runnel_shared_release(sh);
}

/* A take with a limit, for which a value comes while it waits: it gets it, or fails and leaves it there. */
static void attempt_take(void *data) {
  Memory *m = (Memory *)data;
  static const luaL_Reg no_modules[] = {{NULL, NULL}};
  memory_now(m, 60, "api: memory of a take");
  lua_State *L = memory_open(m, no_modules);
  luaL_openlibs(L);
  OK(runnel_open(L));
  lua(L, "local rn = require 'runnel' ch = rn.chan() rn.go(function() rn.sleep(1) ch:put(5) end) rn.step()");
  runnel_chan *ch = chan(L, "ch");
  m->armed = true;
  int code = runnel_take(L, ch, 10000000);
  m->armed = false;
  if (code != RUNNEL_OK) {
    if (code != RUNNEL_NO_MEMORY || !m->refused) memory_die("code %d", code);
    code = runnel_take(L, ch, 10000000);
  }
  if (code != RUNNEL_OK || lua_tointeger(L, -1) != 5 || lua_gettop(L) != 1) memory_die("code %d, then", code);
  int64_t next;
  if (runnel_step(L, 100, &next) != RUNNEL_IDLE) memory_die("something is left");
  memory_close(L);
}

/* From the n-th allocation on each fails, for each n. */
static void memory_runs_out(void) {
  static Scarce scarce;
  uint32_t far = UINT32_MAX;
  memory_capture(); /* the errors of go blocks */
  scarce.failing = &scarce.state;
  (void)memory_each(scarce.failing, MEMORY_ALL, &far, MEMORY_MOST, attempt, &scarce);
  scarce.failing = &scarce.own;
  (void)memory_each(scarce.failing, MEMORY_ALL, &far, MEMORY_MOST, attempt, &scarce);
  if (memory_each(&scarce.state, MEMORY_ALL, &far, MEMORY_MOST, attempt_take, &scarce.state) < 5)
    memory_die("a take with a limit has asked for no memory");
  (void)memory_each(&scarce.state, 1, &far, MEMORY_MOST, attempt_take, &scarce.state);
  memory_release();
  memory_limit(0);
}

/* ---- threads ---- */

enum { POSTERS = 6, POSTS = 3000, ALL_POSTS = POSTERS * POSTS };

typedef struct Poster {
  runnel_port *port;
  int number;    /* 0 to POSTERS - 1 */
  int posts;     /* how many messages it posts */
  int accepted;  /* how many were accepted */
  bool waits;    /* calls runnel_port_wait when the port is full, otherwise tries again */
  bool releases; /* releases its reference at the end */
} Poster;

/* Thread: posts the values number * POSTS + i, as numbers or as strings. */
static void *post_many(void *arg) {
  Poster *p = (Poster *)arg;
  for (int i = 0; i < p->posts; i++) {
    int code;
    char text[40];
    int length =
        snprintf(text, sizeof text, "%s%d", i % 3 == 2 ? "a long string with number " : "", p->number * POSTS + i);
    do {
      code = i % 3 == 0 ? runnel_post_integer(p->port, p->number * POSTS + i)
                        : runnel_post_bytes(p->port, text, (size_t)length);
      if (code == RUNNEL_FULL) {
        if (!p->waits) (void)sched_yield();
        else if (runnel_port_wait(p->port) == RUNNEL_CLOSED) code = RUNNEL_CLOSED;
      }
    } while (code == RUNNEL_FULL);
    if (code == RUNNEL_CLOSED) break;
    OK(code);
    p->accepted++;
  }
  if (p->releases) OK(runnel_port_release(p->port));
  return NULL;
}

/* The messages of each poster arrive in order; the script ends when the last poster has released its reference. */
static void threads_post(void) {
  lua_State *L = open_state();
  runnel_port *port = NULL;
  lua(L, "ch, last, total = rn.chan(3), {}, 0");
  OK(runnel_port_open(L, chan(L, "ch"), 50, RUNNEL_CLOSE_CHANNEL, &port));
  Poster posters[POSTERS];
  pthread_t threads[POSTERS];
  for (int i = 0; i < POSTERS; i++) {
    posters[i] = (Poster){.port = port, .number = i, .posts = POSTS, .waits = i % 2, .releases = true};
    if (i > 0) OK(runnel_port_hold(port));
  }
  for (int i = 0; i < POSTERS; i++) threads[i] = start(post_many, &posters[i]);
  /* Outside any go block, messages wake the scheduler, which sleeps in its default driver. */
  lua(L, "for v in ch do local n = math.tointeger(v) or math.tointeger(v:match '%d+$')"
         "  local who, i = n // 3000, n % 3000 assert((last[who] or -1) + 1 == i) last[who] = i total = total + 1 end");
  for (int i = 0; i < POSTERS; i++) {
    join(threads[i]);
    CHECK(posters[i].accepted == POSTS);
  }
  CHECK(global(L, "total") == ALL_POSTS);
  lua_close(L);
}

static void *release_soon(void *arg) {
  Poster *p = (Poster *)arg;
  for (int i = 0; i < p->posts; i++) (void)sched_yield();
  for (volatile int spins = 0; spins < p->number;) spins = spins + 1;
  OK(runnel_port_release(p->port));
  return NULL;
}

/* The last reference goes at any moment while the script goes to sleep: the channel closes, and it is no deadlock. */
static void threads_release(void) {
  lua_State *L = open_state();
  for (int round = 0; round < 3000; round++) {
    Poster p = {.posts = round % 3, .number = round % 100 * 10};
    lua(L, "ch = rn.chan(1)");
    OK(runnel_port_open(L, chan(L, "ch"), 1, RUNNEL_CLOSE_CHANNEL, &p.port));
    pthread_t thread = start(release_soon, &p);
    lua(L, "assert(ch:take() == nil)");
    join(thread);
  }
  lua_close(L);
}

/* The port closes while threads post: every accepted message arrives. */
static void threads_close(void) {
  for (int round = 0; round < 10; round++) {
    lua_State *L = open_state();
    runnel_port *port = NULL;
    lua(L, "ch, total = rn.chan(), 0; rn.go(function() for _ in ch do total = total + 1 end end)");
    OK(runnel_port_open(L, chan(L, "ch"), 20, RUNNEL_CLOSE_CHANNEL, &port));
    Poster posters[POSTERS];
    pthread_t threads[POSTERS];
    for (int i = 0; i < POSTERS; i++) {
      posters[i] = (Poster){.port = port, .number = i, .posts = 1000000, .waits = i % 2};
      threads[i] = start(post_many, &posters[i]);
    }
    for (int i = 0; i < 20 * round; i++) CHECK(runnel_step(L, 100, NULL) >= RUNNEL_OK);
    OK(runnel_port_close(port));
    int accepted = 0;
    for (int i = 0; i < POSTERS; i++) {
      join(threads[i]);
      accepted += posters[i].accepted;
    }
    settle(L);
    CHECK(global(L, "total") == accepted);
    IS(RUNNEL_IDLE, runnel_step(L, 1, NULL));
    OK(runnel_port_release(port));
    lua_close(L);
  }
}

/* Allocated data, which is pushed or dropped exactly once. */
static atomic_int pushed, dropped;

static int push_owned(lua_State *L, void *data) {
  free(data);
  atomic_fetch_add(&pushed, 1);
  lua_pushboolean(L, 1);
  return 1;
}

static void drop_owned(void *data) {
  free(data);
  atomic_fetch_add(&dropped, 1);
}

static void *post_owned(void *arg) {
  Poster *p = (Poster *)arg;
  for (int code = RUNNEL_OK; code != RUNNEL_CLOSED;) {
    void *data = malloc(100);
    code = runnel_post_call(p->port, push_owned, drop_owned, data);
    if (code == RUNNEL_OK) p->accepted++;
    else free(data);
  }
  OK(runnel_port_release(p->port));
  return NULL;
}

/* lua_close while threads post, and some wait for room. */
static void threads_lose_the_state(void) {
  for (int round = 0; round < 10; round++) {
    lua_State *L = open_state();
    runnel_port *port = NULL;
    atomic_store(&pushed, 0);
    atomic_store(&dropped, 0);
    lua(L, "ch = rn.chan(1); rn.go(function() for _ in ch do end end)");
    OK(runnel_port_open(L, chan(L, "ch"), 20, RUNNEL_LEAVE_OPEN, &port));
    Poster posters[POSTERS];
    pthread_t threads[POSTERS];
    for (int i = 0; i < POSTERS; i++) {
      posters[i] = (Poster){.port = port, .number = i, .posts = 1000000, .waits = true, .releases = true};
      OK(runnel_port_hold(port));
    }
    OK(runnel_port_release(port));
    for (int i = 0; i < POSTERS; i++) threads[i] = start(i % 2 ? post_owned : post_many, &posters[i]);
    for (int i = 0; i < 10 * round; i++) CHECK(runnel_step(L, 100, NULL) >= RUNNEL_OK);
    lua_close(L);
    int accepted = 0;
    for (int i = 0; i < POSTERS; i++) {
      join(threads[i]);
      if (i % 2) accepted += posters[i].accepted;
    }
    CHECK(atomic_load(&pushed) + atomic_load(&dropped) == accepted);
  }
}

/* The channel closes while threads post, and some wait for room: all of them learn of it without another step, and each
   message is delivered or dropped. */
static void threads_lose_the_channel(void) {
  for (int round = 0; round < 10; round++) {
    lua_State *L = open_state();
    runnel_port *port = NULL;
    atomic_store(&pushed, 0);
    atomic_store(&dropped, 0);
    lua(L, "ch = rn.chan(1); rn.go(function() for i = 1, 1000 do ch:take() end end)");
    runnel_chan *ch = chan(L, "ch");
    OK(runnel_port_open(L, ch, 20, RUNNEL_LEAVE_OPEN, &port));
    Poster posters[POSTERS];
    pthread_t threads[POSTERS];
    for (int i = 0; i < POSTERS; i++) {
      posters[i] = (Poster){.port = port, .number = i, .posts = 1000000, .waits = true, .releases = true};
      OK(runnel_port_hold(port));
    }
    OK(runnel_port_release(port));
    for (int i = 0; i < POSTERS; i++) threads[i] = start(i % 2 ? post_owned : post_many, &posters[i]);
    for (int i = 0; i < 10 * round; i++) CHECK(runnel_step(L, 100, NULL) >= RUNNEL_OK);
    OK(runnel_chan_close(L, ch, NULL));
    int accepted = 0;
    for (int i = 0; i < POSTERS; i++) {
      join(threads[i]);
      if (i % 2) accepted += posters[i].accepted;
    }
    lua(L, "for _ in ch do end");
    settle(L);
    CHECK(atomic_load(&pushed) + atomic_load(&dropped) == accepted);
    lua(L, "assert(#rn.ps() == 0)");
    lua_close(L);
  }
}

/* Posts one message after a while. */
static void *post_later(void *arg) {
  pause_ms(30);
  OK(runnel_post_integer((runnel_port *)arg, 42));
  return NULL;
}

/* A message wakes the scheduler at once, with each kind of driver. */
static void threads_wake(void) {
  static const char *const drivers[] = {
      "",
      /* one that ignores descriptors and would sleep for ever */
      "local n = 0; rn.driver { alive = function() return false end, wait = function(_, ms) slept = ms;"
      "  local t = rn.now() + (ms or 1e9) while rn.now() < t do end end }",
      /* one that waits for a descriptor of its own */
      "local core = require 'runnel.core'; rn.driver { alive = function() return false end,"
      "  wait = function(_, ms) if ms ~= 0 then core.wait_readable(endless, ms) waits = (waits or 0) + 1 end end }",
  };
  for (int i = 0; i < 3; i++) {
    lua_State *L = open_state();
    runnel_port *port = NULL;
    lua(L, "ch = rn.chan()");
    OK(runnel_port_open(L, chan(L, "ch"), 10, RUNNEL_LEAVE_OPEN, &port));
    int ends[2];
    CHECK(pipe(ends) == 0);
    lua_pushinteger(L, ends[0]);
    lua_setglobal(L, "endless");
    lua(L, drivers[i]);
    int64_t begun = now_us();
    pthread_t thread = start(post_later, port);
    lua(L, "assert(ch:take() == 42)");
    CHECK(now_us() - begun >= 20000);
    join(thread);
    OK(runnel_port_release(port));
    lua(L, "rn.run()");
    if (i == 1) CHECK(global(L, "slept") <= 10);
    if (i == 2) CHECK(global(L, "waits") <= 3); /* the first wait is short, until the driver has called wait_readable */
    lua_close(L);
    (void)close(ends[0]);
    (void)close(ends[1]);
  }
}

/* ---- threads and shared channels ---- */

enum { PUTTERS = 3, TAKERS = 2, SHARED_EACH = 300 };

typedef struct SharedJob {
  runnel_shared *from, *to; /* what is taken from, and put on */
  int64_t us;               /* how long a put waits at most */
} SharedJob;

static void *put_shared(void *arg) {
  const SharedJob *job = (const SharedJob *)arg;
  for (int i = 1; i <= SHARED_EACH; i++) {
    int code;
    while ((code = runnel_shared_put_integer(job->to, i, job->us)) == RUNNEL_FULL) (void)sched_yield();
    IS(RUNNEL_OK, code);
  }
  OK(runnel_shared_release(job->to));
  return NULL;
}

/* Thread: a state of its own, which adds up what it takes. */
static void *take_shared(void *arg) {
  const SharedJob *job = (const SharedJob *)arg;
  lua_State *L = open_state();
  set_shared(L, "from", job->from);
  set_shared(L, "to", job->to);
  OK(runnel_shared_release(job->from));
  OK(runnel_shared_release(job->to));
  lua(L, "rn.run(function() local sum = 0 for v in from do sum = sum + v end to:put(sum) end)");
  lua_close(L);
  return NULL;
}

/* Threads put on a channel from which two states take; their sums come through another channel to this state. */
static void threads_put_shared(void) {
  for (size_t size = 0; size < 3; size++) {
    runnel_shared *values = NULL, *sums = NULL;
    OK(runnel_shared_new(RUNNEL_FIXED, size, &values));
    OK(runnel_shared_new(RUNNEL_FIXED, TAKERS, &sums));
    pthread_t takers[TAKERS], putters[PUTTERS];
    SharedJob taking = {.from = values, .to = sums}, putting[PUTTERS];
    for (int i = 0; i < TAKERS; i++) {
      OK(runnel_shared_hold(values));
      OK(runnel_shared_hold(sums));
      takers[i] = start(take_shared, &taking);
    }
    for (int i = 0; i < PUTTERS; i++) {
      putting[i] = (SharedJob){.to = values, .us = i == 0 ? -1 : i == 1 ? 50 : 0};
      OK(runnel_shared_hold(values));
      putters[i] = start(put_shared, &putting[i]);
    }
    for (int i = 0; i < PUTTERS; i++) join(putters[i]);
    OK(runnel_shared_close(values, NULL));
    lua_State *L = open_state();
    set_shared(L, "sums", sums);
    OK(runnel_shared_release(sums));
    lua(L, "total = 0; for _ = 1, 2 do total = total + sums:take() end");
    CHECK(global(L, "total") == PUTTERS * SHARED_EACH * (SHARED_EACH + 1) / 2);
    for (int i = 0; i < TAKERS; i++) join(takers[i]);
    lua_close(L);
    OK(runnel_shared_release(values));
  }
}

/* Thread: puts one value, and returns the code. */
static void *put_one(void *arg) {
  runnel_shared *sh = (runnel_shared *)arg;
  int code = runnel_shared_put_bytes(sh, "a string that needs memory of its own", 37, -1);
  OK(runnel_shared_release(sh));
  return (void *)(intptr_t)code;
}

static int code_of(pthread_t thread) {
  void *code;
  CHECK(pthread_join(thread, &code) == 0);
  return (int)(intptr_t)code;
}

/* A put that waits ends when the channel is closed, and when the last state that has it is. */
static void threads_put_in_vain(void) {
  for (int round = 0; round < 40; round++) {
    lua_State *L = open_state();
    lua(L, "ch = rn.shared_chan()");
    runnel_shared *sh = shared(L, "ch");
    pthread_t putter = start(put_one, sh);
    if (round % 4 < 2) pause_ms(1);
    if (round % 2) {
      lua(L, "ch:close()");
      IS(RUNNEL_CLOSED, code_of(putter));
      lua_close(L);
    } else {
      lua_close(L);
      IS(RUNNEL_IDLE, code_of(putter));
    }
  }
}

static void *release_later(void *arg) {
  pause_ms(20);
  OK(runnel_shared_release((runnel_shared *)arg));
  return NULL;
}

/* As long as C has a reference, a wait is no deadlock; then it is. */
static void threads_keep_waits_alive(void) {
  lua_State *L = open_state();
  lua(L, "ch = rn.shared_chan()");
  runnel_shared *sh = shared(L, "ch");
  int64_t begun = now_us();
  pthread_t thread = start(release_later, sh);
  lua(L, "local ok, err = pcall(ch.take, ch); assert(not ok and err:find 'deadlock')");
  CHECK(now_us() - begun >= 20000);
  join(thread);
  lua_close(L);
}

/* ---- all of them ---- */

typedef struct Test {
  const char *name;
  void (*run)(void);
} Test;

#define TEST(name)                                                                                                     \
  { #name, name }

static const Test TESTS[] = {
    TEST(open_needs_no_path),
    TEST(open_without_libraries),
    TEST(open_refuses),
    TEST(functions_for_modules),
    TEST(tasks_run_before_the_wait),
    TEST(readers_are_called_in_steps),
    TEST(readers_end_a_wait_and_post),
    TEST(codes_have_texts),
    TEST(chan_values),
    TEST(chan_closing),
    TEST(chan_between_c_and_lua),
    TEST(chan_foreign_memory),
    TEST(chan_bad_input),
    TEST(chan_on_a_full_stack),
    TEST(chan_is_held),
    TEST(step_by_resumes),
    TEST(step_with_a_timeout),
    TEST(step_by_time),
    TEST(step_reports_errors),
    TEST(step_bad_input),
    TEST(go_from_c),
    TEST(port_carries),
    TEST(port_is_bounded),
    TEST(port_closes_with_its_channel),
    TEST(port_closes_at_once),
    TEST(port_closes_with_a_shared_channel),
    TEST(port_outlives_the_state),
    TEST(port_is_alive),
    TEST(port_may_be_quiet),
    TEST(port_delivers_what_a_closed_port_has),
    TEST(port_not_while_closing),
    TEST(port_wakes_once_a_burst),
    TEST(port_bad_input),
    TEST(port_to_unlike_channels),
    TEST(port_after_port),
    TEST(port_starves_nobody),
    TEST(port_without_descriptors),
    TEST(port_in_a_simulation),
    TEST(port_is_cancelled),
    TEST(shared_between_states),
    TEST(shared_waits),
    TEST(shared_bad_input),
    TEST(memory_runs_out),
    TEST(threads_post),
    TEST(threads_release),
    TEST(threads_close),
    TEST(threads_lose_the_state),
    TEST(threads_lose_the_channel),
    TEST(threads_wake),
    TEST(threads_put_shared),
    TEST(threads_put_in_vain),
    TEST(threads_keep_waits_alive),
};

int main(int argc, char **argv) {
  int ran = 0;
  for (size_t i = 0; i < sizeof TESTS / sizeof *TESTS; i++) {
    bool wanted = argc == 1;
    for (int j = 1; j < argc; j++) wanted = wanted || strncmp(TESTS[i].name, argv[j], strlen(argv[j])) == 0;
    if (!wanted) continue;
    TESTS[i].run();
    printf("ok %s\n", TESTS[i].name);
    (void)fflush(stdout);
    ran++;
  }
  if (!ran) FAIL("no such test");
  printf("%d tests\n", ran);
  return EXIT_SUCCESS;
}
