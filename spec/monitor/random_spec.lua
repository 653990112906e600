-- tests/browser/random.lua, the programs that check-browser watches: here they run without a browser, in each run of
-- the specs.

local process = require "spec.support.process"

describe("a random program of check-browser", function()
  local dir
  before_each(function() dir = process.directory() end)
  after_each(function() dir:remove() end)

  -- Runs a program until it has written what is true of a picture, or has ended. Returns that, and what it printed.
  local function watch(program)
    dir:write("watch", [[
      "$1" "$2" 1 picture 50 0.1 2>errors & pid=$!
      alive() { kill -0 $pid 2>/dev/null; }
      until grep -q '^monitor: ' errors || ! alive; do sleep 0.01; done
      url=$(sed -n 's|^monitor: http://127.0.0.1:\([0-9]*\)/?token=\(.*\)|\1 \2|p' errors)
      exec 3<>"/dev/tcp/127.0.0.1/${url% *}"
      printf 'GET /events?token=%s HTTP/1.0\r\nHost: 127.0.0.1:%s\r\n\r\n' "${url#* }" "${url% *}" >&3
      until grep -q '}$' picture || ! alive; do sleep 0.01; done
      kill -9 $pid
    ]])
    local tree = io.popen("pwd"):read "l"
    local lua = os.getenv "LUA" or "lua5.4"
    process.run(dir.path, ("bash watch %s '%s'"):format(lua, (program:gsub("^[^/]", tree .. "/%0"))))
    return dir:read "picture", dir:read "errors"
  end

  it("writes what is true of a picture", function()
    local picture, errors = watch "tests/browser/random.lua"
    assert.matches('^{.*"channels":{.*"puts_waiting":%d', picture, nil, errors)
  end)

  it("ends with an error if it cannot, and so does the check, instead of waiting for a picture", function()
    dir:write("wrong.lua", ([[
      local rn = require "runnel"
      local metrics = rn.metrics
      function rn.metrics() metrics() return { channels = { { puts_waiting = 7 } } } end
      dofile "%s/tests/browser/random.lua"]]):format(io.popen("pwd"):read "l"))
    local picture, errors = watch(dir.path .. "/wrong.lua")
    assert.equal("", picture)
    assert.matches("rn.metrics counts other puts than ch:stats()", errors, 1, true)
  end)
end)
