-- runnel.lite in the real LÖVE, on a screen that is not shown, and the programs of docs/love.md there.

local pages = require "spec.support.docs.pages"
local process = require "spec.support.process"
local programs = require "spec.support.lite.programs"

local PAGE = "docs/love.md"
local it_in_love = programs.it({ it = it, pending = pending }, "love", "xvfb-run")

describe("runnel.lite in LÖVE #ci", function()
  local dir

  before_each(function()
    dir = process.directory()
    dir:write("conf.lua", [[
      function love.conf(t) t.modules.audio, t.modules.joystick, t.modules.sound = false, false, false end
      function love.errorhandler(message) io.stderr:write(debug.traceback(message), "\n") end -- and no blue screen
    ]])
  end)
  after_each(function() dir:remove() end)

  local function love(code)
    dir:write("main.lua", code)
    -- The status of xvfb-run is not LÖVE's: it fails if it cannot remove its own files.
    return programs.run(dir, [[
      export LIBGL_ALWAYS_SOFTWARE=1
      xvfb-run -a -s '-screen 0 320x240x24' sh -c 'love . || touch failed'
      test ! -e failed
    ]])
  end

  it_in_love("runs go blocks in love.update, and goes on in the next frame", function()
    assert.equal("number\n1\nescape\nwheel 3\n3\nmore than one frame\na bug\n", love [[
      local host = require "runnel.lite.love"
      local rn, frames, wheel = host.rn, 0, nil
      function love.wheelmoved(x) wheel = x end
      function love.load()
        rn.go(function()
          print(type(host.next_frame():take()))
          local before = frames
          host.next_frame():take()
          print(frames - before)

          local keys = host.events "keypressed"
          love.event.push("keypressed", "escape", "escape", false)
          print(keys:take()[1])
          keys:close()
          local moves = host.events "wheelmoved"
          love.event.push("wheelmoved", 3, 0)
          print("wheel", moves:take()[1])
          print(wheel)

          before = frames
          for _ = 1, 20 do -- takes 20 ms at least, in parts of 4
            local began = love.timer.getTime()
            while love.timer.getTime() < began + 0.001 do end
            rn.yield()
          end
          print(frames > before and "more than one frame")
          print((select(2, rn.go(function() error("a bug", 0) end):take())))
          love.event.quit()
        end)
      end
      function love.update(dt)
        frames = frames + 1
        host.update(dt)
      end
    ]]:gsub("\t", " "))
  end)

  it_in_love("takes what a thread pushes, no faster than it is taken", function()
    assert.equal("1 2 3\n1000\ntrue\n", love [[
      local host = require "runnel.lite.love"
      local rn = host.rn
      function love.load()
        local from = love.thread.newChannel()
        local values = host.from_thread(from, 2)
        love.thread.newThread("local to = ...\n for i = 1, 1000 do to:push(i) end"):start(from)
        rn.go(function()
          print(values:take() .. " " .. values:take() .. " " .. values:take())
          local last
          for i = 4, 1000 do last = values:take() end
          print(last)
          values:close()
          from:push "is left"
          host.next_frame():take()
          host.next_frame():take()
          print(from:getCount() == 1)
          love.event.quit()
        end)
      end
      function love.update(dt) host.update(dt) end
    ]])
  end)

  -- A program of the page, with a go block of the spec beside it. `text` is what the program shows.
  local function with_page(code)
    local loader, n = pages.block(PAGE, "What each thread runs"):gsub("10000", "600000") -- on a busy machine, too
    assert.equal(1, n)
    dir:write("loader.lua", loader)
    return love(pages.block(PAGE, 'require "loader"') .. [[
      local update, last = love.update, nil
      function love.update(dt)
        update(dt)
      ]] .. code .. [[
        love.draw()
      end
    ]])
  end

  it_in_love("shows an error that nobody takes on the blue screen, on " .. PAGE, function()
    assert.matches("^blue main.lua:%d+: a bug\nstack traceback:\n", love([[
      local host = require "runnel.lite.love"
      local rn = host.rn
      function love.errorhandler(message)
        print("blue " .. message)
        return function() return 0 end
      end
      function love.load() rn.go(function() error "a bug" end) end
    ]] .. pages.block(PAGE, "problem = problem or")))
  end)

  it_in_love("loads pictures with progress, on " .. PAGE, function()
    assert.equal("1 64 60\n", with_page [[
      assert(not last or progress >= last)
      last = progress
      if not pictures then return end
      local n = 0
      for _ in pairs(pictures) do n = n + 1 end
      print(progress .. " " .. pictures["picture 60"]:getWidth() .. " " .. n)
      love.event.quit()
    ]])
  end)

  it_in_love("cancels loading, on " .. PAGE, function()
    assert.equal("cancelled\n", with_page [[
      if not last then
        last = true
        love.event.push("keypressed", "escape", "escape", false)
      elseif problem then
        print(problem)
        love.event.quit()
      end
    ]]:gsub("for i = 1, 60", "for i = 1, 100000"))
  end)

  it_in_love("waits for a key or a time, on " .. PAGE, function()
    local code = pages.block(PAGE, "Three seconds are over")
    local function run(keys, ms)
      return love(code:gsub("3000", ms) .. [[
        local update, began = love.update, false
        function love.update(dt)
          if not began then ]] .. keys .. [[ end
          began = true
          update(dt)
          love.draw()
          if text ~= "Press a key" then
            print(text)
            love.event.quit()
          end
        end
      ]])
    end
    assert.equal("You pressed a\n", run('love.event.push("keypressed", "a", "a", false)', "60000"))
    assert.equal("Three seconds are over\n", run("", "20"))
  end)
end)

describe("host.events of LÖVE", function()
  -- The host with a LÖVE that has nothing but a clock and callbacks.
  local function host_of(love)
    local lite = assert(loadfile "lua/runnel/lite.lua")("runnel.lite")
    love.timer = { getTime = os.clock }
    local env = setmetatable({ love = love, require = function() return lite end }, { __index = _G })
    return assert(loadfile("lua/runnel/lite/love.lua", "t", env))()
  end

  it("costs nothing for channels that were closed", function()
    local love, calls = { keypressed = function() return "the program's own" end }, 0
    local host = host_of(love)
    for _ = 1, 1000 do host.events("keypressed"):close() end
    debug.sethook(function() calls = calls + 1 end, "c")
    local result = love.keypressed "a"
    debug.sethook()
    assert.equal("the program's own", result)
    assert.is_true(calls < 20, calls)
  end)

  it("gives each channel its own list, also when the program sets another callback", function()
    local love, seen = {}, {}
    local host = host_of(love)
    local first, second = host.events "keypressed", host.events "keypressed"
    love.keypressed "a"
    local before = love.keypressed
    function love.keypressed(key)
      seen[#seen + 1] = key
      before(key)
    end
    local third = host.events "keypressed"
    second:close()
    love.keypressed "b"
    assert.same({ { "a" }, { "b" } }, { first:poll(), first:poll() })
    assert.same({ "a" }, second:poll())
    assert.is_nil(second:poll())
    assert.same({ "b" }, third:poll())
    assert.same({ "b" }, seen)
  end)
end)
