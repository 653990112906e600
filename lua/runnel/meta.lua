---@meta runnel.core

---The definitions of the C core, for the reference and for editors that read LuaCATS annotations. Nothing loads this
---file. An editor uses it as the source of `runnel.core` if the folder of `runnel.lua` is among its libraries.

---@class runnel.core
---@field methods table<string, function> the methods of channels
local core = {}

-- ---- making channels ----

---The description of a buffer from rn.buffer, rn.dropping_buffer or rn.sliding_buffer.
---@class runnel.Buffer: userdata

---A buffer policy: an object with these methods, which decides which values the channel keeps, and in which order they
---leave. They must not park, and must not use the channel. rn.priority_buffer returns one.
---@class runnel.Policy
---@field full fun(self: runnel.Policy): boolean whether puts must wait
---@field add fun(self: runnel.Policy, v: any) adds a value
---@field remove fun(self: runnel.Policy): any removes the next value and returns it; called only when there is one
---@field count fun(self: runnel.Policy): integer how many values it holds
---@field close? fun(self: runnel.Policy) called when the channel closes

---The buffer argument of rn.chan: a size (0 for no buffer), a description of a buffer, or a policy.
---@alias runnel.BufferLike integer|runnel.Buffer|runnel.Policy

---A reducing function: `rf()` returns a first accumulator, `rf(acc)` completes the reduction, and `rf(acc, v)` is a
---step.
---@alias runnel.Reducer fun(acc?: any, v?: any): any

---A transducer: makes a reducing function from another one. They are in rn.xf.
---@alias runnel.Transducer fun(rf: runnel.Reducer): runnel.Reducer

---Makes a channel. Source: core.async's chan.
---@param buffer? runnel.BufferLike default 0: no buffer, so that a put waits for a take
---@param xf? runnel.Transducer values go through it into the buffer; it needs a buffer and must not park
---@param ex_handler? fun(err: any): any called with an error of the transducer; what it returns, unless nil, is added
---instead of the value. Without it the error goes to rn.on_error
---@return runnel.Channel<any> ch
function core.chan(buffer, xf, ex_handler) end

---Makes a channel that several Lua states, in threads of their own, can share: its values are copied. It has the
---methods of any channel. Booleans, numbers, strings, tables of these, and other shared channels can be put; tables may
---be nested 100 deep.
---Shared channels whose buffers, or waiting puts, hold one another or themselves are never freed: take these values.
---@param buffer? runnel.BufferLike|"promise" default 0; not a buffer policy. "promise": as rn.promise_chan
---@return runnel.Channel<any> ch
function core.shared_chan(buffer) end

---Makes a channel that gives its first value to every taker, forever. Source: core.async's promise-chan.
---@param xf? runnel.Transducer
---@param ex_handler? fun(err: any): any
---@return runnel.Channel<any> ch
function core.promise_chan(xf, ex_handler) end

---A buffer of n values; when it is full, puts wait. For rn.chan it is the same as the number n. Source: core.async's
---buffer.
---@param n integer 1 or more
---@return runnel.Buffer
function core.buffer(n) end

---A buffer of n values; when it is full, a put succeeds and its value is dropped. Source: core.async's dropping-buffer.
---@param n integer 1 or more
---@return runnel.Buffer
function core.dropping_buffer(n) end

---A buffer of n values; when it is full, a put drops the oldest value. Source: core.async's sliding-buffer.
---@param n integer 1 or more
---@return runnel.Buffer
function core.sliding_buffer(n) end

---Whether puts never wait for the buffer. Source: core.async's unblocking-buffer?.
---@param buffer any
---@return boolean
function core.unblocking_buffer(buffer) end

---Whether a value is a channel.
---@param v any
---@return boolean
function core.is_chan(v) end

-- ---- go blocks ----

---Starts a go block: a coroutine that runs a function. It is put at the end of the run queue and begins once the caller
---parks or waits. Source: core.async's go.
---@generic R
---@param f fun(...: any): R|any, ...: any
---@param ... any its arguments
---@return runnel.Channel<R> result gets the function's first result, unless that is nil, and closes; closes with the
---error if the function raises one
function core.go(f, ...) end

---Lets the other ready go blocks run first.
function core.yield() end

---Parks for a time. Unlike rn.timeout it is exact and makes no channel. Outside any go block it runs the
---scheduler.
---@param ms number
function core.sleep(ms) end

---Cancels a go block: withdraws the operation in which it waits, and raises the reason there. If it does not wait, or
---its operation has already completed, the reason is raised where it waits next; nothing is undone. With the result of
---a thread it cancels the thread's function in the same way.
---@param result runnel.Channel<any> its result channel, from rn.go; or that of a thread, from rn.thread
---@param reason? any the error that is raised in it; by default "cancelled"
---@return boolean alive false if it has ended already
function core.cancel(result, reason) end

---Makes a channel that closes after a time. Timeouts whose deadlines are within 10 ms of each other share a channel, so
---never close it. Source: core.async's timeout.
---@param ms number
---@return runnel.Channel<any> ch
function core.timeout(ms) end

---A timer that calls a function, from rn.after or a scope's `after`. A `<close>` variable stops it:
---
---    local timer <close> = rn.after(1000, print, "still busy")
---@class runnel.Timer: userdata
local Timer = {}

---Stops a timer: it does not call its function. A call that has begun goes on.
---@return boolean was_pending false if it has called its function, or was stopped before
function Timer:stop() end

---Starts a timer again, from now: a pending one fires at the new time only; another one fires once more.
---@param ms number
---@return boolean was_pending
function Timer:restart(ms) end

---Calls a function in a go block of its own after a time. Until then there is no go block: a timer takes 130 bytes, and
---starting and stopping it less time than a go block. A timer need not be held to fire.
---@param ms number it fires then, or up to 1 ms later
---@param f fun(...: any)
---@param ... any its arguments
---@return runnel.Timer timer
function core.after(ms, f, ...) end

---A pending timer, in rn.timers.
---@class runnel.PendingTimer
---@field timer runnel.Timer
---@field name string where its function was defined, `file:line`
---@field left number in how many ms it is due

---Lists the pending timers of rn.after, the next one first. In a simulation: its own.
---@return runnel.PendingTimer[]
function core.timers() end

---The time since some fixed moment: monotonic, or virtual in a simulation.
---@return number ms
function core.now() end

---Names the running go block, for rn.ps and messages.
---@param name string
function core.rename(name) end

---@class runnel.Option
---@field priority? boolean try the operations in the given order; by default each that is ready is equally likely
---@field default? any if no operation is ready, do not wait and return this value and "default"
---@field nowait? boolean if no operation is ready, do not wait and return nil and "default"

---Does exactly one of several operations. Waits until one is ready, unless there is a default. Source: core.async's
---alts!.
---@param ops (runnel.Channel<any>|table)[] channels to take from, and `{channel, value}` to put
---@param opts? runnel.Option
---@return any value the value taken, or whether the put was done, or the default
---@return runnel.Channel<any>|"default" port the channel
---@return any err if value is nil: the error with which the channel closed
function core.alts(ops, opts) end

-- ---- running ----

---Runs a function as a go block and returns its results, or raises its error. Without a function: runs the scheduler
---until no go block is ready, no timer is set and the driver has no events to wait for. A timeout counts as a
---timer while something waits on it.
---@param f? fun(...: any): ...
---@param ... any its arguments
---@return any ...
function core.run(f, ...) end

---For a program with an event loop of its own: fires due timers, polls the driver and runs ready go blocks, without
---waiting. Called in a callback of the driver, while the scheduler runs, it does nothing and returns `math.huge`.
---@param max? integer run at most this many go blocks; by default until none is ready or 1 ms has passed
---@return number? ms until the next deadline; 0 if more go blocks are ready; `math.huge` if only events of the driver
---or other threads can come (core.wakeup_fd); nil if nothing can
function core.step(max) end

---Sets the error handler. It is called with an error of a go block that has not been taken after 5 s (50 ms at the
---prompt of runnel), or before the program ends; and at once with an error of a callback or a transducer. The default
---handler writes to stderr. The handler must not wait.
---@param f? fun(err: any, traceback?: string, where?: string) nil restores the default
---@return function? previous
function core.on_error(f) end

---How the scheduler waits: for example, an object that runs an event loop.
---@class runnel.Driver
---@field wait fun(self: runnel.Driver, ms?: number) waits for at most ms (nil: any time); returns earlier when an event
---has been handled
---@field alive fun(self: runnel.Driver): boolean whether events may still come
---@field luv? boolean true if it runs luv's loop, which runnel.uv needs

---Sets how the scheduler waits when nothing is ready.
---@param d? runnel.Driver nil restores the built-in driver, which sleeps
---@return runnel.Driver? previous
function core.driver(d) end

---Who has taken the last value of a buffer, if the wait is for a take; or has filled it, if it is for a put. Nil if
---that one waits there, too, as workers do; unless nothing was ever given back. Not known of shared channels and those
---with a transducer or a policy.
---@class runnel.Holder
---@field id integer of the go block; 0: code outside of go blocks
---@field name? string of the go block, or "the main program"; nil: the go block has ended
---@field operation "take"|"put" what it has done
---@field channel? runnel.Channel<any> where an alts waits: the channel
---@field is_self boolean it is the go block that waits

---An entry of rn.ps: a go block.
---@class runnel.GoBlock
---@field id integer
---@field name string as rn.rename has set it; by default the place where its function was defined, `file:line`; for a
---go block of the library, the call that started it: "pipe at job.lua:2 -> chan: results"
---@field state string "running", "ready", "parked" or "sleeping"; of a thread "starting", "computing", "waiting"
---or "ended"
---@field operation? string what it waits in: "take", "put" or "alts"; "idle": it waits on a channel that only the
---library knows, as a worker of a pmap or a stage does that must not take a value now
---@field where? string the line of the program at which it waits; for a go block of the library, the line of the call
---that started it
---@field channel? runnel.Channel<any> the channel on which it waits
---@field channels? runnel.Channel<any>[] the channels of the alts in which it waits
---@field waited? number for how many ms it has waited, accurate to about 1 ms
---@field holder? runnel.Holder who may hold the lock that it waits for
---@field thread? boolean true for a thread of rn.thread or rn.threads. rn.cancel of the result channel ends the
---thread at its next wait, or if it computes for 100 ms
---@field waits? {operation: string, channel: runnel.Channel<any>}[] what the go blocks of a thread wait for, on shared
---channels that this state has, too
---@field result runnel.Channel<any> its result channel

---Lists the go blocks.
---@return runnel.GoBlock[]
function core.ps() end

---Iterates over the lines of a string, without their newlines, which are "\n" or "\r\n". A last line without one
---counts, too. Takes less time than string.gmatch or string.find.
---@param text string
---@return fun(): string? next_line
function core.each_line(text) end

---For a driver over a loop that has a descriptor: waits until the descriptor is readable or a deadline is due. Does not
---wait if a go block is ready. Ctrl-C ends the wait with an error.
---@param fd integer
---@param ms? number wait for at most so long
---@param other? integer another descriptor; either ends the wait
---@return boolean may_have_events false: a descriptor is not readable; go blocks have something to do
function core.wait_readable(fd, ms, other) end

---For a program with an event loop of its own that calls rn.step(): a descriptor that becomes readable when another
---thread has completed an operation on a shared channel, a thread has ended, or a C module has posted a message or can
---read. Then call rn.step(), which makes it unreadable again. Only watch it. It stays open.
---@return integer fd
function core.wakeup_fd() end

-- ---- reduced ----

---Wraps a value; a reducing function that returns it ends the reduction. Source: Clojure's reduced.
---@param v any
---@return table reduced
function core.reduced(v) end

---Whether a value is a result of rn.reduced.
---@param v any
---@return boolean
function core.is_reduced(v) end

-- ---- channels ----

---@class runnel.Stats
---@field name? string
---@field id integer
---@field puts_waiting integer how many puts wait
---@field takes_waiting integer how many takes wait
---@field values integer how many values the buffer holds
---@field capacity integer how many it can hold
---@field buffer string "none", "fixed", "dropping", "sliding", "promise" or "policy"
---@field closed boolean
---@field shared? boolean true for a shared channel, whose numbers are those of all states
---@field put_total integer how many values have been put
---@field take_total integer how many values have been taken

---A channel, as rn.chan makes it. Besides its methods:
---
---    for v in ch do end          -- takes until it is closed and drained
---    local ch <close> = rn.chan() -- closes when the scope ends
---    #ch                         -- values in the buffer
---    tostring(ch)                -- "chan: jobs (3/10, 2 puts waiting)"
---
---In annotations, `runnel.Channel<T>` is a channel of values of the type T.
---@class runnel.Channel<T>: userdata
---@operator len: integer
---@operator call(): T?
local Channel = {}

---Takes a value; waits until there is one. Source: core.async's <!.
---@return T? v nil once the channel is closed and drained
---@return any err then the error with which it closed, if there is one
function Channel:take() end

---Puts a value; waits until it is taken or there is room in the buffer. Source: core.async's >!.
---@param v T not nil
---@return boolean done false if the channel is closed
function Channel:put(v) end

---Takes a value if there is one now. Source: core.async's poll!.
---@return T? v nil if there is none
---@return any err if the channel is closed and drained, the error with which it closed, if there is one
function Channel:poll() end

---Takes all values until the channel is closed and drained; waits for them.
---@return T[]? list nil if the channel was closed with an error
---@return any err then that error
function Channel:list() end

---Puts a value if it need not wait. Source: core.async's offer!.
---@param v T not nil
---@return boolean? done nil if it would have to wait, false if the channel is closed
function Channel:offer(v) end

---Takes a value and calls a function with it, without waiting. Source: core.async's take!.
---@generic T
---@param self runnel.Channel<T>
---@param f fun(v?: T, err: any) it must not park
---@param on_caller? boolean whether f may be called before take_async returns; default true
function Channel:take_async(f, on_caller) end

---Puts a value and calls a function when the put is done, without waiting. Source: core.async's put!.
---@param v T not nil
---@param f? fun(done: boolean) it must not park
---@param on_caller? boolean whether f may be called before put_async returns; default true
---@return boolean open false if the channel is closed already
function Channel:put_async(v, f, on_caller) end

---Closes the channel. Later puts return false; takes return the remaining values, and then nil. Closing it again does
---nothing. Source: core.async's close!.
---@param err? any the error that takes get after nil
function Channel:close(err) end

---Whether the channel has been closed.
---@return boolean
function Channel:closed() end

---Returns a channel that closes when this one does, even if this one still holds values. It lets a go block wait for
---the close without taking from the channel.
---@return runnel.Channel<any> ch
function Channel:done() end

---Returns statistics of the channel.
---@return runnel.Stats
function Channel:stats() end

---Names the channel, for tostring and messages; without an argument, returns its name.
---@param s string
---@return runnel.Channel<T> ch the channel, so that calls chain
---@overload fun(self: runnel.Channel<T>): string?
function Channel:name(s) end

-- ---- what the library's own modules use ----

-- These may change at any time: programs must not use them.

---@class runnel.internal
core.internal = {}

---The coroutine of a go block.
---@param result runnel.Channel<any>
---@return thread? co nil if the go block has ended
function core.internal.coroutine_of(result) end

---Like alts, but returns the number of the operation instead of the channel.
---@param ops (runnel.Channel<any>|table)[]
---@param opts? runnel.Option
---@return any value
---@return any i the number, or "default"
---@return any err
function core.internal.alts_index(ops, opts) end

---Puts the complete lines of a text, without their "\n" or "\r\n", until a put would wait or a line is too long. For
---runnel.uv.
---@param ch runnel.Channel<string>
---@param text string
---@param from integer the position of the first line
---@param max integer how many bytes a line may have
---@return integer next the position after the last line that was put
---@return boolean? state true if there is no further complete line, nil if the next put would wait or its line is too
---long, false if `ch` is closed
function core.internal.offer_lines(ch, text, from, max) end

---The function of a go block of a scope, or another one that counts as one of the program: calls `f(...)`, and
---`guard:returned(...)` with its results; both may park. The guard is closed, like a `<close>` variable, however the go
---block ends.
---@param guard table
---@param f fun(...: any): ...
---@param ... any
---@return any ...
function core.internal.guarded(guard, f, ...) end

---The result channel of the running go block, or nil outside any. Raises an error where parking is impossible.
---@param what string the operation that the error names
---@return runnel.Channel<any>? result
function core.internal.self(what) end

---Sets the function that is called when a channel closes. For runnel.uv, whose streams then stop reading.
---@param ch runnel.Channel<any>
---@param f fun() called at once when `ch` closes, or now if it is closed already; it must not park
---@return fun()? before the function that was set before
function core.internal.on_close(ch, f) end

---Waits until a channel closes, also in a go block that was cancelled and has got the error. The channel must have no
---puts.
---@param ch runnel.Channel<any>
function core.internal.join(ch) end

---A sleep, also in a go block that was cancelled and has got the error.
---@param ms number
function core.internal.sleep_at_end(ms) end

---Ends the sleep of a go block, or of the caller outside any go block. Does nothing if it is not sleeping.
---@param block? runnel.Channel<any>
function core.internal.wake(block) end

---Packs a value as MessagePack.
---@param value any
---@param name string what the message calls the value
---@return string? bytes
---@return string? message why it cannot be packed
function core.internal.pack(value, name) end

---Unpacks MessagePack bytes.
---@param bytes string
---@param from? integer position of the first byte (1)
---@param to? integer position of the last byte
---@return any value
---@return string? message what is wrong with the bytes
function core.internal.unpack(bytes, from, to) end

---Whether the go block has ended.
---@param result runnel.Channel<any>
---@return boolean
function core.internal.has_ended(result) end

---Withdraws the take in which a go block waits: it returns nil, although the channel is open. If the go block does not
---wait in a take on that channel alone, nothing happens, now or later.
---@param result runnel.Channel<any> the go block's result channel
---@param ch runnel.Channel<any> the channel on which it takes
---@return boolean withdrawn
function core.internal.withdraw_take(result, ch) end

---Between two parts of a long answer: lets the other go blocks run, or does nothing where that is impossible.
function core.internal.rest() end

---An id of the library function that the program has called and of the line of that call; 0 if the program has not
---called one. For `started`.
---@param what string
---@return integer number
---@return string? text as in "pipe at job.lua:2"; with 0 that of the running go block, if it has one
function core.internal.origin(what) end

---The entry of rn.ps for a go block, or nil if it has ended.
---@param block runnel.Channel<any>
---@return runnel.GoBlock?
function core.internal.state(block) end

---Whether an error is the reason with which the go block was cancelled.
---@param result runnel.Channel<any>
---@param err any
---@return boolean
function core.internal.is_cancellation(result, err) end

---Treats an error as the reason with which the go block was cancelled, so that it is not reported.
---@param result runnel.Channel<any>
---@param err any
function core.internal.excuse(result, err) end

---For `runnel.csv` (csrc/csv): the records that are complete in a text, at most some hundred. A record is complete when
---its newline is there.
---@param text string
---@param from integer where they begin
---@param separator string
---@param is_whole boolean nothing comes behind the text: the last record needs no newline
---@param fields integer how many the first record has; 0 before that
---@param ragged boolean records may have different numbers of fields
---@param max integer bytes of a record
---@return (string[]|integer)[] rows a record, how many lines are before it, another record, ...
---@return integer next the position behind them
---@return integer lines how many they have
---@return integer fields
---@return boolean in_quotes the text ends within the quotes of the record behind them
---@return string? problem of that record
---@return integer? line in how many lines from there it is
function core.internal.csv_scan(text, from, separator, is_whole, fields, ragged, max) end

---The functions of `runnel.json` (csrc/json), for the module with these two tables.
---@param null table what stands for null
---@param array table the metatable of arrays
---@return fun(value: any, indent?: integer): string?, string?, any[]? encode or nil, a problem, and the keys to it
---@return fun(text: string): any, string?, integer? decode or nil, a problem, and the number of the byte where it is
function core.internal.json(null, array) end

---The lines where go blocks were started that were collected while they waited, without an order.
---@return runnel.Leak[]
function core.internal.leaks() end

---Sets the functions that write the errors of deadlocks and leaks (runnel.internal.errors.reports).
---@param functions { deadlock: function, leak: function }
function core.internal.reports(functions) end

---The list of rn.ps, with data for the errors of deadlocks and leaks. In a simulation: of its go blocks only.
---@return table[]
function core.internal.waits() end

---@param ch runnel.Channel<any>
---@return string name as "chan: jobs", or "chan: #12" without a name
function core.internal.name_of(ch) end

---Call it between taking an error from one channel and closing another one with it: the error then counts as not taken
---until a take from the second channel returns it.
---@param err any
---@param to? runnel.Channel<any>|false the other channel; if nil or false, the error is reported
---@param from? runnel.Channel<any> the channel from which it was taken; nil: the error is reported elsewhere
function core.internal.pass_on(err, to, from) end

---Closes a channel with an error that is reported, like a go block's error, unless a take gets it. For channels of the
---library without a go block, such as a failed stream. Does nothing if the channel is closed: the program wants nothing
---more from it.
---@param ch runnel.Channel<any>
---@param err any not nil
---@param traceback? string for the report
---@param where? string what failed, as the report names it; default the name of the channel
---@return boolean was_open
function core.internal.fail(ch, err, traceback, where) end

---Names a go block of the library after the function that the program called, and the line of that call.
---@param block runnel.Channel<any> its result channel
---@param what string|runnel.Channel<any> the name of the function that the program called; or a go block that has ended
---and has that name
---@return runnel.Channel<any> block
function core.internal.started(block, what) end

---Starts an OS thread with a Lua state of its own, which requires `job.main` and calls it with a copy of the job. For
---rn.thread.
---@param job runnel.ThreadJob
---@param control runnel.Channel<any> closed when this state is closed
---@param result runnel.Channel<any> closed with an error if the thread cannot even begin
---@param reports runnel.Channel<any> likewise
---@return userdata? status what it does, for stands_for
---@return string? why not
function core.internal.start_thread(job, control, result, reports) end

---At the end of the program: asks its threads to end, and waits for them a little. For runnel.threads.start.
function core.internal.stop_threads() end

---The error of a go block that has gone on computing in a cancelled thread. Nobody is told it.
---@type string
core.internal.INTERRUPTED = nil

---In a thread, when it hears that it is cancelled: it has more time from then on.
function core.internal.hears_cancel() end

---Ends the go block that runs in a cancelled thread, with the error INTERRUPTED, if it has gone on computing: to be
---called again and again until the thread has ended.
---@param status userdata what start_thread has returned
function core.internal.interrupt_thread(status) end

---The results of a go block's completed operation, if it has not run since; or nothing.
---@param result runnel.Channel<any> the go block's result channel
---@return any ...
function core.internal.arrived(result) end

---Makes a go block show as a thread in rn.ps, and be cancelled in its place. For rn.thread.
---@param block runnel.Channel<any> its result channel
---@param status userdata from start_thread
---@param name string
---@param result runnel.Channel<any> of the thread
function core.internal.stands_for(block, status, name, result) end

---How many processors this process may use.
---@return integer n
function core.internal.cores() end

---A take that does not count as a pending event: neither rn.run nor a deadlock waits for it. For the pools of
---rn.thread.
---@param ch runnel.Channel<any>
---@return any v
---@return any err
function core.internal.listen(ch) end

---A path from the root, which stays right when the program changes its directory.
---@param path string
---@return string
function core.internal.absolute(path) end

---A random number of the scheduler, to seed another one; with `n`, seeds this one. For rn.thread.
---@param n? integer
---@return integer? seed
function core.internal.seed(n) end

---The error with which another state has closed a shared channel: reported unless a take gets it.
---@param err any
---@param traceback? string
---@param where string what raised it
---@param ch runnel.Channel<any> the shared channel
function core.internal.unhandled(err, traceback, where, ch) end

---Declares that all files below a folder belong to the library, in which the caller's file is `name`.
---@param name string
function core.internal.library(name) end

---Reports all unhandled errors of go blocks.
---@param is_end? boolean the program ends: within a simulation, also reports the errors of the outer world
function core.internal.report_unhandled(is_end) end

---Sets how long an error of a go block waits for a take before it is reported.
---@param ms number
---@return number previous the previous setting
function core.internal.grace(ms) end

---Whether the program may exit with status 0: no error was written to stderr, or `runnel` has --errors=warn.
---@return boolean
function core.internal.is_well() end

---The text of an error: as tostring returns it; for a table without __tostring, its message and its other fields;
---for an object whose metamethods raise, that they do.
---@param err any
---@return string
function core.internal.error_text(err) end

---Calls the error handler with a caught error.
---@param err any
---@param traceback? string
---@param where? string what raised it
function core.internal.report(err, traceback, where) end

---Raises an error; a string gets the position of the innermost line of the program, as csrc/errors/error.h says.
---@param err any
function core.internal.raise(err) end

---Sets f(err, traceback), which is called for each reported error and returns the traceback of the report.
---@param f fun(err: any, traceback: string?): string?
function core.internal.elsewhere(f) end

---Keeps the library of a C function loaded until the process ends, also if the last state that has loaded it closes.
---@param f function
---@return boolean ok
function core.internal.stay_loaded(f) end

---In a thread of a pool: records the job that begins. Returns rn.now's time.
---@param number integer
---@return number now
function core.internal.begin_job(number) end

---The last job begun by the thread that a go block stands for, or 0.
---@param block runnel.Channel<any>
---@return integer number
function core.internal.job_of(block) end

---Runs a function under virtual time. For runnel.sim.
---@param seed integer
---@param shuffle? boolean
---@param leaks? boolean
---@param f fun(...: any): ...
---@param ... any
---@return boolean ok
---@return number elapsed
---@return any ...
function core.internal.simulate(seed, shuffle, leaks, f, ...) end

---Whether the error with which a channel was closed needs no further report: it is already in the list of errors that
---must be taken, or belongs to a cancelled go block.
---@param ch runnel.Channel<any>
---@return boolean
function core.internal.is_error_known(ch) end

---Whether a simulation is running. For runnel.uv.
---@return boolean
function core.internal.is_simulation() end

---The number of the host of a simulated world to which a go block belongs; 0: none, or no go block runs. Go blocks that
---it starts belong to that host, too.
---@param n? integer makes it belong to this host from now on
---@param block? runnel.Channel<any> default the running go block
---@return integer number before
function core.internal.host(n, block) end

---Starts a program by posix_spawn; nil if luv is to do it, or to say why it cannot, or nil and an error.
---@param file string
---@param args string[] without the file
---@param env string[]? "NAME=value" each; nil: the program's own
---@param cwd string?
---@param stdio integer[] its first three descriptors; nil: /dev/null
---@param detached boolean? in a session of its own
---@return { ended: fun(self): (integer, integer), close: fun(self) }? child ended() returns the status and the signal
---@return integer|string|nil pid or the error
---@return integer? fd readable once it has ended
function core.internal.spawn(file, args, env, cwd, stdio, detached) end

---Descriptors that the program shares with others: see lua/internal/polled.c.
core.internal.descriptors = {}

---Prepares reading or writing a pipe, a terminal or a socket without waiting, and without changing its mode.
---@param fd integer
---@param writes boolean
---@param is_own boolean the program has opened it, non-blocking
---@return any polled false: it is a file, which is always ready; nil: see the error
---@return integer? number of the error
function core.internal.descriptors.polled(fd, writes, is_own) end

---Reads a file, if that does not wait for a disk: see lua/internal/file_read.c.
---@param fd integer
---@param max integer how many bytes; it may be less
---@param at integer the offset; -1: the file's own position, which moves on
---@return string|false|nil text "" at the end; false: it may have to wait; nil: the system cannot tell, or has failed
---@return integer? size of the file; or the number of the error
function core.internal.descriptors.read_in_memory(fd, max, at) end

---Makes the next read of a file begin further in front.
---@param fd integer
---@param n integer how many bytes
---@return boolean ok false if it has no positions
function core.internal.descriptors.go_back(fd, n) end

---Opens those of 0, 1 and 2 that are closed, so that nothing else gets these numbers.
function core.internal.descriptors.reserve() end

---Whether the process can open the descriptors that luv needs.
---@return boolean has_room
---@return string? err
function core.internal.descriptors.has_room() end

---Sets the names of the hosts, which come before the names of their go blocks.
---@param list? string[] by number
function core.internal.hosts(list) end

---Whether a host has go blocks, besides the running one.
---@param n integer
---@return boolean
function core.internal.has_go(n) end

---Drops the go blocks of a host, except the running one: they do not go on, and close nothing.
---@param n integer
function core.internal.crash(n) end

---Sets a function that a simulation calls when nothing is ready or timed while its function waits, with false: it
---returns whether it has made a go block ready; and around the search for leaks, with true.
---@param f? fun(is_over: boolean): boolean
function core.internal.at_rest(f) end

---The scheduler's driver, or nil.
---@return runnel.Driver?
function core.internal.current_driver() end

---The name of this state's thread, if rn.thread or rn.threads has started it.
---@type string?
core.internal.thread_name = nil

---Whether this thread was asked to end.
---@type boolean?
core.internal.thread_stops = nil

---Requires a module on the main thread. Libraries such as luv call back on the coroutine that loaded them, which must
---not be a go block.
---@param name string
---@return any
function core.internal.require(name) end

-- The trace, for rn.trace, rn.graph and the prompt. `parts` are letters: l for the list of channels, e for
-- edges, r for the ring, c for the contexts of go blocks.

---@class runnel.internal.profile
core.internal.profile = {}

---Begins a profile. Raises, without a position, if there is one already, or no timer.
---@param namers table<string, fun(co: thread, level: integer): string?> the path of a file of the library, below its
---folder -> what names the waits of such a function of it
function core.internal.profile.start(namers) end

---Ends it.
---@return { running: table, waiting: table, names: table<string, string>, ran: integer, loop: integer, waited: integer,
---elapsed: integer }? raw nil if there was none; times in ns
function core.internal.profile.stop() end

---@class runnel.recorder
core.internal.trace = {}

---Holds parts of the trace, which stay on until they are released as often.
---@param parts string
---@param records? integer the least size of the ring
function core.internal.trace.hold(parts, records) end

---@param parts string
function core.internal.trace.release(parts) end

---The value that a go block has got by set_context, or inherited from the go block that started it.
---@param block? runnel.Channel<any> default the running code
---@return any value nil while contexts are not held
function core.internal.trace.context(block) end

---Sets that value of the running code, also for the go blocks that it starts from now on.
---@param value any
function core.internal.trace.set_context(value) end

---Makes each put on the channel call f(v, waits); nil ends that.
---@param ch runnel.Channel<any>
---@param f? fun(v: any, waits: boolean)
function core.internal.trace.tap(ch, f) end

---Hides a channel that only the library uses, or the go block whose result channel it is: it is not in the trace, in
---graphs, in rn.ps or on the monitor's page, and go blocks that wait on it are "idle".
---@param ch runnel.Channel<any>
---@return runnel.Channel<any> ch
function core.internal.trace.hide(ch) end

---The name of a channel, or of the go block whose result channel it is, in the trace.
---@param ch runnel.Channel<any>
---@return string
function core.internal.trace.name(ch) end

---All channels of the list.
---@return runnel.Channel<any>[]
function core.internal.trace.chans() end

---Scans the next of the go blocks for parts that are held with "p".
---@param list? table nil: begins
---@param i? integer
---@return table? list nil: all are scanned
---@return integer? i
function core.internal.trace.scan(list, i) end

---At most n channels of the list, from the i-th entry down: for walks during which others run. Such a walk misses no
---channel that exists all the time, but may meet one twice.
---@param i integer? nil: from the last entry
---@param n integer
---@return runnel.Channel<any>[] channels
---@return string[] names of each
---@return boolean[] unnamed whether the name is the line that made the channel
---@return integer i for the next call; 0: that were all
function core.internal.trace.part(i, n) end

---The names of channels by id, including some collected ones; which names are the place where the channel was made; and
---the ids of shared channels, which are the same in all states.
---@return table<integer, string> names
---@return table<integer, boolean> unnamed
---@return table<integer, integer> shared
function core.internal.trace.names() end

---Which go blocks put on and take from which channels, and how many values were not counted.
---@return { name: string, channel: integer?, result: string?, puts: integer, takes: integer }[] edges
---@return integer lost
function core.internal.trace.edges() end

---The numbers of the oldest record and of the next one, how many were overwritten, the time; nothing without a ring.
---`copied`: of the copy that was made for an error.
---@param copied? boolean
---@return integer? first
---@return integer? next_one
---@return integer? dropped
---@return integer? now in ns
function core.internal.trace.ring(copied) end

---The number of the next record, and the id of the running go block.
---@return integer next_one
---@return integer go 0: none runs
function core.internal.trace.position() end

---The time of the system's clock.
---@return integer ns since 1970
function core.internal.trace.unix() end

---A record (TraceRecord in csrc/tracing/trace_state.h); nothing if it was overwritten.
---@param n integer
---@param copied? boolean of the copy for an error
---@return integer? kind
---@return integer? time in ns
---@return integer? go
---@return integer? chan
---@return integer? seq
---@return integer? what
---@return integer? label
function core.internal.trace.read(n, copied) end

---The records of the ring, as a string for another state; the number of the oldest one; their count; an upper bound of
---the ids. Nothing without a ring.
---@return string? bytes
---@return integer? first
---@return integer? n
---@return integer? last_id
function core.internal.trace.bytes() end

---A record of such a string; nothing after the last one.
---@param bytes string
---@param i integer from 0
---@param last_id integer
---@return integer? kind
---@return integer? time in ns
---@return integer? go
---@return integer? chan
---@return integer? seq
---@return integer? what
---@return integer? label
function core.internal.trace.read_bytes(bytes, i, last_id) end

---Waits, without running the scheduler.
---@param ms integer
function core.internal.trace.pause(ms) end

---Sets f, which is called when an unhandled error is about to be reported, until the ring is released; nil ends that.
---`is_copied`: there is a copy of the ring from the time when the error was raised.
---@param f? fun(is_copied: boolean)
function core.internal.trace.on_error(f) end

---The name of a label.
---@param n integer
---@return string
function core.internal.trace.label(n) end

-- ---- for SIGTERM ----

---Makes the first SIGTERM close the channel instead of ending the program; at once if the signal has already arrived.
---@param ch runnel.Channel<any>
---@param patience integer ms after the signal until the program should have ended
---@return userdata? watch nil if the program handles the signal, or if there are no resources
function core.internal.sigterm_watch(ch, patience) end

---The state has begun to drain.
---@param watch userdata
---@param ch runnel.Channel<any> is closed if the program has not ended when it should; then call this again
function core.internal.sigterm_begin(watch, ch) end

---The state has drained.
---@param watch userdata
---@param stays boolean the program has something left to do, and ends by itself
---@return boolean ends all states have drained, and none stays: the caller ends the program
function core.internal.sigterm_drained(watch, stays) end

---Who waits in a take or an alts on a channel.
---@param ch runnel.Channel<any>
---@return integer[] ids of go blocks
---@return boolean main whether the main program does
function core.internal.takers(ch) end

---Whether the main program waits on no channel: it has ended, or runs go blocks.
---@return boolean
function core.internal.main_is_idle() end

---The line of the program (file:line) at which the main program is, or nil.
---@return string?
function core.internal.main_line() end

---Ends a watch, and closes its channel.
---@param watch userdata what sigterm_watch has returned
function core.internal.sigterm_unwatch(watch) end

-- ---- for processes that are not to outlive the program ----

---@class runnel.Ending: userdata
local Ending = {}

---It gets this signal instead.
---@param signal integer
function Ending:set(signal) end

---The process has ended, or may outlive the program.
function Ending:remove() end

---The process gets a signal when the program ends by a signal, os.exit or its end, or when the result is collected.
---@param target integer a process; a negative number is a process group
---@param signal integer
---@return runnel.Ending ending
function core.internal.ending(target, signal) end

---Calls a function. Nothing ends the program meanwhile, so that it can start a process and call `ending` for it.
---@param f function
---@param ... any
---@return boolean ok
---@return any ... what the function returned, or the error
function core.internal.held(f, ...) end

---Lets signals end these processes again, after a library has restored the default action of a signal.
function core.internal.renew_endings() end

---@class runnel.Former: userdata
local Former = {}

---luv catches the signal.
function Former:caught() end

---luv's handle does not catch the signal any more: it has the former action again, after the last one of them.
function Former:restore() end

---Keeps the action of a signal that luv will catch.
---@param signal integer
---@return runnel.Former former
function core.internal.former(signal) end

-- ---- for names of hosts ----

---Looks up a host in a thread of its own, puts a text on the channel, and closes it: a line for each address; or the
---name of an error, a space, and what it means.
---@param ch runnel.Channel<any>
---@param host string
---@return boolean? begun
function core.internal.resolve(ch, host) end

-- ---- for the monitor ----

---Lets another thread ask the scheduler's loop to call a function.
---@param f? fun() it must not wait; nil ends the watch
---@return userdata? watch for the C module that has the other thread (csrc/tracing/watch.h)
function core.internal.watch(f) end

---Begins or ends to measure the loop, for `measured`.
---@param is_on boolean
function core.internal.measure(is_on) end

---Numbers of go blocks by state. With many of them, the others run meanwhile.
---@return table<string, integer> states
function core.internal.states() end

---What the core has counted and measured.
---@return integer reported errors
---@return number waited ms that the loop has waited; 0 if it is not measured
---@return number longest ms of its longest turn since the last call
function core.internal.measured() end

---Fills the next part of a snapshot of the go blocks and channels (csrc/tracing/snapshot.h).
---@param snapshot lightuserdata
---@return boolean complete whether that was the last part
function core.internal.snapshot(snapshot) end

---@param id integer
---@return runnel.Channel<any>? block the result channel of the go block with this id
function core.internal.find_go(id) end

---@param id integer
---@return runnel.Channel<any>? ch the channel with this id
function core.internal.find_chan(id) end

---The values in a channel's buffer, the oldest first, and then those of waiting puts. They stay there.
---@param ch runnel.Channel<any>
---@param max integer how many values at most
---@return any[] values
function core.internal.peek(ch, max) end

---Starts a go block. If it dies, from an error or otherwise, `give_up` is called, which must not wait.
---@param give_up runnel.GiveUp
---@param fed any the first argument of `give_up`
---@param f function
---@param ... any
---@return runnel.Channel<any> result
function core.internal.go_feeding(give_up, fed, f, ...) end

---Closes a channel, or the channels of a list, with the reason; also if memory runs out.
---@param fed runnel.Channel<any>|runnel.Channel<any>[]|false|nil anything else is left alone
---@param reason any nil: none
function core.internal.close_fed(fed, reason) end

---Whether an error is the reason with which the running go block was cancelled.
---@param err any
---@return boolean
function core.internal.is_cancelled(err) end

---Whether an error is the last deadlock of which a simulation has told the running go block, its function. It is told
---as a cancel, for which is_cancelled is true, too.
---@param err any
---@return boolean
function core.internal.is_deadlock(err) end

---Whether an error is that of Ctrl-C, with its position or without.
---@param err any
---@return boolean
function core.internal.is_interrupt(err) end

---Operations for the library's own go blocks. Any number of them may wait on a channel. They let other go blocks run
---after each 128 values without a wait.
---How merge and mix take from many channels (lua/runnel/workers/gathering.lua).
---@class runnel.gathering
core.internal.gathering = {}

---@param n integer how many channels
---@return userdata g
function core.internal.gathering.new(n) end

---Waits in the queues of the channels in place of the go block that takes. To be called in a go block of its own.
---@param g userdata
---@param chs runnel.Channel<any>[]
function core.internal.gathering.hold(g, chs) end

---Ends hold.
---@param g userdata
function core.internal.gathering.finish(g) end

---@param chs runnel.Channel<any>[] those of hold
---@param g userdata
---@return any value
---@return runnel.Channel<any>? ch from which it was taken; if value is nil, ch is closed. nil: chs[1] is closed, so
---nothing is taken
---@return any err with which ch was closed
function core.internal.gathering.take(chs, g) end

---@param ch runnel.Channel<any>
---@return boolean
function core.internal.gathering.is_shared(ch) end

---@class runnel.moving
core.internal.moving = {}

---Takes a value; waits until there is one.
---@param ch runnel.Channel<any>
---@return any v
---@return any err
function core.internal.moving.take(ch) end

---Puts a value; waits until it is accepted.
---@param ch runnel.Channel<any>
---@param v any
---@return boolean done
function core.internal.moving.put(ch, v) end

---Puts a value; waits until it is accepted, or the channel closes.
---@param ch runnel.Channel<any>
---@param v any
---@return boolean done
function core.internal.moving.put_while_open(ch, v) end

---As ch:put_async(v, f), by a go block that is in no list, so that no program can cancel it and thereby drop f.
---@param ch runnel.Channel<any>
---@param v any
---@param f fun(accepted: boolean)
---@return boolean is_open
function core.internal.moving.put_later(ch, v, f) end

---Puts a value on the channels of a list, from the i-th on, until a put would wait, or needs a call of its own: the
---channel is closed, or the put may run Lua code. If all have got it and the last one is then full, lets other go
---blocks run.
---@param chs runnel.Channel<any>[]
---@param v any not nil
---@param i integer the position of the first channel
---@return integer? next the position of the channel that has not got the value; nil: all have
function core.internal.moving.put_each(chs, v, i) end

---Takes a value; waits until there is one, or `to` closes. Once `to` is closed, nothing is taken.
---@param from runnel.Channel<any>
---@param to runnel.Channel<any> what the value is meant for
---@param polls? boolean do not wait for a value
---@return any v
---@return any _
---@return any err
function core.internal.moving.next(from, to, polls) end

---Whether takes wait on the channel.
---@param ch runnel.Channel<any>
---@return boolean
function core.internal.moving.is_awaited(ch) end

---Whether operations on the channel run no user code.
---@param ch runnel.Channel<any>
---@return boolean
function core.internal.moving.is_plain(ch) end

---Like alts, but returns the number of the operation.
---@param ops table[]|runnel.Channel<any>[]
---@param opts? { priority?: boolean }
---@return any value
---@return integer i the number
---@return any err
function core.internal.moving.alts(ops, opts) end

---The work of a worker of runnel.workers.workers for each value (lua/internal/worker.c).
core.internal.worker = {}

---Makes a worker, and returns its exchange function. That puts the result on `to`, unless it is nil, and takes the next
---value from `from`. If it returns nil, the phase tells why: "job": there is a result, but the worker is off or `to` is
---no channel: nothing was done; "put": `to` is closed, and the result was not put; "off": the worker is off, and
---nothing was taken; "take": `from` is closed and drained, or the take was withdrawn.
---@param grow? fun()|false called when the worker has got a value and no other worker waits for one
---@return fun(from: runnel.Channel<any>, to?: runnel.Channel<any>|false, result: any): any, any exchange
function core.internal.worker.new(grow) end

---Makes the put function for the jobs of a worker. `special` puts instead while the worker is off, the function is
---bound to no channel, or the output is named; if the channel has refused the value, because it is closed; and, with
---`is_helper`, where a go block other than the worker's own puts; `is_older`: one that existed before the present job
---began.
---@param exchange function
---@param special fun(v: any, output: any, is_helper: boolean|nil, is_older: boolean|nil)
---@return fun(v: any, output: any): true put
function core.internal.worker.put(exchange, special) end

---Sets the channel on which a put function puts; false: none.
---@param put function
---@param ch runnel.Channel<any>|false
function core.internal.worker.bind(put, ch) end

---Sets whether a worker is off.
---@param exchange function
---@param is_off boolean
function core.internal.worker.set_off(exchange, is_off) end

---The activity of a worker. "send": its job puts a value.
---@param exchange function
---@return "job"|"send"|"put"|"take"|"off"
function core.internal.worker.phase(exchange) end

---How many values the exchange function has got.
---@param exchange function
---@return integer
function core.internal.worker.taken(exchange) end

---Marks the beginning of a worker's job: after its go block has died, for example.
---@param exchange function
function core.internal.worker.begin(exchange) end

---Operations that start the jobs of pipelines and deliver their results. For the library only.
---@class runnel.job
core.internal.job = {}

---Calls f(value, result). When that parks, the first take that waits on `on_park` completes.
---@param on_park runnel.Channel<true> without a buffer
---@param f function
---@param value any
---@param result runnel.Channel<any>
---@return boolean? parked whether f has parked
function core.internal.job.call(on_park, f, value, result) end

---Makes a channel for the results of a job: core.chan(1).
---@return runnel.Channel<any> result
function core.internal.job.result() end

---The value of the job with this result channel.
---@param result runnel.Channel<any> from job.result
---@return any value nil: it has not begun
function core.internal.job.value(result) end

---The error with which the channel was closed. It does not count as taken.
---@param result runnel.Channel<any> from job.result
---@return any err nil: none
function core.internal.job.reason(result) end

---Moves values until `result` is closed. Drops them once `to` is closed. The go block's give_up table must hold
---`result` meanwhile.
---@param result runnel.Channel<any>
---@param to runnel.Channel<any>
---@return nil
---@return any err with which `result` was closed
function core.internal.job.deliver(result, to) end

return core
