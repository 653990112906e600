-- Programs of the tree that no spec runs, such as those of tests/ and bench/.

describe("programs that no spec runs", function()
  it("call only functions that the modules have which they require", function()
    local listed <close> = assert(io.popen "ls tests/*.lua tests/*/*.lua bench/*.lua")
    local calls, wrong = 0, {}
    for path in listed:lines() do
      local file <close> = assert(io.open(path))
      local text = file:read "a"
      for name, module in text:gmatch 'local ([%w_]+) = require "([%w_.]+)"\n' do
        local found, fields = pcall(require, module) -- not where it needs a library that is missing
        if found and (module:find "^runnel" or module:find "^spec%.") then
          -- An upper-case letter begins what Go exports, and nats.c is a library.
          for field in text:gmatch("%f[%w_.:/]" .. name .. "%.(%l[%w_]+) ?[({\"]") do
            calls = calls + 1
            local loads, value = pcall(function() return fields[field] end) -- nor where that needs one
            if loads and value == nil then wrong[#wrong + 1] = ("%s: %s.%s of %s"):format(path, name, field, module) end
          end
        end
      end
    end
    assert.equal("", table.concat(wrong, "\n"))
    assert.is_true(calls > 500, calls .. " calls")
  end)
end)
