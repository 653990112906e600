---@meta runnel.core

---What the C core defines, for editors that know LuaCATS annotations, and for the reference. Nothing loads this file:
---an editor takes it for the source of `runnel.core`, once the folder that holds `runnel.lua` is among its libraries.

---@class runnel.core
---@field methods table<string, function> the methods of channels
local core = {}

-- ---- making channels ----

---A description of a buffer, as rn.buffer and its kin return it.
---@class runnel.Buffer: userdata

---A buffer policy: an object with these methods, for channels whose values leave in an order of one's own. They must
---not park, nor use the channel. rn.priority_buffer returns one.
---@class runnel.Policy
---@field full fun(self: runnel.Policy): boolean whether puts must wait
---@field add fun(self: runnel.Policy, v: any) adds a value
---@field remove fun(self: runnel.Policy): any removes the next value and returns it; only called when there is one
---@field count fun(self: runnel.Policy): integer how many values it holds
---@field close? fun(self: runnel.Policy) called when the channel closes

---What rn.chan takes for a buffer: a size (0 for none), a buffer, or a policy.
---@alias runnel.BufferLike integer|runnel.Buffer|runnel.Policy

---A reducing function: called with nothing for a first accumulator, with an accumulator to complete it, and with an
---accumulator and a value for each step.
---@alias runnel.Reducer fun(acc?: any, v?: any): any

---A transducer: makes a reducing function from another one. rn.xf has them.
---@alias runnel.Transducer fun(rf: runnel.Reducer): runnel.Reducer

---Makes a channel. Source: core.async's chan.
---@param buffer? runnel.BufferLike default 0: a put waits for its take
---@param xf? runnel.Transducer what values go through on their way into the buffer, which there must be then; it must
---not park
---@param ex_handler? fun(err: any): any gets the error of the transducer; what it returns, if not nil, is added
---instead. Without it the error goes to rn.on_error
---@return runnel.Channel<any> ch
function core.chan(buffer, xf, ex_handler) end

---Makes a channel that keeps its first value, for every taker, for ever. Source: core.async's promise-chan.
---@param xf? runnel.Transducer
---@param ex_handler? fun(err: any): any
---@return runnel.Channel<any> ch
function core.promise_chan(xf, ex_handler) end

---A buffer of n values; when it is full, puts wait. The same as the number n for rn.chan. Source: core.async's buffer.
---@param n integer from 1
---@return runnel.Buffer
function core.buffer(n) end

---A buffer of n values; when it is full, what is put is dropped, and the put done. Source: core.async's
---dropping-buffer.
---@param n integer from 1
---@return runnel.Buffer
function core.dropping_buffer(n) end

---A buffer of n values; when it is full, the oldest is dropped for the next. Source: core.async's sliding-buffer.
---@param n integer from 1
---@return runnel.Buffer
function core.sliding_buffer(n) end

---Whether puts into the buffer never wait. Source: core.async's unblocking-buffer?.
---@param buffer any
---@return boolean
function core.unblocking_buffer(buffer) end

---Whether a value is a channel.
---@param v any
---@return boolean
function core.is_chan(v) end

-- ---- go blocks ----

---Starts a go block: a coroutine that runs a function. It begins once the caller parks or waits, after those that are
---ready already. Source: core.async's go.
---@generic R
---@param f fun(...: any): R|any, ...: any
---@param ... any its arguments
---@return runnel.Channel<R> result gets the first result unless that is nil, then closes; closes with the error if f
---raises
function core.go(f, ...) end

---Lets the other go blocks that are ready run first.
function core.yield() end

---Parks for a time, exactly; no channel is made. Outside any go block the others run meanwhile.
---@param ms number
function core.sleep(ms) end

---Cancels a go block: withdraws the operation in which it waits, and raises the reason there. One that does not wait,
---or whose operation has completed, gets it where it waits next: nothing is undone.
---@param result runnel.Channel<any> its result channel, from rn.go
---@param reason? any the error that it gets; by default "cancelled"
---@return boolean alive false when there is nothing left to cancel
function core.cancel(result, reason) end

---A channel that closes after a time. Requests within 10 ms of each other share one, so never close it. Source:
---core.async's timeout.
---@param ms number
---@return runnel.Channel<any> ch
function core.timeout(ms) end

---The time since some moment: monotonic, or virtual in a simulation.
---@return number ms
function core.now() end

---Names the go block that runs, for rn.ps and for messages.
---@param name string
function core.rename(name) end

---@class runnel.Option
---@field priority? boolean try the operations in the given order; else each that is ready is equally likely
---@field default? any what comes back when none is ready, together with "default", instead of waiting
---@field nowait? boolean the same with nil: do not wait

---Does exactly one of several operations; waits until one can be done, unless there is a default. Source: core.async's
---alts!.
---@param ops (runnel.Channel<any>|table)[] channels to take from, and `{channel, value}` to put
---@param opts? runnel.Option
---@return any value what was taken, or whether the put was done, or the default
---@return runnel.Channel<any>|"default" port the channel
---@return any err with which the channel was closed, where value is nil
function core.alts(ops, opts) end

-- ---- running ----

---Runs a function as a go block and returns its results, or raises its error. Without a function: runs until no go
---block is ready, no timer is due and no event of the driver can come.
---@param f? fun(...: any): ...
---@param ... any its arguments
---@return any ...
function core.run(f, ...) end

---Fires due timers, polls the driver and runs ready go blocks, and does not wait: for a program with a loop of its own.
---@param max? integer run at most so many go blocks; default: run them until none is ready or 1 ms has passed
---@return number? ms to the next deadline; 0 when more go blocks are ready; nil when idle; `math.huge` when only the
---driver has events to come. In a callback of the driver, while the scheduler runs, it does nothing and returns
---`math.huge`
function core.step(max) end

---Sets the error handler. It is called with each error of a go block that nobody takes within 5 s (50 ms at the prompt
---of runnel) or before the program ends, and at once with each error of a callback or a transducer. The default handler
---writes to stderr. `f` must not wait.
---@param f? fun(err: any, traceback?: string, where?: string) nil restores the default
---@return function? previous
function core.on_error(f) end

---How the scheduler waits: an object over an event loop, for example.
---@class runnel.Driver
---@field wait fun(self: runnel.Driver, ms?: number) returns after at most ms (nil: any time), sooner when an event
---has run callbacks
---@field alive fun(self: runnel.Driver): boolean whether it waits for anything that may still happen
---@field luv? boolean true if it runs luv's loop, which runnel.uv needs

---Sets how the scheduler waits when nothing is ready.
---@param d? runnel.Driver nil restores the built-in one, which sleeps
---@return runnel.Driver? previous
function core.driver(d) end

---What rn.ps tells of a go block.
---@class runnel.GoBlock
---@field id integer
---@field name string from rn.rename; by default where its function was defined, `file:line`; for a go block that the
---library has started, the call that started it: "pipe at job.lua:2 -> chan: results"
---@field state string "running", "ready" or "parked"
---@field operation? string what it waits in: "take", "put", "alts", "sleep", ...
---@field where? string the line of the program at which it waits; for a go block that the library has started, the line
---of the call that started it
---@field channel? runnel.Channel<any> the channel on which it waits
---@field channels? runnel.Channel<any>[] the channels of the alts in which it waits
---@field waited? number for how many ms it has waited, to about a millisecond
---@field result runnel.Channel<any> its result channel

---Lists the go blocks.
---@return runnel.GoBlock[]
function core.ps() end

---For a driver over a loop that has a descriptor: waits until that is readable, or a deadline is due; not at all when
---a go block is ready. Ctrl-C ends it, with an error.
---@param fd integer
---@param ms? number at most so long
---@return boolean waited
function core.wait_readable(fd, ms) end

-- ---- reduced ----

---Wraps a value, so that a reduction ends with it. Source: Clojure's reduced.
---@param v any
---@return table reduced
function core.reduced(v) end

---Whether a value is what rn.reduced returns.
---@param v any
---@return boolean
function core.is_reduced(v) end

-- ---- channels ----

---@class runnel.Stats
---@field name? string
---@field id integer
---@field puts integer puts that wait
---@field takes integer takes that wait
---@field count integer values in the buffer
---@field capacity integer how many that can be
---@field buffer string "none", "fixed", "dropping", "sliding", "promise" or "policy"
---@field closed boolean
---@field put_total integer values put so far
---@field take_total integer values taken so far

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
---@return any err with which it was closed, if it was
function Channel:take() end

---Puts a value; waits until it is taken or there is room in the buffer. Source: core.async's >!.
---@param v T not nil
---@return boolean done false when the channel is closed
function Channel:put(v) end

---Takes a value if there is one now. Source: core.async's poll!.
---@return T? v nil if there is none
---@return any err with which the channel was closed, if it was
function Channel:poll() end

---Puts a value if that can be done now. Source: core.async's offer!.
---@param v T not nil
---@return boolean? done nil when it cannot be done now, false when the channel is closed
function Channel:offer(v) end

---Takes a value and calls a function with it, without waiting. Source: core.async's take!.
---@generic T
---@param self runnel.Channel<T>
---@param f fun(v?: T, err: any) it must not park
---@param on_caller? boolean whether f may be called before take_async returns; default true
function Channel:take_async(f, on_caller) end

---Puts a value and calls a function when that is done, without waiting. Source: core.async's put!.
---@param v T not nil
---@param f? fun(done: boolean) it must not park
---@param on_caller? boolean whether f may be called before put_async returns; default true
---@return boolean open false when the channel is closed already
function Channel:put_async(v, f, on_caller) end

---Closes the channel: no more puts; takes get what is left, then nil. Closing once more does nothing. Source:
---core.async's close!.
---@param err? any why: takes then get nil and this
function Channel:close(err) end

---Whether the channel has been closed.
---@return boolean
function Channel:closed() end

---A channel that closes when this one does, even while values are left in it: to wait for its end without taking from
---it.
---@return runnel.Channel<any> ch
function Channel:done() end

---Numbers about the channel.
---@return runnel.Stats
function Channel:stats() end

---Names the channel, for tostring and for messages; without an argument, returns its name.
---@param s string
---@return runnel.Channel<T> ch itself, so that calls chain
---@overload fun(self: runnel.Channel<T>): string?
function Channel:name(s) end

-- ---- what the library's own modules use ----

---Functions for the library's own modules, which may change at any time: programs must not use them.
---@class runnel.internal
core.internal = {}

---Like alts, with the number of the operation for the channel.
---@param ops (runnel.Channel<any>|table)[]
---@param opts? runnel.Option
---@return any value
---@return any i the number, or "default"
---@return any err
function core.internal.alts_index(ops, opts) end

---Puts a value on the channels of a list, up to one for which `offer` is needed: one that is closed or full, or whose
---put may run Lua code. For runnel.mult.
---@param chs runnel.Channel<any>[]
---@param v any not nil
---@param i integer the position of the first
---@return integer next the position of that channel; `#chs + 1` when all have got the value
function core.internal.offer_each(chs, v, i) end

---Puts the lines of a text that end in it, without their newlines, as long as that can be done at once. For runnel.uv.
---@param ch runnel.Channel<string>
---@param text string
---@param from integer the position of the first
---@return integer next the position after the last one that was put
---@return boolean? state true when no further line ends in the text, nil when a put would wait, false when `ch` is
---closed
function core.internal.offer_lines(ch, text, from) end

---Calls `f(...)`, and then `guard:returned(...)` with what that returns. The guard is closed however it ends. The
---function of a go block of a scope.
---@param guard table
---@param f fun(...: any): ...
---@param ... any
---@return any ...
function core.internal.guarded(guard, f, ...) end

---The result channel of the go block that runs, or nil outside any. Raises where it could not wait.
---@param what string the name of the operation that wants to
---@return runnel.Channel<any>? result
function core.internal.self(what) end

---Sets the function that is called when a channel closes. For runnel.uv, whose streams stop reading then.
---@param ch runnel.Channel<any>
---@param f fun() called at once when `ch` closes, or now if it is closed already; it must not park
---@return fun()? before the function that was set before
function core.internal.on_close(ch, f) end

---Waits until a channel closes, on which nothing is put.
---@param ch runnel.Channel<any>
function core.internal.join(ch) end

---Whether the go block has ended.
---@param result runnel.Channel<any>
---@return boolean
function core.internal.has_ended(result) end

---Whether an error is what the go block was cancelled with.
---@param result runnel.Channel<any>
---@param err any
---@return boolean
function core.internal.is_cancellation(result, err) end

---Makes an error count as the one that the go block was cancelled with, so that it is not reported.
---@param result runnel.Channel<any>
---@param err any
function core.internal.excuse(result, err) end

---Says that the caller has just taken an error from one channel and will now close another with it: the error counts as
---not taken until somebody takes it from there. Does nothing unless it is the error of a go block.
---@param err any
---@param ch? runnel.Channel<any> the other channel; nil if there is none: then the error is reported
function core.internal.pass_on(err, ch) end

---Names a go block that the library has started after the function that the program called, and the line of that call.
---@param block runnel.Channel<any> its result channel
---@param what string the name of the function that the program called
---@return runnel.Channel<any> block
function core.internal.started(block, what) end

---Says that the caller's file NAME.lua, and the files in the directory NAME, belong to the library.
function core.internal.library() end

---Reports all errors of go blocks that nobody has taken.
function core.internal.report_unhandled() end

---Sets how long an error of a go block waits to be taken before it is reported.
---@param ms number
---@return number previous the ms that were set before
function core.internal.grace(ms) end

---Whether the program may exit with status 0: no error was written to stderr, or `runnel` has --errors=warn.
---@return boolean
function core.internal.is_well() end

---The text of an error: what tostring gives; for a table without __tostring, its message and its other fields.
---@param err any
---@return string
function core.internal.error_text(err) end

---Calls the error handler with an error that was caught.
---@param err any
---@param traceback? string
---@param where? string whose error it is
function core.internal.report(err, traceback, where) end

---Runs a function under virtual time. For runnel.sim.
---@param seed integer
---@param shuffle boolean
---@param f fun(...: any): ...
---@param ... any
---@return boolean ok
---@return number elapsed
---@return any ...
function core.internal.simulate(seed, shuffle, f, ...) end

---Whether a simulation is running. For runnel.uv.
---@return boolean
function core.internal.is_simulation() end

---Requires a module on the main thread: a library such as luv calls back on the coroutine that has loaded it, which
---must not be a go block's.
---@param name string
---@return any
function core.internal.require(name) end

---Starting go blocks and moving values, for the library only. Any number of these operations may wait on a channel, and
---take, poll, put and turn let the other go blocks run once 128 values have been moved since the last wait.
---@class runnel.moving
core.internal.moving = {}

---Starts a go block. If it dies, by an error or in any other way, `give_up` is called, which must not wait.
---@param give_up runnel.GiveUp
---@param fed any the first argument of `give_up`
---@param f function
---@param ... any
---@return runnel.Channel<any> result
function core.internal.moving.go(give_up, fed, f, ...) end

---Takes a value; waits until there is one.
---@param ch runnel.Channel<any>
---@return any v
---@return any err
function core.internal.moving.take(ch) end

---Takes a value if there is one now and `to` is open.
---@param ch runnel.Channel<any>
---@param to runnel.Channel<any> what the value is meant for
---@return any v
---@return any err
function core.internal.moving.poll(ch, to) end

---Puts a value; waits until it is accepted.
---@param ch runnel.Channel<any>
---@param v any
---@return boolean done
function core.internal.moving.put(ch, v) end

---Lets the other go blocks run if 128 values have been moved since the last wait.
function core.internal.moving.turn() end

---Like alts, but returns the number of the operation. Does not let other go blocks run if an operation is ready.
---@param ops table[]|runnel.Channel<any>[]
---@param opts? { priority?: boolean }
---@return any value
---@return integer i the number
---@return any err
function core.internal.moving.alts(ops, opts) end

---Whether an error is what the running go block was cancelled with.
---@param err any
---@return boolean
function core.internal.moving.is_cancelled(err) end

return core
