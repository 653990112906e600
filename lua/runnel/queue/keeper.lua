---Keepers: what stores the messages of a durable stage. runnel.store and runnel.nats have one each; a program can bring
---its own (docs/manual/keepers.md, which says what each function promises).

local require = require
local check = require "runnel.internal.check"
local core = require "runnel.core"

local internal = core.internal
local raise = internal.raise

---Stores the messages of a worker.
---@class runnel.queue.Keeper
---@field from string the queue, for errors and dead letters
---@field is_paused? boolean an operator has paused the queue
---@field open fun(self, taker: runnel.queue.Taker): boolean?, string? begins to deliver messages. May park
---@field fetch fun(self) there may be room for messages
---@field close fun(self) delivers nothing more
---@field join fun(self, held: any, message: any): boolean the message was delivered again
---@field id fun(self, message: any): string no other message has it, in any queue
---@field done fun(self, message: any, results?: { id: string, value: any }[]): boolean?, any, boolean? stores the
---results, and ends the message. May park
---@field back fun(self, message: any, ms?: number) gives it back
---@field drop fun(self, message: any) ends it without results
---@field extend fun(self, message: any) ends the limit that `limit` has set
---@field limit fun(self, message: any, ms: number, text: string, words: any, count: runnel.queue.Count) ends a
---process in which Lua has not run for so long
---@field alive fun(self) called periodically while calls have limits, to show that Lua runs
---@field starts fun(self, message: any): runnel.queue.Count?, string? the count of starts. May park
---@field set_starts fun(self, message: any, count: runnel.queue.Count): boolean, string?, boolean? stores it. Parks
---@field note_starts fun(self, message: any, count: runnel.queue.Count) stores it some time
---@field forget_starts fun(self, message: any) removes it. May park
---@field bury fun(self, letter: runnel.DeadLetter): boolean?, string?, boolean? stores a dead letter. May park
---@field watch? fun(self, worker: runnel.Worker, ...: any) shows the worker to operators

---The functions that a worker passes to its keeper.
---@class runnel.queue.Taker
---@field n integer how many calls may run at a time
---@field room fun(): integer how many messages may come now
---@field take fun(message: any) is called with each message; does not park
---@field answered fun(message: any) is called when a message has been answered
---@field silent fun(why: string) called when no messages come for now
---@field over fun(reason: any, is_lost: boolean) called when nothing comes any more; `is_lost`: nothing can be answered
---either

local keeper = { encodings = require("runnel.queue.encodings").encodings }

-- ---- a stage on a keeper ----

local FUNCTIONS <const> = {
  "open", "fetch", "close", "join", "id", "done", "back", "drop", "extend", "limit", "alive", "starts", "set_starts",
  "note_starts", "forget_starts", "bury",
}

---Starts a durable stage on a keeper: calls f with the value of each message that the keeper delivers, at most n calls
---at a time in this process, and has the keeper store what f returns, and end the message.
---@param of runnel.queue.Keeper
---@param n integer
---@param f string|fun(value: any, message: any): any ... or the name of a module that returns one
---@param opts? { name?: string, results?: boolean, tries?: integer, backoff?: number, starts?: integer,
---timeout?: number, dead?: boolean, ex_handler?: (fun(err: any, value: any): any), drain_on_term?: boolean }
---@return runnel.Worker? stage, string? err
function keeper.stage(of, n, f, opts)
  if type(of) ~= "table" then raise("stage: a keeper expected, got " .. check.describe(of)) end
  for _, name in ipairs(FUNCTIONS) do
    if not check.is_callable(of[name]) then raise(("stage: the keeper has no function %q"):format(name)) end
  end
  local arguments = require "runnel.queue.stage"
  local read = arguments.read(of.from, n, f, nil, opts, arguments.OF_KEEPERS)
  local self, err = require("runnel.queue.worker").start {
    kind = "stage", n = n, keeper = of, timeout = read.worker.timeout, is_paused = of.is_paused == true,
    task = arguments.task(read, read.opts.results ~= false),
  }
  if not self then return nil, "stage: " .. tostring(err) end
  require("runnel.queue.draining").add(nil, self, read.worker.drains)
  if of.watch then of:watch(self) end
  return self
end

-- ---- for keepers ----

---Reports a problem to the program's rn.on_error, or stderr.
---@type fun(message: any, traceback: string?, where: string?)
keeper.report = internal.report

---Calls f() at once when a channel closes, or now if it is closed. It must not park.
---@type fun(ch: runnel.Channel<any>, f: fun()): fun()?
keeper.on_close = internal.on_close

---How an error is written: the text of what was raised.
---@type fun(err: any): string
keeper.error_text = internal.error_text

---Whether an error that pcall has returned is the cancellation of the running go block, which must be raised again.
---@type fun(err: any): boolean
keeper.is_cancelled = internal.is_cancelled

---Puts a value on a channel. Returns false if the channel is closed, also while the put waits: then the value is not on
---it.
---@type fun(ch: runnel.Channel<any>, value: any): boolean
keeper.put_while_open = internal.moving.put_while_open

return keeper
