---Specs have a short form, for every change, and a long form, for a release: `make test LONG=1`, which is
---`make check-specs-long`.
---
---They differ in how often something is repeated: see `times`. A spec that only the long form runs has the tag #long.
---The other tags:
--- - #ci: it takes more than about 0.3 s of processor time. `make test` and the run under valgrind
---   leave it out; CI runs it, by `make check-specs-rest`.
--- - #heavy: the same, and it computes so much that runs with gcc's sanitizers and under valgrind leave it out, too.
--- - #slow: it waits in real time. All runs with sanitizers leave it out.

local long = {}

---Whether this is the long form.
long.is_long = (os.getenv "RUNNEL_LONG" or "") ~= ""

---A number that CI takes from the commit, so that the short form tries other cases there with each commit; else 0. A
---failure names its case.
---@type integer
long.turn = tonumber(os.getenv "RUNNEL_TURN" or 0)

---How often to do something.
---@param short integer
---@param often integer
---@return integer
function long.times(short, often) return long.is_long and often or short end

---Whether to try the i-th of some cases, of which the short form tries every n-th, with each commit others.
---@param i integer
---@param n integer
---@return boolean
function long.tries(i, n) return long.is_long or (i + long.turn) % n == 0 end

return long
