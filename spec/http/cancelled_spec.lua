-- What servers and clients do, cancelled at every step: nothing stays behind, and the server goes on.

local both = require("spec.support.in_world")(it)
local http_stage = require "spec.support.http.http_stage"
local long = require "spec.support.long"
local patience = require "spec.support.patience"
local rn = require "runnel"
local stage = require "spec.support.stage"

if http_stage.missing then
  describe("a feature of runnel.http", function() pending(http_stage.missing) end)
  return
end

local core = require "runnel.core"
local current = require "runnel.internal.world"
local http = require "runnel.http"

-- Too long for the buffers of a connection.
local LONG = ("0123456789abcdef"):rep(16384)

local function read(path)
  local file <close> = io.open(path, "rb")
  return file and file:read "a"
end

local function write(path, text)
  local file <close> = assert(io.open(path, "wb"))
  file:write(text)
end

-- A channel with the pieces of a text.
local function in_pieces(text)
  local out = rn.chan()
  rn.go(function()
    for at = 1, #text, 50000 do
      if not out:put(text:sub(at, at + 49999)) then return end
    end
    out:close()
  end)
  return out
end

local function hinted(req)
  req:hints { Link = "</a>" }
  req:trailer("X-Sum", 7)
  return 200, { Trailer = "X-Sum" }, in_pieces(LONG)
end

local function ask_hinted(url)
  local hints = 0
  local res = assert(http.get(url, { hints = function() hints = hints + 1 end }))
  return hints == 1 and res.body == LONG and res.trailers["x-sum"] == "7"
end

-- Each has `serve`, which makes the function of a server; and `ask`, which makes a request and tells whether the
-- response is right. Both get a folder. `serve` may also return a server behind it. `keeps`: files that a cancelled
-- request leaves, and the next one uses.
local features = {
  ["a form with a file"] = {
    serve = function(dir)
      local n = 0
      return function(req)
        n = n + 1
        local path = ("%s/upload%d"):format(dir, n) -- the one before may not have ended yet
        local form = assert(req:form { file = function(part) return part:save(path) end })
        return 200, nil, form.fields.a .. tostring(form.fields.b) .. path
      end
    end,
    ask = function(url)
      local res = assert(http.request { url = url, multipart = { { name = "a", data = "x" },
        { name = "b", data = LONG, filename = "b" } } })
      local path = res.body:match("^x" .. #LONG .. "(.*)$")
      return path and read(path) == LONG
    end,
  },
  ["a form whose file is read in pieces"] = {
    serve = function()
      return function(req)
        local size = 0
        local form = assert(req:form { file = function(part)
          for piece in part.read, part do size = size + #piece end
        end })
        return 200, nil, form.fields.a .. size
      end
    end,
    ask = function(url)
      return assert(http.request { url = url, multipart = { { name = "b", data = LONG, filename = "b" },
        { name = "a", data = "x" } } }).body == "x" .. #LONG
    end,
  },
  ["compression in both directions"] = {
    serve = function()
      return http.compress(function(req) return 200, nil, in_pieces(req:body()) end)
    end,
    ask = function(url)
      local packed = require("runnel.http.curl").deflater(6):deflate(LONG, "finish")
      local res = assert(http.request { url = url, body = packed, headers = { ["Content-Encoding"] = "gzip",
        ["Accept-Encoding"] = "identity;q=0.5, gzip" } })
      if res.headers["content-encoding"] ~= "gzip" then return false end
      local plain = #res.body == #LONG and res.body
      return (plain or require("runnel.http.curl").inflater():inflate(res.body, #LONG)) == LONG
    end,
  },
  ["a file of a folder"] = {
    serve = function(dir)
      write(dir .. "/file", LONG)
      return http.files(dir)
    end,
    ask = function(url) return assert(http.get(url .. "file")).body == LONG end,
  },
  ["a list of a folder"] = {
    serve = function(dir)
      for i = 1, 30 do write(("%s/file%d"):format(dir, i), "") end
      return http.files(dir, { list = true })
    end,
    ask = function(url) return assert(http.get(url)).body:find "file30" ~= nil end,
  },
  ["a limit that is counted in a bucket"] = {
    serve = function()
      local values, revisions = {}, {}
      local function set(key, value, revision)
        rn.sleep(0)
        if revisions[key] ~= revision then return nil, "another one has changed it" end
        values[key], revisions[key] = value, (revision or 0) + 1
        return true
      end
      local bucket = { create = function(_, key, value) return set(key, value) end }
      function bucket.update(_, key, value, revision) return set(key, value, revision) end
      function bucket.get(_, key)
        rn.sleep(0)
        return values[key], revisions[key]
      end
      return http.limit(function() return 200, nil, "x" end, 100000, 1000, { bucket = bucket })
    end,
    ask = function(url) return assert(http.get(url)).body == "x" end,
  },
  ["a limit of time and body"] = {
    serve = function()
      return http.within(function(req) return 200, nil, tostring(#req:body()) end, { timeout = 60000, max = #LONG })
    end,
    ask = function(url) return assert(http.request { url = url, body = in_pieces(LONG) }).body == tostring(#LONG) end,
  },
  ["hints and trailers"] = { serve = function() return hinted end, ask = ask_hinted },
  ["hints and trailers through a proxy"] = {
    serve = function()
      local behind = assert(http.serve(0, hinted))
      return http.proxy(behind.url), behind
    end,
    ask = ask_hinted,
  },
  ["a Unix socket"] = {
    path = "/socket",
    serve = function() return function(req) return 200, nil, in_pieces(req:body()) end end,
    ask = function(url, dir)
      return assert(http.request { url = url, body = LONG, unix_socket_path = dir .. "/socket" }).body == LONG
    end,
  },
  ["a download"] = {
    keeps = { ["down.part"] = true, ["down.part.state"] = true },
    serve = function(dir)
      write(dir .. "/file", LONG)
      return http.files(dir)
    end,
    ask = function(url, dir)
      return assert(http.download(url .. "file", dir .. "/down")).bytes == #LONG and read(dir .. "/down") == LONG
    end,
  },
}

describe("a feature of runnel.http that is cancelled at every step #ci", function()
  before_each(http_stage.open)
  after_each(http_stage.close)

  -- The names of the files in a folder, as a set.
  local function names_in(dir)
    local luv, set = require("runnel.uv.loop").uv, {}
    local list = assert(luv.fs_scandir(dir))
    local name = luv.fs_scandir_next(list)
    while name do
      set[name] = true
      name = luv.fs_scandir_next(list)
    end
    return set
  end

  -- A file that has not all of its contents.
  local function partial_in(dir, but)
    for name in pairs(names_in(dir)) do
      if name:find "%.part" and not but[name] then return name end
    end
  end

  -- The go blocks that there are, by their ids; and a list of those that are not among earlier ones.
  local function blocks_now()
    local set = {}
    for _, entry in ipairs(stage.entries()) do set[entry.id] = entry end
    return set
  end

  local function blocks_since(before)
    local list = {}
    for _, entry in ipairs(stage.entries()) do
      if not before[entry.id] then list[#list + 1] = entry end
    end
    return list
  end

  -- Waits until none of them is left.
  local function wait_for_none(before, what)
    local is_over, tries = patience.limit(5000), 0
    while #blocks_since(before) > 0 do
      local entry = blocks_since(before)[1]
      tries = tries + 1
      if tries > 1000 and is_over() or tries > 20000 then
        error(("it is left, %s: %s: %s at %s"):format(what, entry.name, entry.operation or entry.state, entry.where), 0)
      end
      if tries % 100 == 0 then collectgarbage() end
      rn.sleep(1)
    end
  end

  -- Asks, and cancels the request after so many steps; with `pick` a go block that this gets from the list of those
  -- that have begun meanwhile. Returns whether it had ended before.
  local function cut_short(feature, url, dir, steps, pick)
    local before = blocks_now()
    local block = rn.go(function() return pcall(feature.ask, url, dir) end)
    for _ = 1, steps do
      if core.internal.has_ended(block) then break end
      rn.yield()
    end
    local has_ended = core.internal.has_ended(block)
    local blocks = pick and blocks_since(before) or {}
    local picked = pick and #blocks > 0 and pick(blocks) or nil
    rn.cancel(picked and picked.result or block, "killed")
    if pick then
      local timer <close> = require("runnel.internal.guard").alarm(50) -- it may wait for the killed one for ever
      rn.alts { block, timer.over }
      rn.cancel(block, "over")
    end
    local what = ("cancelled after %d steps: %s at %s"):format(steps, picked and picked.name or "the client",
      picked and picked.where or "?")
    wait_for_none(before, what)
    return has_ended, what
  end

  -- Cancels each step of a feature, the short form every second one, and asks again after each. `picks`: how many go
  -- blocks are tried at each step; nil: the client is cancelled.
  local function check(feature, picks)
    local luv = require("runnel.uv.loop").uv
    local taken = os.tmpname()
    local dir = taken .. ".d"
    assert(luv.fs_mkdir(dir, 448))
    do
      local before = blocks_now()
      local f, behind = feature.serve(dir)
      local server <close> = assert(http.serve(feature.path and dir .. feature.path or 0, f))
      local function assert_well(what)
        local list = stage.heard()
        if not picks then assert.same({}, list) end
        patience.wait_until(function() return not partial_in(dir, feature.keeps or {}) end)
        assert.is_nil(partial_in(dir, feature.keeps or {}), what)
        assert.is_true(feature.ask(server.url, dir), what)
      end
      assert_well "at first"
      local stride = long.times(2, 1)
      local steps, ends = long.turn % stride, 0
      while ends < 3 do
        for n = 1, picks or 1 do
          local function pick(list) return list[n == 1 and #list or math.random(#list)] end
          local has_ended, what = cut_short(feature, server.url, dir, steps, picks and pick)
          if has_ended and n == 1 then ends = ends + 1 end
          assert_well(what)
        end
        steps = (current.world or steps < 5) and steps + stride or steps * 5 // 4
      end
      server:close()
      if behind then behind:close() end
      wait_for_none(before, "at the end")
    end
    for name in pairs(names_in(dir)) do os.remove(dir .. "/" .. name) end
    assert(luv.fs_rmdir(dir))
    os.remove(taken)
  end

  local names = {}
  for name in pairs(features) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    both(("leaves nothing behind: %s, the client"):format(name), function() check(features[name]) end)
    both(("leaves nothing behind: %s, any go block"):format(name), function() check(features[name], 2) end)
  end
end)
