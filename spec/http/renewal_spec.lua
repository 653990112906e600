-- A certificate that certbot or lego renews, while a server answers requests: the recipe of docs/manual/tls.md.

local http_stage = require "spec.support.http.http_stage"
local certificates = not http_stage.missing and require "spec.support.tls" -- which needs luv
local patience = require "spec.support.patience"
local rn = require "runnel"

if not certificates or not pcall(require, "runnel.tls") or not certificates.has "openssl" then
  describe("a renewed certificate", function() pending "luv, libcurl or OpenSSL is not installed" end)
  return
end

local http = require "runnel.http"
local tls = require "runnel.tls"
local luv = require "luv"
local uv = require "runnel.uv"

describe("a renewed certificate", function()
  before_each(http_stage.open)
  after_each(http_stage.close)

  it("is shown after a signal, and no request is lost, also while its files do not fit each other #ci", function()
    local folder = certificates.folder()
    local live = folder.path .. "/live"
    assert(luv.fs_mkdir(live, 0x1C0))
    certificates.certify(folder, "renewed", { names = "DNS:localhost" })
    -- As certbot does it: links to files that stay.
    local function link(name, to)
      assert(luv.fs_symlink(folder.path .. "/" .. to, live .. "/new"))
      assert(luv.fs_rename(live .. "/new", live .. "/" .. name))
    end
    link("fullchain.pem", "cert")
    link("privkey.pem", "key")

    local context = assert(tls.server { cert = live .. "/fullchain.pem", key = live .. "/privkey.pem" })
    local hups, reloads = uv.signal "hup", {}
    rn.go(function()
      for _ in hups do reloads[#reloads + 1] = { context:reload() } end
    end)
    local function reload()
      local n = #reloads
      luv.kill(luv.os_getpid(), "sighup")
      patience.wait_for(function() return #reloads > n end)
      return table.unpack(reloads[n + 1], 1, 2)
    end

    local server <close> = assert(http.serve(0, function()
      rn.sleep(1)
      return 200, nil, "hello"
    end, { tls = context }))
    local url, answered, asking = ("https://localhost:%d/"):format(server.port), 0, true
    local function subject()
      return assert(http.get(url, { cainfo = folder.path .. "/ca", certificates = true })).certificates[1].subject
    end
    local clients = {}
    for i = 1, 4 do -- two on kept connections, two on new ones
      clients[i] = rn.go(function()
        while asking do
          local res = assert(http.get(url, { cainfo = folder.path .. "/ca", fresh_connect = i > 2 }))
          assert.equal("hello", res.body)
          answered = answered + 1
        end
        return true
      end)
    end
    local function more()
      local n = answered
      patience.wait_for(function() return answered > n + 20 end)
    end

    more()
    assert.matches("CN ?= ?localhost", subject())
    link("fullchain.pem", "renewed")
    local ok, err = reload() -- too early: the key is not there yet
    assert.is_nil(ok)
    assert.is_string(err)
    more()
    assert.matches("CN ?= ?localhost", subject())
    link("privkey.pem", "renewed_key")
    assert.is_true((reload()))
    assert.matches("CN ?= ?renewed", subject())
    more()
    asking = false
    for _, client in ipairs(clients) do assert.is_true((assert(client:take()))) end
    hups:close()
    folder:remove()
  end)
end)
