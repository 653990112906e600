---The options of requests: checks them, and converts them to settings of the C module.

local io = io
local core = require "runnel.core"
local lib = require "runnel.http.curl"
local check = require "runnel.internal.check"
local contexts = require "runnel.internal.trace_context"
local decimal = require "runnel.internal.decimal"
local json = require "runnel.json"
local multipart_parts = require "runnel.http.form.multipart_parts"
local token = require "runnel.http.token"
local upload = require "runnel.http.upload"
local raise = core.internal.raise

local is_plain = lib.is_plain

local options = {}

-- The longest time, in ms: libcurl takes an int. 24 days.
local LONGEST_MS <const> = 0x7fffffff

-- The characters that values of headers must not contain.
local NOT_IN_A_HEADER <const> = "[\r\n\0]"

-- The kinds of bodies. A request has at most one.
local BODIES = { "body", "form", "json", "multipart" }

-- Options of this module: for every request, and for requests that may have a body.
local OWN = { "certificates", "connect_timeout", "cookies", "fail", "headers", "max", "query", "redirects", "timeout" }
local AGAIN = { "backoff", "tries" }
local SENDING = { "body", "form", "json", "method", "multipart", "size" }

-- Those of http.events, which has no limit for the whole of a response, and decides what a status means.
local EVENTS = { "backoff", "buffer", "idle", "last_id", "reconnect", "tries" }

local function set_of(...)
  local names = {}
  for _, list in ipairs { ... } do
    for _, name in ipairs(list) do names[name] = true end
  end
  return names
end

local libcurls = {}
for name in pairs(lib.options) do libcurls[#libcurls + 1] = name end

-- The options that each function has.
local KNOWN = {
  download = set_of(OWN, AGAIN, { "idle", "progress", "sha256" }, libcurls),
  events = set_of(OWN, SENDING, EVENTS, libcurls),
  get = set_of(OWN, AGAIN, { "hints" }, libcurls),
  request = set_of(OWN, AGAIN, SENDING, { "hints", "url" }, libcurls),
  stream = set_of(OWN, SENDING, { "buffer", "hints", "idle" }, libcurls),
  proxy = set_of({ "behind_proxy", "connect_timeout", "idle", "keep_host", "max_message", "on_error" }, libcurls),
}

for _, name in ipairs { "certificates", "fail", "size", "timeout" } do KNOWN.events[name] = nil end
for _, name in ipairs { "accept_encoding", "fail", "range" } do KNOWN.download[name] = nil end -- it sets them itself
KNOWN.proxy.accept_encoding = nil -- the client's

-- What gives the body in pieces, so that its length has no default limit.
local IN_PIECES = { download = true, stream = true }

-- An invalid option throws a table, which options.read raises at the program's line.
local function fail(format, ...) error({ message = format:format(...) }, 0) end

-- ---- URLs and headers ----

local function escape(value)
  return (decimal.exact(value):gsub("[^%w._~-]", function(c) return ("%%%02X"):format(c:byte()) end))
end

local FIELD_TYPES = { string = true, number = true, boolean = true }

-- The fields of a form or a query, in the order of their names; a list of values gives a field for each.
local function encode_fields(fields, what)
  if type(fields) ~= "table" then fail("%s: a table of fields expected, got %s", what, check.article(fields)) end
  local names, parts = {}, {}
  for name in pairs(fields) do
    if type(name) ~= "string" then fail("%s: strings expected as names, got %s", what, check.describe(name)) end
    names[#names + 1] = name
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local values = fields[name]
    for _, value in ipairs(type(values) == "table" and values or { values }) do
      if not FIELD_TYPES[type(value)] then
        fail("%s: %s: a string, a number or a boolean expected, got %s", what, name, check.article(value))
      end
      parts[#parts + 1] = escape(name) .. "=" .. escape(value)
    end
  end
  return table.concat(parts, "&")
end

-- Encodes what is not ASCII behind the host of a URL: libcurl does that in a path, but not in a query.
local function encode_bytes(url)
  local authority, rest = url:match "^(%a+://[^/?#]*)(.*)$"
  if not authority then return url end
  return authority .. rest:gsub("[\128-\255]", function(c) return ("%%%02X"):format(c:byte()) end)
end

local function with_query(url, query)
  local fields = encode_fields(query, "query")
  if fields == "" then return url end
  local before, fragment = url:match "^([^#]*)(.*)$"
  return before .. (before:find("?", 1, true) and "&" or "?") .. fields .. fragment
end

-- Adds a header to the lines for libcurl, which wants a semicolon if the value is empty.
local function add_header(lines, name, value)
  if type(value) ~= "string" and type(value) ~= "number" then
    fail("headers: %s: a string, a number or a list of these expected, got %s", name, check.article(value))
  end
  value = decimal.exact(value)
  if value:find(NOT_IN_A_HEADER) then fail("headers: %s: the value has a line break or a zero byte", name) end
  lines[#lines + 1] = value:find "%S" and name .. ": " .. value or name .. ";"
end

-- The headers as lines; and their names in lower case, as a set.
local function header_lines(headers)
  local lines, given = {}, {}
  if headers == nil then return lines, given end
  if type(headers) ~= "table" then fail("headers: a table expected, got %s", check.article(headers)) end
  for name, value in pairs(headers) do
    if not token.is(name) then
      fail("headers: names expected as keys, got %s", check.describe(name))
    end
    given[name:lower()] = true
    for _, one in ipairs(type(value) == "table" and value or { value }) do add_header(lines, name, one) end
  end
  return lines, given
end

-- Adds the trace to which the running code belongs.
local function add_trace(lines)
  local traceparent, tracestate = contexts.headers()
  if traceparent then lines[#lines + 1] = "traceparent: " .. traceparent end
  if tracestate then lines[#lines + 1] = "tracestate: " .. tracestate end
end

-- ---- bodies ----

-- The kind of body in the options.
local function kind_of_body(opts)
  local kind
  for _, name in ipairs(BODIES) do
    if opts[name] ~= nil and kind then fail("%s and %s: a request has one body", kind, name) end
    if opts[name] ~= nil then kind = name end
  end
  return kind
end

-- Puts the body into the settings. Returns its content type, if that is known.
local function set_body(s, kind, value, opts)
  if kind == "json" then
    local text, why = json.encode(value, { name = "json" })
    if not text then fail("%s", why) end
    s.body = text
    return "application/json"
  elseif kind == "form" then
    s.body = encode_fields(value, "form")
    return "application/x-www-form-urlencoded"
  elseif kind == "multipart" then
    local parts, why = multipart_parts.read(value)
    if not parts then fail("multipart: %s", why) end
    s.multipart = parts
  elseif type(value) == "string" or io.type(value) == "file" then
    s.body = value
  elseif core.is_chan(value) then
    if upload.is_used(value) then
      fail("body: this channel was the body of an earlier request, which has taken from it: make a new one for each "
        .. "request, and for each try")
    end
    s.source, s.is_fed, s.body_size = value, true, opts.size
  else
    fail("body: a string, a channel of strings or an open file expected, got %s", check.article(value))
  end
end

-- Methods whose requests have a body, so that without one they say that it is empty (RFC 9110, 8.6).
local HAVE_BODIES = { PATCH = true, POST = true, PUT = true }

local function set_sent(s, opts, lines, given)
  local kind = kind_of_body(opts)
  local size = opts.size
  if size ~= nil and not (math.type(size) == "integer" and size >= 0 and core.is_chan(opts.body)) then
    fail("size: the number of bytes of a body that is a channel expected, got %s", check.describe(size))
  end
  if not kind and not HAVE_BODIES[s.method] then return end
  s.method = s.method or "POST"
  local content_type = set_body(s, kind or "body", kind and opts[kind] or "", opts)
  if not given["content-type"] and kind ~= "multipart" then
    lines[#lines + 1] = "Content-Type:" .. (content_type and " " .. content_type or "") -- without it: a form
  end
  if not given.expect then lines[#lines + 1] = "Expect:" end -- many servers never answer it
end

-- Methods by which doing a request twice is as doing it once (RFC 9110, 9.2.2).
local IDEMPOTENT = { DELETE = true, GET = true, HEAD = true, OPTIONS = true, PUT = true, TRACE = true }

-- ---- options of libcurl ----

local function is_list(value)
  if type(value) ~= "table" then return false end
  for _, one in ipairs(value) do
    if type(one) ~= "string" or one:find "\0" then return false end
  end
  return true
end

local KINDS = {
  string = { function(value) return type(value) == "string" and not value:find "\0" end,
    "a string without zero bytes" },
  boolean = { function(value) return type(value) == "boolean" end, "true or false" },
  integer = { function(value) return math.type(value) == "integer" and value >= 0 end, "an integer of at least 0" },
  list = { is_list, "a list of strings without zero bytes" },
}

local function check_libcurls(name, value)
  local choices = lib.options[name]
  local kind = KINDS[choices]
  if not kind then
    for _, choice in ipairs(choices) do
      if value == choice then return end
    end
    fail("%s: one of %s expected, got %s", name, table.concat(choices, ", "), check.describe(value))
  end
  if not kind[1](value) then fail("%s: %s expected, got %s", name, kind[2], check.describe(value)) end
end

-- ---- all of it ----

local function set_limits(s, opts)
  for _, name in ipairs { "timeout", "connect_timeout", "idle" } do
    local ms = opts[name]
    if ms ~= nil and (type(ms) ~= "number" or not (ms > 0 and ms <= LONGEST_MS)) then
      fail("%s: a number of milliseconds, above 0 and at most %d, expected, got %s", name, LONGEST_MS,
        check.describe(ms))
    end
    if ms then s[name] = math.ceil(ms) end
  end
  local max, redirects = opts.max, opts.redirects
  if max ~= nil and max ~= math.huge and not (math.type(max) == "integer" and max > 0) then
    fail("max: a number of bytes, an integer above 0, or math.huge expected, got %s", check.describe(max))
  end
  if max ~= nil then s.max = max ~= math.huge and max or nil end
  if redirects ~= nil and not (math.type(redirects) == "integer" and redirects >= 0) then
    fail("redirects: an integer of at least 0 expected, got %s", check.describe(redirects))
  end
  s.redirects = redirects or s.redirects
end

-- How often the request is tried; `backoff` alone asks for three tries.
local function set_tries(s, opts)
  local tries, backoff = opts.tries, opts.backoff
  if tries == nil and backoff == nil then return end
  if tries ~= nil and not (math.type(tries) == "integer" and tries >= 1) then
    fail("tries: an integer of at least 1 expected, got %s", check.describe(tries))
  end
  if backoff ~= nil and not (type(backoff) == "number" and backoff >= 0 and backoff < math.huge) then
    fail("backoff: a number of milliseconds, at least 0, expected, got %s", check.describe(backoff))
  end
  s.tries, s.backoff = tries or 3, backoff or 100
  if s.tries == 1 then return end
  if not s.repeats then
    fail("tries: the server may have done a %s although its response is missing: give it a header Idempotency-Key, if "
      .. "the server knows that, or use rn.retry", s.method)
  end
  if s.source or io.type(s.body) == "file" then
    fail("tries: a body that is a channel or a file can be sent once: pass a string, or use rn.retry")
  end
end

-- The names of the options of a function, without libcurl's.
local function own_names(what)
  local names = {}
  for name in pairs(KNOWN[what]) do
    if not lib.options[name] then names[#names + 1] = name end
  end
  table.sort(names)
  return table.concat(names, ", ")
end

local function check_each(what, opts)
  local known, libcurl = KNOWN[what], nil
  for name, value in pairs(opts) do
    if not known[name] then
      if what == "get" and KNOWN.request[name] then fail("%s: http.request has this option", name) end
      fail("unknown option %q; known: %s; and libcurl's, which the manual lists", tostring(name), own_names(what))
    end
    if lib.options[name] then
      check_libcurls(name, value)
      libcurl = libcurl or {}
      libcurl[name] = value
    end
  end
  if opts.method ~= nil and not token.is(opts.method) then
    fail("method: a name such as \"PUT\" expected, got %s", check.describe(opts.method))
  end
  for _, flag in ipairs { "certificates", "fail" } do
    if opts[flag] ~= nil and type(opts[flag]) ~= "boolean" then
      fail("%s: true or false expected, got %s", flag, check.article(opts[flag]))
    end
  end
  if opts.hints ~= nil and not check.is_callable(opts.hints) then
    fail("hints: a function expected, got %s", check.article(opts.hints))
  end
  if opts.cookies ~= nil and not lib.is_cookies(opts.cookies) then
    fail("cookies: what http.cookies() returns expected, got %s", check.article(opts.cookies))
  end
  return libcurl
end

-- The default limits of a request.
local LIMITS = lib.limits

local function read(what, url, opts)
  if type(url) ~= "string" then fail("a URL expected, as in \"https://example.org/\", got %s", check.article(url)) end
  if type(opts) ~= "table" then fail("a table of options expected, got %s", check.article(opts)) end
  local s = { max = not IN_PIECES[what] and LIMITS.max or nil, connect_timeout = LIMITS.connect_timeout,
    redirects = LIMITS.redirects, fail = opts.fail, certificates = opts.certificates, hints = opts.hints }
  s.libcurl = check_each(what, opts)
  set_limits(s, opts)
  s.method, s.cookies = opts.method and opts.method:upper(), opts.cookies
  local lines, given = header_lines(opts.headers)
  if contexts.on and not given.traceparent then add_trace(lines) end
  set_sent(s, opts, lines, given)
  -- If a kept connection ends before the response, the server may have done the request.
  s.repeats = IDEMPOTENT[s.method or "GET"] or given["idempotency-key"] or false
  if what ~= "events" then set_tries(s, opts) end
  if (opts.range or given.range) and not opts.accept_encoding and not given["accept-encoding"] then
    lines[#lines + 1] = "Accept-Encoding:" -- a part of a compressed body cannot be decompressed
  end
  if #lines > 0 then s.headers = lines end
  s.has_more = (s.libcurl or s.method or s.cookies or s.headers or s.certificates or s.hints) and true
  return opts.query ~= nil and with_query(url, opts.query) or url, s
end

---The settings of a request: most are for the C module.
---@class runnel.http.Settings
---@field method? string default GET
---@field headers? string[] lines
---@field body? string|file*
---@field source? runnel.Channel<string> the body, if it is a channel
---@field timeout? integer ms for all of it
---@field max? integer bytes of the body
---@field certificates? boolean the response has those of the server
---@field hints? fun(headers: table<string, string|string[]>) is called with early hints
---@field on_trailers? fun(res: runnel.http.Response) is called when all of a stream has come, before its channel closes
---@field fail? boolean a status from 400 on is an error
---@field repeats? boolean it is sent again if a kept connection ends before the response; nil: without options
---@field tries? integer how often it is tried; nil: once
---@field backoff? number ms, if there are tries
---@field idle? number ms that the server of a stream may send nothing
---@field is_raw? boolean it is passed on as it is
---@field has_more? boolean there are more settings for the C module than limits

---The settings of a request without options: the default limits.
---@type runnel.http.Settings
options.NONE = LIMITS

---The settings of a request that http.proxy passes on: it has these headers, its method and its body as they are.
---@param base runnel.http.Settings what the options of http.proxy say
---@param method string
---@param headers table<string, string>
---@param source? runnel.Channel<string> the body
---@param size? integer of the body; nil: unknown
---@return runnel.http.Settings
function options.forward(base, method, headers, source, size)
  local s = { redirects = 0, connect_timeout = base.connect_timeout, idle = base.idle, libcurl = base.libcurl,
    method = method, source = source, is_fed = source ~= nil, body_size = size, is_raw = true, has_more = true,
    repeats = IDEMPOTENT[method] or headers["idempotency-key"] ~= nil }
  if not source and HAVE_BODIES[method] then s.body = "" end
  if contexts.on then headers.traceparent, headers.tracestate = nil, nil end
  s.headers = header_lines(headers)
  if contexts.on then add_trace(s.headers) end
  for _, name in ipairs { "Accept", "Content-Type", "Expect" } do -- libcurl would add them
    if not headers[name:lower()] then s.headers[#s.headers + 1] = name .. ":" end
  end
  return s
end

---Why a request is impossible, or nil. URLs are often data, so this is not raised.
---@param url string
---@return string?
function options.refuse(url)
  if is_plain(url) then return nil end -- most URLs
  if url:find("\0", 1, true) then return ("not a URL, since it has a zero byte: %q"):format(url) end
  if url:lower():find "^https?://" then return nil end
  return "not an http:// or https:// URL: " .. url
end

---Checks the options of a request, and turns them into settings.
---@param what string the function that was called: "get", "request", "stream", "download", "events" or "proxy"
---@param url any
---@param opts any
---@return string url with the query that the options have
---@return runnel.http.Settings settings
function options.read(what, url, opts)
  if type(url) == "string" and not is_plain(url) then url = encode_bytes(url) end
  if opts == nil and type(url) == "string" and not IN_PIECES[what] and not contexts.on then
    return url, LIMITS -- most requests
  end
  local ok, first, settings = pcall(read, what, url, opts == nil and {} or opts)
  if ok then return first, settings end
  if type(first) == "table" then raise(("%s: %s"):format(what, first.message)) end
  error(first, 0)
end

return options
