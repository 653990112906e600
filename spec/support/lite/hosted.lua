---Runs a program of a host's page on runnel.lite or on runnel, unchanged: LUA hosted.lua lite|runnel PROGRAM FILE...
---PROGRAM is one of the functions below, which stands for the host; FILEs are the programs of the page. What a host
---gives to runnel.lite (rn.host) is left away: both engines run in a loop of their own, most in virtual time.

local hosted = {}

local rn
if arg[1] == "lite" then
  rn = require "runnel.lite"
  rn.host = function() return rn end
else
  local core, sim = require "runnel", require "runnel.sim"
  -- runnel's step counts go blocks, and its explore has no number of schedules.
  local like_lite = setmetatable({}, { __index = sim })
  function like_lite.explore(f) return sim.explore(f, { seconds = 60 }) end
  rn = setmetatable({ sim = like_lite, step = function() return core.step() end }, { __index = core })
  rn.host = function() return rn end
  package.loaded["runnel.lite"] = rn
end

rn.on_error(function(err) print("error: " .. tostring(err)) end)

local function run(file, ...) return assert(loadfile(file))(...) end
local function nothing() end

-- ---- Neovim ----

-- What commands print, in the fake of vim.uv.
local OUTPUT = {
  ["git log --oneline --author Ann"] = "one\ntwo\n",
  ["grep -rnI -- f ."] = "a: f\nb: fo\n",
  ["grep -rnI -- fo ."] = "b: fo\n",
}

local function fake_uv()
  local uv, running = { hrtime = function() return rn.now() * 1e6 end }, {}
  function uv.new_timer() return { start = nothing } end
  function uv.new_pipe() return { read_stop = nothing, close = nothing } end
  function uv.spawn(command, options, on_exit)
    local data = OUTPUT[command .. " " .. table.concat(options.args, " ")]
    local process, pipe, has_ended = {}, options.stdio[2], false
    local function stop(signal)
      if has_ended then return end
      has_ended = true
      on_exit(0, signal)
    end
    function pipe:read_start(f)
      rn.go(function()
        rn.sleep(5)
        local now = data
        data = nil
        f(nil, now)
        if not now then stop(0) end
      end)
    end
    function process:is_closing() return has_ended end
    function process:close() end
    function process:kill()
      print("killed: " .. command, options.args[4])
      stop(15)
    end
    running[#running + 1] = process
    return process
  end
  return uv
end

local function fake_vim()
  local buffers = {}
  local api, watching = {}, {}
  function api.nvim_create_buf()
    buffers[#buffers + 1] = { "" }
    return #buffers
  end
  function api.nvim_win_set_buf() end
  function api.nvim_buf_get_lines(buffer) return buffers[buffer] end
  function api.nvim_buf_set_lines(buffer, _, _, _, lines)
    buffers[buffer] = lines
    if watching[buffer] then watching[buffer].on_lines(nil, nil, nil, 0, 1, #lines) end
  end
  function api.nvim_buf_attach(buffer, _, handlers) watching[buffer] = handlers end
  function api.nvim_buf_is_loaded(buffer) return buffers[buffer] ~= nil end
  function api.nvim_buf_line_count(buffer) return #buffers[buffer] end
  function api.nvim_buf_delete(buffer)
    buffers[buffer] = nil
    watching[buffer].on_detach()
  end
  local vim = { api = api, uv = fake_uv(), schedule = function(f) rn.go(f) end, cmd = nothing, log = { levels = {} } }
  function vim.schedule_wrap(f)
    return function(...) rn.go(f, ...) end
  end
  vim.bo = setmetatable({}, { __index = function() return {} end })
  vim.notify = print
  _G.unpack = table.unpack -- Neovim has LuaJIT
  vim.ui = { input = function(opts, f) f(opts.prompt == "Name: " and "Ann" or nil) end }
  return vim
end

function hosted.first_of_neovim(file)
  _G.vim = fake_vim()
  rn.sim.run(function()
    run(file)
    rn.sleep(5000)
  end)
end

function hosted.picker(find, picker)
  local vim = fake_vim()
  _G.vim = vim
  rn.sim.run(function()
    package.loaded.picker = run(picker)
    local prompt, results = run(find).open()
    local function show(when) print(when, table.concat(vim.api.nvim_buf_get_lines(results), ", ")) end
    vim.api.nvim_buf_set_lines(prompt, 0, -1, false, { "f" })
    rn.sleep(100)
    show "f"
    vim.api.nvim_buf_set_lines(prompt, 0, -1, false, { "f" })
    rn.sleep(2) -- before grep has written anything
    vim.api.nvim_buf_set_lines(prompt, 0, -1, false, { "fo" })
    rn.sleep(100)
    show "fo"
    vim.api.nvim_buf_delete(prompt)
    rn.sleep(1)
  end)
end

function hosted.picker_test(test, picker)
  package.loaded.picker = run(picker)
  _G.it = function(title, f) print(title, pcall(f)) end
  run(test)
end

-- ---- OpenResty ----

local function fake_ngx()
  local ngx = { OK = 200, ERR = 4, exit = nothing, eof = nothing, say = print, print = print, log = nothing }
  ngx.now, ngx.update_time = function() return rn.now() / 1000 end, nothing
  package.loaded["ngx.semaphore"] = {}
  return ngx
end

function hosted.redis(file)
  for ms = 10, 100, 90 do
    _G.ngx = fake_ngx()
    package.loaded["resty.redis"] = { new = function()
      return { connect = function() return true end, get = function()
        rn.sleep(ms)
        return "hello"
      end }
    end }
    rn.sim.run(run, nil, file)
  end
end

-- The servers: ms, and what they answer.
local SERVERS = {
  ["1"] = { 20, "HTTP/1.0 200 OK\r\n\r\nfrom 1" }, ["2"] = { 10, "HTTP/1.0 500 no\r\n\r\n" },
  ["3"] = { 5000, "HTTP/1.0 200 OK\r\n\r\nlate" },
}
function hosted.fan(file)
  for _, ports in ipairs { "1 2 3", "2 4", "2 3" } do
    local ngx = fake_ngx()
    _G.ngx = ngx
    ngx.var = { arg_ports = ports }
    ngx.socket = { tcp = function()
      local server
      return {
        settimeout = nothing, close = nothing, send = nothing,
        connect = function(_, _, port)
          server = SERVERS[port]
          if server then return true end
          return nil, "refused"
        end,
        receive = function()
          rn.sleep(server[1])
          return server[2]
        end,
      }
    end }
    rn.sim.run(function()
      local began = rn.now()
      run(file)
      print(ports, ngx.status, rn.now() - began .. " ms")
    end)
  end
end

function hosted.jobs(file)
  _G.ngx = fake_ngx()
  local jobs = run(file)
  rn.sim.run(function()
    print(jobs.add "a", jobs.next(1000), jobs.next(1000), rn.now())
    rn.go(function() print("waited for", jobs.next(1000)) end)
    rn.yield()
    print(jobs.add "b")
    rn.yield()
    for _ = 1, 100 do jobs.add "c" end
    print(jobs.add "no room")
  end)
end

-- ---- LÖVE ----

-- A channel of love.thread; demand waits in the coroutine of a fake thread.
local function thread_channel()
  local list, channel = {}, {}
  function channel:push(value) list[#list + 1] = value end
  function channel:peek() return list[1] end
  function channel:pop() return table.remove(list, 1) end
  function channel:clear() list = {} end
  function channel:demand()
    while list[1] == nil do coroutine.yield() end
    return table.remove(list, 1)
  end
  return channel
end

-- Loads main.lua and runs frames; each thread goes on once a frame. `press` gives the key that is pressed in a frame.
local function love_game(file, n, press)
  local frame, threads, drawn = 0, {}, nil
  local love = { timer = { getTime = function() return frame / 60 end }, keypressed = nil }
  local function draw(...)
    local words = { ... }
    for i = 1, #words do words[i] = tostring(words[i]) end
    local text = table.concat(words, " ")
    if text ~= drawn then print(text) end
    drawn = text
  end
  love.graphics = { print = draw, draw = draw, newImage = function(data) return "image of " .. data end }
  love.graphics.rectangle = function(_, _, _, width) draw(("%.0f of 300"):format(width)) end
  love.image = { newImageData = function() return setmetatable({ mapPixel = nothing },
    { __concat = function(a) return a .. "data" end, __tostring = function() return "data" end }) end }
  love.thread = { newChannel = thread_channel }
  function love.thread.newThread(code)
    return { start = function(_, ...)
      local args = { ... }
      threads[#threads + 1] = coroutine.create(function() assert(load(code))(table.unpack(args)) end)
    end }
  end
  _G.love, package.loaded["love.image"] = love, true
  run(file)
  love.load()
  for i = 1, n do
    frame = i
    for _, co in ipairs(threads) do
      if coroutine.status(co) == "suspended" then assert(coroutine.resume(co)) end
    end
    local key = press and press(i)
    if key then love.keypressed(key) end
    love.update(1 / 60)
    love.draw()
  end
end

function hosted.first_of_love(file) love_game(file, 5, function(i) return i == 3 and "space" end) end

function hosted.loading(main, loader)
  package.preload.loader = function() return run(loader) end
  love_game(main, 60)
end

function hosted.cancelled(main, loader)
  package.preload.loader = function() return run(loader) end
  love_game(main, 1, function() return "escape" end)
end

-- ---- a C host ----

function hosted.step(file)
  local step, on_line = run(file, function() return os.clock() * 1000 end)
  local has_printed, show = false, print
  _G.print = function(...)
    has_printed = true
    show(...)
  end
  local function wait()
    has_printed = false
    while not has_printed do step(2) end
  end
  step(2)
  for i = 1, 3 do on_line("line " .. i) end
  wait()
  on_line "alone"
  on_line(nil)
  wait()
end

function hosted.frames(file)
  package.loaded["runnel"] = rn
  local frames, drawings, shown = rn.chan(rn.sliding_buffer(1)), rn.chan(100), {}
  rn.go(run, file, frames, drawings)
  for frame = 1, 60 do
    frames:offer(frame)
    local has_taken = false
    rn.go(function() has_taken = true end)
    repeat rn.step(2) until has_taken and #frames == 0
    rn.step(2)
    local text = drawings:poll()
    while text do
      if text:find "^frame" then shown[#shown + 1] = text end
      text = drawings:poll()
    end
  end
  print(table.concat(shown, "\n"))
end

-- ---- tests in every order ----

-- What a failure is about, without the story, in which the engines differ.
function hosted.testing(file)
  local show = print
  _G.print = function(text) show(text:match "%w+_test%.lua:%d+: [^\n(]*[^\n( ]" or text) end
  run(file)
end

-- A file for busted, and one for luaunit.
function hosted.busted(file)
  _G.describe = function(_, f) f() end
  _G.it = function(title, f) print(title, pcall(f)) end
  _G.assert = require "luassert"
  dofile(file)
end

function hosted.luaunit(file)
  local luaunit = { LuaUnit = {} }
  function luaunit.assertEquals(a, b) if a ~= b then error(("%s is not %s"):format(a, b)) end end
  function luaunit.LuaUnit.run()
    for name, f in pairs(_G.TestAccount) do print(name, pcall(f)) end
    return 0
  end
  package.loaded.luaunit = luaunit
  run(file)
end

hosted[arg[2]](table.unpack(arg, 3))
