---Faults that `make mutants` does not ask prove and the model to find.

return {
  -- Those that change nothing that a program can see, by their keys (faults.key), with the reason.
  faults = {
    ["csrc/base/bytes.h bytes_add: bool moves = bytes->from > 0 && bytes->from >= bytes_length(bytes); /* "
      .. "so that each byte moves once */ -> bool moves = bytes->from > 0 && bytes->from > "
      .. "bytes_length(bytes); /* so that each byte moves once */"] =
      "only the cost: when bytes are moved",
    ["csrc/base/bytes.h bytes_add: bool moves = bytes->from > 0 && bytes->from >= bytes_length(bytes); /* "
      .. "so that each byte moves once */ -> bool moves = bytes->from > 0 || bytes->from >= "
      .. "bytes_length(bytes); /* so that each byte moves once */"] =
      "only the cost: when bytes are moved",
    ["csrc/base/heap.c earlier: if (a.deadline != b.deadline) return a.deadline < b.deadline; -> if "
      .. "(a.deadline != b.deadline) return a.deadline <= b.deadline;"] =
      "they differ there",
    ["csrc/base/clock.c clock_jump: if (ns > clock->virtual_ns) clock->virtual_ns = ns; -> if (ns >= "
      .. "clock->virtual_ns) clock->virtual_ns = ns;"] =
      "they are equal there",
    ["csrc/blocks/alts.c choose_any: a->asked = false; -> ;"] =
      "only the cost: it looks once more whether an operation would complete, and none does",
    ["csrc/blocks/alts.c choose_any: a->asked = false; -> a->asked = true;"] =
      "only the cost: it looks once more whether an operation would complete, and none does",
    ["csrc/blocks/alts.c choose_any: while (UNLIKELY(a->mixed) && a->priority && chosen > 0) { -> while "
      .. "(UNLIKELY(a->mixed) && a->priority && chosen >= 0) {"] =
      "among the first 0 operations it finds none",
    ["csrc/blocks/alts.c choose_any: if (before < 0) break; -> if (before <= 0) break;"] =
      "needs a thread that puts between two looks at its channel",
    ["csrc/blocks/alts.c choose_any: chosen = before; -> ;"] =
      "needs a thread that puts between two looks at its channel",
    ["csrc/blocks/alts.c draw_firsts: drawn->at = at; -> ;"] =
      "the first of them is completed, and then none of the others",
    ["csrc/blocks/alts.c draw_firsts: if (n == 1) continue; -> ;"] =
      "a choice among one",
    ["csrc/blocks/async.c async_begin: for (int i = 1; i <= nargs; i++) lua_pushvalue(L, i); -> for (int "
      .. "i = 0; i <= nargs; i++) lua_pushvalue(L, i);"] =
      "one more value below the arguments, which nobody reads",
    ["csrc/blocks/async.c async_begin: lua_xmove(L, alt->co, n); alt_wake(S, alt, n); -> alt_wake(S, alt, "
      .. "n); lua_xmove(L, alt->co, n);"] =
      "waking does not look at the results",
    ["csrc/blocks/async.c call_now: lua_pushvalue(L, f); lua_insert(L, -n - 1); -> lua_insert(L, -n - 1); "
      .. "lua_pushvalue(L, f);"] =
      "the callback is just below the values: the same stack",
    ["csrc/blocks/driver.c driver_wait: driver_check_hook(L); -> ;"] =
      "the loop looks for the hook again before it waits again",
    ["csrc/blocks/driver.c driver_wait_readable: if (left <= 0) return false; -> if (left < 0) return "
      .. "false;"] =
      "needs a deadline at this very nanosecond",
    ["csrc/blocks/driver.c driver_wait_readable: if (ns < 0 || left < ns) ns = left; -> if (ns < 0 || "
      .. "left <= ns) ns = left;"] =
      "they are equal there",
    ["csrc/blocks/driver.c sleep_ns: signals_block(&old); -> ;"] =
      "needs a signal between the look at the hook and the sleep",
    ["csrc/blocks/go.c go_cancel: if (is_parked) alt_commit(L, S, alt); -> if (true) alt_commit(L, S, "
      .. "alt);"] =
      "without waiters it withdraws none, and only a go block that waits is a weak root",
    ["csrc/blocks/go.c on_guard_closed: if (S->current && S->current->alt.co == L) return 0; -> if "
      .. "(S->current && S->current->alt.co == L) return 1;"] =
      "nobody looks at the result of a `__close`",
    ["csrc/blocks/go_close.c move_variable: lua_pushnil(co); -> ;"] =
      "the error is dropped: each later variable is moved before its `__close` gets it",
    ["csrc/blocks/go_close.c nest: return 0; -> return 1;"] =
      "the callers ask for no results",
    ["csrc/blocks/sched.c check_clock: int64_t now = clock_now(&w->clock), took = now - w->looked; -> "
      .. "int64_t now = clock_now(&w->clock), took = now + w->looked;"] =
      "only the cost: how often it looks at the clock",
    ["csrc/blocks/sched.c check_clock: if (took > CLOCK_MS) w->stride = 1; -> if (true) w->stride = 1;"] =
      "only the cost: how often it looks at the clock",
    ["csrc/blocks/sched.c poll: if (now - S->world.polled < CLOCK_MS) return; -> if (now - S->world.polled <= "
      .. "CLOCK_MS) return;"] =
      "needs a look at this very nanosecond; in virtual time there is no driver",
    ["csrc/blocks/sched.c step: if (--w->left == 0) check_clock(L, S); -> if (!(--w->left == 0)) "
      .. "check_clock(L, S);"] =
      "only the cost: how often it looks at the clock",
    ["csrc/blocks/timer.c fire_timeout: lua_rawgeti(L, table, slot); /* it may be reachable only through "
      .. "the slot */ -> ;"] =
      "closing a timeout neither allocates nor looks at its index",
    ["csrc/blocks/go.h go_resume: if (UNLIKELY(status != LUA_YIELD || alt->state == ALT_IDLE)) go_left(L, S, go, "
      .. "status, n); -> if (true) go_left(L, S, go, status, n);"] =
      "only the cost: for one that waits it returns at once",
    ["csrc/blocks/go.h go_resume: if (UNLIKELY(status != LUA_YIELD || alt->state == ALT_IDLE)) go_left(L, S, go, "
      .. "status, n); -> if (UNLIKELY(status == LUA_YIELD || alt->state == ALT_IDLE)) go_left(L, S, go, status, n);"] =
      "as the one before; and one that ends does not wait: its state is ALT_IDLE",
    ["csrc/blocks/park.c park_begin_elsewhere: for (int i = 1; i <= n; i++) lua_pushvalue(L, i); -> for (int i = 0; "
      .. "i <= n; i++) lua_pushvalue(L, i);"] =
      "one value more stays on the stack, below the results",
    ["csrc/blocks/park.h park_on: if (UNLIKELY(!is_usual) || !park_is_usual(L, S)) return park_on_unusual(L, ch, at, "
      .. "op, k); -> if (true) return park_on_unusual(L, ch, at, op, k);"] =
      "only the cost: the unusual way does the same",
    ["csrc/blocks/park.h park_on: (op->waiter & WAITER_UNCOUNTED || ch->waiting[op->is_put] < CHAN_MAX_PENDING); -> "
      .. "(op->waiter & WAITER_UNCOUNTED && ch->waiting[op->is_put] < CHAN_MAX_PENDING);"] =
      "only the cost: the unusual way does the same",
    ["csrc/channels/alt.c alt_stop_waiting: if (alt->state == ALT_SLEEPING || (alt->state == ALT_READY && alt != "
      .. "&S->outside)) { -> if (true) {"] =
      "only the cost: it looks for it in the run queue, where it is not",
    ["csrc/channels/chan.c chan_push_done: if (lua_isuserdata(L, -1)) return; -> ;"] =
      "only the cost: it makes another, and then finds the first, as after a finalizer that has made one",
    ["csrc/channels/chan.c chan_notify_closed: lua_settop(L, top); -> ;"] =
      "one value more stays on the stack until the end of the function",
    ["csrc/channels/chan_custom.c is_checked: return ch->buf.kind < BUFFER_POLICY && !c->is_admitting && "
      .. "!(c->has_xform && ch->buf.count > ch->buf.limit); -> return ch->buf.kind < BUFFER_POLICY && !c->is_admitting "
      .. "|| !(c->has_xform && ch->buf.count > ch->buf.limit);"] =
      "for assertions only, which the core has only in a debug build",
  },

  -- Files without faults, with the reason. What threads and the system do differs from run to run; check-shared,
  -- check-api, check-threads and the specs of drivers are about it.
  files = {
    ["csrc/base/cond.h"] = "waits of threads",
    ["csrc/base/loaded.c"] = "the system's loader of libraries",
    ["csrc/base/sleep.c"] = "the system's poll and signals",
    ["csrc/base/thread.c"] = "threads",
    ["csrc/base/thread.h"] = "threads",
    ["csrc/base/wakeup.c"] = "wakes from other threads",
    ["csrc/channels/chan_check.c"] = "assertions",
  },
}
