-- Which allocator a state has after `require "runnel"`: seen from outside, by the addresses that the process has.
-- tests/allocator.c checks what the allocator does.
local shell = require "spec.support.shell"

describe("the allocator", function()
  -- The GB of addresses of a process that requires runnel, and what it printed.
  local function gigabytes(before)
    local out, err, status = shell.run(before .. [[ lua -e '
      local rn = require "runnel"
      local ch = rn.chan()
      for i = 1, 1000 do rn.go(function() ch:put({ i }) end) end
      local sum = 0
      for i = 1, 1000 do sum = sum + ch:take()[1] end
      assert(sum == 500500)
      for line in io.lines "/proc/self/status" do
        local kb = line:match "^VmSize:%s*(%d+) kB"
        if kb then print(kb // 2 ^ 20) end
      end
    ']])
    assert.equal("", err)
    assert.equal(0, status)
    return tonumber(out)
  end

  -- Sanitizers reserve addresses, too; valgrind has RUNNEL_MALLOC.
  local function it_where_known(name, f)
    it(name, function()
      if not io.open "/proc/self/status" then return pending "the system does not say what addresses it has" end
      if os.getenv "RUNNEL_MALLOC" or gigabytes "RUNNEL_MALLOC=1" > 4 then return pending "it is watched by a tool" end
      f()
    end)
  end

  it_where_known("reserves addresses for small objects, but few of the 4 GB of a process of 32 bits", function()
    assert.equal(string.packsize "T" > 4 and 16 or 0, gigabytes "")
  end)

  it_where_known("is malloc if the environment has RUNNEL_MALLOC", function()
    assert.equal(0, gigabytes "RUNNEL_MALLOC=1")
  end)

  it_where_known("is malloc if there are not enough addresses", function()
    assert.equal(0, gigabytes "ulimit -v 4000000;")
  end)
end)
