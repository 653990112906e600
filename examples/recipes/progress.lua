-- Progress of many jobs on a terminal, with counts, failures and what remains: the sums of files, 8 at a time. Needs
-- luv.
--
--     runnel progress.lua FILE... >SUMS
--
-- Results come by rn.pmap_unordered, as they are ready: those of rn.pmap wait for the slowest job before them, and a
-- count of them would stand still meanwhile. On a terminal one line is written over and over; elsewhere, as in the log
-- of a CI, a line comes every 10 s.

local rn, uv = require "runnel", require "runnel.uv"

-- Returns a function to call with each result: whether the job has succeeded.
local function progress(total)
  local is_terminal = require("luv").guess_handle(2) == "tty" -- stderr, since the results go to stdout
  local every = is_terminal and 100 or 10000
  local done, failed, start = 0, 0, rn.now()
  local told = is_terminal and -every or start

  local function show(now)
    local left = (now - start) / done * (total - done) / 1000
    io.stderr:write(is_terminal and "\r\27[K" or "", ("%d of %d done, %d failed"):format(done, total, failed),
      left >= 1 and (", about %.0f s left"):format(left) or "", is_terminal and done < total and "" or "\n")
  end

  return function(ok)
    done, failed = done + 1, failed + (ok and 0 or 1)
    local now = rn.now()
    if now - told < every and done < total then return end
    told = now
    show(now)
  end
end

-- A job that fails is a result, too, so that it is counted.
local function sum(path)
  local result, err = uv.run { "sha256sum", "--", path }
  if not result then return { path = path, err = err } end
  if result.code ~= 0 then return { path = path, err = result.stderr } end
  return { path = path, text = result.stdout }
end

local tell, failures = progress(#arg), {}
for result in rn.pmap_unordered(8, sum, arg) do
  if result.text then io.write(result.text) else failures[#failures + 1] = result end
  tell(result.text ~= nil)
end
for _, failure in ipairs(failures) do io.stderr:write(failure.path, ": ", tostring(failure.err), "\n") end
rn.exit(#failures == 0)
