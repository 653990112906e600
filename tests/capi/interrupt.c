/* interrupt: runnel_interrupt, called in another thread, in a signal handler of the Lua thread, and from a go block.

     interrupt [ROUNDS [SEED]] */
#include <signal.h>
#include <stdatomic.h>

#include "capi.h"

static _Atomic(lua_State *) target; /* for the signal handler and the threads */
static atomic_bool is_over;         /* the threads are to end */
static atomic_bool is_computing;    /* the go block computes */

static int computes(lua_State *L) {
  (void)L;
  atomic_store(&is_computing, true);
  return 0;
}

static void on_signal(int number) {
  (void)number;
  (void)runnel_interrupt(atomic_load(&target), "time is up");
}

/* Thread: interrupts, once something computes, until it is told to end. */
static void *interrupt_until(void *arg) {
  (void)arg;
  while (!atomic_load(&is_over)) {
    if (atomic_load(&is_computing)) (void)runnel_interrupt(atomic_load(&target), "time is up");
    pause_us(200);
  }
  return NULL;
}

/* Thread: sends a signal to the thread `arg`, again and again. */
static void *signal_until(void *arg) {
  while (!atomic_load(&is_over)) {
    if (atomic_load(&is_computing)) CHECK(pthread_kill(*(pthread_t *)arg, SIGUSR1) == 0);
    pause_us(200);
  }
  return NULL;
}

/* Go blocks that compute for ever, each in another way. */
static const char *const ENDLESS[] = {
    "while true do end",
    "computes = nil while true do pcall(function() while true do end end) end",
    "while true do xpcall(error, function() for _ = 1, 1000 do end end) end",
    "while true do pcall(string.rep, 'x', 100) end",
    "local function f() return f() end f()",
    "local f f = function() pcall(f) while true do end end f()",
    "table.sort({3, 2, 1}, function() while true do end end)",
    "pcall(table.sort, {3, 2, 1}, function() while true do end end) error 'it goes on'",
    "return setmetatable({}, {__index = function() while true do end end}).x",
    "local t <close> = setmetatable({}, {__close = function() while true do end end}) while true do end",
    "for i = 1, math.huge do local ch = rn.chan(1) ch:put(i) ch:take() end",
    "while true do coroutine.wrap(function() coroutine.yield() end)() end",
    "while true do collectgarbage() local _ = setmetatable({}, {__gc = function() end}) end",
};

/* The go block gets the error at its result channel, and the others go on. */
static void check_endless(lua_State *L, size_t i) {
  runnel_chan *result = NULL;
  int64_t next;
  char code[512];
  atomic_store(&is_computing, false);
  (void)snprintf(code, sizeof code, "computes() %s", ENDLESS[i]);
  lua(L, "other = 0 others = rn.go(function() for _ = 1, 5 do other = other + 1 rn.yield() end end)");
  if (luaL_loadstring(L, code) != LUA_OK) FAIL("%s", lua_tostring(L, -1));
  OK(runnel_go(L, 0, &result));
  atomic_store(&target, L);
  int code_of_poll;
  do CHECK(runnel_step(L, 10, &next) >= RUNNEL_OK);
  while ((code_of_poll = runnel_poll(L, result)) == RUNNEL_EMPTY);
  IS(RUNNEL_CLOSED, code_of_poll);
  const char *message = runnel_message(L);
  if (!message || strcmp(message, "time is up") != 0) FAIL("%s: %s", ENDLESS[i], message ? message : "no error");
  atomic_store(&is_computing, false);
  for (int n = 0; n < 10; n++) CHECK(runnel_step(L, 10, &next) >= RUNNEL_OK);
  /* An interrupt that was on its way when the go block had ended may have met the other one. */
  lua(L, "assert(other == 5 or select(2, others:poll()) == 'time is up', other)");
  OK(runnel_chan_release(L, result));
}

static lua_State *open_computing(void) {
  lua_State *L = open_state();
  lua_register(L, "computes", computes);
  return L;
}

static void endless(void *(*interrupts)(void *)) {
  pthread_t self = pthread_self();
  atomic_store(&is_over, false);
  atomic_store(&is_computing, false);
  pthread_t thread = start(interrupts, &self);
  for (size_t i = 0; i < sizeof ENDLESS / sizeof *ENDLESS; i++) {
    lua_State *L = open_computing();
    check_endless(L, i);
    lua_close(L);
  }
  atomic_store(&is_over, true);
  join(thread);
}

/* A go block that interrupts itself. */
static int interrupt_me(lua_State *L) {
  OK(runnel_interrupt(atomic_load(&target), lua_tostring(L, 1)));
  return 0;
}

/* The errors that were reported and where, each behind a newline. */
static char reported[256];

static void report(void *data, const char *message, const char *where, const char *traceback) {
  size_t n = strlen(reported);
  (void)data, (void)traceback;
  (void)snprintf(reported + n, sizeof reported - n, "\n%s in %s", message, where);
}

/* An interrupt that came before an error is reported does not end the reporting; one that comes meanwhile ends it. */
static void while_reporting(void) {
  lua_State *L = open_state();
  lua_register(L, "interrupt_me", interrupt_me);
  OK(runnel_on_error(L, report, NULL));
  atomic_store(&target, L);
  lua(L, "local function ends(why, f) "
         "  local ch = rn.go(function() f() goes_on = true end) "
         "  local v, err = ch:take() assert(v == nil and err == why and not goes_on, err) end "
         "local function spin() interrupt_me 'a' while true do end end "
         "local ch = rn.chan(1, rn.xf.map(spin)):name 'spin' "
         "ends('a', function() ch:put(1) end) "
         "ends('a', function() rn.chan(1):name('now'):put_async(1, spin) end) "
         /* The handler, and what it calls, run to their ends. */
         "local errors = rn.chan(9, rn.xf.map(function(v) return v .. '!' end)) "
         "rn.on_error(function(err, traceback, where) errors:put_async(err .. where .. type(traceback)) end) "
         "ends('a', function() ch:put(1) end) "
         "assert(errors:poll() == 'achan: spinstring!' and #errors == 0) "
         "rn.on_error(function() interrupt_me 'b' while true do end end) "
         "local fails = rn.chan(1, rn.xf.map(error)) "
         "ends('b', function() fails:put 'c' end) "
         /* The handler that reports an interrupt ends by the next one, with the error of the first. */
         "ends('a', function() ch:put(1) end)");
  if (strcmp(reported, "\na in chan: spin\na in chan: now\nb in the error handler\na in the error handler") != 0)
    FAIL("reported:%s", reported);
  lua_close(L);
}

/* A go block that interrupts itself ends before its next instruction, with each text; and only that one ends. */
static void in_itself(void) {
  lua_State *L = open_state();
  lua_register(L, "interrupt_me", interrupt_me);
  atomic_store(&target, L);
  lua(L, "local function ends(why, ...) local n = select('#', ...) "
         "  local ch = rn.go(function() interrupt_me(why) goes_on = true end) "
         "  local v, err = ch:take() assert(v == nil and not goes_on) return err end "
         "assert(ends() == 'interrupted') assert(ends '' == '') assert(ends 'a' == 'a') "
         "local long = ('x'):rep(255) assert(ends(long) == long) assert(ends(long .. 'y') == long) "
         "local inner = rn.go(function() local ok = pcall(interrupt_me, 'b') return ok end) "
         "local v, err = inner:take() assert(v == nil and err == 'b') "
         /* Its variables are closed. An interrupt would end that, too, so there must be only one. */
         "local closes = rn.go(function() "
         "  local t <close> = setmetatable({}, {__close = function(_, e) got = e rn.sleep(1) waited = true end}) "
         "  interrupt_me 'c' while true do end end) "
         "closes:take() assert(got == 'c' and waited) "
         /* What the library does when a channel closes is not ended half done. */
         "local ch, seen = rn.chan() "
         "require 'runnel.core'.internal.on_close(ch, function() interrupt_me 'd' for _ = 1, 9 do end seen = true end) "
         "local closing = rn.go(function() ch:close() goes_on = true end) "
         "v, err = closing:take() assert(v == nil and err == 'd' and seen and not goes_on) "
         /* But the program's code that it calls is. */
         "local policy = {full = function() end, add = function() end, remove = function() end, count = function() "
         "return 0 end, "
         "  close = function() interrupt_me 'e' while true do end end} "
         "local ch, other, closed = rn.chan(), rn.chan(policy) "
         "require 'runnel.core'.internal.on_close(ch, function() other:close() closed = true end) "
         "closing = rn.go(function() ch:close() goes_on = true end) "
         "v, err = closing:take() assert(v == nil and err == 'e' and closed and not goes_on) "
         "assert(rn.go(function() rn.sleep(1) return 1 end):take() == 1)");
  IS(RUNNEL_IDLE, runnel_interrupt(L, "x"));
  IS(RUNNEL_BAD_ARGUMENT, runnel_interrupt(NULL, "x"));
  lua_State *co = lua_newthread(L);
  IS(RUNNEL_NOT_OPEN, runnel_interrupt(co, "x"));
  lua_close(L);
  IS(RUNNEL_NOT_OPEN, runnel_interrupt(L, "x"));
  L = luaL_newstate();
  IS(RUNNEL_NOT_OPEN, runnel_interrupt(L, "x"));
  lua_close(L);
}

/* With RUNNEL_COUNT also coroutines of the script's own end. */
static void counted(void) {
  static const char *const scripts[] = {
      "coroutine.wrap(function() while true do end end)()",
      "while true do coroutine.resume(coroutine.create(function() pcall(function() while true do end end) end)) end",
  };
  for (size_t i = 0; i < 2; i++) {
    atomic_store(&is_over, false);
    atomic_store(&is_computing, false);
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    OK(runnel_open_limited(L, RUNNEL_COUNT, SIZE_MAX));
    lua_register(L, "computes", computes);
    atomic_store(&target, L);
    pthread_t thread = start(interrupt_until, NULL);
    lua(L, "rn = require 'runnel'");
    lua_pushfstring(L,
                    "local ch = rn.go(function() computes() %s end) local v, err = ch:take() "
                    "assert(err:find 'time is up$', err)",
                    scripts[i]);
    lua(L, lua_tostring(L, -1));
    atomic_store(&is_over, true);
    join(thread);
    lua_close(L);
  }
}

/* Thread: interrupts at any moment, with the state open or closed. The pauses leave a go block the time to end. */
static void *interrupt_always(void *arg) {
  (void)arg;
  for (int i = 0; !atomic_load(&is_over); i++) {
    pause_us(i % 4 * 100L);
    int code = runnel_interrupt(atomic_load(&target), "at random");
    CHECK(code == RUNNEL_OK || code == RUNNEL_IDLE || code == RUNNEL_NOT_OPEN || code == RUNNEL_BAD_ARGUMENT);
  }
  return NULL;
}

/* States that are opened, run and closed while threads interrupt them at any moment: each go block either does all its
   work, or ends with the error. */
static void at_random(int rounds) {
  enum { THREADS = 3 };
  lua_Integer all_closed = 0;
  pthread_t threads[THREADS];
  atomic_store(&is_over, false);
  atomic_store(&target, NULL);
  for (int i = 0; i < THREADS; i++) threads[i] = start(interrupt_always, NULL);
  for (int round = 0; round < rounds; round++) {
    lua_State *L = open_state();
    lua(L, "rn.on_error(function() end) results, began, closed = {}, 0, 0 "
           "for i = 1, 40 do results[i] = rn.go(function() "
           "  began = began + 1 local t <close> = setmetatable({}, {__close = function() rn.yield() closed = closed + "
           "1 end})  "
           "  local ch = rn.chan(1) for j = 1, 20 do ch:put(j) pcall(function() local x = ('x'):rep(j) end) "
           "  assert(ch:take() == j) if j % i == 0 then rn.yield() end end return 'done' end) end");
    atomic_store(&target, L);
    int64_t next = 0;
    for (int n = 0; n < 2000 && next == 0; n++) CHECK(runnel_step(L, 7, &next) >= RUNNEL_OK);
    atomic_store(&target, NULL);
    while (next == 0) CHECK(runnel_step(L, 100, &next) >= RUNNEL_OK);
    lua(L, "for i = 1, 40 do local v, err = results[i]:poll() "
           "assert(v == 'done' or err == 'at random', tostring(err)) end assert(closed <= began)");
    CHECK(lua_getglobal(L, "closed") == LUA_TNUMBER);
    all_closed += lua_tointeger(L, -1);
    lua_close(L);
  }
  CHECK(all_closed > 0); /* not in each round: an interrupt may end each go block before it closes its variable */
  atomic_store(&is_over, true);
  for (int i = 0; i < THREADS; i++) join(threads[i]);
}

int main(int argc, char **argv) {
  (void)setvbuf(stdout, NULL, _IOLBF, 0);
  int rounds = argc > 1 ? atoi(argv[1]) : 30;
  struct sigaction action = {.sa_handler = on_signal};
  sigemptyset(&action.sa_mask);
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  in_itself();
  puts("ok in_itself");
  while_reporting();
  puts("ok while_reporting");
  endless(interrupt_until);
  puts("ok endless, by a thread");
  endless(signal_until);
  puts("ok endless, by a signal handler");
  counted();
  puts("ok counted");
  at_random(rounds);
  puts("ok at_random");
  return EXIT_SUCCESS;
}
