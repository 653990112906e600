---What the report of an error says after its own traceback: the traceback of the thread that it comes from, and the
---errors that are handled together with it.
---
---An error crosses threads without its traceback, so the traceback is kept by the error, until a go block raises the
---error again and dies, or the error is reported otherwise. An operation that runs several jobs, such as rn.pmap or
---rn.scope, gives the program one error, also if several jobs fail: the texts of the others are kept by that one. If
---the program takes or catches it, it has handled them all; otherwise its report tells of them.

local core = require "runnel.core"

local more = {}

-- The number of recent errors for which a text is kept at least. A program that catches its errors never claims theirs.
local MOST = 64

-- How many other errors a report tells of.
local TOLD = 8

-- error -> text. A full `recent` becomes `older`, and the former `older` is dropped.
local recent, older, count = {}, {}, 0

---Keeps a text for the report of an error that is about to be raised.
---@param err any
---@param text string?
function more.keep(err, text)
  if text == nil or err == nil or err ~= err then return end
  if count == MOST then recent, older, count = {}, recent, 0 end
  recent[err], count = text, count + 1
end

---Appends the kept text of an error to its traceback, and forgets it.
---@param err any
---@param traceback string?
---@return string? traceback
function more.add(err, traceback)
  local kept = err ~= nil and (recent[err] or older[err])
  if not kept then return traceback end
  recent[err], older[err] = nil, nil
  return traceback and traceback .. "\n" .. kept or kept
end

---In a thread: the traceback of an error for the state that gets the error, to be kept there. It is the part of the
---function that guard.try has called, below the name of the thread.
---@param err any
---@param traceback string?
---@return string?
function more.in_thread(err, traceback)
  if not traceback then return nil end
  traceback = traceback:match "^(.*)\n\t%[C%]: in %l+ 'xpcall'" or traceback
  return ("in %s, %s"):format(core.internal.thread_name, more.add(err, traceback))
end

---Errors that are handled together with another one of the same operation.
---@class runnel.internal.Others
---@field package what string what has failed, as in "another job of the pmap"
---@field package list { err: any, traceback: string? }[]
local Others = {}

local META = { __index = Others } -- apart from its methods: see internal/class.lua

---@param what string
---@return runnel.internal.Others
function more.others(what) return setmetatable({ what = what, list = {} }, META) end

---@param err any
---@param traceback? string
function Others:add(err, traceback) self.list[#self.list + 1] = { err = err, traceback = traceback } end

---Lets the report of an error, if there is one, tell of these.
---@param err any
function Others:go_with(err)
  local list, lines = self.list, {}
  if #list == 0 or err == nil or err ~= err then return end
  self.list = {}
  lines[1] = recent[err] or older[err]
  for i = 1, math.min(#list, TOLD) do
    local one = list[i]
    lines[#lines + 1] = ("%s has failed, too: %s"):format(self.what, core.internal.error_text(one.err))
    lines[#lines + 1] = more.add(one.err, one.traceback)
  end
  if #list > TOLD then lines[#lines + 1] = ("and %d more"):format(#list - TOLD) end
  more.keep(err, table.concat(lines, "\n"))
end

---Reports them, because the program can take no error of the operation.
---@param where string
function Others:report(where)
  local list = self.list
  self.list = {}
  for _, one in ipairs(list) do core.internal.report(one.err, one.traceback, where) end
end

core.internal.elsewhere(more.add)

return more
