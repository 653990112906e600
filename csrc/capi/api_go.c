/* capi/api_go.c: go blocks in the C API, and their errors; see runnel.h. */
#include <lauxlib.h>
#include <limits.h>

#include "blocks/go.h"
#include "capi/api.h"
#include "capi/hold.h"
#include "errors/error.h"
#include "errors/name.h"
#include "lifetimes/root.h"

static int go(lua_State *L, Sched *S, Call *call) {
  if (!lua_isfunction(L, API_VALUES) && luaL_getmetafield(L, API_VALUES, "__call") == LUA_TNIL) {
    return api_code(call, RUNNEL_BAD_ARGUMENT);
  }
  lua_settop(L, API_VALUES + call->option);
  runnel_chan *hold = NULL;
  if (call->hold) { /* first: once the go block exists, nothing may fail */
    lua_pushnil(L);
    hold = api_hold(L);
  }
  go_spawn(L, S, call->option);
  if (call->hold) {
    api_set_hold(L, hold);
    *call->hold = hold;
  }
  return 0;
}

int runnel_go(lua_State *L, int nargs, runnel_chan **result) {
  if (nargs < 0 || nargs == INT_MAX) return RUNNEL_BAD_ARGUMENT; /* the function counts, too */
  return api_call(L, nargs + 1, &(Call){.body = go, .option = nargs, .hold = result});
}

static int cancel(lua_State *L, Sched *S, Call *call) {
  enum { AT_RESULT = API_VALUES, AT_REASON };
  if (!api_push_chan(L, call->chan)) return api_code(call, RUNNEL_BAD_ARGUMENT);
  Go *block = api_to_go(L, AT_RESULT);
  if (!block) return api_code(call, RUNNEL_BAD_ARGUMENT);
  lua_pushstring(L, call->text);
  return api_code(call, go_cancel(L, S, block, AT_RESULT, AT_REASON) ? RUNNEL_OK : RUNNEL_CLOSED);
}

int runnel_cancel(lua_State *L, runnel_chan *result, const char *reason) {
  return api_call(L, 0, &(Call){.body = cancel, .chan = result, .text = reason ? reason : "cancelled"});
}

static int current(lua_State *L, Sched *S, Call *call) {
  if (!S->current) return api_code(call, RUNNEL_IDLE);
  root_push(L, S->current);
  name_push_go(L, S->current, API_VALUES);
  if (call->hold) {
    lua_pushvalue(L, API_VALUES);
    *call->hold = api_hold(L);
  }
  return 1;
}

int runnel_current(lua_State *L, runnel_chan **result) {
  return api_call(L, 0, &(Call){.body = current, .hold = result});
}

static int on_error(lua_State *L, Sched *S, Call *call) {
  (void)S;
  error_set_writer(L, &(ErrorWriter){call->report, call->data});
  return 0;
}

int runnel_on_error(lua_State *L, runnel_report report, void *data) {
  return api_call(L, 0, &(Call){.body = on_error, .report = report, .data = data});
}
