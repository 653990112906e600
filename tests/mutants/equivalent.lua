---Faults that `make mutants` does not ask prove and the model to find.

return {
  -- Those that change nothing that a program can see, by their keys (faults.key), with the reason.
  faults = {
    ["csrc/base/heap.c earlier: if (a.deadline != b.deadline) return a.deadline < b.deadline; -> "
      .. "if (a.deadline != b.deadline) return a.deadline <= b.deadline;"] = "they differ there",
    ["csrc/base/clock.c clock_jump: if (ns > clock->virtual_ns) clock->virtual_ns = ns; -> "
      .. "if (ns >= clock->virtual_ns) clock->virtual_ns = ns;"] = "they are equal there",
    ["csrc/blocks/go.c go_cancel: if (is_parked) alt_commit(L, S, alt); -> if (true) alt_commit(L, S, alt);"] =
      "without waiters it withdraws none, and only a go block that waits is a weak root",
    ["csrc/blocks/async.c async_begin: for (int i = 1; i <= nargs; i++) lua_pushvalue(L, i); -> "
      .. "for (int i = 0; i <= nargs; i++) lua_pushvalue(L, i);"] =
      "one more value below the arguments, which nobody reads",
    ["csrc/blocks/alts.c draw_firsts: drawn->at = at; -> ;"] =
      "the first of them is completed, and then none of the others",
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
