-- The options tries and backoff of requests: what is sent again, and when; and netrc.

local http_stage = require "spec.support.http.http_stage"
local raises = require "spec.support.raises"
local rn = require "runnel"
local sim = require "runnel.sim"

if http_stage.missing then
  describe("tries of a request", function() pending(http_stage.missing) end)
  return
end

local http = require "runnel.http"

-- Makes a request of a function that gives these answers in turn, each { status, Retry-After } or an error. Returns the
-- status or the error, how often it was asked, and how much time it took.
local function ask(answers, opts)
  local asked = 0
  return sim.run(function()
    local before = http.fake(function()
      asked = asked + 1
      local answer = answers[asked]
      if type(answer) == "string" then return nil, answer end
      return answer[1], { ["Retry-After"] = answer[2] }
    end)
    local res, err = http.get("http://x/", opts)
    http.fake(before)
    return res and res.status or err, asked, sim.elapsed()
  end)
end

describe("tries of a request", function()
  before_each(http_stage.open)
  after_each(http_stage.close)

  it("repeat it if it failed, or may succeed later, and not otherwise", function()
    for _, case in ipairs {
      { { "refused", { 200 } }, 200, 2 }, { { "a", "b", "c" }, "c", 3 }, { { { 404 }, { 200 } }, 404, 1 },
      { { { 500 }, { 200 } }, 500, 1 }, { { { 429 }, { 502 }, { 504 } }, 504, 3 }, { { { 503 }, { 201 } }, 201, 2 },
    } do
      local result, asked = ask(case[1], { tries = 3, backoff = 10 })
      assert.same({ case[2], case[3] }, { result, asked })
    end
    assert.same({ 503, 1, 0 }, { ask({ { 503 }, { 200 } }, { tries = 1 }) })
    assert.equal(3, (select(2, ask({ "a", "b", "c" }, { backoff = 1 }))))
  end)

  it("wait as long as Retry-After says, but not longer than a minute", function()
    assert.same({ 200, 2, 7000 }, { ask({ { 503, 7 }, { 200 } }, { tries = 2 }) })
    assert.same({ 200, 2, 60000 }, { ask({ { 429, "60" }, { 200 } }, { tries = 2 }) })
    assert.same({ 429, 1, 0 }, { ask({ { 429, 61 }, { 200 } }, { tries = 2 }) })
    local date = os.date("!%a, %d %b %Y %H:%M:%S GMT", os.time() + 3000)
    assert.equal(503, (ask({ { 503, date }, { 200 } }, { tries = 2 })))
    local status, _, elapsed = ask({ { 503, "Sun, 06 Nov 1994 08:49:37 GMT" }, { 200 } }, { tries = 2, backoff = 1000 })
    assert.equal(200, status)
    assert.is_true(elapsed >= 500 and elapsed <= 1000, elapsed)
  end)

  it("do not repeat a URL that is wrong", function()
    assert.equal("not an http:// or https:// URL: ftp://x/", select(2, http.get("ftp://x/", { tries = 9 })))
  end)

  it("repeat a refused connection, and what is idempotent with its body", function()
    local _, err = http.get("http://127.0.0.1:1/", { tries = 2, backoff = 1 })
    assert.match("cannot connect", err)
    local bodies = {}
    local server <close> = assert(http.serve(0, function(req)
      bodies[#bodies + 1] = req:body()
      return #bodies == 1 and 503 or 200
    end))
    for _, opts in ipairs { { method = "PUT" }, { headers = { ["Idempotency-Key"] = "a" } } } do
      bodies = {}
      opts.url, opts.body, opts.tries, opts.backoff = server.url, "text", 2, 1
      assert.equal(200, assert(http.request(opts)).status)
      assert.same({ "text", "text" }, bodies)
    end
  end)

  it("are an error for what must not be done twice, or can be sent once", function()
    raises("request: tries: the server may have done a POST", function()
      http.request { url = "http://x/", body = "a", tries = 2 }
    end)
    raises("request: tries: a body that is a channel", function()
      http.request { url = "http://x/", method = "PUT", body = rn.chan(), tries = 2 }
    end)
    raises("get: tries: an integer of at least 1 expected, got 0", function() http.get("http://x/", { tries = 0 }) end)
    raises("get: backoff: a number of milliseconds", function() http.get("http://x/", { backoff = -1 }) end)
    raises('stream: unknown option "tries"', function() http.stream("http://x/", { tries = 2 }) end)
  end)
end)

describe("netrc", function()
  if http_stage.missing then return pending(http_stage.missing) end
  before_each(http_stage.open)
  after_each(http_stage.close)

  it("gives name and password of the host", function()
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:write "machine 127.0.0.1 login ann password secret\n":close()
    local server <close> = assert(http.serve(0, http.basic_auth(function(req) return 200, nil, req.user end,
      { ann = "secret", bob = "other" })))
    assert.equal("ann", assert(http.get(server.url, { netrc = true, netrc_file = path })).body)
    assert.equal(401, assert(http.get(server.url, { netrc_file = path })).status)
    assert.equal("bob", assert(http.get(server.url, { netrc = true, netrc_file = path, userpwd = "bob:other" })).body)
    os.remove(path)
  end)
end)
