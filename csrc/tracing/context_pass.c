/* context_pass.c: see context_pass.h. */
#include "tracing/context_pass.h"

#include "tracing/context.h"
#include "tracing/trace_help.h"

void context_pass(lua_State *L, const Sched *S, int at) {
  if (!lua_checkstack(L, TRACE_STACK)) return;
  context_push(L, S, 0);
  bool has_one = !lua_isnil(L, -1);
  lua_pop(L, 1);
  if (!has_one) return;
  lua_pushvalue(L, at);
  trace_call_help(L, TRACE_PASS_CONTEXT);
}

/* ---- the observer: only new go blocks matter ---- */

static void on_spawn(lua_State *L, Sched *S, Go *go, int at) {
  (void)go;
  context_pass(L, S, at);
}

static bool on_run(lua_State *L, Sched *S, Go *go) {
  (void)L, (void)S, (void)go;
  return true;
}

static void on_left(lua_State *L, Sched *S, const Alt *alt) { (void)L, (void)S, (void)alt; }
static void on_slept(Sched *S, const Alt *alt) { (void)S, (void)alt; }
static void on_end(Sched *S, const Go *go, bool is_error) { (void)S, (void)go, (void)is_error; }
static void on_leaving(lua_State *L, Sched *S) { (void)L, (void)S; }
static void on_change(Sched *S) { (void)S; }
static void on_index(lua_State *L, Sched *S, int at) { (void)L, (void)S, (void)at; }
static void on_close(const Chan *ch) { (void)ch; }
static void on_move(Chan *ch, const Alt *other) { (void)ch, (void)other; }

static void on_put(lua_State *L, Chan *ch, int at, int value, const Alt *taker) {
  (void)L, (void)ch, (void)at, (void)value, (void)taker;
}

static void on_shared(lua_State *L, Chan *ch, int at, const Alt *alt, bool is_put) {
  (void)L, (void)ch, (void)at, (void)alt, (void)is_put;
}

const Observer context_pass_observer = {
    .spawn = on_spawn,
    .run = on_run,
    .left = on_left,
    .slept = on_slept,
    .end = on_end,
    .main_leaves = on_leaving,
    .main_runs = on_change,
    .idle = on_change,
    .awake = on_change,
    .born = on_index,
    .put = on_put,
    .take = on_move,
    .admit = on_move,
    .serve = on_move,
    .shared = on_shared,
    .close = on_close,
    .died = on_leaving,
    .due = on_index,
    .report = on_leaving,
};
