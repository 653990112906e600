-- The exceptions of `make check-mcdc`; their form is described in scripts/conditions.lua.

local STATIC <const> = "only in a static program, in which no object has an address (make check-static)"
local NO_EVENTFD <const> = "only where there is no eventfd: its two ends are one descriptor"
local ANOTHER_THREAD <const> = "only if another thread does the same, or completes the operation, at that very moment"
local LUA_5_5 <const> = "only with Lua 5.5: a go block that closes its own coroutine has no guard"
local FULL_STACK <const> = "only if the stack of the loop is full, or has to grow and there is no memory"
local OTHER_SYSTEMS <const> = "only on other systems: glibc's usual stack is large, and its attributes need no memory"
local IN_AN_OBSERVER <const> = "only if a finalizer that runs while an observer notes that a go block will run "
  .. "has ended it"
local NO_GUARD <const> = "only if other code has closed the coroutine of a go block that its channel keeps alive, and "
  .. "a debug hook has kept the guard from being called"

return {
  { "csrc/base/loaded.c", "return dladdr((void *)(uintptr_t)getauxval(AT_PHDR)", "1F", never = STATIC },
  { "csrc/base/loaded.c", "if (!atomic_load(&is_kept) &&", "2F",
    never = "only if the system does not know this function" },
  { "csrc/base/thread.c", "if (pthread_attr_getstacksize(attr, &usual) != 0) return;", "1T", never = OTHER_SYSTEMS },
  { "csrc/base/thread.c", "if (usual < STACK_SIZE ||", "1T", never = OTHER_SYSTEMS },
  { "csrc/base/thread.c", "if (error) return error;", "1T", never = OTHER_SYSTEMS },
  { "csrc/base/wakeup.c", "if (ends[1] != ends[0]) (void)close(ends[1]);", "1T", never = NO_EVENTFD },
  { "csrc/base/wakeup.c", "if (ends[1] != ends[0]) (void)wakeup_replace", "1T", never = NO_EVENTFD },
  { "csrc/base/wakeup.c", "if (of == 0 ||", "2T", seldom = ANOTHER_THREAD },

  { "csrc/blocks/driver.c", "bool driver_has_news(", "3T", seldom = ANOTHER_THREAD },
  { "csrc/blocks/driver.c", "const int fds[SLEEP_FDS] =", "1T", seldom = "only while the prompt waits" },
  { "csrc/blocks/go.c", "if (!lua_checkstack(L, STACK_TO_GIVE_UP))", "1T", never = FULL_STACK },
  { "csrc/blocks/go.c", "while (status != LUA_OK || n == 0)", "2T", never = LUA_5_5 },
  { "csrc/blocks/go.c", "if (status != LUA_OK) lua_xmove(go->alt.co, L, 1);", "1F", never = LUA_5_5 },
  { "csrc/blocks/go.c", "if (!go->slot || alt->state == ALT_NEW)", "2T",
    never = "only if a finalizer that runs in take_async or put_async gets the new go block by functions of debug" },
  { "csrc/blocks/go.c", "if (alt->flags & ALT_CALLBACK || !is_cancellable(go))", "all", seldom = ANOTHER_THREAD },
  { "csrc/blocks/go.c", "if (!waits || alt->own.waiter.chan != ch", "4T", never = NO_GUARD },
  { "csrc/blocks/go.c", "if (!withdraw(L, S, go)) return false;", "1T", seldom = ANOTHER_THREAD },
  { "csrc/blocks/go.c", "if (UNLIKELY(!withdraw(L, S, go))) {", "1T", seldom = ANOTHER_THREAD },
  { "csrc/blocks/go.h", "if (!observe_run(L, S, go)) return;", "1T", never = IN_AN_OBSERVER },
  { "csrc/blocks/go_close.c", "if (BEFORE_LUA_5_4_4 || UNLIKELY(!lua_checkstack(co", "1T", never = FULL_STACK },
  { "csrc/blocks/park.c", "if (UNLIKELY(alt->shared) && status != LUA_OK", "1T 2T 3T", seldom = ANOTHER_THREAD },
  { "csrc/blocks/park.c", "if (n && k && alt != &S->outside) {", "1T 2T 3T 3F", seldom = ANOTHER_THREAD },
  { "csrc/blocks/park.c", "if (!lua_checkstack(alt->co, n + LUA_MINSTACK))", "1T",
    seldom = "only if memory runs out when the collector has just made this stack smaller" },
  { "csrc/blocks/sched.c", "if (is_last && !driver_alive(L)) return;", "1T 2T", seldom = ANOTHER_THREAD },
  { "csrc/blocks/sched.c", "bool is_over = S->stop ||", "1T 2T 3T 3F", seldom = ANOTHER_THREAD },
  { "csrc/blocks/sched.c", "if (S->world.ready.first || shared_wait_has_news(S)) return 0;", "2T",
    seldom = ANOTHER_THREAD },
  { "csrc/blocks/sched.c", "while (!ended && rules && rules->raise_deadlock", "3F",
    never = "only if the function of a simulation is in a deadlock and waits in nothing: " .. NO_GUARD },

  { "csrc/channels/alt.c", "while (w && !leave_world(w, alt)) w = w->outer;", "1F", never = IN_AN_OBSERVER },
  { "csrc/channels/chan.c", "while (!buffer_full(&ch->buf) &&", "2F", seldom = NO_GUARD },
  { "csrc/channels/chan.c", "lua_checkstack(L, STACK_FOR_ON_CLOSE)", "2F", never = FULL_STACK },
  { "csrc/channels/chan.c", "if ((w->flags & WAITER_GIVES_UP) &&", "2F", never = NO_GUARD },
  { "csrc/channels/chan_custom.c", "if (w) admit(L, ch, at, w);", "1F", never = NO_GUARD },
  { "csrc/channels/chan_custom.c", "return ch->buf.kind < BUFFER_POLICY &&", "all",
    never = "it is called by assertions only" },
}
