---Specs that run twice: as they are, and on a host of a simulated world.

local sim = require "runnel.sim"

local MOST = 600000 -- ms of simulated time

---@param it fun(name: string, f: fun()) busted's
---@return fun(name: string, f: fun()) both in place of it
return function(it)
  return function(name, f)
    it(name, f)
    it(name .. ", in a simulated world", function()
      sim.run(function()
        local world, has_ended = sim.world(), false
        world:host("here", function()
          f()
          has_ended = true
        end)
        world:run(MOST)
        assert(has_ended, "it waits for ever")
      end, { leaks = true })
    end)
  end
end
