-- The specs of spec/core and spec/rn that runnel.lite runs (tests/lite/run.lua), and what it skips of them, by name,
-- with a reason. A test in the list must fail, with an error of its reason; when it passes, remove it here.

local skipped = {}
local ENDLESS = "it does not end on lite, or takes long"

skipped.files = {
  "spec/core/alts_spec.lua", "spec/core/async_spec.lua", "spec/core/bad_input_spec.lua", "spec/core/buffer_spec.lua",
  "spec/core/cancel_spec.lua", "spec/core/chan_spec.lua", "spec/core/go_spec.lua", "spec/core/timeout_spec.lua",
  "spec/core/transducer_spec.lua", "spec/core/unhandled_spec.lua", "spec/rn/mult_spec.lua", "spec/rn/pipe_spec.lua",
  "spec/rn/pipeline_spec.lua", "spec/rn/pmap_spec.lua", "spec/rn/pub_spec.lua", "spec/rn/reduce_spec.lua",
  "spec/rn/scope_spec.lua",
}

-- Other files of these folders, and what they are about.
skipped.left_out = {
  ["spec/rn/gathering_spec.lua"] = "merges and mixes against a model, with the internals of the C core",
  ["spec/rn/latest_spec.lua"] = "rn.latest",
  ["spec/rn/pmap_key_spec.lua"] = "the key of pmap",
  ["spec/rn/shield_spec.lua"] = "rn.shield",
  ["spec/rn/supervise_spec.lua"] = "rn.supervise",
  ["spec/rn/turns_spec.lua"] = "calls that look at everything, in the C core",
  ["spec/core/abandon_spec.lua"] = "the collector of the C core",
  ["spec/core/after_spec.lua"] = "rn.after",
  ["spec/core/allocator_spec.lua"] = "the allocator of the C core",
  ["spec/core/coroutine_spec.lua"] = "coroutines and the collector",
  ["spec/core/driver_spec.lua"] = "drivers",
  ["spec/core/error_messages_spec.lua"] = "messages in a terminal",
  ["spec/core/holder_spec.lua"] = "the C core",
  ["spec/core/interference_spec.lua"] = "policies and priority_buffer in every test",
  ["spec/core/internal_spec.lua"] = "the C core",
  ["spec/core/lines_spec.lua"] = "each_line",
  ["spec/core/model_spec.lua"] = "a model of its own; make prove compares lite with the C core",
  ["spec/core/observed_spec.lua"] = "tracing",
  ["spec/core/origin_spec.lua"] = "rn.ps",
  ["spec/core/overflow_spec.lua"] = "stacks of C",
  ["spec/core/packing_spec.lua"] = "the layout in C",
  ["spec/core/root_spec.lua"] = "rn.ps, and nested simulations",
  ["spec/core/run_spec.lua"] = "step by numbers of go blocks, drivers",
  ["spec/core/shared_chan_spec.lua"] = "threads",
  ["spec/core/turn_spec.lua"] = "lite does not interrupt a go block that never waits",
  ["spec/core/wakeup_fd_spec.lua"] = "threads",
  ["spec/rn/file_spec.lua"] = "rn.file",
  ["spec/rn/frontier_spec.lua"] = "rn.frontier",
  ["spec/rn/graph_spec.lua"] = "tracing",
  ["spec/rn/leaks_spec.lua"] = "rn.leaks",
  ["spec/rn/metrics_spec.lua"] = "metrics",
  ["spec/rn/mix_spec.lua"] = "rn.mix",
  ["spec/rn/operations_spec.lua"] = "rn.map, take, split",
  ["spec/rn/pipeline_model_spec.lua"] = "the model needs rn.ps",
  ["spec/rn/pipeline_threads_spec.lua"] = "threads",
  ["spec/rn/profile_spec.lua"] = "profiles",
  ["spec/rn/retry_spec.lua"] = "rn.retry",
  ["spec/rn/thread_cancel_spec.lua"] = "threads",
  ["spec/rn/thread_spec.lua"] = "threads",
  ["spec/rn/timed_spec.lua"] = "rn.batch, debounce, rate",
  ["spec/rn/trace_otlp_spec.lua"] = "tracing",
  ["spec/rn/trace_spec.lua"] = "tracing",
  ["spec/rn/traceparent_spec.lua"] = "tracing",
}

local REASONS = {
  ["a go block of lite runs below the C calls of its scheduler"] = {
    ["spec/core/go_spec.lua"] = {
      "has as many levels of nested C calls for a go block as anywhere else",
    },
  },
  ["a go block takes any number of arguments"] = {
    ["spec/core/go_spec.lua"] = {
      "go arguments and results passes 65000 arguments and refuses one more",
    },
  },
  ["a job of a pipeline is reported without the line of the pipeline"] = {
    ["spec/rn/pipeline_spec.lua"] = {
      "pipeline_async ordered af may close its channel with an error, which is one of that job alone, reported once",
      "pipeline_async unordered af may close its channel with an error, which is one of that job alone, reported once",
      "pipeline_async ordered af that raises is an error of that job alone, reported once with a traceback",
      "pipeline_async unordered af that raises is an error of that job alone, reported once with a traceback",
    },
  },
  ["a missing argument and nil are both \"nothing\" in messages"] = {
    ["spec/core/bad_input_spec.lua"] = {
      "bad input put, take and others on what is no channel",
      "bad input to callbacks",
      "bad input to times",
    },
    ["spec/core/go_spec.lua"] = {
      "go arguments and results refuses what cannot be called",
    },
    ["spec/core/timeout_spec.lua"] = {
      "timeout bad times of timeout are refused",
      "timeout bad times of sleep are refused",
    },
  },
  ["a table with the metatable of a channel passes for a channel"] = {
    ["spec/core/bad_input_spec.lua"] = {
      "bad input an impostor of a channel",
    },
  },
  ["a traceback has frames of lite, and is made when the go block has ended"] = {
    ["spec/core/go_spec.lua"] = {
      "go errors have the traceback that Lua gives, without the library's own frames",
      "go errors have the names of functions of modules, whenever these were loaded",
      "go errors have a traceback with names of any length, cut",
    },
    ["spec/core/unhandled_spec.lua"] = {
      "the error with which the program has closed a channel is reported once if a for loop drops it, with "
        .. "its name and line",
    },
    ["spec/rn/pmap_spec.lua"] = {
      "pmap with a job that raises ends with a traceback of the function alone, for a message handler inside it",
      "pmap_unordered with a job that raises ends with a traceback of the function alone, for a message han"
        .. "dler inside it",
    },
  },
  ["a transducer may yield in a coroutine of the program's own"] = {
    ["spec/core/transducer_spec.lua"] = {
      "a channel with a transducer whose step yields in a coroutine of the caller's own fails like any error",
    },
  },
  ["a transducer's accumulator is a table"] = {
    ["spec/core/transducer_spec.lua"] = {
      "a channel with a transducer whose step returns nothing gets an error",
    },
  },
  ["error as the function of a go block puts a place in lite.lua before its text"] = {
    ["spec/core/cancel_spec.lua"] = {
      "cancel of a go block that does not wait returns false when it has ended, well or badly",
    },
    ["spec/core/go_spec.lua"] = {
      "go on_error may spawn, put and close, but not park",
    },
    ["spec/rn/reduce_spec.lua"] = {
      "into closes with the error of its source, of which on_error gets nothing new",
    },
    ["spec/rn/scope_spec.lua"] = {
      "scope returns outside any go block, too",
      "scope with an error has it on the result channel, too",
    },
  },
  ["errors of callbacks, transducers and messages of the library have no traceback"] = {
    ["spec/core/async_spec.lua"] = {
      "callbacks that raise on the caller reach on_error once, and the caller continues",
      "callbacks that raise later reach on_error once, with a traceback",
      "callbacks that raise have a traceback with names of any length, cut",
      "callbacks that overflow the stack have a traceback, too",
    },
    ["spec/core/transducer_spec.lua"] = {
      "a channel with a transducer when closed reports to on_error an error in its completion, and is closed",
      "a channel with a transducer whose step raises tells on_error once, with a traceback, and drops the v"
        .. "alue; the put is done",
      "a channel with a transducer whose step produces nil gets an error",
    },
    ["spec/rn/pmap_spec.lua"] = {
      "pmap with a job that raises closes with a message if it raises nil, or calls coroutine.yield",
      "pmap_unordered with a job that raises closes with a message if it raises nil, or calls coroutine.yield",
    },
    ["spec/rn/pub_spec.lua"] = {
      "pub bad input of the topic function costs the value",
    },
  },
  ["go blocks and timers outside a simulation do not run in it, and its own are dropped at its end"] = {
    ["spec/core/cancel_spec.lua"] = {
      "cancel from elsewhere reaches go blocks outside a simulation from within",
      "cancel from elsewhere reaches the go blocks that a simulation has left parked, not those that it dropped",
    },
    ["spec/core/timeout_spec.lua"] = {
      "timeout many that a simulation has left behind are channels like any other",
    },
  },
  ["it calls internals of the C core"] = {
    ["spec/core/cancel_spec.lua"] = {
      "cancel of a go block that waits that has not got it yet gets it when it is to let others run, and lo"
        .. "ses no value thereby",
      "cancel and errors come out of rn.run when its go block is cancelled",
    },
  },
  [ENDLESS] = {
    ["spec/core/bad_input_spec.lua"] = {
      "bad input to polls, offers and alts with a default that nothing can help",
    },
    ["spec/core/cancel_spec.lua"] = {
      "cancel and memory stays flat over many",
    },
    ["spec/core/go_spec.lua"] = {
      "go errors look for the names of all functions in package.loaded at once",
      "go errors look through package.loaded once, and again only after a cycle of the collector",
    },
    ["spec/rn/scope_spec.lua"] = {
      "gives up when they do so again",
    },
  },
  ["it is about the collector, or the memory of the C core"] = {
    ["spec/core/alts_spec.lua"] = {
      "alts runs no finalizer between its look and the enqueue",
    },
    ["spec/core/async_spec.lua"] = {
      "callbacks run amid finalizers that use their channel",
    },
    ["spec/core/chan_spec.lua"] = {
      "a channel and the collector: without a buffer it takes at most 120 bytes",
      "a channel and the collector: a finalizer may use the channel while its ring grows, and nothing is lost",
      "a channel and the collector: a finalizer may put while a callback is made ready to take",
      "a channel and the collector: a finalizer may take while a callback is made ready to put",
      "a channel and the collector: a finalizer may ask for done() while it is made",
      "a channel keeps the order of its values when a finalizer puts while its buffer grows",
      "a channel that belongs to a go block closes once when a finalizer closes it while it is being closed",
    },
    ["spec/core/go_spec.lua"] = {
      "go errors keep their traceback if a finalizer closes the coroutine meanwhile",
      "go errors start no cycle of the collector, so that they cost the same whatever else lives",
    },
    ["spec/core/timeout_spec.lua"] = {
      "timeout many may be asked for by a finalizer while the slots of those before are given back",
      "timeout is the same when a finalizer asks for one while memory for the timers grows",
      "timeout is the same when a finalizer asks for one while memory for the windows of the timeouts grows",
      "timeout is the same when a finalizer asks for one while memory for nothing grows",
    },
    ["spec/core/transducer_spec.lua"] = {
      "a channel with a transducer that expands runs no finalizer in the middle of a put",
    },
    ["spec/core/unhandled_spec.lua"] = {
      "an error of a go block that nobody takes is reported once: the channel on which it was passed is dropped",
    },
    ["spec/rn/mult_spec.lua"] = {
      "mult does not allocate for each value",
    },
  },
  ["it is the C core's"] = {
    ["spec/core/unhandled_spec.lua"] = {
      "core.internal.fail closes a channel with an error that is reported once, also if a for loop drops it",
      "core.internal.fail does not report what somebody takes, now or later",
      "core.internal.fail does nothing to a closed channel, which the program does not want to read any more",
    },
  },
  ["it runs a script of the C core"] = {
    ["spec/core/go_spec.lua"] = {
      "go ps tells how long a block has waited that parked before the loop looked at the clock",
      "go on_error that raises is reported on stderr, and the others go on",
      "go on_error is by default a message with name and traceback on stderr",
    },
    ["spec/core/unhandled_spec.lua"] = {
      "an error of a go block in a script of lua5.4 is reported when the program ends, with what a table holds",
      "an error of a go block in a script of lua5.4 is reported once where os.exit(true, true) ends the pro"
        .. "gram in a simulation",
      "an error of a go block in a script of lua5.4 is reported once where rn.exit() ends the program in a simulation",
      "an error of a go block in a script of lua5.4 is reported and fails where the script ends by rn.exit "
        .. "in a simulation without errors of its own",
      "an error of a go block in a script of lua5.4 is not reported by a simulation that goes on",
      "an error of a go block in a script of lua5.4 is reported and fails where the script ends by rn.exit",
      "the error with which the program has closed a channel is reported once if a for loop of the main pro"
        .. "gram drops it",
    },
  },
  ["lite closes variables after the end of a go block, where they cannot wait"] = {
    ["spec/core/cancel_spec.lua"] = {
      "collects a cancelled go block that waits on an unreachable channel",
      "cancel of a go block that waits ends it at last if it catches that in an endless loop, with its vari"
        .. "ables closed and nothing reported",
      "lets variables to be closed wait where pcall catches it",
      "lets it wait while it closes variables of a function that a pcall within pcall calls, and raises its"
        .. " reason there",
      "lets it wait while it closes variables of a block that ends, and raises its reason there",
      "lets it wait while it closes variables that pcall closes, and raises its reason there",
      "lets it wait while it closes variables that xpcall closes, and raises its reason there",
      "is ended by a second one, which they get where they wait",
      "that comes while they are closed after an error is raised there",
      "are reported when another one comes out",
      "cancel from elsewhere finds nothing in one whose coroutine is being closed",
      "cancel of a go block that is dying, which then dies of something else, is no error of its own",
    },
    ["spec/core/go_spec.lua"] = {
      "may replace the error by one of their own, which is reported once",
      "can wait in put, each in its turn",
      "can wait in alts, each in its turn",
      "can wait in take from a go block, each in its turn",
      "can wait in sleep, each in its turn",
      "can wait in take, each in its turn",
      "are closed, the rest of them, when one leaves by coroutine.yield",
    },
    ["spec/rn/pmap_spec.lua"] = {
      "pmap with a job that raises waits until the cancelled ones have ended",
      "pmap_unordered with a job that raises waits until the cancelled ones have ended",
    },
    ["spec/rn/scope_spec.lua"] = {
      "ends variables that wait while they are closed",
      "goes on when its caller was cancelled, and cancels again those that clean up",
      "does not come out when an error was first",
      "again reaches those that clean up",
      "cancels its go blocks, waits for them, and raises the reason",
      "again passes that on",
    },
  },
  ["lite does not watch what other code does to the coroutines of go blocks"] = {
    ["spec/core/go_spec.lua"] = {
      "go coroutines closed by others in alts over takes end the block and nothing else",
      "go coroutines resumed and closed by others in alts over takes end the block and nothing else",
      "go coroutines resumed by others in alts over takes end the block and nothing else",
      "go coroutines closed by others in a result end the block and nothing else",
      "go coroutines resumed and closed by others in a result end the block and nothing else",
      "go coroutines resumed by others in a result end the block and nothing else",
      "go coroutines closed by others in take end the block and nothing else",
      "go coroutines resumed and closed by others in take end the block and nothing else",
      "go coroutines resumed by others in take end the block and nothing else",
      "go coroutines closed by others in a timeout end the block and nothing else",
      "go coroutines resumed and closed by others in a timeout end the block and nothing else",
      "go coroutines resumed by others in a timeout end the block and nothing else",
      "go coroutines closed by others in alts over put and take end the block and nothing else",
      "go coroutines resumed and closed by others in alts over put and take end the block and nothing else",
      "go coroutines resumed by others in alts over put and take end the block and nothing else",
      "go coroutines closed by others in yield end the block and nothing else",
      "go coroutines resumed and closed by others in yield end the block and nothing else",
      "go coroutines resumed by others in yield end the block and nothing else",
      "go coroutines closed by others in sleep end the block and nothing else",
      "go coroutines resumed and closed by others in sleep end the block and nothing else",
      "go coroutines resumed by others in sleep end the block and nothing else",
      "go coroutines closed by others in put end the block and nothing else",
      "go coroutines resumed and closed by others in put end the block and nothing else",
      "go coroutines resumed by others in put end the block and nothing else",
      "go coroutines closed by others after being handed over to its channels end the block",
      "go coroutines resumed by others after being handed over to its channels end the block",
      "go coroutines that were woken but have not run yet may be closed by others",
      "go coroutines resumed by others do not run on, although they wait inside a pcall",
      "resumed by others close their variables, which may wait",
      "go coroutines closed by others while their hook raises end when they are woken",
      "go coroutines whose variables are being closed may be closed or resumed, too",
      "go coroutines of ended blocks are dead, and do not prevent a take of the result",
      "go coroutines closed by others may use the channel on which the block waited",
      "go coroutines closed by others may offer to the channel on which the block waited",
      "go the end of a go block closes its result although its hook for c raises",
      "go the end of a go block closes its result although its hook for r raises",
      "go the end of a go block closes its result although its hook for l raises",
      "go the end of a go block closes its result although its hook for crl raises",
      "go the end of a go block closes its result although its hook for count raises",
      "go the end of a go block is listed by a hook that looks at it",
    },
    ["spec/core/timeout_spec.lua"] = {
      "timeout many withdrawn from the heap leave the others in order",
    },
    ["spec/rn/pipeline_spec.lua"] = {
      "pipeline_async ordered af whose coroutine somebody else closes while it waits ends the pipeline, and"
        .. " `to` closes",
      "pipeline_async unordered af whose coroutine somebody else closes while it waits ends the pipeline, a"
        .. "nd `to` closes",
    },
    ["spec/rn/scope_spec.lua"] = {
      "scope cancelled from outside cancels its go blocks when the go block that waits for it is killed",
      "scope with an error that is nil, or a closed coroutine, raises a message",
    },
  },
  ["scopes of lite have no s:after"] = {
    ["spec/rn/scope_spec.lua"] = {
      "scope with timers calls their functions in go blocks of its own, for which it waits",
      "scope with timers does not wait for one that is pending, and stops it at its end",
      "scope with timers stops them when it is cancelled, and starts none after that",
      "scope with timers stops them in the order in which they were made, so that a story is the same each time",
      "scope with timers fails with an error of such a function, as with that of s:go",
      "scope with timers keeps no timer that was stopped, and that nobody holds",
      "scope with timers refuses wrong arguments at the caller's line",
    },
  },
  ["lite has no map, take, split, mix and driver"] = {
    ["spec/core/unhandled_spec.lua"] = {
      "an error with which a go block also closes a channel of the program's, by a variable, is reported once, or "
        .. "taken, where map passes it on",
      "an error with which a go block also closes a channel of the program's, by a variable, is reported once, or "
        .. "taken, where map passes it on, and then waits",
      "an error with which a go block also closes a channel of the program's, by a variable, is reported once, or "
        .. "taken, where split passes it on",
      "an error with which a go block also closes a channel of the program's, by a variable, is reported once, or "
        .. "taken, where split passes it on, and then waits",
      "an error with which a go block also closes a channel of the program's, by a variable, is reported once, or "
        .. "taken, where take passes it on",
      "an error with which a go block also closes a channel of the program's, by a variable, is reported once, or "
        .. "taken, where take passes it on, and then waits",
      "an error of a go block that somebody takes is not reported: through map",
      "an error of a go block that somebody takes is not reported: through take",
      "an error of a go block that somebody takes is not reported: through split",
      "an error of a go block that nobody takes is reported once: an input of a mix",
      "the error with which the program has closed a channel is reported once, or taken, where map passes it on",
      "the error with which the program has closed a channel is reported once, or taken, where split passes it on",
      "the error with which the program has closed a channel is reported once, or taken, where take passes it on",
      "the error with which the program has closed a channel is reported once where all ends of a split, a "
        .. "mult or a pub are read by loops",
      "the error with which the program has closed a channel is reported where it is passed on to no channel",
    },
  },
  ["lite has no pipeline_blocking"] = {
    ["spec/rn/pipeline_spec.lua"] = {
      "pipeline_blocking sends each value through the transducer, in order",
      "pipeline_blocking gives each value a transducer of its own, completed after it",
      "pipeline_blocking may stop early within a value",
      "pipeline_blocking carries a thousand values of one value",
      "pipeline_blocking has errors of the transducer reported once, and goes on",
      "pipeline_blocking has errors of the transducer go to ex_handler, whose value takes the place",
      "pipeline_blocking has errors on completion reported too",
      "pipeline_blocking has a transducer that cannot be made reported for each value",
      "pipeline_blocking runs at most n ahead, closes, and ends when `to` closes",
      "pipeline_blocking passes on the error of `from`",
      "pipeline_blocking refuses bad arguments",
    },
  },
  ["lite has no priority_buffer and no buffers of a program's own"] = {
    ["spec/core/alts_spec.lua"] = {
      "alts with buffer policies does something else when a policy takes back that it has room",
      "alts with buffer policies does one of its operations in an exploration, too, when all policies take that back",
      "alts with buffer policies looks again when asking a policy has changed another channel",
      "alts with buffer policies looks again when asking a policy has changed another channel with a policy",
    },
    ["spec/core/bad_input_spec.lua"] = {
      "bad input to chan: an object that is no buffer",
      "bad input to buffers",
      "waiting is impossible inside callbacks, transducers, handlers and policies",
    },
    ["spec/core/buffer_spec.lua"] = {
      "unblocking_buffer returns whether a put may have to wait",
      "a buffer policy decides what is kept and in which order",
      "a buffer policy may be an object with a metatable, or a userdata",
      "a buffer policy serves waiting takes as soon as it has values",
      "a buffer policy gives values from the buffer before those of waiting puts",
      "a buffer policy that is always full hands values over like no buffer",
      "a buffer policy that is always full serves alts and offers of both sides",
      "a buffer policy whose method raises full: the put raises, nothing has happened",
      "a buffer policy whose method raises add: the put raises, nothing has happened",
      "a buffer policy whose method raises remove: the take raises, and the value stays",
      "a buffer policy whose method raises count: the operation raises, and has no effect",
      "a buffer policy whose method raises on behalf of a waiting put: that put raises, not the take",
      "a buffer policy whose method raises on behalf of a waiting take: that take raises, not the put, and "
        .. "the value stays",
      "a buffer policy whose method raises on behalf of a callback: on_error gets it once, and the callback is called",
      "a buffer policy whose method raises when no operation called it: on_error gets it once, with the channel's name",
      "a buffer policy whose method raises in a put on which takes wait: they go on waiting, and are served"
        .. " by the next",
      "a buffer policy whose method raises any object: it is passed on as it is",
      "a buffer policy whose method raises because it is gone: an error names it",
      "a buffer policy whose count is wrong (-1) gets an error",
      "a buffer policy whose count is wrong (1.5) gets an error",
      "a buffer policy whose count is wrong (many) gets an error",
      "a buffer policy whose count is wrong (nan) gets an error",
      "a buffer policy whose count is wrong (inf) gets an error",
      "a buffer policy whose count is wrong (false) gets an error",
      "a buffer policy whose count is wrong ({}) gets an error",
      "a buffer policy whose count is wrong while a take waits is reported to on_error",
      "a buffer policy whose count is wrong more than it holds gets an error when remove gives nil",
      "a buffer policy whose count is wrong more than it holds while a take waits: that take raises",
      "a buffer policy that uses its own channel gets an error that says so, and the channel stays as it was",
      "a buffer policy that uses its own channel may close it, which is done when the method has returned",
      "a buffer policy that uses its own channel may ask what needs no count",
      "a buffer policy cannot park",
      "a buffer policy may use other channels",
      "a buffer policy may use the other channels of an alts that asks it",
      "a buffer policy that changes its mind between two questions gives an alts its other operations",
      "a buffer policy is closed once, when no put waits any more",
      "a buffer policy is closed although the puts that waited were withdrawn by their alts",
      "a buffer policy need not have a close",
      "a buffer policy works with a transducer, which may add more than one value",
      "a buffer policy whose add raises within a transducer is an error of the transducer",
      "priority_buffer gives the least value first",
      "priority_buffer gives equal ones in the order in which they came",
      "priority_buffer makes puts wait when it is full",
      "priority_buffer is a sorted list, whatever the order of puts and takes",
      "priority_buffer stays whole when values cannot be compared",
      "priority_buffer holds false, given an order",
      "a buffer policy may close its channel twice while it adds a value",
    },
    ["spec/core/cancel_spec.lua"] = {
      "cancel of a go block that waits closes a policy whose closed channel has lost its last put",
      "cancel of a go block that does not wait raises what an operation raises before",
      "cancel from elsewhere works in a callback, a transducer and a buffer policy",
      "cancel from elsewhere does not undo what a buffer policy is about to complete",
    },
    ["spec/core/chan_spec.lua"] = {
      "a channel 's stats() name the kind and the capacity of the buffer",
      "a channel as text counts what a policy holds, which has no capacity to tell",
    },
    ["spec/rn/mult_spec.lua"] = {
      "mult bad input of a buffer policy goes to the error handler; the other taps get all",
      "mult bad input of a policy of a tap that is full",
      "mult bad input of the source's buffer policy closes the taps with the error",
    },
    ["spec/rn/pipe_spec.lua"] = {
      "pipe goes on when the buffer policy of `to` refuses a value",
      "pipe closes `to` with the error of `from`'s buffer policy",
    },
    ["spec/rn/pipeline_spec.lua"] = {
      "pipeline_async ordered goes on when the buffer policy of `to` refuses a value",
      "pipeline_async unordered goes on when the buffer policy of `to` refuses a value",
    },
    ["spec/rn/pmap_spec.lua"] = {
      "pmap closes with the error of a buffer that takes no result",
      "pmap_unordered closes with the error of a buffer that takes no result",
    },
    ["spec/rn/pub_spec.lua"] = {
      "pub bad input of a topic's buffer policy costs the value",
    },
  },
  ["lite has no ps and no rename"] = {
    ["spec/core/bad_input_spec.lua"] = {
      "bad input to go, run, on_error and driver",
    },
    ["spec/core/cancel_spec.lua"] = {
      "lets it keep its name meanwhile, and in the report of another error",
    },
    ["spec/core/go_spec.lua"] = {
      "keep the block's name and place in rn.ps while they wait",
      "go names are where the function was defined",
      "go names can be given by the block itself",
      "go names can be given by who starts it, and are those of its result, too",
      "go names that it was given when it was started are in the error of a deadlock",
      "go names are strings, given inside a go block",
      "go ps shows what each go block does, and where",
      "go ps shows how long it has waited",
      "go ps names operation and channel of puts and takes, and alts of alts",
      "go ps lists the running block, and none that has ended",
      "go ps calls a block [C] that is to call what is no function, until it begins",
      "go ps has blocks under way outside go blocks too",
    },
    ["spec/core/unhandled_spec.lua"] = {
      "a for loop does not report the error of a go block, or of what it feeds, that was cancelled",
    },
    ["spec/rn/pmap_spec.lua"] = {
      "pmap treats a go block of its own that is cancelled or closed as a job that has raised",
      "pmap_unordered treats a go block of its own that is cancelled or closed as a job that has raised",
    },
    ["spec/rn/scope_spec.lua"] = {
      "scope starts go blocks under the name of their function",
      "scope with an error is the reason when its body is cancelled alone; the others go on",
    },
  },
  ["lite has no rn.xf: transducers are functions of the program"] = {
    ["spec/core/bad_input_spec.lua"] = {
      "bad input to chan: a buffer that another channel has",
      "bad input to what closes its target, or not",
    },
    ["spec/core/cancel_spec.lua"] = {
      "cancel of a go block that waits completes a transducer whose closed channel has lost its last put",
      "cancel loses no value and doubles none, whenever it comes",
    },
    ["spec/core/chan_spec.lua"] = {
      "a channel closed keeps its reason when it gets attributes later",
    },
    ["spec/core/unhandled_spec.lua"] = {
      "an error with which a go block also closes a channel of the program's, by a variable, is reported once, or "
        .. "taken, where pipeline passes it on",
      "an error with which a go block also closes a channel of the program's, by a variable, is reported once, or "
        .. "taken, where pipeline passes it on, and then waits",
      "an error with which a go block also closes a channel of the program's, by a variable, is reported once, or "
        .. "taken, where transduce passes it on",
      "an error with which a go block also closes a channel of the program's, by a variable, is reported once, or "
        .. "taken, where transduce passes it on, and then waits",
      "an error of a go block that somebody takes is not reported: through pipeline",
      "the error with which the program has closed a channel is reported once, or taken, where pipeline passes it on",
      "the error with which the program has closed a channel is reported once, or taken, where transduce passes it on",
    },
    ["spec/rn/pipeline_spec.lua"] = {
      "pipeline_async_unordered loses only the job of a go block that somebody closes while it delivers, an"
        .. "d reports that",
    },
    ["spec/rn/reduce_spec.lua"] = {
      "transduce completes a function of two arguments that xf.completing has wrapped",
    },
    ["spec/rn/scope_spec.lua"] = {
      "scope takes no place where nothing can wait, and starts nothing there",
    },
  },
  ["lite has no threads"] = {
    ["spec/core/alts_spec.lua"] = {
      "alts with the same channel twice, if it is shared, puts one value, either; with priority the first",
    },
    ["spec/core/bad_input_spec.lua"] = {
      "bad input nothing to polls of which each finds a value, or after which others run, however many they are",
    },
    ["spec/core/unhandled_spec.lua"] = {
      "the error with which the program has closed a channel is reported once if a for loop over a shared c"
        .. "hannel drops it, and not if somebody takes it",
    },
    ["spec/rn/reduce_spec.lua"] = {
      "list works on shared channels",
    },
  },
  ["lite keeps any number of untaken errors"] = {
    ["spec/core/unhandled_spec.lua"] = {
      "an error of a go block is one of those that wait, of which there are 1000: the oldest is reported",
    },
  },
  ["metamethods of a list of operations must not wait nor call alts in lite, which reads it again"] = {
    ["spec/core/alts_spec.lua"] = {
      "alts with a list that has metamethods may wait while it is read outside any go block",
      "alts with a list that has metamethods cannot park while it is read",
      "alts with a list that has metamethods may call alts while it is read",
    },
  },
  ["pmap of lite has no timeout, tries and backoff; explore has no share"] = {
    ["spec/core/alts_spec.lua"] = {
      "alts in sim.explore does each of its operations in some run, those that are ready and those that wait",
    },
    ["spec/core/bad_input_spec.lua"] = {
      "bad input to alt",
    },
    ["spec/rn/pmap_spec.lua"] = {
      "pmap with a job that raises reports the error to on_error once if it is not taken: a for loop does not take it",
      "pmap with a job that raises is named after its line where nobody takes an error that no job has raised",
      "pmap with a timeout cancels a late job, with an error that rn.is_timeout recognizes",
      "pmap with a timeout lets the others go on where a handler says what to put",
      "pmap with a timeout is none for the time in which a result waits to be taken",
      "pmap with a timeout says what a late job has raised when it was cancelled",
      "pmap with a timeout drops the result of a late job that has caught the error, and cancels no other one for it",
      "pmap with a timeout takes the result of a job that had no more to wait for when its time was over",
      "pmap with a timeout of 0 is enough for a job that does not wait",
      "pmap with a timeout ends with the pmap",
      "pmap counts nil with an error as an error",
      "pmap with tries tries a job again that has failed, which keeps its place and counts as one of the n",
      "pmap with tries starts no other job while one waits for its next try, if n is 1",
      "pmap with tries waits between half and the whole of `backoff`, and twice as long each time",
      "pmap with tries closes with the error of the last one, which a handler gets instead",
      "pmap with tries has a timeout for each of them",
      "pmap with tries delivers the results before an error for good, of jobs that are tried again as well",
      "pmap with tries tries nothing again when the results are closed, or another job has failed",
      "pmap has go blocks that carry the line which called it",
      "pmap_unordered with a job that raises reports the error to on_error once if it is not taken: a for l"
        .. "oop does not take it",
      "pmap_unordered with a job that raises is named after its line where nobody takes an error that no jo"
        .. "b has raised",
      "pmap_unordered with a timeout cancels a late job, with an error that rn.is_timeout recognizes",
      "pmap_unordered with a timeout lets the others go on where a handler says what to put",
      "pmap_unordered with a timeout is none for the time in which a result waits to be taken",
      "pmap_unordered with a timeout says what a late job has raised when it was cancelled",
      "pmap_unordered with a timeout drops the result of a late job that has caught the error, and cancels "
        .. "no other one for it",
      "pmap_unordered with a timeout takes the result of a job that had no more to wait for when its time was over",
      "pmap_unordered with a timeout of 0 is enough for a job that does not wait",
      "pmap_unordered with a timeout ends with the pmap",
      "pmap_unordered counts nil with an error as an error",
      "pmap_unordered with tries tries a job again that has failed, which keeps its place and counts as one of the n",
      "pmap_unordered with tries starts no other job while one waits for its next try, if n is 1",
      "pmap_unordered with tries waits between half and the whole of `backoff`, and twice as long each time",
      "pmap_unordered with tries closes with the error of the last one, which a handler gets instead",
      "pmap_unordered with tries has a timeout for each of them",
      "pmap_unordered with tries tries nothing again when the results are closed, or another job has failed",
      "pmap_unordered has go blocks that carry the line which called it",
    },
  },
  ["step takes a time in ms"] = {
    ["spec/core/bad_input_spec.lua"] = {
      "bad input to go, run and driver outside any go block",
    },
  },
  ["take_async of lite returns nothing that could be cancelled"] = {
    ["spec/core/cancel_spec.lua"] = {
      "cancel from elsewhere drops a callback that waits, and leaves one alone that will be called",
    },
  },
  ["the limit of 1024 counts other waiters"] = {
    ["spec/core/alts_spec.lua"] = {
      "alts on a channel with 1024 waiting counts its own operations, and raises without losing a value",
    },
    ["spec/core/chan_spec.lua"] = {
      "a channel with 1024 waiting takes accepts more on a timeout, but no more puts",
      "a channel has its limit of waiting takes besides those of the library",
    },
  },
  ["the messages of pmap and pipelines do not say how to call them"] = {
    ["spec/core/bad_input_spec.lua"] = {
      "bad input to a function that was called with a colon",
      "bad input to pipelines and the rest",
    },
    ["spec/rn/pmap_spec.lua"] = {
      "pmap refuses what is wrong at the caller's line",
      "pmap_unordered refuses what is wrong at the caller's line",
    },
  },
  ["the report of a deadlock is laid out in another way"] = {
    ["spec/rn/scope_spec.lua"] = {
      "cancels its go blocks when they wait for ever, and raises that",
    },
  },
  ["the test counts the go blocks of the library, of which lite has others"] = {
    ["spec/rn/mult_spec.lua"] = {
      "mult closing a tap removes it at once, without a value",
    },
    ["spec/rn/pipeline_spec.lua"] = {
      "pipeline_async with a window takes a job for running while af is, even past its result",
    },
    ["spec/rn/pmap_spec.lua"] = {
      "pmap starts no more go blocks than there are values",
      "pmap_unordered starts no more go blocks than there are values",
    },
  },
}

-- What some versions skip, too, with a reason, or, with false, do not skip.
local LENGTH = "# calls no metamethod of a table in this Lua"
local REFUSED = "this Lua cannot wait in pcall or an iterator"
local NO_GC = "tables have no __gc in this Lua"
local FEW_VALUES = "a call has at most some thousand values in this Lua"
local PLACE_OF_NUMBER = "error adds a place to a number in this Lua"
local FLOATS = "numbers are floats in this Lua"
local ONE_HOOK = "LuaJIT has one hook for all coroutines, that of the runner"
-- LuaJIT calls it if it was built so.
local HAS_LENGTH = #setmetatable({}, { __len = function() return 1 end }) == 1
local ALTS_WITH_LENGTH = HAS_LENGTH and {} or { luajit = LENGTH, ["5.1"] = LENGTH }
local function of_5_1(reason) return { ["5.1"] = reason } end
local VERSIONS = {
  ["spec/core/alts_spec.lua"] = {
    ["alts with many operations raises for more than 100,000 operations"] = ALTS_WITH_LENGTH,
    ["alts with a list that has metamethods reads it through its metatable"] = ALTS_WITH_LENGTH,
    ["alts with a list that has metamethods passes on the error of a metamethod, and has queued nothing"] =
      ALTS_WITH_LENGTH,
    ["alts with a list that has metamethods allows the metamethods to use the channels"] = ALTS_WITH_LENGTH,
    ["alts with a list that has metamethods may wait while it is read outside any go block"] =
      HAS_LENGTH and {} or { luajit = false, ["5.1"] = false },
  },
  ["spec/core/bad_input_spec.lua"] = {
    ["waiting is impossible inside string.gsub and a __gc"] = { luajit = NO_GC, ["5.1"] = NO_GC },
    ["bad input to alts"] = ALTS_WITH_LENGTH,
    ["bad input to chan: sizes"] = { luajit = FLOATS, ["5.1"] = FLOATS, ["5.2"] = FLOATS },
  },
  ["spec/core/cancel_spec.lua"] = {
    ["cancel of a go block that waits in a loop over a channel raises it although its channels keep the block alive"] =
      of_5_1(REFUSED),
    ["cancel from elsewhere works in a finalizer"] = { luajit = NO_GC, ["5.1"] = NO_GC },
  },
  ["spec/core/go_spec.lua"] = {
    ["go arguments and results passes ten thousand arguments"] = { luajit = FEW_VALUES, ["5.1"] = FEW_VALUES },
    ["go arguments and results gives the first of 10000 results"] = { luajit = FEW_VALUES, ["5.1"] = FEW_VALUES },
    ["go on_error may spawn, put and close, but not park"] = of_5_1(false),
    ["go coroutines whose variables are being closed may be closed or resumed, too"] = { ["5.5"] = false },
    ["go coroutines closed by others while their hook raises end when they are woken"] = { luajit = ONE_HOOK },
    ["go the end of a go block is listed by a hook that looks at it"] = { luajit = ONE_HOOK },
  },
  ["spec/core/transducer_spec.lua"] = {
    ["a channel with a transducer whose step raises serves a waiting take with what the handler gives"] =
      { ["5.1"] = PLACE_OF_NUMBER, ["5.2"] = PLACE_OF_NUMBER, luajit = PLACE_OF_NUMBER },
  },
  ["spec/rn/reduce_spec.lua"] = {
    ["reduce closes with the error of its function, reported once"] = of_5_1(REFUSED),
    ["onto_chan closes the channel with the error of an iterator that fails, reported once"] = of_5_1(REFUSED),
  },
  ["spec/rn/pmap_spec.lua"] = {
    ["pmap with a job that raises closes with a message if it raises nil, or calls coroutine.yield"] =
      { ["5.5"] = false },
    ["pmap_unordered with a job that raises closes with a message if it raises nil, or calls coroutine.yield"] =
      { ["5.5"] = false },
    ["pmap takes one value at a time from a list with a metatable, which may wait"] = of_5_1(REFUSED),
    ["pmap_unordered takes one value at a time from a list with a metatable, which may wait"] = of_5_1(REFUSED),
  },
  ["spec/rn/pipeline_spec.lua"] = {
    ["pipeline_async ordered af that raises nil is an error of that job, too"] = { ["5.5"] = false },
    ["pipeline_async unordered af that raises nil is an error of that job, too"] = { ["5.5"] = false },
  },
  ["spec/rn/pub_spec.lua"] = {
    ["pub bad input of a topic function that parks is no error"] = of_5_1(REFUSED),
    ["pub gives each subscriber the values of its topic in their order, whether it waits for them or not"] =
      of_5_1(REFUSED),
  },
  ["spec/rn/scope_spec.lua"] = {
    ["scope returns outside any go block, too"] = of_5_1(false),
  },
}
for _, events in ipairs { "c", "r", "l", "crl", "count" } do
  local name = ("go the end of a go block closes its result although its hook for %s raises"):format(events)
  VERSIONS["spec/core/go_spec.lua"][name] = { luajit = ONE_HOOK }
end

---The reasons for the tests of a file that are skipped, by their names.
---@param path string
---@param lua string as "5.1", or "luajit"
---@return table<string, { why: string, is_not_run: boolean }>
function skipped.of(path, lua)
  local reasons = {}
  for why, files in pairs(REASONS) do
    for _, name in ipairs(files[path] or {}) do
      reasons[name] = { why = why, is_not_run = why == ENDLESS }
    end
  end
  for name, versions in pairs(VERSIONS[path] or {}) do
    local why = versions[lua]
    if why ~= nil then reasons[name] = why and { why = why, is_not_run = why == ONE_HOOK or why == NO_GC } or nil end
  end
  return reasons
end

-- What the errors say with which tests fail for a reason: one of these patterns.
local EQUAL, SAME, DEADLOCK = "Expected objects to be equal", "Expected objects to be the same", "^deadlock: "
skipped.errors = {
  ["a go block of lite runs below the C calls of its scheduler"] = { EQUAL },
  ["a go block takes any number of arguments"] = { "no error%)%s+Expected.*too many arguments", "too many results" },
  ["a job of a pipeline is reported without the line of the pipeline"] = { "'a job of a pipeline'%s+Expected" },
  ['a missing argument and nil are both "nothing" in messages'] = { "got nothing" },
  ["a table with the metatable of a channel passes for a channel"] = { "field 'id'" },
  ["a traceback has frames of lite, and is made when the go block has ended"] = { "lite%.lua:%d+", EQUAL, SAME },
  ["a transducer may yield in a coroutine of the program's own"] = { SAME },
  ["a transducer's accumulator is a table"] = { "returned a table, not its accumulator" },
  ["error as the function of a go block puts a place in lite.lua before its text"] = { "lite%.lua:%d+: %a" },
  ["errors of callbacks, transducers and messages of the library have no traceback"] = { "argument #2 to 'matches'" },
  ["go blocks and timers outside a simulation do not run in it, and its own are dropped at its end"] = {
    SAME, "Expected objects to not be equal", "deadlock: take on",
  },
  ["it calls internals of the C core"] = { "local 'moving'", "core%.internal" },
  ["it is about the collector, or the memory of the C core"] = {
    "spec%.support%.finalizers", "spec%.support%.gc", "%(number%)", SAME,
  },
  ["it is the C core's"] = { "shared_chan", "core%.internal" },
  ["it runs a script of the C core"] = { "script", "spec%.support%.shell" },
  ["lite closes variables after the end of a go block, where they cannot wait"] = {
    EQUAL, SAME, DEADLOCK, "Expected strings to match", "integer index", "C stack overflow", "closing",
  },
  ["lite does not watch what other code does to the coroutines of go blocks"] = {
    EQUAL, SAME, DEADLOCK, "dead coroutine", "normal coroutine", "thread expected", "^hook",
  },
  ["lite has no map, take, split, mix and driver"] = { "'map'", "'take'", "'split'", "'mix'", "field 'driver'" },
  ["lite has no pipeline_blocking"] = { "nil value" },
  ["lite has no priority_buffer and no buffers of a program's own"] = {
    "chan: a buffer size or a buffer expected", "priority_buffer", "picky", "xf", "fails", "runnel.lite has no",
  },
  ["lite has no ps and no rename"] = { "'entry'", "'ps'", "rename", "no error", "worker" },
  ["lite has no rn.xf: transducers are functions of the program"] = { "xf" },
  ["lite has no threads"] = { "shared_chan" },
  ["lite keeps any number of untaken errors"] = { EQUAL },
  ["metamethods of a list of operations must not wait nor call alts in lite, which reads it again"] = {
    "deadlock: ", "no operations",
  },
  ["pmap of lite has no timeout, tries and backoff; explore has no share"] = { "unknown option" , "a list of clauses" },
  ["scopes of lite have no s:after"] = { "'after'" },
  ["step takes a time in ms"] = { "step: a time of 0 ms or more expected" },
  ["take_async of lite returns nothing that could be cancelled"] = { "cancel: a channel expected, got nothing" },
  ["the limit of 1024 counts other waiters"] = { "1024", "deadlock: ", SAME },
  ["the messages of pmap and pipelines do not say how to call them"] = { "got the module", "got nothing" },
  ["the report of a deadlock is laid out in another way"] = { "parked go blocks:" },
  ["the test counts the go blocks of the library, of which lite has others"] = { EQUAL },
}
-- The reasons of some versions: what fails there says many things.
for _, why in ipairs { LENGTH, REFUSED, NO_GC, FEW_VALUES, PLACE_OF_NUMBER, FLOATS, ONE_HOOK } do
  skipped.errors[why] = { "" }
end

---Whether an error is one that a test fails with for this reason.
function skipped.fits(reason, err)
  for _, pattern in ipairs(skipped.errors[reason.why] or {}) do
    if err:find(pattern) then return true end
  end
  return false
end

return skipped
