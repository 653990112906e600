---Names that were changed. Before 1.0: who uses an old one gets an error at the line of the caller, which says the new
---one; these go with 1.0. From 1.0 on: the old name works for one minor version more, and the first use at each line
---writes a warning, which says the line, the new name, and the version in which the old one goes (renamed.deprecate).

local debug, io = debug, io

local renamed = {}

-- ---- from 1.0 on ----

-- The lines that were warned about, by what was called there.
local warned = {}

---Writes a warning about an old name to stderr, once for each line that uses it.
---@param old string as in "rn.debounce" or "the option retry of rn.pmap"
---@param new string as in "rn.settle"
---@param goes string the version in which the old name goes, as "1.3"
---@param level integer of the line that uses it, as for `error` from the caller
function renamed.warn(old, new, goes, level)
  local line = debug.getinfo(level + 1, "Sl")
  local place = line and line.currentline > 0 and ("%s:%d"):format(line.short_src, line.currentline) or "?"
  local key = place .. " " .. old
  if warned[key] then return end
  warned[key] = true
  local text = "runnel: %s: %s is called %s now; the old name goes with version %s\n"
  io.stderr:write(text:format(place, old, new, goes))
end

---Lets the old name of a function or method call the new one, with a warning.
---@param owner table the module, or the class where methods are looked up
---@param prefix string what is before the name in the manual: "rn." or "ch:"
---@param names table<string, string> by old name the new one
---@param goes string the version in which the old names go
function renamed.deprecate(owner, prefix, names, goes)
  for old, new in pairs(names) do
    owner[old] = function(...)
      renamed.warn(prefix .. old, prefix .. new, goes, 2)
      return owner[new](...)
    end
  end
end

---The options with new names in place of old ones, with a warning for each; the same table if there are none.
---@param opts? table
---@param what string the function, as in "rn.pmap"
---@param names table<string, string> by old name the new one
---@param goes string the version in which the old names go
---@param level integer of the line that has called the function, as for `error` from the caller
---@return table?
function renamed.options(opts, what, names, goes, level)
  local copy
  for old, new in pairs(type(opts) == "table" and names or {}) do
    if opts[old] ~= nil then
      renamed.warn(("the option %s of %s"):format(old, what), new, goes, level + 1)
      copy = copy or setmetatable({}, getmetatable(opts))
      for key, value in pairs(opts) do copy[names[key] or key] = value end
    end
  end
  return copy or opts
end

-- ---- before 1.0 ----

-- The old names of options, and one that others use; of several new ones, the function knows one.
local OPTIONS = {
  limit = { "timeout", "max" }, retry = { "backoff" }, rate = { "probability" }, stop = { "close" },
  max_ack_pending = { "max_running" }, max_jobs = { "max_running" }, ttl = { "max_age" }, expires = { "max_age" },
  queue = { "group" }, recursive = { "deep" }, pending = { "max_waiting" }, pending_bytes = { "max_waiting_bytes" },
  updates_only = { 'from = "new"' }, history = { 'from = "all"' },
  tls_ca = { "tls = { ca = ... }" }, tls_cert = { "tls = { cert = ... }" }, tls_key = { "tls = { key = ... }" },
  tls_host = { "tls = { name = ... }" }, tls_ciphers = { "tls = { ciphers = ... }" },
  tls_skip_verify = { "tls = { insecure = true }" },
}

---What to write in place of an unknown option, if it is an old name.
---@param key any
---@param known table<string, any> the valid names
---@return string? now
function renamed.option(key, known)
  for _, now in ipairs(OPTIONS[key] or {}) do
    if known[now:match "^[%w_]+"] then return now end
  end
  return nil
end

---Makes the old methods of a class errors.
---@param class table where methods are looked up
---@param object string its name in the manual
---@param methods table<string, string> by old name the new one
function renamed.methods(class, object, methods)
  for old, new in pairs(methods) do
    class[old] = function() error(("%s:%s is called %s:%s now"):format(object, old, object, new), 2) end
  end
end

---Makes a function that is the `__index` of tables whose fields were renamed.
---@param what string what the table is called in a message, as in "rn.metrics().channels[name]"
---@param fields table<string, string> by old name the new one
---@return fun(t: table, key: any): nil
function renamed.fields(what, fields)
  return function(_, key)
    if fields[key] then error(("%s.%s is called %s.%s now"):format(what, key, what, fields[key]), 2) end
    return nil
  end
end

return renamed
