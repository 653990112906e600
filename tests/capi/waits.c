/* waits: functions that wait, alone and with threads that put, post, take, close and let go at any moment; cancels,
   timeouts, the running go block, and the handler of errors.

     waits [ROUNDS [SEED]] */
#include <poll.h>
#include <stdatomic.h>

#include "capi.h"

static const int64_t MS = 1000, LONG = 60000000; /* in microseconds; what is LONG must never pass */

static int64_t now_us(void) {
  struct timespec ts;
  (void)clock_gettime(CLOCK_MONOTONIC, &ts);
  return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static unsigned seed;
static unsigned any(unsigned n) { return seed = seed * 1103515245 + 12345, seed / 65536 % n; }

static runnel_chan *chan(lua_State *L, const char *name) {
  runnel_chan *ch = NULL;
  lua_getglobal(L, name);
  OK(runnel_chan_get(L, -1, &ch));
  lua_pop(L, 1);
  return ch;
}

static runnel_chan *new_chan(lua_State *L, size_t size) {
  runnel_chan *ch = NULL;
  OK(runnel_chan_new(L, RUNNEL_FIXED, size, &ch));
  return ch;
}

static void is_integer(lua_State *L, lua_Integer expected) {
  CHECK(lua_isinteger(L, -1) && lua_tointeger(L, -1) == expected);
  lua_pop(L, 1);
}

static void has_message(lua_State *L, const char *text) {
  const char *message = runnel_message(L);
  if (!message || !strstr(message, text)) FAIL("the message is %s, without '%s'", message ? message : "NULL", text);
}

/* ---- alone ---- */

/* A go block gives and takes what the program waits for; a limit passes, and leaves nothing behind. */
static void takes_and_puts(void) {
  lua_State *L = open_state();
  int64_t next;
  lua(L, "ch, echo = rn.chan(), rn.chan() rn.go(function() rn.sleep(5) ch:put(1) for v in echo do got = v end end)");
  runnel_chan *ch = chan(L, "ch"), *echo = chan(L, "echo");
  IS(RUNNEL_EMPTY, runnel_take(L, ch, 0));
  OK(runnel_take(L, ch, LONG));
  is_integer(L, 1);
  IS(RUNNEL_IDLE, runnel_next(L, &next)); /* no timer of the limit is left */
  CHECK(next == -1);
  lua_pushinteger(L, 7);
  OK(runnel_put(L, echo, -1));
  lua(L, "rn.step() assert(got == 7)");
  int64_t begun = now_us();
  IS(RUNNEL_EMPTY, runnel_take(L, ch, 20 * MS));
  CHECK(now_us() - begun >= 20 * MS);
  lua_pushinteger(L, 8);
  IS(RUNNEL_FULL, runnel_put(L, ch, MS));
  IS(RUNNEL_EMPTY, runnel_poll(L, ch)); /* it was not put */
  IS(RUNNEL_IDLE, runnel_take(L, ch, -1));
  has_message(L, "runnel_take on chan");
  has_message(L, "parked go blocks");
  lua_pushnil(L);
  IS(RUNNEL_BAD_ARGUMENT, runnel_put(L, ch, MS));
  IS(RUNNEL_BAD_ARGUMENT, runnel_put(L, ch, MS)); /* the stack is empty */
  OK(runnel_chan_close(L, ch, "over"));
  IS(RUNNEL_CLOSED, runnel_take(L, ch, -1));
  has_message(L, "over");
  lua_pushinteger(L, 9);
  IS(RUNNEL_CLOSED, runnel_put(L, ch, -1));
  CHECK(!runnel_message(L));
  lua(L, "closing = rn.chan() rn.go(function() rn.sleep(2) closing:close('why') end)");
  IS(RUNNEL_CLOSED, runnel_take(L, chan(L, "closing"), LONG));
  has_message(L, "why");
  lua(L, "rn.driver { alive = function() return true end, wait = function() error 'no driver' end }");
  IS(RUNNEL_RAISED, runnel_take(L, echo, LONG));
  has_message(L, "no driver");
  lua(L, "rn.driver { alive = function() return true end, wait = function() error('deadlock: runnel_take', 0) end }");
  IS(RUNNEL_RAISED, runnel_take(L, echo, LONG)); /* only its text is that of a deadlock */
  has_message(L, "deadlock: runnel_take");
  lua(L, "rn.driver(nil)");
  IS(RUNNEL_IDLE, runnel_next(L, &next)); /* an error leaves no timer either */
  CHECK(lua_gettop(L) == 0);
  lua_close(L);
}

static void alts(void) {
  lua_State *L = open_state();
  int done = -1, counts[3] = {0};
  runnel_chan *a = new_chan(L, 4), *b = new_chan(L, 4), *c = new_chan(L, 0), *released = new_chan(L, 0);
  lua_pushliteral(L, "value"); /* index 1 */
  const runnel_op takes[] = {{a, 0}, {b, 0}, {c, 0}}, mixed[] = {{c, 0}, {a, 1}, {b, -1}};
  IS(RUNNEL_EMPTY, runnel_alts(L, takes, 3, 0, 0, &done));
  IS(RUNNEL_EMPTY, runnel_alts(L, takes, 3, 0, MS, &done));
  IS(RUNNEL_IDLE, runnel_alts(L, takes, 3, 0, -1, &done));
  has_message(L, "deadlock: runnel_alts");
  CHECK(done == -1 && lua_gettop(L) == 1);
  for (int i = 0; i < 400; i++) {
    OK(runnel_alts(L, mixed, 3, 0, 0, &done));
    CHECK(done == 1 || done == 2);
    counts[done]++;
    OK(runnel_alts(L, takes, 3, RUNNEL_PRIORITY, -1, &done));
    CHECK(strcmp(lua_tostring(L, -1), "value") == 0 && lua_gettop(L) == 2);
    lua_pop(L, 1);
  }
  CHECK(counts[1] > 100 && counts[2] > 100);
  for (int i = 0; i < 20; i++) {
    OK(runnel_alts(L, mixed, 3, RUNNEL_PRIORITY, 0, &done));
    CHECK(done == 1);
    OK(runnel_alts(L, takes, 3, RUNNEL_PRIORITY, 0, &done));
    CHECK(done == 0);
    lua_pop(L, 1);
  }
  OK(runnel_chan_push(L, c));
  lua_setglobal(L, "c");
  lua(L, "rn.go(function() rn.sleep(1) c:put 'late' end)");
  OK(runnel_alts(L, takes, 3, 0, LONG, &done));
  CHECK(done == 2 && strcmp(lua_tostring(L, -1), "late") == 0);
  lua_pop(L, 1);
  OK(runnel_chan_close(L, b, "no more"));
  IS(RUNNEL_CLOSED, runnel_alts(L, takes, 3, 0, 0, &done));
  CHECK(done == 1);
  has_message(L, "no more");
  OK(runnel_chan_release(L, released));
  const runnel_op bad[] = {{released, 0}};
  IS(RUNNEL_BAD_ARGUMENT, runnel_alts(L, bad, 1, 0, 0, &done));
  const runnel_op too_high[] = {{a, 2}}, too_low[] = {{a, -2}};
  IS(RUNNEL_BAD_ARGUMENT, runnel_alts(L, too_high, 1, 0, 0, &done));
  IS(RUNNEL_BAD_ARGUMENT, runnel_alts(L, too_low, 1, 0, 0, &done));
  IS(RUNNEL_BAD_ARGUMENT, runnel_alts(L, takes, 0, 0, 0, &done));
  IS(RUNNEL_BAD_ARGUMENT, runnel_alts(L, takes, 3, 2, 0, &done));
  IS(RUNNEL_BAD_ARGUMENT, runnel_alts(L, takes, 3, 0, 0, NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_alts(L, NULL, 3, 0, 0, &done));
  IS(RUNNEL_BAD_ARGUMENT, runnel_alts(NULL, takes, 3, 0, 0, &done));
  IS(RUNNEL_BAD_ARGUMENT, runnel_take(L, NULL, 0));
  lua_pushnil(L);
  const runnel_op nothing[] = {{a, -1}};
  IS(RUNNEL_BAD_ARGUMENT, runnel_alts(L, nothing, 1, 0, 0, &done));
  lua_settop(L, 1);
  runnel_op *many = (runnel_op *)calloc(RUNNEL_ALTS_MAX, sizeof *many);
  CHECK(many);
  for (int i = 0; i < RUNNEL_ALTS_MAX; i++) many[i].ch = new_chan(L, 1);
  OK(runnel_offer_integer(L, many[RUNNEL_ALTS_MAX - 1].ch, 5));
  OK(runnel_alts(L, many, RUNNEL_ALTS_MAX, 0, 0, &done));
  CHECK(done == RUNNEL_ALTS_MAX - 1);
  IS(RUNNEL_EMPTY, runnel_alts(L, many, RUNNEL_ALTS_MAX, 0, MS, &done));
  free(many);
  lua_close(L);
}

/* The example of docs/manual/c-api.md. */
static void ask(lua_State *L) {
  runnel_chan *answer;
  lua_getglobal(L, "ask"); /* a function of a script, which may wait */
  lua_pushliteral(L, "how late is it?");
  runnel_go(L, 1, &answer);
  int code = runnel_take(L, answer, 500000); /* half a second */
  if (code == RUNNEL_OK) puts(lua_tostring(L, -1));
  if (code == RUNNEL_EMPTY) runnel_cancel(L, answer, "too late");
  lua_settop(L, 0);
  runnel_chan_release(L, answer);
}

static void example(void) {
  lua_State *L = open_state();
  lua(L, "function ask(text) asked = text rn.sleep(1) return 'noon' end");
  ask(L);
  lua(L, "assert(asked == 'how late is it?')");
  lua(L, "function ask() local ok, err = pcall(rn.sleep, 1e9) why = err end");
  ask(L);
  lua(L, "rn.run() assert(why == 'too late')");
  lua_close(L);
}

/* A deadlock reports the errors that explain it, and the program may go on. */
static void deadlock_after_an_error(void) {
  lua_State *L = open_state();
  lua(L, "rn.on_error(function(err) reported = err end) ch = rn.chan() rn.go(function() error 'the cause' end)");
  IS(RUNNEL_IDLE, runnel_take(L, chan(L, "ch"), -1));
  lua(L, "assert(reported:find 'the cause')");
  lua(L, "rn.go(function() ch:put(3) end)");
  OK(runnel_take(L, chan(L, "ch"), -1));
  is_integer(L, 3);
  lua_close(L);
}

/* Threads of the state that wait for each other for ever, and the program for them. */
static void deadlock_of_threads(void) {
  lua_State *L = open_state();
  lua(L, "ch = rn.shared_chan() t = rn.thread(function(ch) return ch:take() end, ch) ");
  IS(RUNNEL_IDLE, runnel_take(L, chan(L, "t"), -1));
  has_message(L, "the threads that could complete it wait for ever, too");
  lua(L, "ch:put(6)");
  OK(runnel_take(L, chan(L, "t"), -1));
  is_integer(L, 6);
  lua_close(L);
}

/* An error that ends a call of the scheduler early leaves go blocks ready: the descriptor tells of them. */
static void fd_after_an_error(void) {
  lua_State *L = open_state();
  int fd;
  int64_t next;
  OK(runnel_fd(L, &fd));
  struct pollfd polled = {.fd = fd, .events = POLLIN};
  lua(L, "local n = 0 rn.driver { alive = function() return true end, "
         "  wait = function() n = n + 1 if n == 2 then error 'it fails once' end end } "
         "local function busy() local t = rn.now() while rn.now() - t < 3 do end end "
         "ran = 0 for _ = 1, 20 do rn.go(function() busy() ran = ran + 1 end) end");
  CHECK(runnel_next(L, &next) == RUNNEL_OK && poll(&polled, 1, 0) == 1);
  IS(RUNNEL_RAISED, runnel_step(L, 1000, &next));
  has_message(L, "it fails once");
  lua(L, "assert(ran > 0 and ran < 20, ran)");
  CHECK(poll(&polled, 1, 0) == 1);
  lua_close(L);
}

static runnel_chan *inner; /* for functions that go blocks call */

/* Lua: () -> the codes of a take that may wait, and of one that may not */
static int take_within(lua_State *L) {
  lua_pushinteger(L, runnel_take(L, inner, MS));
  lua_pushinteger(L, runnel_take(L, inner, 0));
  return 2;
}

/* Lua: () -> the name of the running go block, or nil */
static int name_current(lua_State *L) {
  if (runnel_current(L, &inner) == RUNNEL_IDLE) lua_pushnil(L);
  return 1;
}

static void within_go_blocks(void) {
  lua_State *L = open_state();
  inner = new_chan(L, 0);
  lua_register(L, "take_within", take_within);
  lua_register(L, "name_current", name_current);
  lua(L, "rn.go(function() a, b = take_within() end) rn.run() assert(a == -4 and b == 2, a)");
  lua(L, "assert(name_current() == nil) ch = rn.chan()");
  lua(L, "result = rn.go(function() rn.rename 'the worker' name = name_current() ch:take() end) rn.step()");
  lua(L, "assert(name == 'the worker')");
  OK(runnel_cancel(L, inner, "enough"));
  OK(runnel_cancel(L, inner, "again"));
  lua(L, "local v, err = result:take() assert(v == nil and err == 'enough', err)");
  IS(RUNNEL_CLOSED, runnel_cancel(L, inner, NULL));
  lua(L, "result = rn.go(function() name_current() rn.sleep(1e6) end) rn.step()");
  OK(runnel_cancel(L, inner, NULL));
  lua(L, "assert(select(2, result:take()) == 'cancelled')");
  IS(RUNNEL_BAD_ARGUMENT, runnel_cancel(L, chan(L, "ch"), NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_cancel(L, NULL, NULL));
  IS(RUNNEL_IDLE, runnel_current(L, NULL));
  lua(L, "thread = rn.thread(function() require 'runnel'.sleep(1e6) end)");
  OK(runnel_cancel(L, chan(L, "thread"), "no thread"));
  IS(RUNNEL_CLOSED, runnel_take(L, chan(L, "thread"), LONG));
  has_message(L, "no thread");
  CHECK(lua_gettop(L) == 0);
  lua_close(L);
}

static void timeouts(void) {
  lua_State *L = open_state();
  runnel_chan *ch = NULL;
  int64_t begun = now_us();
  OK(runnel_timeout(L, 5 * MS, &ch));
  IS(RUNNEL_BAD_ARGUMENT, runnel_chan_close(L, ch, NULL));
  IS(RUNNEL_CLOSED, runnel_take(L, ch, -1));
  CHECK(now_us() - begun >= 5 * MS);
  IS(RUNNEL_BAD_ARGUMENT, runnel_timeout(L, -1, &ch));
  IS(RUNNEL_BAD_ARGUMENT, runnel_timeout(L, 1, NULL));
  OK(runnel_timeout(L, INT64_MAX, &ch));
  IS(RUNNEL_EMPTY, runnel_take(L, ch, MS));
  lua_close(L);
}

/* Waiting takes no time of the processor, also while a debug hook counts instructions (RUNNEL_COUNT). */
static void waiting_is_idle(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  OK(runnel_open_limited(L, RUNNEL_COUNT, SIZE_MAX));
  lua(L, "rn = require 'runnel' ch = rn.chan() "
         "rn.go(function() coroutine.wrap(function() for _ = 1, 1e4 do end end)() rn.sleep(50) end)");
  clock_t begun = clock();
  IS(RUNNEL_EMPTY, runnel_take(L, chan(L, "ch"), 300 * MS));
  CHECK(clock() - begun < CLOCKS_PER_SEC * 15 / 100);
  lua_close(L);
}

/* ---- the time of the next step ---- */

enum { SLEEPERS = 12 };

static bool is_pending[SLEEPERS]; /* it sleeps, or will */
static int begins[SLEEPERS];      /* ms: for how long it sleeps, since the last call of the API; 0: since before */

/* Lua: began(i, ms): the sleeper number i begins. */
static int began(lua_State *L) {
  begins[lua_tointeger(L, 1)] = 1 + (int)lua_tointeger(L, 2);
  return 0;
}

/* Lua: fired(i): the sleeper number i is due, or was stopped. */
static int fired(lua_State *L) {
  lua_Integer i = lua_tointeger(L, 1);
  CHECK(is_pending[i]);
  is_pending[i] = false;
  return 0;
}

/* Sleepers of each kind, which are started and stopped at random: a step is never due later than the first of them, and
   the state is idle only if there is none. */
static void steps_are_due(void) {
  int64_t latest[SLEEPERS] = {0}; /* when it is due, at the latest: a timeout may be 10 ms later than was asked */
  lua_State *L = open_state();
  inner = new_chan(L, 0);
  memset(is_pending, 0, sizeof is_pending);
  memset(begins, 0, sizeof begins);
  lua_register(L, "fired", fired);
  lua_register(L, "began", began);
  lua(L,
      "local what = {} function start(i, kind, ms) "
      "  if kind == 0 then what[i] = rn.go(function() local t <close> = setmetatable({}, {__close = function() "
      "    fired(i) end}) began(i, ms) rn.sleep(ms) end) "
      "  elseif kind == 1 then began(i, ms) what[i] = rn.after(ms, fired, i) "
      "  else began(i, ms + 10) local ch = rn.timeout(ms) what[i] = ch ch:take_async(function() fired(i) end) end end "
      "function stop(i) if rn.is_chan(what[i]) then if pcall(rn.cancel, what[i]) then rn.step(1) end "
      "  elseif what[i]:stop() then fired(i) end end");
  for (int n = 0; n < 60; n++) {
    int i = (int)any(SLEEPERS), count = 0;
    int64_t next = 0, first = INT64_MAX, before;
    if (n < 40 && !is_pending[i]) {
      unsigned kind = any(3), ms = any(12);
      is_pending[i] = true;
      lua_getglobal(L, "start");
      lua_pushinteger(L, i);
      lua_pushinteger(L, kind);
      lua_pushinteger(L, ms);
      lua_call(L, 3, 0);
      latest[i] = INT64_MAX;
    } else if (any(3) == 0 && is_pending[i]) {
      lua_getglobal(L, "stop");
      lua_pushinteger(L, i);
      lua_call(L, 1, 0);
    }
    if (any(2)) CHECK(runnel_step(L, any(3), &next) >= RUNNEL_OK);
    if (any(4) == 0) IS(RUNNEL_EMPTY, runnel_take(L, inner, any(2) ? 0 : (int64_t)any(3000)));
    before = now_us();
    int code = runnel_next(L, &next);
    for (int j = 0; j < SLEEPERS; j++) {
      if (begins[j]) latest[j] = before + begins[j] * MS;
      begins[j] = 0;
      count += is_pending[j];
      if (is_pending[j] && latest[j] < first) first = latest[j];
    }
    if (count > 0 && (code != RUNNEL_OK || next < 0 || (next > 0 && before + next > first + MS)))
      FAIL("code %d, %d sleep; the first is due in %d us, the next step in %d", code, count, (int)(first - before),
           (int)next);
    /* A timeout that nobody waits for any more is still a timer. */
    if (code == RUNNEL_IDLE) CHECK(next == -1 && count == 0);
    if (next > 0 && any(2)) pause_us((long)next);
  }
  for (int64_t next = 0; runnel_step(L, 10, &next) != RUNNEL_IDLE;) {
    if (next > 0) pause_us((long)next);
  }
  for (int j = 0; j < SLEEPERS; j++) CHECK(!is_pending[j]);
  lua_close(L);
}

/* ---- errors ---- */

typedef struct Reports {
  atomic_int count;
  char error[200], where[200], traceback[1000]; /* of the last one */
} Reports;

static void report(void *data, const char *error, const char *where, const char *traceback) {
  Reports *reports = (Reports *)data;
  (void)snprintf(reports->error, sizeof reports->error, "%s", error);
  (void)snprintf(reports->where, sizeof reports->where, "%s", where);
  (void)snprintf(reports->traceback, sizeof reports->traceback, "%s", traceback ? traceback : "");
  atomic_fetch_add(&reports->count, 1);
}

static void is_reported(Reports *reports, int count, const char *error, const char *where) {
  if (atomic_load(&reports->count) != count || !strstr(reports->error, error) || !strstr(reports->where, where))
    FAIL("%d reports, the last of '%s' in '%s'", atomic_load(&reports->count), reports->error, reports->where);
}

static void errors_are_reported(void) {
  static Reports reports, others;
  static const char deadlocked[] = "pcall(function() rn.chan():take() end)"; /* errors that wait are reported */
  lua_State *L = open_state();
  OK(runnel_on_error(L, report, &reports));
  lua(L, "rn.go(function() rn.rename 'the culprit' error 'it failed' end) rn.run()");
  lua(L, deadlocked);
  is_reported(&reports, 1, "it failed", "the culprit");
  CHECK(strstr(reports.traceback, "stack traceback"));
  /* A handler in Lua comes first; what fails there is reported, too. */
  lua(L, "rn.on_error(function(err) heard = err end) rn.go(error, 'to Lua') rn.run()");
  lua(L, deadlocked);
  lua(L, "assert(heard == 'to Lua')");
  is_reported(&reports, 1, "it failed", "the culprit");
  lua(L, "rn.on_error(function(err) error 'the handler fails' end) rn.go(error, 'first') rn.run()");
  lua(L, deadlocked);
  is_reported(&reports, 3, "first", "[C]");
  lua(L, "rn.on_error(nil) failed = rn.chan() failed:name 'orders' failed:close { message = 'a table', code = 3 } "
         "for _ in failed do end");
  lua(L, deadlocked);
  is_reported(&reports, 4, "a table (code = 3)", "orders");
  OK(runnel_on_error(L, report, &others));
  lua(L, "rn.go(error, 'at the end') rn.run()");
  lua_close(L);
  is_reported(&others, 1, "at the end", "[C]");
  is_reported(&reports, 4, "a table", "orders");
}

/* Errors of threads are reported, too, in these threads. */
static void errors_of_threads(void) {
  static Reports reports;
  lua_State *L = open_state();
  OK(runnel_on_error(L, report, &reports));
  lua(L, "t = rn.thread(function() local rn = require 'runnel' rn.go(error, 'in a thread') rn.yield() end)");
  IS(RUNNEL_CLOSED, runnel_take(L, chan(L, "t"), LONG));
  lua_close(L);
  is_reported(&reports, 1, "in a thread", "[C]");
}

/* ---- shared channels ---- */

static runnel_value *taken(runnel_shared *shared, int kind) {
  runnel_value *value = NULL;
  OK(runnel_shared_take(shared, LONG, &value));
  CHECK(value && value->kind == kind);
  return value;
}

static void shared_values(void) {
  static const char text[] = "a string that is too long for a place in the value itself";
  lua_State *L = open_state(), *other = open_state();
  runnel_shared *shared = NULL;
  runnel_value *value = NULL;
  OK(runnel_shared_new(RUNNEL_FIXED, 20, &shared));
  OK(runnel_shared_push(L, shared));
  lua_setglobal(L, "sh");
  IS(RUNNEL_EMPTY, runnel_shared_take(shared, 0, &value));
  IS(RUNNEL_EMPTY, runnel_shared_take(shared, MS, &value));
  CHECK(!value);
  lua(L, "for _, v in ipairs { true, false, 3, 2.5, 'short', '', { 1, x = { 'nested' } }, sh } do sh:put(v) end");
  OK(runnel_shared_put_bytes(shared, text, sizeof text, 0));
  for (int i = 1; i >= 0; i--) {
    value = taken(shared, RUNNEL_BOOLEAN);
    CHECK(value->as.boolean == i);
    OK(runnel_value_release(value));
  }
  value = taken(shared, RUNNEL_INTEGER);
  CHECK(value->as.integer == 3);
  OK(runnel_value_push(L, value));
  is_integer(L, 3);
  OK(runnel_value_release(value));
  value = taken(shared, RUNNEL_NUMBER);
  CHECK(value->as.number == 2.5);
  OK(runnel_value_release(value));
  value = taken(shared, RUNNEL_BYTES);
  CHECK(value->as.bytes.size == 5 && memcmp(value->as.bytes.start, "short", 5) == 0);
  OK(runnel_value_release(value));
  value = taken(shared, RUNNEL_BYTES);
  CHECK(value->as.bytes.size == 0);
  OK(runnel_value_release(value));
  value = taken(shared, RUNNEL_OTHER);
  for (int i = 0; i < 2; i++) { /* any state, and more than once */
    OK(runnel_value_push(other, value));
    lua_setglobal(other, "t");
    lua(other, "assert(t[1] == 1 and t.x[1] == 'nested')");
  }
  OK(runnel_value_release(value));
  value = taken(shared, RUNNEL_OTHER);
  OK(runnel_value_push(L, value));
  lua_setglobal(L, "same");
  lua(L, "assert(same == sh)");
  OK(runnel_value_release(value));
  value = taken(shared, RUNNEL_BYTES);
  CHECK(value->as.bytes.size == sizeof text && memcmp(value->as.bytes.start, text, sizeof text) == 0);
  OK(runnel_value_push(other, value));
  CHECK(strcmp(lua_tostring(other, -1), text) == 0);
  OK(runnel_value_release(value));
  OK(runnel_value_release(NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_value_push(L, NULL));
  IS(RUNNEL_BAD_ARGUMENT, runnel_shared_take(NULL, 0, &value));
  IS(RUNNEL_BAD_ARGUMENT, runnel_shared_take(shared, 0, NULL));
  lua(L, "sh:put 'last' sh:close 'a reason'");
  value = taken(shared, RUNNEL_BYTES);
  OK(runnel_value_release(value));
  IS(RUNNEL_CLOSED, runnel_shared_take(shared, -1, &value));
  CHECK(value && value->kind == RUNNEL_BYTES && memcmp(value->as.bytes.start, "a reason", 8) == 0);
  OK(runnel_value_release(value));
  OK(runnel_shared_release(shared));
  OK(runnel_shared_new(RUNNEL_FIXED, 0, &shared));
  IS(RUNNEL_IDLE, runnel_shared_take(shared, -1, &value)); /* nobody else has it */
  OK(runnel_shared_close(shared, NULL));
  IS(RUNNEL_CLOSED, runnel_shared_take(shared, -1, &value));
  CHECK(!value);
  OK(runnel_shared_release(shared));
  lua_close(L);
  lua_close(other);
}

/* ---- threads, at random ---- */

enum { MOST = 4, EACH = 40, ALL = MOST * EACH };

/* A thread that gives values of its own: number * EACH + i, in order. */
typedef struct Giver {
  pthread_t thread;
  runnel_port *port;     /* where it posts; or NULL, and */
  runnel_shared *shared; /* where it puts */
  int number;
  int values;   /* how many it gives */
  int accepted; /* how many were */
  unsigned seed;
  bool closes; /* at the end it closes what it gives to */
} Giver;

/* A short pause, of any length down to none, so that each meets any moment of the scheduler. */
static void pause_any(unsigned *state) {
  *state = *state * 1103515245 + 12345;
  unsigned n = *state / 65536;
  if (n % 3 == 0) pause_us(n / 3 % 300);
  else
    for (volatile unsigned spins = 0; spins < n % 2000;) spins = spins + 1;
}

static int give(Giver *g, int value) {
  if (g->shared) return runnel_shared_put_integer(g->shared, value, LONG);
  int code;
  while ((code = runnel_post_integer(g->port, value)) == RUNNEL_FULL) {
    if (runnel_port_wait(g->port) == RUNNEL_CLOSED) return RUNNEL_CLOSED;
  }
  return code;
}

static void *give_all(void *arg) {
  Giver *g = (Giver *)arg;
  for (int i = 0; i < g->values; i++) {
    pause_any(&g->seed);
    int code = give(g, g->number * EACH + i);
    /* RUNNEL_IDLE: the others have let go */
    if (code == RUNNEL_CLOSED || code == RUNNEL_IDLE) break;
    OK(code);
    g->accepted++;
  }
  pause_any(&g->seed);
  if (g->closes) OK(g->port ? runnel_port_close(g->port) : runnel_shared_close(g->shared, NULL));
  OK(g->port ? runnel_port_release(g->port) : runnel_shared_release(g->shared));
  return NULL;
}

/* What the program has taken: the values of each giver in order. */
typedef struct Tally {
  int next[MOST];
} Tally;

static void count(Tally *t, lua_Integer value) {
  CHECK(value >= 0 && value < ALL);
  CHECK(t->next[value / EACH] == value % EACH);
  t->next[value / EACH]++;
}

static void pop_and_count(lua_State *L, Tally *t) {
  CHECK(lua_isinteger(L, -1));
  count(t, lua_tointeger(L, -1));
  lua_pop(L, 1);
}

/* Each giver has a port, or a shared channel, of its own to one of the channels; the last references go at any moment.
   The program waits for all channels at once, in a way that is chosen at random: by alts with any limit; or by its own
   poll, until it is told by runnel_fd or by the time of the next step. It gets every value, then the end of each
   channel; or RUNNEL_IDLE, once all have let go of channels that stay open, but not before. It never waits LONG. */
static void waits_for_threads(void) {
  lua_State *L = open_state();
  Giver givers[MOST];
  Tally tally = {{0}};
  runnel_op ops[MOST];
  int n = 1 + (int)any(MOST), open = n, done = 0, fd = -1;
  bool polls = any(2), has_fd = polls || any(2), all_close = true;
  if (has_fd) OK(runnel_fd(L, &fd));
  if (any(3) == 0) lua(L, "rn.go(function() for _ = 1, 30 do rn.sleep(1) end end)");
  for (int i = 0; i < n; i++) {
    Giver *g = &givers[i];
    *g = (Giver){.number = i, .values = (int)any(EACH), .seed = any(65536), .closes = polls || any(2)};
    if (any(2)) {
      int end = (polls || any(2) ? RUNNEL_CLOSE_CHANNEL : RUNNEL_LEAVE_OPEN) | (any(2) ? RUNNEL_QUIET : 0);
      ops[i] = (runnel_op){new_chan(L, any(3)), 0};
      OK(runnel_port_open(L, ops[i].ch, 1 + any(5), end, &g->port));
      all_close &= end & RUNNEL_CLOSE_CHANNEL;
    } else {
      ops[i] = (runnel_op){NULL, 0};
      OK(runnel_shared_new(RUNNEL_FIXED, any(3), &g->shared));
      OK(runnel_shared_push(L, g->shared));
      OK(runnel_chan_get(L, -1, &ops[i].ch));
      lua_pop(L, 1);
      all_close &= g->closes;
    }
  }
  for (int i = 0; i < n; i++) givers[i].thread = start(give_all, &givers[i]);
  while (open > 0) {
    const int64_t limits[] = {0, 1, 300, 2 * MS, -1, LONG};
    int code;
    int64_t next = 0, limit = polls ? 0 : limits[any(all_close ? 6 : 5)], begun = now_us();
    if (polls) CHECK(runnel_step(L, 1 + any(100), &next) >= RUNNEL_OK);
    code = runnel_alts(L, ops, open, (int)any(2), limit, &done);
    if (code == RUNNEL_OK) {
      pop_and_count(L, &tally);
    } else if (code == RUNNEL_CLOSED) {
      ops[done] = ops[--open];
    } else if (code == RUNNEL_IDLE && limit < 0) {
      open = 0;
    } else {
      IS(RUNNEL_EMPTY, code);
      CHECK(limit >= 0 && limit < LONG && now_us() - begun >= limit);
      struct pollfd polled = {.fd = fd, .events = POLLIN};
      CHECK(runnel_next(L, &next) >= RUNNEL_OK);
      if (polls && next != 0) (void)poll(&polled, 1, next < 0 || next > 5 * MS ? 5 : (int)((next + 999) / 1000));
    }
  }
  for (int i = 0; i < n; i++) {
    join(givers[i].thread);
    CHECK(tally.next[i] == givers[i].accepted && givers[i].accepted == givers[i].values);
  }
  CHECK(lua_gettop(L) == 0);
  lua_close(L);
}

/* Takes that wait in go blocks, and a program that does nothing but poll: a wakeup that is lost would leave it waiting
   for ever. */
static void polls_for_threads(void) {
  lua_State *L = open_state();
  Giver givers[MOST];
  Tally tally = {{0}};
  int n = 1 + (int)any(MOST), fd = -1;
  lua(L, "open = 0 results = rn.chan(10000) function serve(ch) open = open + 1 "
         "rn.go(function() for v in ch do results:put(v) end open = open - 1 end) end");
  if (any(2)) OK(runnel_fd(L, &fd));
  for (int i = 0; i < n; i++) {
    Giver *g = &givers[i];
    *g = (Giver){.number = i, .values = (int)any(EACH), .seed = any(65536), .closes = true};
    lua_getglobal(L, "serve");
    if (any(2)) {
      runnel_chan *ch = new_chan(L, any(3));
      OK(runnel_port_open(L, ch, 1 + any(5), RUNNEL_CLOSE_CHANNEL, &g->port));
      OK(runnel_chan_push(L, ch));
      g->closes = any(2);
    } else {
      OK(runnel_shared_new(RUNNEL_FIXED, any(3), &g->shared));
      OK(runnel_shared_push(L, g->shared));
    }
    lua_call(L, 1, 0);
  }
  OK(runnel_fd(L, &fd));
  for (int i = 0; i < n; i++) givers[i].thread = start(give_all, &givers[i]);
  for (bool is_open = true; is_open;) {
    int64_t next;
    CHECK(runnel_step(L, 1 + any(20), &next) >= RUNNEL_OK);
    lua_getglobal(L, "open");
    is_open = lua_tointeger(L, -1) > 0;
    lua_pop(L, 1);
    if (any(4) == 0) CHECK(runnel_next(L, &next) >= RUNNEL_OK);
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    if (is_open && next != 0 && poll(&polled, 1, next < 0 ? (int)(LONG / MS) : (int)((next + 999) / 1000)) == 0 &&
        next < 0)
      FAIL("no wakeup has come");
  }
  runnel_chan *results = chan(L, "results");
  int code;
  while ((code = runnel_poll(L, results)) == RUNNEL_OK) pop_and_count(L, &tally);
  IS(RUNNEL_EMPTY, code);
  for (int i = 0; i < n; i++) {
    join(givers[i].thread);
    CHECK(tally.next[i] == givers[i].values);
  }
  int64_t next;
  IS(RUNNEL_IDLE, runnel_step(L, 1000, &next));
  CHECK(next == -1);
  lua_close(L);
}

/* Threads without a state give to each other, and to a state, through one shared channel; each lets go of it at any
   moment. Each value is taken once. */
typedef struct Taker {
  pthread_t thread;
  runnel_shared *shared;
  int taken[ALL];
  unsigned seed;
  int end; /* the code with which its last take has ended */
} Taker;

static void *take_all(void *arg) {
  Taker *t = (Taker *)arg;
  runnel_value *value;
  for (;;) {
    pause_any(&t->seed);
    int code = runnel_shared_take(t->shared, t->seed % 2 ? -1 : (int64_t)(t->seed / 65536 % 500), &value);
    if (code == RUNNEL_EMPTY) continue;
    t->end = code;
    if (code != RUNNEL_OK) break;
    CHECK(value->kind == RUNNEL_INTEGER && value->as.integer >= 0 && value->as.integer < ALL);
    t->taken[value->as.integer]++;
    OK(runnel_value_release(value));
  }
  OK(runnel_shared_release(t->shared));
  return NULL;
}

static void threads_without_a_state(void) {
  Giver givers[MOST];
  Taker takers[MOST];
  runnel_shared *shared = NULL;
  int n = 1 + (int)any(MOST), m = 1 + (int)any(MOST);
  OK(runnel_shared_new(RUNNEL_FIXED, any(3), &shared));
  for (int i = 0; i < n; i++) {
    givers[i] = (Giver){.number = i, .values = EACH, .seed = any(65536), .shared = shared};
    OK(runnel_shared_hold(shared));
  }
  for (int i = 0; i < m; i++) {
    takers[i] = (Taker){.shared = shared, .seed = any(65536)};
    OK(runnel_shared_hold(shared));
  }
  for (int i = 0; i < m; i++) takers[i].thread = start(take_all, &takers[i]);
  for (int i = 0; i < n; i++) givers[i].thread = start(give_all, &givers[i]);
  for (int i = 0; i < n; i++) join(givers[i].thread);
  bool is_closed = m > 1 || any(2); /* takers that have each other's references would wait for ever */
  if (is_closed) OK(runnel_shared_close(shared, NULL));
  OK(runnel_shared_release(shared));
  int alone = 0, counts[ALL] = {0};
  for (int i = 0; i < m; i++) {
    join(takers[i].thread);
    if (takers[i].end == RUNNEL_IDLE) alone++;
    else IS(RUNNEL_CLOSED, takers[i].end);
    for (int j = 0; j < ALL; j++) counts[j] += takers[i].taken[j];
  }
  CHECK(is_closed || alone == m);
  for (int i = 0; i < n; i++) {
    CHECK(givers[i].accepted == EACH);
    for (int j = 0; j < EACH; j++) CHECK(counts[i * EACH + j] == 1);
  }
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(void);
    bool is_random;
  } parts[] = {{"takes_and_puts", takes_and_puts, false},
               {"alts", alts, false},
               {"example", example, false},
               {"deadlock_after_an_error", deadlock_after_an_error, false},
               {"deadlock_of_threads", deadlock_of_threads, false},
               {"fd_after_an_error", fd_after_an_error, false},
               {"within_go_blocks", within_go_blocks, false},
               {"timeouts", timeouts, false},
               {"waiting_is_idle", waiting_is_idle, false},
               {"steps_are_due", steps_are_due, true},
               {"errors_are_reported", errors_are_reported, false},
               {"errors_of_threads", errors_of_threads, false},
               {"shared_values", shared_values, false},
               {"waits_for_threads", waits_for_threads, true},
               {"polls_for_threads", polls_for_threads, true},
               {"threads_without_a_state", threads_without_a_state, true}};
  int rounds = argc > 1 ? atoi(argv[1]) : 30;
  unsigned first = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
  (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    for (int round = 0; round < (parts[i].is_random ? rounds : 1); round++) {
      seed = first + (unsigned)round;
      if (getenv("VERBOSE")) printf("%s, seed %u\n", parts[i].name, seed);
      (void)alarm(120); /* no part waits for ever */
      parts[i].run();
    }
    printf("ok %s\n", parts[i].name);
  }
  return EXIT_SUCCESS;
}
