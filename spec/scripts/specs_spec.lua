-- scripts/specs.lua: runs spec files, each in a process of its own.

local process = require "spec.support.process"

describe("scripts/specs.lua", function()
  local dir
  before_each(function()
    dir = process.directory()
    for _, name in ipairs { "a", "b", "c", "d", "e" } do
      dir:write(name .. "_spec.lua", ("describe('%s', function() it('passes', function() end) end)"):format(name))
    end
  end)
  after_each(function() dir:remove() end)

  -- Runs it, and returns the names of the files that ran, the result, and its last line.
  local function run(share)
    local result = process.run(dir.path, ([[cd "$OLDPWD" && export SPEC_SHARE='%s' SPEC_LIMIT=0 UNDER= BUILD='%s'
      "${LUA:-lua5.4}" scripts/specs.lua '%s']]):format(share, dir.path, dir.path))
    local names = {}
    for name in result.out:gmatch "([a-e])_spec%.lua" do names[#names + 1] = name end
    return table.concat(names), result, result.out:match "([^\n]*)\n$"
  end

  it("runs all files without SPEC_SHARE", function()
    local names, result, sum = run ""
    assert.same({ "abcde", 0 }, { names, result.status }, result.out)
    assert.matches("^5 successes / 0 failures / 0 errors / 0 pending : ", sum)
  end)

  it("runs each file in one of the shares #ci", function()
    for share, expected in pairs { ["1/2"] = "ace", ["2/2"] = "bd", ["1/1"] = "abcde", ["3/3"] = "c" } do
      local names, result, sum = run(share)
      assert.same({ expected, 0 }, { names, result.status }, result.out)
      assert.matches(("share %s: %d of 5 files\n"):format(share, #expected), result.out)
      assert.matches(("^%d successes / "):format(#expected), sum)
    end
  end)

  it("has a share of its own, and not for the commands of a spec", function()
    dir:write("a_spec.lua", "it('has none', function() assert.is_nil(os.getenv 'SPEC_SHARE') end)")
    local names, result = run "1/2"
    assert.same({ "ace", 0 }, { names, result.status }, result.out)
  end)

  it("refuses a share that is none", function()
    for _, share in ipairs { "0/2", "3/2", "1", "1/0", "a/2", "1/2/3", "-1/2", "1.0/2" } do
      local names, result = run(share)
      assert.same({ "", 2 }, { names, result.status }, result.out)
      assert.is_truthy(result.err:find(
        ('SPEC_SHARE is "%s", and must be I/N with I from 1 to N, such as 1/2'):format(share), 1, true))
    end
  end)

  it("leaves no temporary files, also of a process that was killed", function()
    dir:write("a_spec.lua", ([[it("is killed", function()
      local file, path = assert(io.open("%s/left", "w")), os.tmpname()
      assert(os.execute(("cp %%s %%s-wal && mktemp -d >>%s/made"):format(path, path)))
      file:write(path, "\n")
      file:close()
      os.execute "kill -9 $PPID"
    end)]]):format(dir.path, dir.path))
    local _, result = run "1/5"
    assert.equal(1, result.status)
    local left = dir:read "left" .. dir:read("left"):gsub("\n", "-wal\n") .. dir:read "made"
    local n = 0
    for path in left:gmatch "[^\n]+" do
      n = n + 1
      assert.is_nil(io.open(path), path)
    end
    assert.equal(3, n)
  end)
end)
