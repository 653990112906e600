/* unhandled.c: see unhandled.h.

   SCHED_UNHANDLED has the errors in the order in which they came, as a list of records: { error, traceback, name,
   channel, deadline }. The first is number unhandled_first, and there are `unhandled` of them. A simulation has a list
   of its own, in which number OUTER_LIST is the list of the outer world. */
#include "errors/unhandled.h"

#include <lauxlib.h>

#include "core/attr.h"
#include "core/chan_ops.h"
#include "core/observe.h"
#include "core/setup.h"
#include "errors/error.h"
#include "errors/name.h"
#include "lifetimes/root.h"

/* How long an error waits for a take. */
static const int64_t GRACE = 5000 * CLOCK_MS;

enum {
  MOST = 1000,       /* errors that may wait; one more, and the oldest is reported */
  STACK_TO_ADD = 12, /* slots of L */
  OUTER_LIST = 0
};

/* Fields of a record. */
enum { ERROR = 1, TRACEBACK, NAME, CHANNEL, DEADLINE };

/* Whether a take has got the error with which the channel was closed. */
static bool is_taken(const Chan *ch) {
  const ChanOps *ops = chan_ops(ch);
  return ch->flags & CHAN_ERROR_TAKEN || (ops && ops->is_error_taken && ops->is_error_taken(ch));
}

/* Replaces the channel on top of L by the next one that was closed with the same error, or by nil. */
static void push_also(lua_State *L) {
  attr_push(L, lua_gettop(L), ATTR_ALSO);
  lua_replace(L, -2);
}

bool unhandled_may_come(lua_State *L) {
  lua_rawgeti(L, -1, CHANNEL);
  bool may_come = true;
  for (const Chan *ch; may_come && (ch = (const Chan *)lua_touserdata(L, -1)) != NULL; push_also(L)) {
    may_come = !is_taken(ch);
  }
  lua_pop(L, 1);
  return may_come;
}

/* Protected: (error, traceback, name, channel, deadline): adds a record to the list. */
static int add_record(lua_State *L) {
  Sched *S = sched_self(L);
  if (lua_isfunction(L, NAME)) name_write(L, NAME);
  lua_createtable(L, DEADLINE, 0);
  for (int field = ERROR; field <= DEADLINE; field++) {
    lua_pushvalue(L, field);
    lua_rawseti(L, DEADLINE + 1, field);
  }
  OBSERVE(S, died, L, S);
  World *w = &S->world; /* read only now: finalizers may have changed it */
  lua_getiuservalue(L, SCHED_SELF, SCHED_UNHANDLED);
  lua_insert(L, -2);
  lua_rawseti(L, -2, (lua_Integer)w->unhandled_first + w->unhandled);
  if (w->unhandled++ == 0) w->unhandled_due = lua_tointeger(L, DEADLINE);
  return 0;
}

/* Removes the oldest record from a world's list, at index `list`, and pushes its fields for error_report. If the error
   has been taken, pushes nothing and returns false. */
static bool pop(lua_State *L, World *w, int list) {
  int top = lua_gettop(L);
  lua_rawgeti(L, list, w->unhandled_first);
  lua_pushnil(L);
  lua_rawseti(L, list, w->unhandled_first);
  w->unhandled_first++;
  if (--w->unhandled) {
    lua_rawgeti(L, list, w->unhandled_first);
    lua_rawgeti(L, -1, DEADLINE);
    w->unhandled_due = lua_tointeger(L, -1);
    lua_pop(L, 2);
  } else {
    w->unhandled_first = 1;
  }
  if (!unhandled_may_come(L)) {
    lua_settop(L, top);
    return false;
  }
  OBSERVE(sched_self(L), due, L, sched_self(L), top + 1);
  for (int field = ERROR; field <= NAME; field++) lua_rawgeti(L, top + 1, field);
  lua_remove(L, top + 1);
  return true;
}

/* Reports the errors of a world that are due at `now`. Pops its list, which is on top of L. */
static void report(lua_State *L, World *w, int64_t now) {
  int list = lua_gettop(L);
  /* No more than the present number: the handler may start go blocks that fail in turn. */
  for (uint32_t n = w->unhandled; n > 0 && w->unhandled && w->unhandled_due <= now; n--) {
    if (pop(L, w, list)) error_report(L);
  }
  lua_pop(L, 1);
}

/* Whether the channel on top of L was closed with the error at index `error`. */
static bool is_closed_with(lua_State *L, int error) {
  const Chan *ch = (const Chan *)lua_touserdata(L, -1);
  if (ch->buf.kind == BUFFER_SHARED && ch->ops->is_closed(ch)) return true; /* with the error, or another one */
  if (!attr_push_reason(L, ch, lua_gettop(L))) return false;
  bool is_nan = !lua_rawequal(L, error, error);
  bool is = is_nan || lua_rawequal(L, -1, error);
  lua_pop(L, 1);
  return is;
}

/* Pushes the first channel from which the error at index `error` may be taken, of which the go block at index `at` has
   died: its result channel; or, if the program has closed that before, the first of those that it has noted, or nil. */
static void push_first(lua_State *L, int at, int error) {
  lua_pushvalue(L, at);
  if (!is_closed_with(L, error)) push_also(L);
}

/* Pushes the channel from which the error at index `error` of the go block at index `at` must be taken, or nil: see
   push_first; or, for a library's go block that has closed the channel that it feeds with the error, that channel. */
static void push_where_to_take(lua_State *L, int at, int error) {
  if (name_push_target(L, at)) {
    if (is_closed_with(L, error)) return;
    lua_pop(L, 1);
  }
  push_first(L, at, error);
}

/* Pushes the record of the error that may be taken from a channel, and returns true; or pushes something else and
   returns false. */
static bool find(lua_State *L, const World *w, const Chan *ch) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_UNHANDLED);
  for (uint32_t i = w->unhandled_first + w->unhandled; i-- > w->unhandled_first;) {
    lua_rawgeti(L, -1, i);
    lua_rawgeti(L, -1, CHANNEL);
    while (lua_touserdata(L, -1) && lua_touserdata(L, -1) != ch) push_also(L);
    bool is_it = lua_touserdata(L, -1) == ch;
    lua_pop(L, 1);
    if (is_it) return true;
    lua_pop(L, 1);
  }
  return false;
}

/* Keeps of the channels that the go block at index `at` has noted those that were closed with the error at index
   `error`, of which it has died. Returns whether that error is in the list already, for one of them: then it may be taken
   from all of them, too. */
static bool settle_closed(lua_State *L, const Sched *S, int at, int error) {
  bool is_listed = false;
  lua_pushvalue(L, at);
  for (;;) {
    int before = lua_gettop(L);
    attr_push(L, before, ATTR_ALSO);
    Chan *ch = (Chan *)lua_touserdata(L, -1);
    if (!ch) break;
    if (!is_closed_with(L, error)) {
      lua_pushnil(L);
      attr_set(L, before, ATTR_ALSO); /* an existing key: nothing is allocated */
      break;
    }
    if (ch->flags & CHAN_ERROR_KNOWN) {
      is_listed = true;
      if (find(L, &S->world, ch)) {
        push_first(L, at, error);
        lua_rawseti(L, -2, CHANNEL); /* an existing field: allocates nothing */
      }
    }
    ch->flags |= CHAN_ERROR_KNOWN;
    lua_settop(L, before + 1);
    lua_replace(L, before);
  }
  lua_settop(L, error + 2);
  return is_listed;
}

void unhandled_note_closed(lua_State *L, const Sched *S, int at) {
  if (((const Chan *)lua_touserdata(L, at))->flags & CHAN_GO) return; /* that go block has channels of its own */
  root_push(L, S->current);
  int go = lua_gettop(L);
  attr_push(L, go, ATTR_ALSO);
  if (lua_isnil(L, -1)) lua_pop(L, 1);
  else attr_set(L, at, ATTR_ALSO);
  lua_pushvalue(L, at);
  attr_set(L, go, ATTR_ALSO);
  lua_settop(L, go - 1);
}

/* Keeps an error until it is taken. On top of L and popped: the error, its traceback or nil, where it happened, and the
   channel from which it must be taken, or nil. There is room on the stack. Does not raise. */
static void add(lua_State *L, Sched *S) {
  int64_t now = clock_now(&S->world.clock);
  int error = lua_gettop(L) - 3;
  Chan *ch = (Chan *)lua_touserdata(L, -1);
  if (ch) ch->flags |= CHAN_ERROR_KNOWN;
  lua_getiuservalue(L, SCHED_SELF, SCHED_ADD_UNHANDLED);
  for (int i = 0; i < 4; i++) lua_pushvalue(L, error + i);
  lua_pushinteger(L, S->grace < INT64_MAX - now ? now + S->grace : INT64_MAX);
  if (lua_pcall(L, DEADLINE, 0, 0) != LUA_OK) {
    lua_settop(L, error + 2); /* seldom covered: no memory is left */
    error_report(L);
    return;
  }
  lua_settop(L, error - 1);
  if (S->world.unhandled <= MOST) return;
  lua_getiuservalue(L, SCHED_SELF, SCHED_UNHANDLED);
  if (pop(L, &S->world, error)) error_report(L);
  lua_pop(L, 1);
}

void unhandled_add(lua_State *L, Sched *S, int at) {
  if (!lua_checkstack(L, STACK_TO_ADD)) {
    error_report(L); /* uncovered: no memory is left */
    return;
  }
  int error = lua_gettop(L) - 2;
  if (settle_closed(L, S, at, error)) {
    lua_settop(L, error - 1);
    return;
  }
  push_where_to_take(L, at, error);
  add(L, S);
}

void unhandled_drop(lua_State *L, int at) {
  Chan *ch = (Chan *)lua_touserdata(L, at);
  if (ch->flags & (CHAN_ERROR_TAKEN | CHAN_ERROR_KNOWN)) return;
  luaL_checkstack(L, STACK_TO_ADD, NULL);
  lua_pushvalue(L, -1);
  error_push_here(L);
  lua_pushvalue(L, at);
  lua_pushvalue(L, at);
  add(L, ch->sched);
}

void unhandled_report(lua_State *L, Sched *S, int64_t now) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_UNHANDLED);
  report(L, &S->world, now);
}

void unhandled_report_all(lua_State *L, Sched *S) {
  lua_getiuservalue(L, SCHED_SELF, SCHED_UNHANDLED);
  for (World *w = &S->world; w; w = w->outer) {
    lua_rawgeti(L, -1, OUTER_LIST);
    lua_insert(L, -2);
    report(L, w, INT64_MAX);
  }
  lua_pop(L, 1);
}

void unhandled_push_list(lua_State *L) {
  lua_createtable(L, 0, 1);
  lua_getiuservalue(L, SCHED_SELF, SCHED_UNHANDLED);
  lua_rawseti(L, -2, OUTER_LIST);
}

void unhandled_pass_on(lua_State *L, Sched *S, int err, int to, int from) {
  int top = lua_gettop(L);
  Chan *target = chan_to(L, to), *source = chan_to(L, from);
  if (lua_isnil(L, err) || !lua_checkstack(L, STACK_TO_ADD)) return;
  if (target && chan_is_closed(target)) target = NULL;
  if (target) target->flags |= CHAN_ERROR_KNOWN;
  if (!source || source->flags & CHAN_RESULT) return; /* a dying go block: its error comes later */
  if (!(source->flags & CHAN_ERROR_KNOWN)) {
    /* Not a go block's error: the program has closed the channel, or taking from it has raised the error. */
    if (source->flags & CHAN_CLOSED) source->flags |= CHAN_ERROR_KNOWN;
    lua_pushvalue(L, err);
    lua_pushnil(L);
    lua_pushvalue(L, from);
    lua_pushvalue(L, target ? to : top + 2); /* the channel, or nil */
    add(L, S);
  } else if (S->world.unhandled && find(L, &S->world, source)) {
    if (target) lua_pushvalue(L, to);
    else lua_pushnil(L);
    lua_rawseti(L, -2, CHANNEL); /* an existing field: allocates nothing */
  }
  lua_settop(L, top);
}

/* __gc of a value that lives as long as the state: reports the remaining errors when the state is closed, even within a
   simulation. */
static int report_rest(lua_State *L) {
  unhandled_report_all(L, sched_self(L));
  return 0;
}

void unhandled_open(lua_State *L) {
  unhandled_push_list(L);
  lua_setiuservalue(L, SCHED_SELF, SCHED_UNHANDLED);
  setup_keep_function(L, SCHED_ADD_UNHANDLED, add_record);
  Sched *S = sched_self(L);
  S->grace = GRACE;
  S->world.unhandled_first = 1;
  /* Finalizers run in reverse order of creation, so this one runs after those of objects that were made later. */
  lua_pushvalue(L, SCHED_SELF);
  setup_push_meta(L, "__gc", report_rest);
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
}
