---What a watch of a bucket promises: each change once, in the order of the revisions, and none is left out unless the
---bucket does not keep it any more. The order is known, by the revisions, so there is nothing to search.

---@class history.Change
---@field key string
---@field revision integer
---@field value any unique
---@field call number when it came

local Check = {}
Check.__index = Check

function Check:wrong(format, ...) self.problems[#self.problems + 1] = format:format(...) end

-- Notes which key and value a revision has.
local function note(self, revision, key, value, who)
  local known = self.known[revision]
  if not known then
    self.known[revision] = { revision = revision, key = key, value = value }
  elseif known.key ~= key or known.value ~= value then
    self:wrong("revision %d is %s of %s for %s, and was %s of %s", revision, value, key, who, known.value, known.key)
  end
end

-- The known revisions in order, each with the number of later ones of its key.
local function sorted(self)
  local list, later = {}, {}
  for _, known in pairs(self.known) do list[#list + 1] = known end
  table.sort(list, function(a, b) return a.revision < b.revision end)
  for i = #list, 1, -1 do
    local key = list[i].key
    list[i].later = later[key] or 0
    later[key] = list[i].later + 1
  end
  return list
end

-- The changes of a watcher are those of its time.
local function check_order(self, name, changes)
  local last = 0
  for _, change in ipairs(changes) do
    local put = self.by_value[change.value]
    if change.revision <= last then
      self:wrong("%s has seen revision %d after revision %d", name, change.revision, last)
    end
    last = change.revision
    if not put or put.key ~= change.key then
      self:wrong("%s has seen %s of %s, which was never put", name, change.value, change.key)
    elseif put.refused then
      self:wrong("%s has seen %s, which was refused", name, change.value)
    elseif change.call < put.call then
      self:wrong("%s has seen %s before it was put", name, change.value)
    end
  end
end

-- Nothing is missing between its first change, or the beginning, and its last one.
local function check_missing(self, name, changes, list, history)
  local seen, last = {}, changes[#changes].revision
  local first = changes.is_all and 0 or changes[1].revision
  for _, change in ipairs(changes) do seen[change.revision] = true end
  for _, known in ipairs(list) do
    local revision = known.revision
    if revision > first and revision < last and not seen[revision] and known.later < history then
      self:wrong("%s has not seen revision %d of %s, of which there were %d later ones", name, revision, known.key,
        known.later)
    end
  end
end

---Returns what is wrong: an empty list if nothing is.
---@param puts history.Operation[] with key, value (unique), and new_revision if it is known
---@param watchers table<string, history.Change[]> what each has seen; `is_all`: from the beginning of the bucket
---@param history integer how many values of a key the bucket keeps
---@return string[] problems
return function(puts, watchers, history)
  local self = setmetatable({ problems = {}, known = {}, by_value = {} }, Check)
  for _, put in ipairs(puts) do
    self.by_value[put.value] = put
    if put.new_revision then note(self, put.new_revision, put.key, put.value, put.process) end
  end
  for name, changes in pairs(watchers) do
    for _, change in ipairs(changes) do note(self, change.revision, change.key, change.value, name) end
  end
  local list = sorted(self)
  for name, changes in pairs(watchers) do
    check_order(self, name, changes)
    if changes[1] then check_missing(self, name, changes, list, history) end
  end
  return self.problems
end
