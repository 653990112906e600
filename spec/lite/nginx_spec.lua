-- runnel.lite in the real nginx with lua-nginx-module, and the programs of docs/openresty.md there.

local pages = require "spec.support.docs.pages"
local patience = require "spec.support.patience"
local process = require "spec.support.process"
local programs = require "spec.support.lite.programs"

local PAGE = "docs/openresty.md"
local busted = { it = it, pending = pending }
local it_in_nginx = programs.it(busted, "nginx", programs.nginx_modules .. "ngx_http_lua_module.so",
  "/usr/share/lua/5.1/resty/core.lua", "curl")

describe("runnel.lite in OpenResty", function()
  local dir, nginx

  before_each(function() dir = process.directory() end)
  after_each(function()
    local stop = nginx
    nginx = nil
    if stop then stop:stop() end
    dir:remove()
  end)

  -- Starts nginx; each location runs Lua code.
  local function start(locations, more)
    local parts = { more or "" }
    for path, code in pairs(locations) do
      local name = path:sub(2) .. "_location.lua"
      dir:write(name, code)
      parts[#parts + 1] = ("location = %s { content_by_lua_file %s/%s; }"):format(path, dir.path, name)
    end
    nginx = programs.nginx(dir, table.concat(parts, "\n"))
  end

  -- What a handler answers.
  local function answer(code)
    start { ["/run"] = 'local rn = require("runnel.lite.nginx").rn\n' .. code }
    return nginx:get "/run"
  end

  it_in_nginx("runs a go block after its creator waits, as a light thread that may sleep", function()
    assert.equal("caller, block, slept\n", answer [[
      local order = {}
      local block = rn.go(function()
        order[#order + 1] = "block"
        ngx.sleep(0.01)
        order[#order + 1] = "slept"
      end)
      order[#order + 1] = "caller"
      block:take()
      ngx.say(table.concat(order, ", "))
    ]])
  end)

  it_in_nginx("hands values between go blocks, and waits for one of several operations", function()
    assert.equal("1 2 3 timeout closed a bug\n", answer [[
      local ch, quiet = rn.chan(), rn.chan()
      rn.go(function() for i = 1, 3 do ch:put(i) end end)
      local seen = { ch:take(), ch:take(), ch:take() }
      local limit = rn.timeout(10)
      local _, from = rn.alts { quiet, limit }
      seen[4] = from == limit and "timeout"
      rn.go(function() rn.sleep(5) quiet:close() end)
      seen[5] = quiet:take() == nil and "closed"
      local _, err = rn.go(function() error("a bug", 0) end):take()
      seen[6] = err
      ngx.say(table.concat(seen, " "))
    ]])
  end)

  it_in_nginx("ends a scope at its time limit, although nothing else is timed", function()
    assert.equal("scope: its body had not ended after 20 ms\n", answer [[
      ngx.say(tostring(select(2, pcall(rn.scope, function() rn.chan():take() end, { timeout = 20 }))))
    ]])
  end)

  it_in_nginx("wakes a go block in a coroutine of the handler's own", function()
    assert.equal("from a coroutine\n", answer [[
      local ch = rn.chan()
      rn.go(function() rn.sleep(2) ch:put "from a coroutine" end)
      ngx.say(coroutine.wrap(function() return (ch:take()) end)())
    ]])
  end)

  it_in_nginx("cancels what waits in an operation, and what waits in nginx from its next operation on", function()
    assert.equal("enough\nstill there, enough\n", answer [[
      local reader = rn.go(function() rn.chan():take() end)
      rn.sleep(1)
      rn.cancel(reader, "enough")
      ngx.say((select(2, reader:take())))
      local slept
      local sleeper = rn.go(function()
        while not slept do ngx.sleep(0.002) end
        rn.sleep(1)
      end)
      rn.sleep(1)
      rn.cancel(sleeper, "enough")
      local _, from = rn.alts { sleeper, rn.timeout(20) }
      ngx.print(from ~= sleeper and "still there, " or "gone, ")
      slept = true
      local _, err = sleeper:take()
      ngx.say(err)
    ]])
  end)

  it_in_nginx("waits in a timer of nginx, which outlives its request", function()
    dir:write("shared.lua", 'return require("runnel.lite.nginx").rn.chan()')
    start {
      ["/begin"] = [[
        ngx.timer.at(0, function()
          local shared, rn = require "shared", require("runnel.lite.nginx").rn
          rn.sleep(5)
          local part = rn.go(function() return "from a timer" end)
          shared:put((part:take()))
        end)
        ngx.say "begun"
      ]],
      ["/take"] = [[ngx.say((require("shared"):take()))]],
    }
    assert.equal("begun\n", nginx:get "/begin")
    assert.equal("from a timer\n", nginx:get "/take")
  end)

  it_in_nginx("runs a simulation in a handler", function()
    assert.equal("1000000\n", answer [[
      ngx.say(rn.sim.run(function()
        rn.sleep(1e6)
        return ("%d"):format(rn.now())
      end))
    ]])
  end)

  it_in_nginx("calls back for a timeout for which no go block waits", function()
    assert.equal("called back\n", answer [[
      local told = rn.promise_chan()
      rn.timeout(5):take_async(function() told:offer "called back" end)
      ngx.say((rn.alts { told, rn.timeout(60000) }))
    ]])
  end)

  it_in_nginx("writes an error of a callback to the error log", function()
    answer [[rn.timeout(0):take_async(function() error "a bug" end) ngx.sleep(0.02) ngx.say "fine"]]
    local log = patience.wait_for(function()
      local log = dir:read "error.log"
      return log:find "a bug" and log
    end)
    assert.matches("runnel: error in chan: #%d+: [^\n]*run_location.lua:2: a bug", log)
    dir:write("error.log", "")
  end)

  it_in_nginx("ends the go blocks of a request with the request, and their results", function()
    dir:write("shared.lua", "return {}")
    start({
      ["/begin"] = [[
        local rn = require("runnel.lite.nginx").rn
        local shared = require "shared"
        shared.result, shared.ch = rn.go(function() ngx.sleep(60) end), rn.chan()
        rn.go(function() shared.ch:take() end)
        rn.go(function() rn.alts { shared.ch, rn.timeout(60000) } end)
        rn.yield()
        ngx.say(shared.ch:stats().takes_waiting)
        ngx.exit(ngx.OK)
      ]],
      ["/look"] = [[
        local shared = require "shared"
        ngx.say(shared.ch:stats().takes_waiting, " ", tostring(shared.ch:offer "lost"))
        ngx.say((select(2, shared.result:take())))
      ]],
    }, 'log_by_lua_block { require("runnel.lite.nginx").ended() }')
    assert.equal("2\n", nginx:get "/begin")
    assert.equal("0 nil\nits thread was ended by the host\n", nginx:get "/look")
  end)

  it_in_nginx("calls back in log_by_lua, and begins go blocks there, where nginx lets no thread begin", function()
    dir:write("shared.lua", 'return { rn = require("runnel.lite.nginx").rn, told = {} }')
    start({
      ["/run"] = [[
        local shared = require "shared"
        local ch = shared.rn.chan()
        ngx.ctx.ch = ch
        ch:take_async(function(_, err) shared.told[1] = err end)
        shared.waits = shared.rn.chan()
        shared.waits:put_async "kept"
        ngx.say "fine"
      ]],
      ["/look"] = [[
        local shared = require "shared"
        ngx.say(shared.told[1] and shared.told[2] and table.concat(shared.told, ", ") or "nothing")
      ]],
    }, [[
      log_by_lua_block {
        local shared = require "shared"
        if ngx.ctx.ch then
          ngx.ctx.ch:close "the request has ended"
          shared.rn.go(function() shared.rn.sleep(1) shared.told[2] = shared.waits:take() end)
        end
      }
    ]])
    assert.equal("fine\n", nginx:get "/run")
    local text = patience.wait_for(function()
      local text = nginx:get "/look"
      return text ~= "nothing\n" and text
    end)
    assert.equal("the request has ended, kept\n", text)
  end)

  -- ---- the page ----

  -- Three upstreams in the same nginx: their ports are locations of one server each.
  local function upstreams(list)
    local parts, ports = {}, {}
    for i, code in ipairs(list) do
      ports[i] = require "spec.support.free_port"()
      dir:write("upstream" .. i .. ".lua", code)
      parts[i] = ("} server { listen 127.0.0.1:%d; location / { content_by_lua_file %s/upstream%d.lua; }"):format(
        ports[i], dir.path, i)
    end
    return table.concat(parts, "\n"), "/fan?ports=" .. table.concat(ports, ",")
  end

  local function fan(list, ms)
    local code, n = pages.block(PAGE, "no answer within 300 ms"):gsub("timeout%(300%)", ("timeout(%d)"):format(ms))
    assert.equal(1, n)
    dir:write("fan.lua", code)
    local more, query = upstreams(list)
    nginx = programs.nginx(dir, pages.block(PAGE, "content_by_lua_file fan.lua") .. more)
    return nginx:get(query)
  end

  local SLOW = "ngx.sleep(30) ngx.print 'too late'"
  local FAILS = "ngx.exit(500)"

  it_in_nginx("asks three upstreams, and answers with the first good answer, on " .. PAGE, function()
    assert.equal("here it is", fan({ SLOW, FAILS, "ngx.sleep(0.02) ngx.print 'here it is'" }, 60000))
  end)

  it_in_nginx("asks three upstreams until its deadline, on " .. PAGE, function()
    local text = fan({ SLOW, FAILS, SLOW }, 300)
    assert.matches("^504 [^\n]*\n?no answer within 300 ms\n$", text) -- the status 500 may come too late
  end)

  it_in_nginx("asks upstreams that all fail, on " .. PAGE, function()
    assert.matches("^504 %d+: status 500\n%d+: status 500\n$", fan({ FAILS, FAILS }, 60000))
  end)

  it_in_nginx("hands each job to a request whose client is still there, on " .. PAGE, function()
    dir:write("jobs.lua", pages.block(PAGE, "Whether there was room for the job"))
    nginx = programs.nginx(dir, pages.block(PAGE, "location = /next")
      .. [[location = /waiting { content_by_lua_block {
        local _, jobs = debug.getupvalue(require("jobs").add, 1)
        ngx.say(jobs:stats().takes_waiting)
      } }]])
    assert.equal("202 ", nginx:get "/add?job=first")
    assert.equal("first\n", nginx:get "/next")
    assert.equal("000 ", nginx:get("/next", 0.1)) -- its client goes
    patience.wait_for(function() return nginx:get "/waiting" == "0\n" end)
    assert.equal("202 ", nginx:get "/add?job=second")
    assert.equal("second\n", nginx:get "/next")
  end)

  it_in_nginx("gives all requests the ticks of one clock, which no lost client stops, on " .. PAGE, function()
    dir:write("clock.lua", (pages.block(PAGE, "function M.handle"):gsub("while true do", "for _ = 1, 2 do")
      :gsub("sleep%(100%)", "sleep(10)"):gsub("ngx.say%(now%)", "ngx.say(now > 0)")))
    dir:write("slow.lua", [[
      ngx.ctx.ticks = require("clock").ticks:tap(require("runnel.lite.nginx").rn.chan())
      ngx.sleep(60)
    ]])
    nginx = programs.nginx(dir, pages.block(PAGE, "location = /clock")
      .. ("location = /slow { content_by_lua_file %s/slow.lua; } }\n"):format(dir.path)
      .. pages.block(PAGE, "init_worker_by_lua_block") .. "server { listen unix:unused;")
    assert.equal("true\ntrue\n", nginx:get "/clock")
    assert.equal("000 ", nginx:get("/slow", 0.1)) -- its tap has no buffer
    assert.equal("true\ntrue\n", nginx:get "/clock")
    assert(os.execute(("kill -QUIT $(cat '%s/pid')"):format(dir.path))) -- ends when all go blocks have ended
    patience.wait_for(function() return not os.execute(("kill -0 $(cat '%s/pid') 2>/dev/null"):format(dir.path)) end)
  end)

  it_in_nginx("waits for redis for a limited time, on " .. PAGE, function()
    dir:write("redis.lua", [[
      return { new = function()
        local function get() ngx.sleep(tonumber(ngx.var.arg_seconds)) return "hello" end
        return { connect = function() return true end, get = get }
      end }
    ]])
    local code, n = pages.block(PAGE, "redis takes too long"):gsub("resty.redis", "redis")
    assert.equal(1, n)
    start { ["/run"] = code:gsub("timeout%(50%)", "timeout(60000)"), ["/late"] = code }
    assert.equal("hello\n", nginx:get "/run?seconds=0.01")
    assert.equal("redis takes too long\n", nginx:get "/late?seconds=30")
  end)
end)
