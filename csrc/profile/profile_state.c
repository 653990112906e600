/* profile_state.c: see profile_state.h. */
#include "profile/profile_state.h"

const char profile_key = 0;

enum { SLOTS = 6 }; /* of the stack, that profile_add needs */

void profile_add(lua_State *L, const ProfileSample *s) {
  int top = lua_gettop(L);
  if (lua_checkstack(L, SLOTS)) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &profile_key);
    Profile *p = (Profile *)lua_touserdata(L, -1);
    p->is_adding = true;
    lua_getiuservalue(L, -1, PROFILE_HELP);
    lua_pushlightuserdata(L, (void *)(uintptr_t)s);
    lua_pushvalue(L, top);
    if (lua_pcall(L, 2, 0, 0) != LUA_OK) lua_pop(L, 1);
    p->is_adding = false; /* the profile is on the stack still */
  }
  lua_settop(L, top - 1);
}
