-- Runs the examples of flows as a person does: each in a process of its own.

local commands = require "spec.support.shell"
local rn = require "runnel"
local process = require "spec.support.process"

local contents, shell = commands.contents, commands.run

local function assert_usage(command)
  local output, errors, status = shell(command)
  assert.are.equal("", output)
  assert.is_truthy(errors:find("usage: lua5.4 examples/", 1, true), errors)
  assert.are.equal(2, status)
end

describe("examples/pubsub.lua", function()
  local file
  before_each(function() file = os.tmpname() end)
  after_each(function() os.remove(file) end)

  it("routes lines by topic", function()
    local lines = "rain 3 mm\\nwind 9 kn\\n\\nsnow 1 cm\\nrain 0 mm\\n"
    local output, errors, status = shell(
      ("printf '%s' | lua examples/pubsub.lua rain=%s wind=- rain=-"):format(lines, file)
    )
    assert.are.equal(0, status)
    assert.are.equal("rain 3 mm\nwind 9 kn\nrain 0 mm\n", output)
    assert.are.equal("rain 3 mm\nrain 0 mm\n", contents(file))
    assert.are.equal(("rain: 2 lines to %s\nwind: 1 lines to -\nrain: 2 lines to -\n"):format(file), errors)
  end)

  it("writes each line before it waits for the next", function()
    local output = shell [[
      d=$(mktemp -d); : >$d/out
      { echo a 1
        i=0; until [ "$(wc -l <$d/out)" = 1 ] || [ $i = 500 ]; do sleep 0.05; i=$((i + 1)); done
        cat $d/out >$d/early; echo b; } | lua examples/pubsub.lua a=- >$d/out 2>/dev/null
      cat $d/early; rm -r $d]]
    assert.are.equal("a 1\n", output)
  end)

  it("says how to use it", function()
    assert_usage "lua examples/pubsub.lua"
    assert_usage "lua examples/pubsub.lua rain"
    local _, errors, status = shell "lua examples/pubsub.lua rain=/no/such/folder/file"
    assert.is_truthy(errors:find("/no/such/folder/file: No such file or directory", 1, true), errors)
    assert.are.equal(1, status)
  end)
end)

describe("examples/ratelimit.lua", function()
  it("passes all lines on, no faster than the rate given", function()
    local start = rn.now()
    local output, errors, status = shell "seq 15 | lua examples/ratelimit.lua 100 5"
    assert.is_true(rn.now() - start >= 100)
    assert.are.equal("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n", output)
    assert.are.same({ "", 0 }, { errors, status })
  end)

  it("says how to use it", function()
    for _, arguments in ipairs { "", "x", "0", "-1", "1 0", "1 1.5", "1 x", "1 1 1" } do
      assert_usage("lua examples/ratelimit.lua " .. arguments .. " </dev/null")
    end
  end)
end)

describe("examples/fanout.lua", function()
  it("gives each consumer what its buffer lets through", function()
    local output, errors, status = shell "lua examples/fanout.lua 40 1"
    assert.are.same({ "", 0 }, { errors, status })
    local rows = {}
    for name, count, last in output:gmatch "(%l+, [%l_]+)%(%d+%) +(%d+) +(%d+)" do
      rows[name] = { count = tonumber(count), last = tonumber(last) }
    end
    assert.are.same({ count = 40, last = 40 }, rows["fast, buffer"])
    assert.are.same({ count = 40, last = 40 }, rows["slow, buffer"])
    assert.are.equal(40, rows["slow, sliding_buffer"].last)
    assert.is_true(rows["slow, sliding_buffer"].count < 30)
    assert.is_true(rows["slow, dropping_buffer"].count < 30)
  end)

  it("says how to use it", function()
    for _, arguments in ipairs { "x", "0", "1.5", "1 0", "1 x", "1 1 1" } do
      assert_usage("lua examples/fanout.lua " .. arguments)
    end
  end)
end)

describe("examples/logstat.lua", function()
  -- What the shell finds in the sample, for the n-th word of each line.
  local function counted(field)
    return (shell(([[
      grep -E '"[A-Z]+ /' examples/access.log | awk '{ sub(/\?.*/, "", $7); print $%d }' | sort | uniq -c |
        LC_ALL=C sort -k1,1nr -k2 | head -n 10 | awk '{ print $2, $1 }']]):format(field)))
  end

  -- Runs logstat in a shell command, and returns what `shell` does, but for the lines that come every second.
  local function logstat(command)
    local output, errors, status = shell(command)
    return output, (errors:gsub("%d+ requests so far\n", "")), status
  end

  local function statistics(arguments)
    local output, errors, status = logstat("lua examples/logstat.lua " .. arguments)
    assert.are.same({ "198 requests; 2 lines skipped\n", 0 }, { errors, status })
    return (output:gsub("^[^\n]*\n", ""):gsub(" +(%d+) +%d+\n", " %1\n"))
  end

  it("counts what the shell counts", function()
    assert.are.equal(counted(9), statistics "examples/access.log")
    assert.are.equal(counted(7), statistics "--by path < examples/access.log")
    assert.are.equal(counted(1), statistics "examples/access.log --by address")
  end)

  it("counts the same in threads #ci", function()
    for _, arguments in ipairs { "", "--by path --top 3", "--status 4 --by address" } do
      local here = { logstat(("lua examples/logstat.lua %s examples/access.log"):format(arguments)) }
      for _, threads in ipairs { "--threads", "--threads=3" } do
        local command = "lua examples/logstat.lua %s %s examples/access.log"
        assert.are.same(here, { logstat(command:format(threads, arguments)) })
      end
    end
    -- Several pieces, the last one without a newline.
    local many = "{ for i in 1 2 3 4 5 6 7 8 9; do cat examples/access.log; done; printf 'no line'; } | "
      .. "lua examples/logstat.lua "
    local here = { logstat(many) }
    assert.are.equal("1782 requests; 19 lines skipped\n", here[2])
    assert.are.same(here, { logstat(many .. "--threads=2") })
  end)

  it("filters by status, and prints as many as it was asked for", function()
    local output, errors = logstat "lua examples/logstat.lua --status 4 --by path --top 1 examples/access.log"
    assert.is_truthy(output:find "^path +requests +bytes\n/favicon.ico +%d+ +%d+\n$", output)
    local requests = tonumber(errors:match "^(%d+) requests")
    local all = shell [[grep -cE '" 4[0-9][0-9] ' examples/access.log]]
    assert.are.equal(tonumber(all), requests + 2) -- the two lines without a request have such a status, too
  end)

  it("prints every second how far it has got #slow", function()
    local _, errors = shell [[
      e=$(mktemp)
      { i=0
        until grep -q far $e || [ $i = 500 ]; do head -n 50 examples/access.log; sleep 0.05; i=$((i + 1)); done
        cat examples/access.log; } | lua examples/logstat.lua 2>$e
      cat $e >&2; rm $e]]
    local rest, n = errors:gsub("%d+ requests so far\n", "")
    assert.is_true(n > 0)
    assert.is_truthy(rest:find "^%d+ requests; 2 lines skipped\n$", errors)
  end)

  it("says how to use it on a terminal, and names its sample when there is no line", function()
    local output, errors, status = shell "lua examples/logstat.lua </dev/null"
    assert.are.same({ "status                           requests        bytes\n", 0 }, { output, status })
    assert.matches("^0 requests; 0 lines skipped\n.*standard input is empty; try lua5.4 (%S+ %S+)\n$", errors)
    local sample = errors:match "try lua5.4 ([^\n]+)\n$"
    assert.are.equal("198 requests; 2 lines skipped\n", select(2, logstat("lua " .. sample)))
    if not os.execute "script --version >/dev/null 2>&1" then return pending "there is no script(1)" end
    output, errors, status = shell [[
      lua=$(command -v "${LUA:-lua5.4}"); script -qec "$lua examples/logstat.lua --by path" /dev/null </dev/null]]
    assert.matches("^usage: lua5.4 examples/logstat.lua ", output)
    assert.are.same({ "", 2 }, { errors, status })
  end)

  it("says how to use it, and what it cannot read", function()
    for _, arguments in ipairs { "--by x", "--by", "--top 0", "--top x", "--status x", "--x 1", "a b", "--threads=0",
      "--threads=x", "--threads=" } do
      assert_usage("lua examples/logstat.lua " .. arguments)
    end
    for _, path in ipairs { "/no/such/file", "/" } do
      for _, threads in ipairs { "", "--threads=2 " } do
        local output, errors, status = shell("lua examples/logstat.lua " .. threads .. path)
        assert.are.same({ "", 1 }, { output, status })
        assert.is_truthy(errors:find("logstat: " .. path .. ": ", 1, true), errors)
      end
    end
  end)
end)

describe("examples/crawl.lua", function()
  it("follows all links, tries again what fails, and ends by itself", function()
    local output, errors, status = shell "lua examples/crawl.lua"
    assert.are.same({ "", 0 }, { errors, status })
    local pages = "8 pages: about, cart, home, news, news/1, news/2, shop, team\n"
    assert.are.equal(pages .. "failed: gone (404 Not Found)\n", output)
    assert.are.equal("1 pages: team\n", (shell "lua examples/crawl.lua team"))
  end)

  it("says how to use it", function() assert_usage "lua examples/crawl.lua nowhere" end)
end)

describe("examples/checksum.lua", function()
  local dir

  setup(function()
    dir = process.directory()
    math.randomseed(256)
    -- Around the sizes at which the last block is filled, and larger than what is read at once.
    for _, size in ipairs { 0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 128, 140000 } do
      local bytes = {}
      for i = 1, size do bytes[i] = string.char(math.random(0, 255)) end
      dir:write(("%06d"):format(size), table.concat(bytes))
    end
  end)
  teardown(function() dir:remove() end)

  it("prints what sha256sum prints, with any number of threads #ci", function()
    local sums, _, missing = shell("cd " .. dir.path .. " && sha256sum *")
    if missing ~= 0 then return pending "sha256sum is not installed" end
    for _, threads in ipairs { "", "--threads 1 ", "--threads 5 " } do
      local command = "program=$PWD/examples/checksum.lua; cd %s && lua $program %s*"
      local output, errors, status = shell(command:format(dir.path, threads))
      assert.are.same({ sums, "", 0 }, { output, (errors:gsub("%d+ of %d+ files[^\n]*\n", "")), status })
    end
  end)

  it("goes on after files that it cannot read", function()
    local output, errors, status = shell("lua examples/checksum.lua /no/such/file / " .. dir.path .. "/000000")
    assert.are.same({ 1, 1 }, { status, select(2, output:gsub("\n", "")) })
    assert.matches("^e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  ", output)
    assert.matches("checksum: /no/such/file: No such file or directory\n", errors)
    assert.matches("checksum: /: Is a directory\n", errors)
  end)

  it("says how to use it", function()
    for _, arguments in ipairs { "", "--threads 0 a", "--threads x a", "--threads 1", "--x a" } do
      assert_usage("lua examples/checksum.lua " .. arguments)
    end
  end)
end)
