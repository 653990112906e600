---The names of what remote stages have on the server, for each name of a stage.

local names = {}

---The durable consumer that all workers of a stage share.
names.CONSUMER = "workers"

---Raises, at the line that called the caller, unless this is a name for a stage.
---@param name any
---@param what string
function names.check(name, what)
  if type(name) ~= "string" or not name:find "^[%w_-]+$" or #name > 100 then
    error(("%s: name: letters, digits, - and _ expected (at most 100), got %s"):format(what,
      type(name) == "string" and ("%q"):format(name) or name == nil and "nothing" or "a " .. type(name)), 3)
  end
end

---@param name string
function names.stream(name) return "runnel-jobs-" .. name end

---The stage whose jobs a stream has; nil for other streams.
---@param stream string
---@return string?
function names.stage_of(stream) return stream:match "^runnel%-jobs%-(.+)$" end

---The stage whose dead letters a stream has; nil for other streams.
---@param stream string
---@return string?
function names.dead_of(stream) return stream:match "^runnel%-dead%-(.+)$" end

---Where jobs go: each has a subject of its own below this.
---@param name string
function names.jobs(name) return "runnel.jobs." .. name end

---Where cancellations go.
---@param name string
function names.cancel(name) return "runnel.cancel." .. name end

---The stream of the dead letters of a stage, which users know as NAME.dead, and its subject.
---@param name string
function names.dead_stream(name) return "runnel-dead-" .. name end

---@param name string
function names.dead(name) return "runnel.dead." .. name end

---Where a worker asks for jobs.
---@param name string
function names.pull(name) return ("$JS.API.CONSUMER.MSG.NEXT.%s.%s"):format(names.stream(name), names.CONSUMER) end

return names
