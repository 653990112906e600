-- The commands of a prompt for flows.

local terminal = require "spec.support.terminal"

-- These specs wait for a real terminal.
describe("flows at the prompt #slow", function()
  if not terminal.available then
    pending "tmux is missing"
    return
  end

  local dir, term
  before_each(function()
    dir = terminal.begin()
    term = terminal.prompt()
    term:paste [[
flow = require "runnel.flow"
f = flow("job", {
  source = { source = function(put) for i = 1, 1e9 do rn.sleep(1) put(i) end end },
  parse = function(v) return { n = v } end,
  save = function(v) last = v.n end,
  "source > parse > save",
}):start()
]]
    term:expect "%[2%]>$"
  end)
  after_each(terminal.finish)

  it("are those that were started last, without a name", function()
    term:type ":pause pa"
    term:press "Tab"
    term:expect "> :pause parse$"
    term:press "Enter"
    term:expect "\nparse +paused"
    term:enter ":flow"
    term:expect ":flow\njob +running"
    term:enter ":tap save"
    term:expect "any key ends this"
    term:press "q"
    term:enter "f:stop()"
    term:expect "values? left"
    term:enter ":resume"
    term:expect ":resume needs a flow, and none runs: show one first, as in :flow f\n"
  end)

  it("are shown, paused, resumed and tapped, with completion", function()
    term:enter ":flow 42"
    term:expect ":flow needs a flow, got 42\n"
    term:enter ":flow f"
    term:expect "\njob +running +busy.-\nsource +running.-\nparse +running.-\nsave +running"
    term:type ":pause pa"
    term:press "Tab"
    term:expect "> :pause parse$"
    term:press "Enter"
    term:expect "\nparse +paused"
    term:enter ":resume parse"
    term:expect ":resume parse\n.-\nparse +running"
    term:enter ":pause"
    term:expect ":pause\n.-\nsource +paused.-\nparse +paused.-\nsave +paused"
    term:enter ":resume"
    term:expect ":resume\n.-\nsource +running"
    term:type ":tap pars"
    term:press "Tab"
    term:press "C-u"
    term:enter ":tap parse"
    term:expect "any key ends this\nparse %-> { n = %d+ }\nparse %-> { n = %d+ }\n"
    term:press "q"
    term:enter ":pause nope"
    term:expect "nope"
  end)

  it("get and lose stages, and are written as a script as they are then", function()
    term:enter "f:add { twice = function(v) return { n = 2 * v } end, 'source > twice > save' }"
    term:expect "\nsource +running[^\n]+> parse, > twice\n.-\ntwice +running"
    term:enter "f:remove 'parse'"
    term:enter ":flow"
    term:expect ":flow\njob +running[^>]+> twice\nsave [^>]+\ntwice [^>]+> save"
    term:enter ":save flow"
    term:expect "\nflow job written to job.lua, stages: 3\n"
    local text = dir:read "job.lua"
    assert.matches('"source > twice > save"', text, 1, true)
    assert.matches("function%(v%) return { n = 2 %* v } end", text)
    assert.not_matches("parse", text)
    assert(load(text))
    term:enter ":save flow"
    term:expect "\njob.lua already exists\n"
  end)
end)
