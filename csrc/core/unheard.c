/* unheard.c: see unheard.h.

   SCHED_UNHEARD has the errors in the order in which they came, as a list of records: { error, traceback, name,
   channel, deadline }. The first is number unheard_first, and there are `unheard` of them; a simulation has a list of
   its own. */
#include "core/unheard.h"

#include "core/attr.h"
#include "core/error_text.h"
#include "core/report.h"
#include "lua/face.h"

/* How long an error waits to be taken, and how many may wait: when there is one more, the oldest is reported. */
static const int64_t GRACE = 5000 * CLOCK_MS;
enum { MOST = 1000, STACK_FOR_REPORT = 12 };

/* Fields of a record. */
enum { ERROR = 1, TRACEBACK, NAME, CHANNEL, DEADLINE };

/* Protected: (error, traceback, name, channel, deadline). */
static int keep(lua_State *L) {
  Sched *S = sched_self(L);
  lua_createtable(L, DEADLINE, 0);
  for (int field = ERROR; field <= DEADLINE; field++) {
    lua_pushvalue(L, field);
    lua_rawseti(L, DEADLINE + 1, field);
  }
  World *w = &S->world; /* read only now: finalizers may have changed it */
  lua_getiuservalue(L, SCHED_SELF, SCHED_UNHEARD);
  lua_insert(L, -2);
  lua_rawseti(L, -2, (lua_Integer)w->unheard_first + w->unheard);
  if (w->unheard++ == 0) w->unheard_due = lua_tointeger(L, DEADLINE);
  return 0;
}

/* Removes the oldest record from the list and pushes its fields for report_error. If somebody has taken the error,
   pushes nothing and returns false. */
static bool pop(lua_State *L, Sched *S) {
  World *w = &S->world;
  int top = lua_gettop(L);
  lua_getiuservalue(L, SCHED_SELF, SCHED_UNHEARD);
  lua_rawgeti(L, top + 1, w->unheard_first);
  lua_pushnil(L);
  lua_rawseti(L, top + 1, w->unheard_first);
  w->unheard_first++;
  if (--w->unheard) {
    lua_rawgeti(L, top + 1, w->unheard_first);
    lua_rawgeti(L, -1, DEADLINE);
    w->unheard_due = lua_tointeger(L, -1);
    lua_pop(L, 2);
  } else {
    w->unheard_first = 1;
  }
  lua_rawgeti(L, top + 2, CHANNEL);
  const Chan *ch = (const Chan *)lua_touserdata(L, -1);
  if (ch && ch->flags & CHAN_HEARD) {
    lua_settop(L, top);
    return false;
  }
  lua_settop(L, top + 2);
  for (int field = ERROR; field <= NAME; field++) lua_rawgeti(L, top + 2, field);
  lua_remove(L, top + 1);
  lua_remove(L, top + 1);
  return true;
}

/* Pushes the channel from which the error at index `error` of the go block at index `at` must be taken: its result
   channel; or, if it is a go block of the library that has closed the channel that it fed with the error, that
   channel. */
static void push_where_to_take(lua_State *L, int at, int error) {
  if (((const Chan *)lua_touserdata(L, at))->flags & CHAN_FEEDS) {
    lua_getiuservalue(L, at, GO_FED);
    const Chan *fed = face_to_chan(L, -1);
    bool is_there = fed && attr_push_reason(L, fed, lua_gettop(L));
    if (is_there) {
      is_there = lua_rawequal(L, -1, error);
      lua_pop(L, 1);
    }
    if (is_there) return;
    lua_pop(L, 1);
  }
  lua_pushvalue(L, at);
}

void unheard_add(lua_State *L, Sched *S, int at) {
  int64_t now = clock_now(&S->world.clock);
  int error = lua_gettop(L) - 2;
  if (lua_checkstack(L, STACK_FOR_REPORT)) {
    lua_getiuservalue(L, SCHED_SELF, SCHED_KEEP_UNHEARD);
    for (int i = 0; i < 3; i++) lua_pushvalue(L, error + i);
    push_where_to_take(L, at, error);
    lua_pushinteger(L, S->grace < INT64_MAX - now ? now + S->grace : INT64_MAX);
    if (lua_pcall(L, DEADLINE, 0, 0) == LUA_OK) {
      lua_settop(L, error - 1);
      if (S->world.unheard > MOST && pop(L, S)) report_error(L);
      return;
    }
    lua_pop(L, 1);
  }
  report_error(L);
}

void unheard_report(lua_State *L, Sched *S, int64_t now) {
  if (!lua_checkstack(L, STACK_FOR_REPORT)) return;
  /* No more than there are now: the handler may start go blocks that fail, too. */
  for (uint32_t n = S->world.unheard; n > 0 && S->world.unheard && S->world.unheard_due <= now; n--) {
    if (pop(L, S)) report_error(L);
  }
}

/* ---- functions for the library's Lua modules ---- */

/* Pushes the record of an error at index `err` that was taken, the newest if there are several; or returns false. */
static bool find(lua_State *L, const World *w, int err) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_UNHEARD);
  for (uint32_t i = w->unheard_first + w->unheard; i-- > w->unheard_first;) {
    lua_rawgeti(L, -1, i);
    lua_rawgeti(L, -1, CHANNEL);
    const Chan *ch = (const Chan *)lua_touserdata(L, -1);
    lua_rawgeti(L, -2, ERROR);
    bool is_it = ch && ch->flags & CHAN_HEARD && lua_rawequal(L, -1, err);
    lua_pop(L, 2);
    if (is_it) return true;
    lua_pop(L, 1);
  }
  return false;
}

/* pass_on(err, ch): the caller has taken the error err and is about to close ch with it, if ch is open. The error then
   counts as not taken until somebody takes it from ch. Without a channel nobody can take it, and it is reported. Does
   nothing unless err is the error of a go block. */
static int core_pass_on(lua_State *L) {
  Sched *S = sched_self(L);
  lua_settop(L, 2);
  if (S->world.unheard == 0 || lua_isnil(L, 1)) return 0;
  const Chan *ch = face_to_chan(L, 2);
  if (!find(L, &S->world, 1)) return 0;
  if (ch && !(ch->flags & (CHAN_CLOSED | CHAN_CLOSE_LATER))) lua_pushvalue(L, 2);
  else lua_pushnil(L);
  lua_rawseti(L, -2, CHANNEL); /* an existing field: allocates nothing */
  return 0;
}

/* tell_unheard(): reports all errors that nobody has taken. */
static int core_tell_unheard(lua_State *L) {
  unheard_report(L, sched_self(L), INT64_MAX);
  return 0;
}

/* grace(ms) -> ms before: how long errors wait to be taken from now on. */
static int core_grace(lua_State *L) {
  Sched *S = sched_self(L);
  face_push_ms(L, S->grace);
  S->grace = face_check_ms(L, 1, "grace");
  return 1;
}

/* error_text(err) -> how an error is written */
static int core_error_text(lua_State *L) {
  lua_settop(L, 1);
  error_text_push(L, 1);
  return 1;
}

/* is_well() -> whether the program may exit with status 0: no error was written to stderr, or errors_pass is set */
static int core_is_well(lua_State *L) {
  const Sched *S = sched_self(L);
  lua_pushboolean(L, S->printed == 0 || S->errors_pass);
  return 1;
}

void unheard_open(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"pass_on", core_pass_on}, {"tell_unheard", core_tell_unheard}, {"grace", core_grace},
      {"is_well", core_is_well}, {"error_text", core_error_text},     {NULL, NULL},
  };
  face_register(L, functions);
  lua_newtable(L);
  lua_setiuservalue(L, SCHED_SELF, SCHED_UNHEARD);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, keep, 1);
  lua_setiuservalue(L, SCHED_SELF, SCHED_KEEP_UNHEARD);
  Sched *S = sched_self(L);
  S->grace = GRACE;
  S->world.unheard_first = 1;
  /* Reports the errors that are left when the state is closed. Finalizers run in reverse order of creation, so this one
     runs after those of objects that were made later. */
  lua_pushvalue(L, SCHED_SELF);
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, SCHED_SELF);
  lua_pushcclosure(L, core_tell_unheard, 1);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
}
