---Names of a remote stage's objects on the server.

local names = {}

---The durable consumer shared by all workers of a stage.
names.CONSUMER = "workers"

---@param name string
function names.stream(name) return "runnel-jobs-" .. name end

---The stage of a stream of jobs; nil for other streams.
---@param stream string
---@return string?
function names.stage_of(stream) return stream:match "^runnel%-jobs%-(.+)$" end

---The stage of a stream of dead letters; nil for other streams.
---@param stream string
---@return string?
function names.dead_of(stream) return stream:match "^runnel%-dead%-(.+)$" end

---The prefix of the subjects of jobs: each job has its own.
---@param name string
function names.jobs(name) return "runnel.jobs." .. name end

---The subject of cancellations.
---@param name string
function names.cancel(name) return "runnel.cancel." .. name end

---The bucket with the counts of the starts of jobs.
---@param name string
function names.bucket(name) return "runnel-jobs-" .. name end

---The same of the messages of a durable stage.
---@param name string
function names.stage_bucket(name) return "runnel-stage-" .. name end

---The stream of a stage's dead letters, which users know as NAME.dead, and its subject.
---@param name string
function names.dead_stream(name) return "runnel-dead-" .. name end

---@param name string
function names.dead(name) return "runnel.dead." .. name end

---The subject on which a worker asks for jobs.
---@param name string
function names.pull(name) return ("$JS.API.CONSUMER.MSG.NEXT.%s.%s"):format(names.stream(name), names.CONSUMER) end

return names
