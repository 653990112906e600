
local rn, http = require "runnel", require "runnel.http"
print("client", ("%q"):format(assert(http.get(arg[1])).headers["x-a"]))
local server = assert(http.serve(0, function(req) for k, v in pairs(req.headers) do print("server", k, v) end return 200 end))
io.open(".port", "w"):write(server.port):close()
rn.sleep(3000) os.exit(0)
