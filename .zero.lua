
local rn, http = require "runnel", require "runnel.http"
local res, err = http.get(arg[1] .. "ok\0/secret", { timeout = 5000 })
print("a", res and res.body, err)
local server <close> = assert(http.serve(0, function(req) return 200, { ["x-a"] = "a\0b" }, req.path end))
local res = assert(http.get(server.url))
print("b", res.status, ("%q"):format(res.headers["x-a"]))
