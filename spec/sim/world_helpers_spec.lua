-- The functions around functions of http.serve, and forms, between hosts of a simulated world: also while connections
-- are reset and servers crash.

local rn = require "runnel"
local search = require "spec.support.search"
local sim = require "runnel.sim"
local uv_stage = require "spec.support.uv_stage"

local has_luv = pcall(require, "luv")
local has_http, http = pcall(require, "runnel.http")
has_http = has_http and pcall(function() return http.get end) and pcall(function() return http.serve end)

describe("in a simulated world", function()
  if not has_luv then return pending "luv is not installed" end
  if not has_http then return pending "libcurl is not installed" end
  before_each(uv_stage.open)
  after_each(uv_stage.close)

  local OPEN <const> = { host = "0.0.0.0" }

  it("limits, passwords, origins and compression hold together, for clients of several hosts", function()
    local seen = {}
    sim.run(function()
      local world = sim.world()
      local function page() return 200, nil, ("some text "):rep(1000) end
      world:host("server", function()
        local f = http.basic_auth(http.compress(page, { secrets = true }), { ann = "secret" })
        f = http.cors(f, { origins = { "https://app.example" }, allow_credentials = true, methods = { "PUT" } })
        assert(http.serve(80, http.limit(f, 4, 60000), OPEN))
      end)
      local function client(name, f)
        world:host(name, function()
          rn.sleep(1)
          local function ask(opts)
            opts.url = "http://server/"
            local response = assert(http.request(opts))
            seen[#seen + 1] = name .. " " .. response.status
            return response
          end
          f(ask)
        end)
      end
      client("ann", function(ask)
        local LOGIN <const> = "Basic YW5uOnNlY3JldA=="
        local asked = ask { method = "OPTIONS", headers = { Origin = "https://app.example",
          ["Access-Control-Request-Method"] = "PUT" } }
        assert.equal("https://app.example", asked.headers["access-control-allow-origin"])
        local response = ask { headers = { Authorization = LOGIN, Origin = "https://app.example",
          ["Accept-Encoding"] = "gzip" } }
        assert.same({ "gzip", "true" }, { response.headers["content-encoding"],
          response.headers["access-control-allow-credentials"] })
        assert.matches("Origin", response.headers.vary)
        local other = ask { headers = { Authorization = LOGIN, Origin = "https://other.example" } }
        assert.is_nil(other.headers["access-control-allow-origin"])
        ask { headers = { Authorization = "Basic YW5uOmd1ZXNz" } }
        local refused = ask {}
        rn.sleep(tonumber(refused.headers["retry-after"]) * 1000)
        ask { headers = { Authorization = LOGIN } }
      end)
      client("bob", function(ask)
        rn.sleep(100)
        assert.matches("^Basic realm=", ask({}).headers["www-authenticate"])
      end)
      world:run()
    end, { leaks = true })
    assert.same({ "ann 204", "ann 200", "ann 200", "ann 401", "ann 429", "bob 401", "ann 200" }, seen)
  end)

  it("a limit that processes count in a bucket holds in every order, also when one of them crashes", function()
    if not pcall(require, "runnel.sqlite.core") then return pending "libsqlite3 is not installed" end
    local stores = require "runnel.store"
    local function test(is_shared)
      local world, answered = sim.world(), 0
      local server = world:host("server", function()
        for port = 1, 2 do
          local store = is_shared and stores.open "/limits.db"
          local bucket = is_shared and assert(store:kv "limits") or nil
          assert(http.serve(port, http.limit(function() return 200 end, 2, 3600000, { bucket = bucket }), OPEN))
        end
      end)
      world:host("client", function()
        rn.sleep(10)
        for i = 1, 4 do
          local response = http.get(("http://server:%d/"):format(i % 2 + 1))
          if response and response.status == 200 then answered = answered + 1 end
          if i == 2 and sim.choose(2) == 2 then
            server:crash()
            server:restart()
            rn.sleep(10)
          end
        end
      end)
      world:run()
      if answered > 2 then error("answered " .. answered, 0) end
    end
    search.finds_bug("answered 4", test)
  end)

  it("a form that is cut leaves no file behind, and one that is answered has left a whole one", function()
    search.finds_nothing(function()
      local world, answer = sim.world { faults = { reset = 1 } }, nil
      local saved, calls = {}, 0
      world:host("server", function()
        assert(http.serve(80, http.compress(function(req)
          calls = calls + 1
          local path = "/" .. calls
          local ok, form, err, status = pcall(req.form, req, { file = function(part) return part:save(path) end })
          local file <close> = io.open(path)
          saved[calls] = file and file:read "a" or "none"
          if not ok then return 400 end
          if not form then return status, nil, err end
          return 200, nil, form.fields.title
        end), OPEN))
      end)
      world:host("client", function()
        rn.yield()
        local data, body = "0123456789", rn.chan(1)
        local pieces = { '--b\r\nContent-Disposition: form-data; name="title"\r\n\r\nT\r\n--b\r\n',
          'Content-Disposition: form-data; name="f"; filename="f"\r\n\r\n01234', "56789", "\r\n--b--" }
        local last = sim.choose(#pieces + 1) - 1 -- the last piece that is sent
        rn.go(function()
          for i = 1, last do
            if not body:put(pieces[i]) then return end
            rn.sleep(sim.choose(2) == 1 and 0 or 1)
          end
          body:close(last < #pieces and "the disk of the client is broken" or nil)
        end)
        local response = http.request { url = "http://server/", method = "POST", body = body,
          headers = { ["Content-Type"] = "multipart/form-data; boundary=b" } }
        answer = response and response.status .. " " .. response.body
        rn.sleep(1000)
        for _, text in ipairs(saved) do assert(text == "none" or text == data, "a part of the file is left") end
        if answer then assert(last == #pieces and answer == "200 T" and saved[1] == data, tostring(answer)) end
        assert(calls <= 1, "a form was sent twice")
      end)
      world:run()
    end)
  end)

  it("a compressed body that is cut is an error, and never a shorter body", function()
    local lib = require "runnel.http.curl"
    search.finds_nothing(function()
      local world, got = sim.world { faults = { reset = 1 } }, {}
      local text = {}
      for i = 1, 3000 do text[i] = tostring(i * 7919 % 10007) end
      local whole = table.concat(text)
      world:host("server", function()
        assert(http.serve(80, http.compress(function(req)
          local body, err = req:body()
          got[#got + 1] = body or tostring(err)
          return 200, nil, whole
        end), OPEN))
      end)
      world:host("client", function()
        rn.yield()
        local packed = lib.deflater(6):deflate(whole, "finish")
        local response = http.request { url = "http://server/", method = "PUT", body = packed,
          headers = { ["Content-Encoding"] = "gzip", ["Accept-Encoding"] = "gzip" } }
        if response then
          local inflater = lib.inflater()
          assert.equal("gzip", response.headers["content-encoding"])
          assert(inflater:inflate(response.body, 1 << 20) == whole and inflater:is_whole(), "a shorter body")
        end
        rn.sleep(100)
        for _, body in ipairs(got) do assert(body == whole or #body < 200, "a part of the body counts as all") end
      end)
      world:run()
    end)
  end)
end)
