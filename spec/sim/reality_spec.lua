-- Programs of `make check-world` with an outcome that reality has had, and that the world had not once. Each stands for
-- its kind. And that check-world would find such a difference.

if not pcall(require, "luv") then
  describe("a simulated world has what reality has had", function() pending "luv is not installed" end)
  return
end

local perform = require "tests.world.perform"
local programs = require "tests.world.programs"

local LIMIT <const> = 20000 -- schedules; most need less than 100

-- A program: blocks are lists of the role, the operations, and what each has returned.
local function program(of)
  local made = { notion = of.notion, hosts = of.hosts or 1, setting = of.setting, blocks = {}, channels = {} }
  local results = {}
  for i, block in ipairs(of) do
    made.blocks[i] = { name = block[1] .. i, role = block[1], host = block[1] == "server" and 1 or made.hosts,
      script = {} }
    results[i] = {}
    for k = 2, #block, 2 do
      local op = block[k]
      op.role = block[1]
      table.insert(made.blocks[i].script, op)
      table.insert(results[i], block[k + 1])
    end
  end
  return made, results
end

-- Whether the world has the outcome.
local function has_outcome(of)
  local made, results = program(of)
  local outcome = programs.outcome(made, results)
  local missing = perform.find(made, { [outcome] = results }, LIMIT)
  return missing[outcome] == nil
end

local function locked(sql)
  return "raises exec: f.db: another connection has held a lock for more than 0 ms (option busy_timeout), in: " .. sql
end

local FAILED = "500, nil, text/plain; charset=utf-8, 500: the server has failed"

local KINDS = {
  ["much data goes into the buffers of a connection that nobody reads"] = { notion = "sockets",
    { "client", { op = "write", size = 300000, letter = 1 }, "true" },
  },
  ["a rename looks up the folder of the new name first"] = { notion = "files",
    { "io", { op = "rename", name = "d/f", to = "f/x" }, "nil, Not a directory, 20" },
  },
  ["a statement that does not wait for locks finds one of a statement that runs"] = { notion = "sqlite",
    setting = { wal = true, busy_timeout = 0 },
    { "a", { op = "add" }, locked "update t set n = n + 10" },
    { "b", { op = "unique" }, "1, 1" },
  },
  ["a signal reaches a process that has ended, until its parent has heard of it"] = { notion = "processes",
    setting = { name = "ends_with_input" },
    { "user", { op = "out" }, "nil, nil", { op = "kill", signal = "term" }, "true", { op = "exit" },
      "{code=143 signal=15}" },
    { "user", { op = "stop" }, "{code=143 signal=15}" },
  },
  ["a request fails with the error of its body, although the server has answered without it"] = { notion = "http",
    { "client", { op = "upload", path = "ok", fails = true, ms = 1 },
      "nil, the source has failed, nil, nil, true true" },
  },
  ["all of a body is sent that the server does not read"] = { notion = "http",
    { "client", { op = "upload", path = "none", ms = 1 }, "204, nil, nil, , true true" },
  },
  ["a body is sent ahead of a connection that is lost"] = { notion = "http",
    { "client", { op = "upload", path = "closed", ms = 1 }, "nil, HOST: no response, nil, nil, true true" },
  },
  ["a body is read ahead of a connection that is refused later"] = { notion = "http", hosts = 2,
    { "client", { op = "upload", path = "body", ms = 10 }, "nil, HOST: refused, nil, nil, true true" },
    { "server", { op = "close" }, "" },
  },
  ["a connection is reset if its other end closes before it has read what has arrived"] = { notion = "websocket",
    setting = {},
    { "server", { op = "all" }, "nil, client HOST: the connection has ended without a close frame: "
      .. "the client has closed the connection" },
    { "client", { op = "wrong" }, "raises no connection: HOST: the handshake was not complete after 40 ms" },
  },
  ["nothing is answered once a server is closed"] = { notion = "http", hosts = 2,
    { "client", { op = "post", path = "closed", body = 1 }, "nil, HOST: no response, nil" },
  },
  ["an error of a server's function is told by a body"] = { notion = "http",
    { "client", { op = "get", path = "raises" }, FAILED },
  },
  ["a wrong result of a server's function is its error, and not the client's"] = { notion = "http", hosts = 2,
    { "client", { op = "get", path = "no_status" }, FAILED },
  },
  ["the error of a response's body stays on the server: the client sees that it is cut"] = { notion = "http",
    { "client", { op = "post", path = "fails", body = 1 }, "nil, HOST: cut, nil" },
  },
  ["a redirect is followed"] = { notion = "http", hosts = 2,
    { "client", { op = "get", path = "head" }, "200, 1, text/plain; charset=utf-8, GET -" },
  },
  ["a server without requests takes time to drain"] = { notion = "http",
    { "server", { op = "drain" }, "false, the server http://HOST/ was not drained within 20 ms" },
  },
  ["a WebSocket whose server is closed says why it has ended"] = { notion = "websocket", setting = {},
    { "server", { op = "write", binary = true, letter = 2 },
      "false, the connection has ended without a close frame: its go block has been cancelled" },
    { "client", { op = "read" }, "nil, HOST: the connection has ended without a close frame" },
    { "peer", { op = "stop" }, "" },
  },
}

describe("a simulated world has what reality has had:", function()
  local names = {}
  for name in pairs(KINDS) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    it(name, function()
      local notion = programs.notion(KINDS[name].notion)
      if notion.missing and notion.missing() then return pending(notion.missing()) end
      assert.is_true(has_outcome(KINDS[name]))
    end)
  end

  it("and runs the same way again, though the collector has taken a process that was closed #ci", function()
    local made = program { notion = "processes", setting = { name = "exits" },
      { "user", { op = "run", name = "ignores_term", max = 1000 }, "" } }
    assert.is_true(#perform.outcomes(made, 1500) > 0)
  end)
end)

describe("check-world", function()
  if not pcall(require, "runnel.sqlite.core") then return pending "runnel.sqlite is not built" end

  -- Two go blocks read a number, and write it with one more; that both write 1 is what reality has.
  local LOST = { notion = "sqlite", setting = { shared = true, wal = true, busy_timeout = 5000 },
    { "a", { op = "increment" }, "1" }, { "b", { op = "increment" }, "1" } }

  it("finds a world in which a statement of SQLite never parks", function()
    assert.is_true(has_outcome(LOST))
    local thread, handle = require "runnel.sqlite.sim_thread", nil
    local wake = thread.wake
    local db <close> = require "runnel.sqlite".open ":memory:"
    local methods = getmetatable(db.handle).__index
    local ask = methods.ask
    function thread.wake() end
    function methods.ask(self, ...)
      local job = ask(self, ...)
      handle = self
      handle:work(true)
      return job
    end
    local ok, has = pcall(has_outcome, LOST)
    thread.wake, methods.ask = wake, ask
    assert.is_true(ok, has)
    assert.is_false(has)
  end)

  it("draws the same program for a number, and a program of each notion", function()
    programs.load()
    local seen = {}
    for seed = 1, 400 do
      local made = programs.make(seed)
      assert.equal(programs.text(made), programs.text(programs.make(seed)))
      seen[made.notion] = true
    end
    for _, notion in ipairs(programs.notions) do assert.is_true(seen[notion.name], notion.name) end
  end)

  it("takes results for an outcome only if they begin as it does", function()
    assert.is_true(programs.is_beginning({ { "1" }, {} }, { { "1", "2" }, { "3" } }))
    assert.is_false(programs.is_beginning({ { "2" }, {} }, { { "1", "2" }, { "3" } }))
    assert.is_false(programs.is_beginning({ { "1", "2", "3" }, {} }, { { "1", "2" }, { "3" } }))
  end)
end)
