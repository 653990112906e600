-- uv.watch: changes of what is at a path.

local both = require "spec.support.in_world"(it)
local long = require "spec.support.long"
local patience = require "spec.support.patience"
local process = require "spec.support.process"
local rn = require "runnel"
local stage = require "spec.support.stage"
local uv_stage = require "spec.support.uv_stage"

describe("uv.watch", function()
  local has_luv, luv = pcall(require, "luv")
  if not has_luv then return pending "luv is not installed" end
  local uv = require "runnel.uv"

  before_each(uv_stage.open)
  after_each(uv_stage.close)

  local function directory()
    local path = uv_stage.path()
    assert(luv.fs_mkdir(path, tonumber("700", 8)))
    return path, function() os.execute("rm -rf " .. path) end
  end

  local function touch(path)
    local file = assert(io.open(path, "a"))
    file:write "x"
    file:close()
  end

  it("reports changes of a file", function()
    local path = uv_stage.path "text"
    local changes = uv.watch(path)
    touch(path)
    local change = changes:take()
    assert.equal(path, change.path)
    assert.is_true(change.change)
    changes:close()
  end)

  it("has no go block while nobody waits for a change, and then one that is named after the call", function()
    local path = uv_stage.path "text"
    local changes
    rn.go(function()
      rn.rename "a go block of the program"
      changes = uv.watch(path)
    end):take()
    assert.same({}, rn.ps())
    touch(path)
    local list
    patience.wait_for(function() -- what looks at the path has a go block of its own for a moment
      list = rn.ps()
      return #list == 1 and list[1].name:find "^uv.watch at "
    end)
    assert.matches("^uv.watch at [^\n]*watch_spec.lua:%d+ %-> chan: " .. path:gsub("%p", "%%%0"), list[1].name)
    assert.equal(path, changes:take().path)
    changes:close()
    rn.yield()
    assert.same({}, rn.ps())
  end)

  it("reports the files that are created and removed in a directory", function()
    local path, clear = directory()
    local changes = uv.watch(path)
    touch(path .. "/a")
    local change = changes:take()
    assert.same({ "a", true }, { change.name, change.rename })
    os.remove(path .. "/a")
    repeat change = changes:take() until change.rename
    assert.equal("a", change.name)
    changes:close()
    clear()
  end)

  it("merges the changes of a file that happen while nobody takes", function()
    local path, clear = directory()
    local changes = uv.watch(path)
    for _ = 1, 100 do
      for i = 1, 3 do touch(path .. "/" .. i) end
      rn.sleep(0.1)
    end
    rn.step() -- gets the last changes
    changes:close()
    local list = stage.drain(changes)
    assert.is_true(#list <= 1)
    changes = uv.watch(path)
    for _ = 1, 100 do
      for i = 1, 3 do touch(path .. "/" .. i) end
      rn.sleep(0.1)
    end
    rn.step()
    local seen, n = {}, 0
    while true do
      local change = patience.wait_until(function() return changes:poll() end, n >= 3 and 50 or nil)
      if not change then break end
      seen[change.name] = true
      n = n + 1
    end
    assert.same({ ["1"] = true, ["2"] = true, ["3"] = true }, seen)
    assert.is_true(n <= 4)
    changes:close()
    clear()
  end)

  it("reports a change without a name when there are very many", function()
    local path, clear = directory()
    local changes = uv.watch(path)
    for i = 1, 400 do touch(path .. "/" .. i) end
    rn.sleep(20)
    local names, nameless = 0, 0
    while true do
      local ms = names + nameless >= 257 and 50 or nil
      local change = patience.wait_until(function() return changes:poll() end, ms)
      if not change then break end
      if change.name then names = names + 1 else nameless = nameless + 1 end
    end
    assert.equal(1, nameless)
    assert.is_true(names >= 256 and names <= 258)
    changes:close()
    clear()
  end)

  it("closes with an error if the path does not exist", function()
    assert.same({ nil, "/no/such: ENOENT: no such file or directory" }, { uv.watch("/no/such"):take() })
    assert.same({ nil, "ENOENT: no such file or directory" }, { uv.watch(""):take() })
    local _, err = pcall(function() uv.watch(1) end)
    assert.matches("^spec/uv/watch_spec.lua:%d+: watch: a path expected, got a number", err)
  end)

  -- ---- the watch of a path ----

  -- A folder with a file `conf`, and `data/conf`, where `data` is a link to the folder v1.
  local function place()
    local path, clear = directory()
    os.execute(("cd %s && echo 1 > conf && mkdir v1 && echo 1 > v1/conf && ln -s v1 data && mkdir -p deep/er && "
      .. "echo 1 > deep/er/conf && ln -s deep/er/conf link"):format(path))
    return path .. "/", clear
  end

  -- Whether the changes that come end with the present state of the path. Waits for them.
  local function tells(ch, path)
    local is_there = luv.fs_stat(path) ~= nil
    return patience.wait_for(function()
      local last
      for change in ch.poll, ch do last = change end
      return last and (last.missing or false) == not is_there
    end)
  end

  local WAYS = {
    { "written in place", "echo 2 > conf" },
    { "appended to", "echo 2 >> conf" },
    { "made longer", "truncate -s 9 conf" },
    { "given another mode", "chmod 600 conf" },
    { "replaced by a rename", "echo 2 > new && mv new conf" },
    { "edited by sed -i", "sed -i s/1/2/ conf" },
    { "renamed to a backup and written anew, as vim does", "mv conf conf~ && echo 2 > conf && rm conf~" },
    { "copied to a backup and written in place", "cp conf conf~ && echo 2 > conf" },
    { "removed and written anew", "rm conf && echo 2 > conf" },
    { "removed", "rm conf" },
    { "moved away", "mv conf other" },
    { "moved away and back", "mv conf other && mv other conf" },
    { "written through another hard link", "ln conf other && echo 2 > other" },
    { "replaced by a hard link", "echo 2 > other && ln -f other conf" },
    { "replaced by a link", "echo 2 > other && ln -sf other conf" },
    { "replaced by a folder", "rm conf && mkdir conf" },
    { "behind a link to a folder that is switched", "mkdir v2 && echo 2 > v2/conf && ln -sfn v2 data", "data/conf" },
    { "behind a link that is replaced by a rename", "mkdir v2 && echo 2 > v2/conf && ln -s v2 new && mv -T new data",
      "data/conf" },
    { "a link that leads to another file", "ln -sf ../conf link", "link" },
    { "a link to a file that is replaced", "echo 2 > new && mv new deep/er/conf", "link" },
    { "a link to a file whose folder is moved away", "mv deep other", "link" },
    { "in a folder that is removed", "rm -r deep", "deep/er/conf" },
    { "in a folder that is replaced", "mv deep old && mkdir -p deep/er && echo 2 > deep/er/conf", "deep/er/conf" },
    { "a folder that is removed", "rm -r deep/er", "deep/er" },
    { "a folder that is made anew", "rm -r deep/er && mkdir deep/er", "deep/er" },
  }

  for _, way in ipairs(WAYS) do
    it("tells of a file " .. way[1] .. ", and of what comes later", function()
      local root, clear = place()
      local path = root .. (way[3] or "conf")
      local ch = uv.watch(path)
      assert(os.execute("cd " .. root .. " && " .. way[2]))
      assert.is_true(tells(ch, path))
      -- Whatever happened: it comes, is written to, and goes.
      assert(os.execute(("rm -rf %s && mkdir -p $(dirname %s) && echo 3 > %s"):format(path, path, path)))
      assert.is_true(tells(ch, path))
      touch(path)
      assert.is_true(tells(ch, path))
      os.remove(path)
      assert.is_true(tells(ch, path))
      ch:close()
      clear()
    end)
  end

  it("tells of a save by an editor once", function()
    for _, way in ipairs { "echo 2 > new && mv new conf", "echo 2 >> conf", "rm conf && echo 2 > conf" } do
      local root, clear = place()
      local ch = uv.watch(root .. "conf")
      assert(os.execute("cd " .. root .. " && " .. way)) -- no go block runs meanwhile
      local change = ch:take()
      assert.is_true(change.change)
      assert.is_nil(change.missing)
      for _ = 1, 3 do -- a change that is told ends the look
        touch(root .. "conf")
        assert.same({ path = root .. "conf", change = true }, ch:take())
      end
      ch:close()
      clear()
    end
  end)

  both("begins before there is a file, if it may be missing, and tells when it is there and is gone", function()
    local path = uv_stage.path()
    local ch = uv.watch(path, { missing = true })
    touch(path)
    assert.same({ path = path, change = true, rename = true }, ch:take())
    os.remove(path)
    repeat local change = ch:take() until change.missing
    touch(path)
    assert.same({ path = path, change = true, rename = true }, ch:take())
    ch:close()
    os.remove(path)
  end)

  it("follows the path that it had although the program's directory is another one later", function()
    local root, clear = place()
    local cwd = assert(luv.cwd())
    assert(luv.chdir(root))
    local ch = uv.watch "conf"
    assert(luv.chdir "/")
    assert(os.rename(root .. "deep/er/conf", root .. "conf"))
    local change = ch:take()
    assert(luv.chdir(cwd))
    assert.same({ path = "conf", change = true, rename = true }, change)
    ch:close()
    clear()
  end)

  -- The names of changes, until all of these have come.
  local function wait_for_names(changes, ...)
    local missing, n = {}, 0
    for _, name in ipairs { ... } do missing[name], n = true, n + 1 end
    local err
    local ok = pcall(rn.scope, function()
      while n > 0 do
        local change = assert(changes:take())
        if missing[change.name] then missing[change.name], n = nil, n - 1 end
      end
    end, { timeout = patience.factor() * 20000 })
    if not ok then err = "no change of " .. tostring(next(missing)) end
    assert.is_nil(err)
  end

  both("of a tree tells of files in all folders, also in those that are made, moved or replaced later", function()
    local root = os.tmpname()
    local function at(path) return root .. "/" .. path end
    local function make(path) assert(require("runnel.uv.loop").uv.fs_mkdir(at(path), tonumber("700", 8))) end
    local function write(path)
      local ch = rn.chan(1)
      ch:put "x"
      ch:close()
      assert(uv.write(at(path), ch):take())
    end
    local fs = require("runnel.uv.loop").uv
    os.remove(root)
    assert(fs.fs_mkdir(root, tonumber("700", 8)))
    make "a"
    make "a/b"
    local changes = uv.watch(root, { deep = true })
    write "a/b/file"
    wait_for_names(changes, "a/b/file")
    make "new"
    make "new/below"
    write "new/below/early"
    wait_for_names(changes, "new", "new/below", "new/below/early")
    write "new/below/late"
    wait_for_names(changes, "new/below/late")
    assert(fs.fs_rename(at "a", at "moved"))
    wait_for_names(changes, "a", "moved", "moved/b", "moved/b/file")
    write "moved/b/other"
    wait_for_names(changes, "moved/b/other")
    assert(fs.fs_unlink(at "moved/b/other"))
    assert(fs.fs_unlink(at "moved/b/file"))
    assert(fs.fs_rmdir(at "moved/b"))
    wait_for_names(changes, "moved/b/other", "moved/b/file", "moved/b")
    make "moved/b"
    write "moved/b/again"
    wait_for_names(changes, "moved/b/again")
    changes:close()
    for _, path in ipairs { "moved/b/again", "new/below/early", "new/below/late" } do assert(fs.fs_unlink(at(path))) end
    for _, path in ipairs { "moved/b", "moved", "new/below", "new", "." } do fs.fs_rmdir(at(path)) end
    fs.fs_rmdir(root)
  end)

  it("of a tree begins anew when its folder is replaced", function()
    local path, remove = directory()
    assert(os.execute(("mkdir %s/a"):format(path)))
    local changes = uv.watch(path, { deep = true })
    remove()
    repeat until changes:take().missing
    assert(os.execute(("mkdir -p %s/b/c && touch %s/b/c/d"):format(path, path)))
    wait_for_names(changes, "b", "b/c", "b/c/d")
    touch(path .. "/b/c/later")
    wait_for_names(changes, "b/c/later")
    changes:close()
    remove()
  end)

  it("of a tree ends the watches of what is in a folder that is moved away, and no others", function()
    local path, remove = directory()
    local elsewhere, remove_elsewhere = directory()
    assert(os.execute(("mkdir -p %s/a/b/c %s/ab/c"):format(path, path)))
    local function watches()
      local n = 0
      luv.walk(function(handle)
        if handle:get_type() == "fs_event" and not handle:is_closing() then n = n + 1 end
      end)
      return n
    end
    local before = watches()
    local changes = uv.watch(path, { deep = true })
    local at_first = watches()
    assert(os.rename(path .. "/a", elsewhere .. "/a"))
    wait_for_names(changes, "a")
    assert.is_true(patience.wait_for(function() return watches() == at_first - 3 end))
    touch(elsewhere .. "/a/b/file")
    touch(path .. "/ab/c/file")
    repeat
      local change = changes:take()
      assert.not_matches("^a/", change.name)
    until change.name == "ab/c/file"
    changes:close()
    assert.is_true(patience.wait_for(function() return watches() == before end))
    remove()
    remove_elsewhere()
  end)

  it("of a tree goes on if a folder is removed while it is read", function()
    local loop_uv = require("runnel.uv.loop").uv
    local real, told = loop_uv.fs_scandir_next, false
    finally(function() loop_uv.fs_scandir_next = real end)
    function loop_uv.fs_scandir_next(list) -- luacheck: ignore 122
      if told then return real(list) end
      told = true
      return "removed", "directory"
    end
    local dir, remove = directory()
    local ch = uv.watch(dir, { deep = true })
    assert.is_true(told)
    touch(dir .. "/a")
    assert.equal("a", ch:take().name)
    ch:close()
    remove()
  end)

  it("of a tree says which limit of the system is reached, and at which folder", function()
    local path, remove = directory()
    assert(luv.fs_mkdir(path .. "/below", tonumber("700", 8)))
    local meta = getmetatable(luv.new_fs_event())
    local start = meta.__index.start
    meta.__index.start = function(handle, at, ...)
      if at:find "below" then return nil, "ENOSPC: no space left on device", "ENOSPC" end
      return start(handle, at, ...)
    end
    local changes = uv.watch(path, { deep = true })
    meta.__index.start = start
    local _, err = changes:take()
    assert.equal(path .. "/below: ENOSPC: the system's limit of watches is reached (on Linux "
      .. "fs.inotify.max_user_watches)", err)
    remove()
  end)

  it("of a tree reads it again, and tells so, if events may have been lost #long", function()
    local path, remove = directory()
    assert(luv.fs_mkdir(path .. "/a", tonumber("700", 8)))
    local changes = uv.watch(path, { deep = true })
    -- So many that the queue of the system has no room for all, while the program does not read.
    assert(os.execute(("cd %s/a && seq 12000 | xargs touch && mkdir -p x/y && touch x/y/z"):format(path)))
    local is_told = false
    repeat
      local change = changes:take()
      is_told = is_told or change.name == nil
    until is_told
    local is_seen = false
    patience.wait_for(function()
      touch(path .. "/a/x/y/later")
      rn.sleep(1)
      for change in changes.poll, changes do is_seen = is_seen or change.name == "a/x/y/later" end
      return is_seen
    end)
    changes:close()
    remove()
  end)

  it("of a tree watches its folders where the file system does not say what is one", function()
    local path, remove = directory()
    assert(luv.fs_mkdir(path .. "/below", tonumber("700", 8)))
    local next_entry = luv.fs_scandir_next
    luv.fs_scandir_next = function(list) return (next_entry(list)), "unknown" end
    local changes = uv.watch(path, { deep = true })
    luv.fs_scandir_next = next_entry
    touch(path .. "/below/new")
    local timer = rn.after(5000, changes.close, changes)
    local change = changes:take()
    timer:stop()
    changes:close()
    assert.equal("below/new", change and change.name)
    remove()
  end)

  it("does not follow links in a tree, and says that the option is called deep", function()
    local path, remove = directory()
    local other, remove_other = directory()
    assert(luv.fs_symlink(other, path .. "/link"))
    local changes = uv.watch(path, { deep = true })
    touch(other .. "/file")
    touch(path .. "/file")
    assert.equal("file", changes:take().name)
    changes:close()
    remove()
    remove_other()
    assert.error_matches(function() uv.watch(path, { recursive = true }) end,
      'watch: unknown option "recursive"; known: ')
  end)

  it("closes with the error of links that lead in a circle", function()
    local root, clear = place()
    os.execute(("cd %s && ln -s x y && ln -s y x"):format(root))
    assert.same({ nil, root .. "x: ELOOP: too many symbolic links" }, { uv.watch(root .. "x"):take() })
    clear()
  end)

  it("goes on in a folder that cannot be read while it can tell, and then says why not", function()
    local dir <close> = process.directory()
    dir:write("script.lua", [[
      local uv = require "runnel.uv"
      local ch = uv.watch "shut/conf"
      for i = 1, 3 do
        io.open("act" .. i, "w"):close()
        local change, err = ch:take()
        print(change and change.change, change and change.rename, err)
      end
    ]])
    -- Without these capabilities, root is as any user.
    local result = process.run(dir.path, ([[
      mkdir shut && echo 1 >shut/conf && chmod 711 shut && chown -R 1 shut || exit
      weak() { setpriv --bounding-set=-dac_override,-dac_read_search "$@"; }
      if ! weak true || weak ls shut >shut.list; then echo impossible; exit; fi 2>/dev/null
      weak '%s' script.lua &
      until [ -e act1 ]; do sleep 0.01; done; echo 2 >>shut/conf
      until [ -e act2 ]; do sleep 0.01; done; echo 3 >new; mv new shut/conf
      until [ -e act3 ]; do sleep 0.01; done; rm shut/conf
      wait
    ]]):format(assert(luv.fs_realpath(process.runnel))))
    if result.out:find "impossible" then return pending "nothing is unreadable here" end
    assert.same({ "true\tnil\tnil\ntrue\ttrue\tnil\nnil\tnil\tshut/conf: EACCES: permission denied: its folder "
      .. dir.path .. "/shut must be readable\n", "" }, { result.out, result.err })
  end)

  it("says that the limit of watches is reached", function()
    local meta = getmetatable(luv.new_fs_event())
    local start = meta.__index.start
    meta.__index.start = function() return nil, "ENOSPC: no space left on device", "ENOSPC" end
    local _, err = uv.watch("/"):take()
    meta.__index.start = start
    assert.equal("/: ENOSPC: the system's limit of watches is reached (on Linux fs.inotify.max_user_watches)", err)
  end)

  it("follows the path through random acts on files, folders and links", function()
    local names = { "f", "a", "a/f", "a/b", "a/b/f", "l", "a/l", "g" }
    local targets = { "f", "a", "a/b", "../f", "b", "l", "/ROOT/a", "a/b/f", ".", ".." }
    local watched = { "f", "a", "a/f", "a/b/f", "l", "l/f", "a/l", "a/l/b/../f" }
    local root, sign

    local function pick(list) return list[math.random(#list)] end
    local acts = {
      function(path) io.open(path, "w"):write("x"):close() end,
      function(path) io.open(path, "a"):write("x"):close() end,
      function(path) luv.fs_unlink(path) end,
      function(path) luv.fs_rmdir(path) end,
      function(path) luv.fs_mkdir(path, 448) end,
      function(path) luv.fs_symlink(pick(targets):gsub("/ROOT", root), path) end,
      function(path) luv.fs_rename(path, root .. "/" .. pick(names)) end,
      function(path) luv.fs_link(path, root .. "/" .. pick(names)) end,
      function(path) luv.fs_chmod(path, 448) end,
    }

    -- What is at the path, but for the times when its names changed.
    local function state(path)
      local stat = luv.fs_stat(path)
      return stat and ("%d %d %d %d %d"):format(stat.ino, stat.size, stat.mode, stat.mtime.sec, stat.mtime.nsec)
    end

    for _ = 1, long.times(5, 100) do
      local top = directory()
      root, sign = top .. "/1/2/3/4/5/6/7/8/9", uv_stage.path "" -- so deep that links to ".." stay below the top
      os.execute("mkdir -p " .. root)
      local signs, channels, before, story = uv.watch(sign), {}, {}, {}
      for i, name in ipairs(watched) do
        channels[i] = uv.watch(root .. "/" .. name, { missing = true })
        before[i] = state(root .. "/" .. name)
      end
      for n = 1, 60 do
        local act, path = math.random(#acts), root .. "/" .. pick(names)
        local ok = pcall(acts[act], path)
        story[n] = ("%d %s %s"):format(act, path, ok)
        for _ = 1, 3 do
          touch(sign)
          assert(signs:take())
        end
        for i, name in ipairs(watched) do
          local now, last = state(root .. "/" .. name), nil
          for change in channels[i].poll, channels[i] do
            if not change.name then last = change end
            for _ = 1, 4 do rn.yield() end
          end
          local told = table.concat(story, "\n") .. "\n" .. name
          -- A folder changes with what is in it, of which its names tell.
          local is_folder = now and luv.fs_stat(root .. "/" .. name).type == "directory"
          if now ~= before[i] and not is_folder then assert(last, told) end
          if last then assert.equal(now == nil, last.missing or false, told) end
          before[i] = now
        end
      end
      for _, ch in ipairs(channels) do ch:close() end
      signs:close()
      os.execute("rm -rf " .. top)
    end
  end)
end)
