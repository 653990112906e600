---The names that were changed before 1.0: who uses an old one gets an error at the line of the caller, which says the
---new one. All of this goes with 1.0.

local renamed = {}

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
