---Makes profiles: for rn.profile, the option --profile, and the prompt.

local debug, io, require = debug, io, require
local core = require "runnel.core"
local first = require "runnel.profile.first"
local namers = require "runnel.profile.namers"
local sign = require "runnel.internal.sign"
local tree = require "runnel.profile.tree"
local raise = core.internal.raise

local recorder = {}

---Where the time of a program went.
---@class runnel.Profile
---@field first string a sentence: where to look first
---@field elapsed number ms that have passed
---@field ran number ms that Lua code, and C functions that it called, have run
---@field loop number ms that the scheduler has run
---@field blocked number ms that Lua code has blocked the thread, without computing, as in os.execute
---@field waited number ms that go blocks have waited, all together
---@field private trees runnel.profile.Trees
local Profile = {}
Profile.__index = Profile
Profile.__sign = "p"
Profile.__name = "runnel.profile"

---The sentence, and the ten functions and waits that took longest.
---@return string
function Profile:text()
  sign.own(self, "p", "text")
  return first.text(self.trees)
end

Profile.__tostring = Profile.text

-- The form of a file, by the ending of its path, or nil.
local function form_of(path)
  local ending = path:match "%.(%l+)$"
  return ending and require("runnel.profile.forms")[ending]
end

local FORMS = "ending in .html, .folded or .json"

---Checks the path of a profile's file. Returns nil and the reason if it is wrong.
---@param path any
---@return string? path
---@return string? problem
function recorder.check_path(path)
  if type(path) == "string" and path:find("\0", 1, true) then return nil, "the path has a zero byte" end
  if type(path) == "string" and form_of(path) then return path end
  local got = type(path) == "string" and ("%q"):format(path) or "a " .. type(path)
  return nil, ("the path of a file %s expected, got %s"):format(FORMS, got)
end

---Opens the file of a profile, to tell before it is made whether it can be written. What is in the file stays.
---@param path string
---@return string? absolute the path, which stays right when the program changes its directory
---@return string? problem
function recorder.open(path)
  local file, err = io.open(path, "a")
  if not file then return nil, "cannot write " .. tostring(err) end
  file:close()
  return core.internal.absolute(path)
end

---Writes the profile to a file. The ending of its path tells the form: .html, a page with a flame graph; .folded, a
---line for each stack, as flamegraph.pl and inferno read it; .json, for speedscope.
---@param path string
---@return boolean? ok nil if that fails
---@return string? err
function Profile:write(path)
  sign.own(self, "p", "write")
  local _, wrong = recorder.check_path(path)
  if wrong then raise("write: " .. wrong) end
  local text = form_of(path)(self.trees)
  local file, err = io.open(path, "w")
  if not file then return nil, err end
  local ok, problem = file:write(text)
  local closed, why = file:close()
  if ok and closed then return true end
  return nil, ("%s: %s"):format(path, problem or why)
end

-- Ends the profile that is being made, so that another one can begin; nil if it does not give way.
local give_way

---Begins a profile. Raises if one is being made that does not give way.
---@param ends? fun() called when another profile is to begin: ends this one
function recorder.begin(ends)
  if give_way then give_way() end
  core.internal.profile.start(namers)
  give_way = ends
end

---How much time has passed since the present profile began.
---@return number? ms nil if there is none
function recorder.passed()
  local ns = core.internal.profile.passed()
  return ns and ns / 1e6
end

---Waits, without a trace in the profile.
---@param ms number
function recorder.pause(ms)
  core.sleep(ms)
  return nil -- not a tail call: the profile must find this function
end

---Ends the profile that is being made.
---@return runnel.Profile? profile nil if none was being made
function recorder.finish()
  give_way = nil
  local raw = core.internal.profile.stop()
  if not raw then return nil end
  local own = debug.getinfo(recorder.pause, "S")
  local trees = tree.make(raw, ("%s:%d"):format(own.short_src, own.linedefined))
  return setmetatable({ first = first.sentence(trees), elapsed = raw.elapsed / 1e6, ran = raw.ran / 1e6,
    loop = raw.loop / 1e6, blocked = raw.blocked / 1e6, waited = raw.waited / 1e6, trees = trees }, Profile)
end

-- ---- of a whole program ----

---@type { path: string }?
local whole

---Writes the profile that `record` has begun. Does not raise.
function recorder.at_end()
  if not whole then return end
  local path = whole.path
  whole = nil
  local ok, written, err = pcall(function() return recorder.finish():write(path) end)
  if not (ok and written) then
    io.stderr:write("runnel: the profile was not written: ", tostring(ok and err or written), "\n")
  end
end

---Begins a profile of the rest of the program, which is written when the program ends.
---@param path string
function recorder.record(path)
  local _, wrong = recorder.check_path(path)
  if wrong then error("--profile: " .. wrong, 0) end
  local absolute, problem = recorder.open(path)
  if not absolute then error("--profile: " .. problem, 0) end
  require "runnel.profile.forms" -- later the program may not be able to read files
  whole = { path = absolute }
  recorder.begin()
  -- When the state closes, newer objects are finalized first: this one before the profile of the core.
  setmetatable(whole, { __gc = recorder.at_end })
end

return recorder
