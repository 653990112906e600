/* limits: runnel_open_limited, scripts that have taken Lua's globals away, and states that an exception has left. */
#include <sys/resource.h>

#include "capi.h"

static lua_State *open_limited(unsigned options, size_t memory) {
  lua_State *L = luaL_newstate();
  CHECK(L);
  luaL_openlibs(L);
  OK(runnel_open_limited(L, options, memory));
  lua(L, "package.path, package.cpath = '', '' rn = require 'runnel.all'");
  return L;
}

enum { ANY_MEMORY = 0, EIGHT_MB = 8 << 20 };

/* Each expression, in a go block of a state with these limits, returns a string that has this text. */
static const struct {
  unsigned options;
  size_t memory; /* or ANY_MEMORY */
  const char *code, *text;
} LIMITED[] = {
    {0, ANY_MEMORY, "return rn.thread(function() return type(io) end):take()", "table"},
    {RUNNEL_NO_THREADS, ANY_MEMORY, "local t = rn.thread(function() return 1 end) return t",
     "script:1: rn.thread: the program"},
    {RUNNEL_NO_THREADS, ANY_MEMORY, "local t = rn.threads(1, function() return 1 end) return t",
     "script:1: rn.threads: the program"},
    {RUNNEL_NO_THREADS, ANY_MEMORY, "require 'runnel.core'.internal.start_thread({})",
     "script:1: threads: the program that runs this script does not allow them"},
    {RUNNEL_NO_THREADS, ANY_MEMORY, "return tostring(rn.file '/dev/null')", ""},
    {RUNNEL_NO_EXIT, ANY_MEMORY, "rn.exit(3)", "script:1: rn.exit: the program"},
    {RUNNEL_NO_EXIT, ANY_MEMORY, "return rn.thread(function() require 'runnel'.exit(3) end):take()",
     "rn.exit: the program"},
    {RUNNEL_NO_SYSTEM, ANY_MEMORY, "return rn.thread(function() return 1 end)", "rn.thread: the program"},
    {RUNNEL_NO_SYSTEM, ANY_MEMORY, "return rn.file '/dev/null'", "rn.file: the program"},
    {RUNNEL_NO_SYSTEM, ANY_MEMORY, "return rn.trace 'trace.json'", "rn.trace: the program"},
    {RUNNEL_NO_SYSTEM, ANY_MEMORY, "return rn.profile(print)", "rn.profile: the program"},
    {RUNNEL_NO_SYSTEM, ANY_MEMORY, "return require 'runnel.uv'", "module 'runnel.uv' not found"},
    {RUNNEL_NO_SYSTEM, ANY_MEMORY, "return require 'runnel.sim'", "module 'runnel.sim' not found"},
    {RUNNEL_NO_SYSTEM, ANY_MEMORY, "return require 'runnel.store.schema'", "module 'runnel.store.schema' not found"},
    {RUNNEL_NO_SYSTEM, ANY_MEMORY, "return require 'runnel.json'.encode { 1 }", "[1]"},
    {RUNNEL_NO_SYSTEM, ANY_MEMORY,
     "local ch = rn.chan() rn.pipeline(2, ch, rn.map, rn.to_chan { 1 }) return type(require 'runnel.flow')", ""},
    {0, EIGHT_MB, "return tostring(rn.shared_chan(20000000))", "script:1: not enough memory"},
    {0, EIGHT_MB,
     "local ch, x, n = rn.shared_chan(1000), ('x'):rep(500000), 0 "
     "local ok, err = pcall(function() for _ = 1, 1000 do ch:put(x) n = n + 1 end end) assert(not ok and n == 16, n) "
     "for _ = 1, n do assert(ch:take() == x) end ch:put(x) return err",
     "put: value: not enough memory"},
    {0, EIGHT_MB,
     "local ch, n = rn.shared_chan(1000), 0 local t = {} for i = 1, 40000 do t[i] = i end "
     "local ok, err = pcall(function() for _ = 1, 1000 do ch:put(t) n = n + 1 end end) assert(not ok and n > 20, n) "
     "for _ = 1, n do assert(#ch:take() == 40000) end ch:put(t) return err",
     "not enough memory"},
    {0, EIGHT_MB, /* a channel in a table takes 6 bytes and a pointer */
     "local ch, c, n = rn.shared_chan(1000), rn.shared_chan(), 0 local t = {} for i = 1, 10000 do t[i] = c end "
     "local ok, err = pcall(function() for _ = 1, 1000 do ch:put(t) n = n + 1 end end) "
     "assert(not ok and n > 20 and n < (8 << 20) / (10000 * (6 + ('T'):packsize())), n) "
     "for _ = 1, n do assert(#ch:take() == 10000) end ch:put(t) return err",
     "not enough memory"},
    {0, EIGHT_MB, "local chans = {} for i = 1, 100 do chans[i] = rn.shared_chan(10000) end return 'no'",
     "script:1: not enough memory"},
    {0, EIGHT_MB, "for i = 1, 100 do rn.shared_chan(10000) collectgarbage() end return 'given back'", "given back"},
    {0, EIGHT_MB, "return select(2, rn.thread(function() local t = {} for i = 1, 1e7 do t[i] = {} end end):take())",
     "not enough memory"},
    {0, EIGHT_MB,
     "for _ = 1, 20 do assert(rn.thread(function() return #('x'):rep(1000000) end):take() == 1000000) end return "
     "'given back'",
     "given back"},
    {0, EIGHT_MB,
     "return select(2, rn.thread(function() local ch = require 'runnel'.shared_chan(20000000) end):take())",
     "not enough memory"},
};

/* What a go block of the code on top of the stack returns, or its error. */
static const char *result_of(lua_State *L) {
  runnel_chan *result = NULL;
  int64_t next;
  int code;
  OK(runnel_go(L, 0, &result));
  while ((code = runnel_poll(L, result)) == RUNNEL_EMPTY) {
    CHECK(runnel_step(L, 100, &next) >= RUNNEL_OK);
    pause_us(100);
  }
  const char *text = code == RUNNEL_OK ? lua_tostring(L, -1) : runnel_message(L);
  return text ? text : "nil";
}

static void load(lua_State *L, const char *code) {
  if (luaL_loadbuffer(L, code, strlen(code), "=script") != LUA_OK) FAIL("%s", lua_tostring(L, -1));
}

static void limited(void) {
  for (size_t i = 0; i < sizeof LIMITED / sizeof *LIMITED; i++) {
    lua_State *L = open_limited(LIMITED[i].options, LIMITED[i].memory == ANY_MEMORY ? SIZE_MAX : LIMITED[i].memory);
    lua(L, "rn.on_error(function() end)");
    load(L, LIMITED[i].code);
    const char *text = result_of(L);
    if (!strstr(text, LIMITED[i].text)) FAIL("%s: %s", LIMITED[i].code, text);
    lua_close(L);
  }
  lua_State *L = open_limited(0, 0);
  IS(RUNNEL_BAD_ARGUMENT, runnel_open_limited(L, 0, 0));
  OK(runnel_open(L));
  lua_close(L);
  L = luaL_newstate();
  IS(RUNNEL_BAD_ARGUMENT, runnel_open_limited(L, 1u << 20, 0));
  IS(RUNNEL_BAD_ARGUMENT, runnel_open_limited(NULL, 0, 0));
  lua_close(L);
}

/* The most memory that the process has had, in MB. */
static long peak_mb(void) {
  struct rusage used;
  CHECK(getrusage(RUSAGE_SELF, &used) == 0);
#if defined(__APPLE__)
  return used.ru_maxrss / (1024 * 1024);
#else
  return used.ru_maxrss / 1024;
#endif
}

/* A table that has the same one several times is far larger when it is sent than in Lua: it is refused as soon as it is
   larger than the limit. */
static void limited_while_packed(void) {
  lua_State *L = open_limited(0, EIGHT_MB);
  load(L, "local ch, t = rn.shared_chan(1), { ('x'):rep(100000) } for _ = 1, 12 do t = { t, t } end "
          "local ok, err = pcall(ch.put, ch, t) return err");
  long before = peak_mb();
  const char *text = result_of(L);
  if (!strstr(text, "not enough memory")) FAIL("%s", text);
  CHECK(peak_mb() - before < 100); /* it would be 400 MB */
  lua_close(L);
}

/* After this, functions of the library find Lua's as before. */
static const char TAKE_AWAY[] =
    "for _, library in ipairs { 'coroutine', 'debug', 'math', 'table', 'utf8' } do "
    "  local t = _G[library] for name in pairs(t) do t[name] = nil end end "
    "for _, name in ipairs { 'io', 'os', 'debug', 'package', 'require', 'dofile', 'loadfile', 'load', 'table', 'math', "
    "  'coroutine', 'string', 'utf8', 'collectgarbage', 'select', 'setmetatable', 'rawget', 'next', 'xpcall', 'type', "
    "  'error', 'tostring', 'ipairs', 'pcall' } do _G[name] = nil end";

static void without_globals(void) {
  static const char *const scripts[] = {
      "return rn.thread(function() return 'ok' end):take()",
      "return rn.threads(1, function() return 'ok' end)(1)",
      "local ch = rn.chan() rn.go(function() ch:put 'ok' end) return ch:take()",
      /* NOLINTNEXTLINE(bugprone-suspicious-missing-comma): it is one script */
      "local to = rn.chan(4) rn.pipeline(2, to, rn.xf.map(function(x) return x + 1 end), rn.to_chan { 1, 2 }) "
      "return to:take() + to:take() == 5 and 'ok'",
      "return rn.reduce(function(a, b) return a + b end, 0, rn.pmap(2, function(x) return x end, { 1, 2 })):take() == "
      "3 "
      "and 'ok'",
      "local s = rn.scope(function(s) s:go(function() rn.sleep(1) end) return 'ok' end) return 'ok'",
      "local m = rn.mult(rn.to_chan { 'ok' }) local ch = rn.chan(1) rn.tap(m, ch) return ch:take()",
      "return rn.retry(function() return 'ok' end, { tries = 2 })",
      "local l = rn.leaks() return l and 'ok'",
      "local v, err = rn.go(function() local x = nil .. 'x' end):take() return err and 'ok'",
  };
  for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
    lua_State *L = open_limited(0, SIZE_MAX);
    load(L, scripts[i]);
    lua(L, TAKE_AWAY);
    const char *text = result_of(L);
    if (strcmp(text, "ok") != 0) FAIL("%s: %s", scripts[i], text);
    lua_close(L);
  }
}

/* A state need not have all of Lua's libraries. */
static void with_some_libraries(void) {
  lua_State *L = luaL_newstate();
  CHECK(L);
  luaL_openlibs(L);
  lua(L, "utf8 = nil");
  OK(runnel_open(L));
  lua(L, "package.path, package.cpath = '', '' rn = require 'runnel.all'");
  load(L, "local ch = rn.chan() rn.go(function() ch:put(utf8 == nil and 'ok') end) return ch:take()");
  const char *text = result_of(L);
  if (strcmp(text, "ok") != 0) FAIL("%s", text);
  lua_close(L);
}

/* A C function that ends its thread leaves the step as an exception does: by unwinding. */
static int end_thread(lua_State *L) {
  (void)L;
  pthread_exit(NULL);
}

static void *step(void *data) {
  (void)runnel_step((lua_State *)data, 10, NULL);
  FAIL("the step has returned");
}

static void left_by_unwinding(void) {
  lua_State *L = open_state();
  lua_pushcfunction(L, end_thread);
  OK(runnel_go(L, 0, NULL));
  join(start(step, L));
  runnel_chan *ch = NULL;
  IS(RUNNEL_RAISED, runnel_step(L, 10, NULL));
  CHECK(strstr(runnel_message(L), "close the lua_State"));
  IS(RUNNEL_RAISED, runnel_chan_new(L, RUNNEL_FIXED, 1, &ch));
  IS(RUNNEL_IDLE, runnel_interrupt(L, "x"));
  lua_close(L);
}

int main(void) {
  (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  limited();
  limited_while_packed();
  puts("ok limited");
  without_globals();
  puts("ok without_globals");
  with_some_libraries();
  puts("ok with_some_libraries");
  left_by_unwinding();
  puts("ok left_by_unwinding");
  return EXIT_SUCCESS;
}
