-- runnel child.lua NAME: runs one of children.lua as a process.

local rn = require "runnel"
local uv = require "runnel.uv"

package.path = (arg[0]:match "^(.*/)tests/world/" or "./") .. "?.lua;" .. package.path
local f = require("tests.world.children")[arg[1]]

local stdout, stderr = rn.chan(), rn.chan()
local written, complained = uv.write(1, stdout), uv.write(2, stderr)
local status = f({ arg[1] }, uv.stdin(), stdout, stderr)
stdout:close()
stderr:close()
written:take()
complained:take()
rn.exit(status or 0)
