---`runnel` with all of its modules loaded, so that no file is read when a name is first used.
---
---    local rn = require "runnel.all"
---
---It returns the same as `require "runnel"`. For a program that cannot read Lua files later: because it changes its
---directory and `package.path` is relative, or because it may run out of file descriptors. Modules such as `runnel.sim`
---and `runnel.uv`, which a program requires itself, load everything when they are required.

local require = require
local rn = require "runnel"
for _ in pairs(rn) do end -- pairs loads what is not loaded yet
require "runnel.threads.module_job" -- of rn.pipeline
local load_uv = require "runnel.internal.living".load_uv
if load_uv then load_uv() end

return rn
