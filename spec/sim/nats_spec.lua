-- What the NATS server of a simulated world does is what nats-server 2.9.10 does: the same scripts run on both, and
-- what they get is compared. Where a later nats-server answers otherwise, the spec says what, and since which version.

local guard = require "runnel.internal.guard"
local json = require "runnel.json"
local nats_server = require "spec.support.queue.nats_server"
local rn = require "runnel"
local sim = require "runnel.sim"
local stage = require "spec.support.stage"

local nats, missing = nats_server.library()

-- Times, and what only a real server or a newer one says, are not compared.
local IGNORED = { created = true, first_ts = true, last_ts = true, time = true, allow_direct = true,
  mirror_direct = true, sealed = true, deny_delete = true, deny_purge = true, allow_rollup_hdrs = true,
  replay_policy = true, num_waiting = true }

-- Copies what is compared.
local function plain(value)
  if type(value) ~= "table" then return value end
  local copy = {}
  for key, element in pairs(value) do
    if not IGNORED[key] then copy[key] = plain(element) end
  end
  return copy
end

-- Copies of `found` the part that `wanted` has, too.
local function part(found, wanted)
  if type(found) ~= "table" or type(wanted) ~= "table" then return found end
  local copy = {}
  for key, element in pairs(wanted) do copy[key] = part(found[key], element) end
  return copy
end

-- A text for a value, with sorted keys.
local function text_of(value)
  if type(value) ~= "table" then return type(value) == "string" and ("%q"):format(value) or tostring(value) end
  local keys, parts = {}, {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for i, key in ipairs(keys) do parts[i] = ("%s=%s"):format(key, text_of(value[key])) end
  return "{" .. table.concat(parts, " ") .. "}"
end

local function new_log()
  local lines = {}
  return lines, function(...)
    local line = table.pack(...)
    for i = 1, line.n do line[i] = plain(line[i]) end
    lines[#lines + 1] = line
  end
end

local function on_server(script)
  local lines, log = new_log()
  local server <close> = nats_server.start()
  local conn <close> = assert(nats.connect(server.url, { reconnect_wait = 20 }))
  script(conn, log, {
    restart = function(...)
      local events = conn:events()
      server:wait_until_written(...)
      server:kill()
      server:start()
      repeat until events:take().event == "reconnected"
      events:close()
    end,
    connect = function() return assert(nats.connect(server.url)) end,
    -- Keeps files of a stream (nats_server.lua), for `lose` to bring back: what was written since is lost.
    keep = function(stream, files, ...)
      if ... then server:wait_until_written(stream, ...) end
      server:keep(stream, files)
    end,
    lose = function(stream, files, ...)
      local events = conn:events()
      if ... then server:wait_until_written(stream, ...) end
      server:kill()
      server:bring_back(stream, files)
      server:start()
      repeat until events:take().event == "reconnected"
      events:close()
    end,
  })
  return lines
end

local function in_world(script, seed)
  local lines, log = new_log()
  sim.run(function()
    local world = sim.world()
    local server = world:nats("server", { sync_interval = 60000 })
    world:host("client", function()
      local conn <close> = assert(nats.connect("nats://server", { reconnect_wait = 20 }))
      script(conn, log, {
        restart = function()
          local events = conn:events()
          rn.sleep(1000) -- by then all is written
          server:kill()
          server:restart()
          repeat until events:take().event == "reconnected"
          events:close()
        end,
        connect = function() return assert(nats.connect "nats://server") end,
        keep = function() rn.sleep(1000) end, -- by then all is written
        lose = function(_, files)
          local events = conn:events()
          if files == "msgs" then -- and not what the consumer has done
            rn.sleep(1000)
            server:crash()
          else
            server:kill()
          end
          server:restart()
          repeat until events:take().event == "reconnected"
          events:close()
        end,
      })
    end)
    world:run()
  end, { seed = seed })
  return lines
end

-- Calls a function of JetStream's API.
local function api(conn, verb, body)
  local message, err = conn:request("$JS.API." .. verb, body and json.encode(body) or "", { timeout = 10000 })
  return message and json.decode(message.data) or err
end

-- Publishes to a stream, and returns its answer.
local function store(conn, subject, text, headers)
  local message, err = conn:request(subject, text, { timeout = 10000, headers = headers })
  return message and json.decode(message.data) or err
end

-- Makes a stream, and a consumer "c" of it if there are settings for it.
local function make(conn, name, config, consumer)
  config.name = name
  api(conn, "STREAM.CREATE." .. name, config)
  if not consumer then return end
  consumer.durable_name, consumer.ack_policy = "c", consumer.ack_policy or "explicit"
  return api(conn, ("CONSUMER.DURABLE.CREATE.%s.c"):format(name), { stream_name = name, config = consumer })
end

-- Waits until a number in what the server says of a consumer is n: it may take a moment. Returns all that it says.
local function info_with(conn, stream, name, n, consumer)
  local verb = ("CONSUMER.INFO.%s.%s"):format(stream, consumer or "c")
  for _ = 1, 1000 do
    local info = api(conn, verb)
    if info[name] == n then return info end
    rn.sleep(10)
  end
  error(("%s never says that %s is %d"):format(verb, name, n))
end

-- Waits until a consumer counts n messages that it has not delivered yet. nats-server tells consumers of a stored
-- message after it has answered the publisher, and each delivery says how many later messages its consumer knows of.
local function count(conn, stream, n, consumer) info_with(conn, stream, "num_pending", n, consumer) end

-- How long a message may take to come, ms.
local LONG <const> = 10000

-- Requests messages from a consumer. Returns a function that takes the next message, or what the server says.
local function pull(conn, stream, request, consumer)
  local inbox = conn:inbox()
  local ch = conn:subscribe(inbox, { buffer = 100 })
  conn:publish(("$JS.API.CONSUMER.MSG.NEXT.%s.%s"):format(stream, consumer or "c"), json.encode(request),
    { reply = inbox })
  return function(ms)
    local timer = guard.timer(ms or LONG)
    local message, port = rn.alts { ch, timer }
    if port == timer then return { subject = "nothing", data = "" } end
    rn.cancel(timer)
    return message
  end, ch
end

-- What is compared of a message.
local function shown(message)
  local ack = message.reply and message.reply:gsub("^%$JS%.ACK%.", ""):gsub("%.%d+(%.%d+)$", ".TIME%1")
  local inbox = message.subject:find "^_INBOX" and "INBOX" or message.subject
  return { subject = inbox, data = message.data, ack = ack, status = message.status, description = message.description,
    pending = message.headers and message.headers["Nats-Pending-Messages"],
    size = message.headers and message.headers["Nats-Msg-Size"], a = message.headers and message.headers.A }
end

local MS <const> = 1000000 -- ns
local SOON <const> = { batch = 1, expires = 20000 * MS }

-- Pulls one message. Returns it.
local function next_message(conn, stream, consumer)
  local take, ch = pull(conn, stream, SOON, consumer)
  local message = take()
  ch:close()
  return message
end

describe("the NATS server of a simulated world does what nats-server does:", function()
  if not nats then return pending(missing) end
  before_each(stage.open)
  after_each(stage.close)

  -- `later`: functions by versions. If nats-server is that version or a later one, the function changes the lines that
  -- the simulated server gives to those that nats-server gives.
  local function same(name, script, later)
    it(name, function()
      local simulated, real = in_world(script), on_server(script)
      for version, change in pairs(later or {}) do
        if nats_server.is_since(version) then change(simulated) end
      end
      assert.is_true(#simulated > 0)
      assert.equal(#real, #simulated)
      for i = 1, #real do
        assert.equal(text_of(part(real[i], simulated[i])), text_of(simulated[i]), ("line %d"):format(i))
      end
    end)
  end

  same("messages go to each subscription that matches, and to one of a queue", function(conn, log)
    local names, counts, list = { "a.b", "a.*", "a.>", ">", "*.b", "b", "a.*.c" }, { 1, 1, 2, 2, 1, 0, 1 }, {}
    for i, subject in ipairs(names) do list[i] = conn:subscribe(subject, { buffer = 10 }) end
    local one = conn:subscribe("a.b", { group = "q", buffer = 10 })
    local two = conn:subscribe("a.b", { group = "q", buffer = 10 })
    conn:publish("a.b", "one", { headers = { A = "1", B = { "2", "3" } }, reply = "b.c" })
    conn:publish("a.b.c", "two")
    log(conn:flush())
    for i, ch in ipairs(list) do
      local function no_answer(message) -- ">" matches the answers to flush, too
        while message and message.subject:find "INBOX" do message = ch:poll() end
        return message
      end
      for _ = 1, counts[i] do
        local message = no_answer(ch:take()) or ch:take()
        log(names[i], shown(message), message.headers, message.reply)
      end
      log(names[i], no_answer(ch:poll()))
    end
    rn.alts { one, two }
    log(one:poll() or two:poll())
    for _, ch in ipairs(list) do ch:close() end
    log(conn:request("nobody", ""))
    for _, subject in ipairs { "a b", "a..b", "", "a\n", "a.*", ">.a", "a.b." } do
      local _, err = pcall(conn.subscribe, conn, subject)
      log((select(2, pcall(conn.publish, conn, subject, ""))), type(err) == "string" and err)
    end
  end)

  same("a request has the first answer, and a subscription ends after what has arrived", function(conn, log, tools)
    local other <close> = tools.connect()
    local ch, sub = other:subscribe("double", { buffer = 10 })
    local block = rn.go(function()
      for m in ch do m:respond(m.data .. m.data) end
    end)
    other:flush()
    log(conn:request("double", "a").data, conn:request("double", "b").data)
    sub:drain()
    block:take()
    log(conn:request("double", "c"))
  end)

  same("streams: made, changed, deleted", function(conn, log)
    log(api(conn, "STREAM.INFO.s"))
    log(api(conn, "STREAM.CREATE.s", { name = "s", subjects = { "a.>" } }))
    log(api(conn, "STREAM.CREATE.s", { name = "s", subjects = { "a.>" } }))
    log(api(conn, "STREAM.CREATE.s", { name = "s", subjects = { "b" } }))
    log(api(conn, "STREAM.CREATE.t", { name = "t", subjects = { "a.*" } }))
    log(api(conn, "STREAM.CREATE.t", { name = "t", subjects = { "b" }, retention = "workqueue", discard = "new",
      max_msgs_per_subject = 1, discard_new_per_subject = true, max_age = 60000 * MS, storage = "memory" }))
    log(api(conn, "STREAM.UPDATE.s", { name = "s", subjects = { "a.>", "c" }, max_msgs = 10 }))
    log(api(conn, "STREAM.UPDATE.u", { name = "u" }))
    log(api(conn, "STREAM.INFO.s"))
    local list = api(conn, "STREAM.LIST", { offset = 0 })
    table.sort(list.streams, function(a, b) return a.config.name < b.config.name end)
    log(list)
    log(api(conn, "STREAM.DELETE.s"), api(conn, "STREAM.DELETE.s"))
    log(api(conn, "CONSUMER.INFO.t.c"), api(conn, "CONSUMER.INFO.s.c"), api(conn, "CONSUMER.DELETE.t.c"))
  end)

  same("storing: numbers, ids, and what is expected", function(conn, log)
    make(conn, "s", { subjects = { "a.*" } })
    log(store(conn, "a.1", "one"), store(conn, "a.2", "two", { ["Nats-Msg-Id"] = "x" }))
    log(store(conn, "a.3", "three", { ["Nats-Msg-Id"] = "x" }))
    log(store(conn, "a.1", "four", { ["Nats-Expected-Stream"] = "t" }))
    log(store(conn, "a.1", "four", { ["Nats-Expected-Last-Subject-Sequence"] = "7" }))
    log(store(conn, "a.9", "four", { ["Nats-Expected-Last-Subject-Sequence"] = "1" }))
    log(store(conn, "a.1", "four", { ["Nats-Expected-Last-Subject-Sequence"] = "1" }))
    log(store(conn, "a.9", "five", { ["Nats-Expected-Last-Subject-Sequence"] = "0" }))
    log(store(conn, "b", ""))
    log(api(conn, "STREAM.INFO.s"), api(conn, "STREAM.INFO.s", { subjects_filter = ">" }))
    log(api(conn, "STREAM.INFO.s", { subjects_filter = "a.1" }), api(conn, "STREAM.INFO.s", { subjects_filter = "b" }))
  end)

  same("the limits of a stream", function(conn, log)
    for number, config in ipairs {
      { max_msgs = 2 }, { max_msgs = 2, discard = "new" }, { max_msgs_per_subject = 1 },
      { max_msgs_per_subject = 1, discard = "new" }, { max_bytes = 100 }, { max_bytes = 100, discard = "new" },
      { max_msgs_per_subject = 1, discard = "new", discard_new_per_subject = true }, { max_msg_size = 3 },
      { storage = "memory", max_bytes = 100 },
    } do
      config.subjects = { "a.*" }
      local name = "s" .. number -- nats-server 2.15 may go on with the numbers of a deleted one
      make(conn, name, config)
      for i = 1, 5 do log(store(conn, "a." .. i % 2, "text")) end
      log(store(conn, "a.1", "abc"))
      log(api(conn, "STREAM.INFO." .. name))
      api(conn, "STREAM.DELETE." .. name)
    end
  end, {
    -- With max_bytes and discard = "new" it counts the new message as it will be stored; before, only its payload.
    ["2.10"] = function(lines)
      for i = 38, 41 do
        lines[i][1] = { stream = "s6", seq = 0,
          error = { code = 503, err_code = 10077, description = "maximum bytes exceeded" } }
      end
      lines[42][1].state = { messages = 2, bytes = 74, first_seq = 1, last_seq = 2, consumer_count = 0 }
    end,
  })

  same("messages are found, deleted and purged", function(conn, log)
    make(conn, "s", { subjects = { "a.*" } })
    for i = 1, 9 do store(conn, "a." .. i % 3, "text " .. i, i == 4 and { A = "b" } or nil) end
    for _, request in ipairs { { seq = 4 }, { seq = 99 }, { last_by_subj = "a.2" }, { last_by_subj = "a.7" },
      { last_by_subj = "a.*" }, { seq = 2, next_by_subj = "a.0" }, { seq = 8, next_by_subj = "a.1" },
      { seq = 3, next_by_subj = ">" } } do
      log(api(conn, "STREAM.MSG.GET.s", request))
    end
    log(api(conn, "STREAM.MSG.DELETE.s", { seq = 4, no_erase = true }), api(conn, "STREAM.MSG.GET.s", { seq = 4 }))
    log(api(conn, "STREAM.MSG.DELETE.s", { seq = 4, no_erase = true }))
    log(api(conn, "STREAM.MSG.DELETE.s", { seq = 1, no_erase = true }), api(conn, "STREAM.INFO.s"))
    log(api(conn, "STREAM.PURGE.s", { filter = "a.2" }), api(conn, "STREAM.INFO.s"))
    log(api(conn, "STREAM.PURGE.s", { seq = 7 }), api(conn, "STREAM.INFO.s"))
    log(api(conn, "STREAM.PURGE.s"), api(conn, "STREAM.INFO.s"))
    log(store(conn, "a.1", "next"), api(conn, "STREAM.INFO.s"), api(conn, "STREAM.PURGE.t"))
  end)

  same("a consumer delivers what is asked for, and says what is left", function(conn, log)
    log(make(conn, "s", { subjects = { "a" } }, {}))
    for i = 1, 3 do store(conn, "a", "text " .. i) end
    count(conn, "s", 3)
    local take, ch = pull(conn, "s", { batch = 5, expires = 300 * MS })
    for _ = 1, 4 do log(shown(take())) end
    ch:close()
    take, ch = pull(conn, "s", { batch = 1, expires = 5000 * MS, idle_heartbeat = 100 * MS })
    log(shown(take()), "heartbeat")
    ch:close()
    log(shown((pull(conn, "s", { batch = 1, expires = 1 * MS, idle_heartbeat = 1000 * MS }))()))
    log(shown((pull(conn, "s", SOON, "none"))(300)))
    log(api(conn, "CONSUMER.INFO.s.c"))
    take = pull(conn, "s", SOON)
    conn:flush()
    log(api(conn, "CONSUMER.DELETE.s.c"), shown(take()))
  end, {
    -- A request to a consumer that does not exist gets an answer; before, it got none.
    ["2.10"] = function(lines) lines[8][1] = { subject = "INBOX", status = "503", data = "" } end,
  })

  same("acknowledgements of each kind", function(conn, log)
    make(conn, "s", { subjects = { "a" } }, {})
    for i = 1, 6 do store(conn, "a", "text " .. i) end
    count(conn, "s", 6)
    local messages = {}
    for i = 1, 5 do messages[i] = next_message(conn, "s") end
    local function answer(i, text)
      log(i, text, conn:request(messages[i].reply, text).data, api(conn, "CONSUMER.INFO.s.c"))
    end
    answer(2, "+ACK")
    answer(1, "+WPI")
    answer(3, "-NAK")
    messages[3] = next_message(conn, "s")
    log(shown(messages[3]), api(conn, "CONSUMER.INFO.s.c"))
    answer(1, "+TERM")
    answer(3, '-NAK {"delay":1000000000}')
    messages[3] = next_message(conn, "s") -- the next one of the stream
    log(shown(messages[3]))
    messages[3] = next_message(conn, "s") -- that one, later
    log(shown(messages[3]))
    log(conn:request(messages[4].reply, "+ACK").data)
    answer(4, "+ACK")
    messages[3].reply = messages[3].reply:gsub("^(%$JS%.ACK%.s%.c%.%d+%.%d+%.)%d+", "%10")
    answer(3, "+ACK")
    answer(5, "-NAK")
    answer(5, "+ACK")
    log(conn:request("$JS.ACK.s.none.1.1.1.1.0", "+ACK"))
  end)

  same("a message without an acknowledgement comes again, at most max_deliver times", function(conn, log)
    make(conn, "s", { subjects = { "a" } }, { ack_wait = 100 * MS, max_deliver = 3 })
    store(conn, "a", "text")
    for _ = 1, 3 do log(shown(next_message(conn, "s"))) end
    local take, ch = pull(conn, "s", { batch = 1, expires = 500 * MS })
    log(shown(take()))
    ch:close()
  end)

  same("at most max_ack_pending messages are not acknowledged", function(conn, log)
    make(conn, "s", { subjects = { "a" } }, { max_ack_pending = 2 })
    for i = 1, 3 do store(conn, "a", "text " .. i) end
    count(conn, "s", 3)
    local take, ch = pull(conn, "s", { batch = 3, expires = 500 * MS })
    local first = take()
    log(shown(first), shown(take()), shown(take()))
    ch:close()
    conn:publish(first.reply, "+ACK")
    log(shown(next_message(conn, "s")))
  end)

  same("a message that the stream removes is as one that was acknowledged", function(conn, log)
    local function log_info(stream, npending) log(info_with(conn, stream, "num_ack_pending", npending)) end
    local settings = { ack_wait = 300 * MS }
    make(conn, "s", { subjects = { "a.*" }, retention = "workqueue" }, settings)
    for i = 1, 4 do
      store(conn, "a." .. i, "text " .. i)
      next_message(conn, "s")
    end
    for i, seq in ipairs { 2, 1 } do
      api(conn, "STREAM.MSG.DELETE.s", { seq = seq, no_erase = true })
      log_info("s", 4 - i)
    end
    log(shown(next_message(conn, "s")), shown(next_message(conn, "s")))
    api(conn, "STREAM.MSG.DELETE.s", { seq = 3, no_erase = true }) -- after it was redelivered
    log_info("s", 1)
    make(conn, "t", { subjects = { "b" }, max_msgs = 2 }, settings)
    for i = 1, 4 do
      store(conn, "b", "text " .. i)
      next_message(conn, "t")
    end
    log_info("t", 2)
    make(conn, "u", { subjects = { "c" }, max_age = 500 * MS, duplicate_window = 500 * MS }, settings)
    for i = 1, 2 do
      store(conn, "c", "text " .. i)
      next_message(conn, "u")
    end
    log_info("u", 0)
  end)

  same("requests are served in turns", function(conn, log)
    make(conn, "s", { subjects = { "a" } }, {})
    local one = pull(conn, "s", { batch = 2, expires = 20000 * MS })
    local two = pull(conn, "s", { batch = 2, expires = 20000 * MS })
    conn:flush()
    for i = 1, 4 do -- one after the other: a message says how many more there are
      store(conn, "a", "text " .. i)
      log(shown((i % 2 == 1 and one or two)()))
    end
  end)

  same("a work queue loses what is acknowledged, and has one consumer for each subject", function(conn, log)
    log(make(conn, "s", { subjects = { "a.*" }, retention = "workqueue" }, { filter_subject = "a.1" }))
    local function other(config)
      config.durable_name = "d"
      log(api(conn, "CONSUMER.DURABLE.CREATE.s.d", { stream_name = "s", config = config }))
    end
    other { ack_policy = "explicit", filter_subject = "a.1" }
    other { ack_policy = "explicit", filter_subject = "a.*" }
    other { ack_policy = "explicit" }
    other { ack_policy = "none", filter_subject = "a.2" }
    other { ack_policy = "explicit", filter_subject = "a.2", deliver_policy = "new" }
    other { ack_policy = "explicit", filter_subject = "a.2" }
    for i = 1, 4 do store(conn, "a." .. i % 2, "text " .. i) end
    count(conn, "s", 2)
    local one, three = next_message(conn, "s"), next_message(conn, "s")
    log(shown(one), shown(three))
    log(conn:request(three.reply, "+ACK").data, api(conn, "STREAM.INFO.s"))
    log(conn:request(one.reply, "+TERM").data, api(conn, "STREAM.INFO.s"), api(conn, "CONSUMER.INFO.s.c"))
  end, {
    ["2.15"] = function(lines)
      lines[5][1].error.description = "consumer in pull mode requires explicit ack policy on workqueue stream"
    end,
  })

  same("a stream with the retention interest keeps what a consumer still needs", function(conn, log)
    make(conn, "s", { subjects = { "a.*" }, retention = "interest" })
    log(store(conn, "a.1", "nobody wants it"), api(conn, "STREAM.INFO.s"))
    make(conn, "s", { subjects = { "a.*" }, retention = "interest" }, { filter_subject = "a.1" })
    local other = { durable_name = "d", ack_policy = "explicit" }
    api(conn, "CONSUMER.DURABLE.CREATE.s.d", { stream_name = "s", config = other })
    log(store(conn, "a.1", "for both"), store(conn, "a.2", "for d"), api(conn, "STREAM.INFO.s"))
    count(conn, "s", 1)
    count(conn, "s", 2, "d")
    local c, d1, d2 = next_message(conn, "s"), next_message(conn, "s", "d"), next_message(conn, "s", "d")
    log(shown(c), shown(d1), shown(d2))
    for _, message in ipairs { d1, c, d2 } do
      log(conn:request(message.reply, "+ACK").data, api(conn, "STREAM.INFO.s"))
    end
  end)

  same("where a consumer begins, and what it leaves out", function(conn, log)
    make(conn, "s", { subjects = { "a.*" } })
    for i = 1, 6 do store(conn, "a." .. i % 2, "text " .. i, { A = "b" .. i }) end
    for _, config in ipairs {
      { deliver_policy = "new" }, { deliver_policy = "last" },
      { deliver_policy = "last_per_subject", filter_subject = "a.*" },
      { deliver_policy = "by_start_sequence", opt_start_seq = 4 }, { filter_subject = "a.1" }, { headers_only = true },
      { filter_subject = "a.1", deliver_policy = "last" }, { ack_policy = "none" }, { deliver_policy = "all" },
    } do
      make(conn, "s", { subjects = { "a.*" } }, config)
      local take, ch = pull(conn, "s", { batch = 2, expires = 400 * MS })
      local one, two = take(), nil
      if not one.status then two = take() end
      log(config, shown(one), two and shown(two), api(conn, "CONSUMER.INFO.s.c"))
      ch:close()
      log(api(conn, "CONSUMER.DELETE.s.c"))
    end
    log(make(conn, "s", { subjects = { "a.*" } }, { deliver_policy = "last_per_subject" }))
    make(conn, "s", { subjects = { "a.*" } }, {})
    log(make(conn, "s", { subjects = { "a.*" } }, { ack_wait = 1000 * MS, max_ack_pending = 5, description = "d" }))
    log(make(conn, "s", { subjects = { "a.*" } }, { deliver_policy = "last" }))
  end, {
    -- What comes before a consumer's first message is acknowledged; before, nothing was. And a consumer that has passed
    -- over messages says the number of the last one that it has delivered, not of the last one that it has seen.
    ["2.15"] = function(lines)
      for i, seq in pairs { [1] = 6, [3] = 5, [5] = 4, [7] = 3, [13] = 4 } do lines[i][4].ack_floor.stream_seq = seq end
      lines[13][4].delivered.stream_seq = 5
    end,
  })

  same("sources, sinks and buckets", function(conn, log)
    local s = assert(conn:stream("s", { subjects = "s.*", max_age = 60000 }))
    local sink = assert(conn:sink("s", { subject = "s.1" }))
    log(sink:put("one", { id = "x" }))
    log(sink:put("one", { id = "x" }))
    log(sink:put "two")
    local list = assert(conn:source "s")
    log(list:take().data, list:take().data)
    list:close()
    list = assert(conn:source("s", { name = "me", ack = "taken" }))
    log(list:take().data)
    list:close()
    log(s:stats().messages)
    local bucket = assert(conn:kv("b", { history = 2 }))
    log(bucket:put("k", "1"), bucket:put("k", "2"), bucket:create("k", "3"), bucket:create("l", "1"))
    log(bucket:update("k", "4", 1))
    log(bucket:update("k", "4", 2))
    log(bucket:delete("l"), bucket:get "l")
    log(bucket:get "k")
    log(bucket:keys())
    local changes = assert(bucket:watch(">", { from = "all" }))
    for _ = 1, 3 do
      local change = changes:take()
      log(change.key, change.value, change.revision, change.deleted, change.remaining)
    end
    changes:close()
    log(conn:kv("b", { history = 3 }))
    log(bucket:destroy(), bucket:destroy())
  end)

  same("jobs, stages and their reports", function(conn, log)
    local worker = conn:serve("double", 2, function(n)
      if n == 3 then error("three", 0) end
      return 2 * n
    end)
    local double = conn:remote("double", { encoding = "json", traceback = false })
    log(double(1), double(2), pcall(double, 3))
    local letters = conn:dead "double"
    log(letters:count())
    double:close()
    conn:stream "from"
    conn:stream "to"
    local stage_ = assert(conn:stage("from", 1, string.upper, "to"))
    assert(conn:sink "from"):put "text"
    local results = conn:source "to"
    log(results:take().data)
    results:close()
    conn:flush()
    for _, queue in ipairs(conn:queues(2000)) do
      local of = queue.workers[1]
      log(queue.name, queue.kind, queue.waiting, queue.running, queue.given_up, of.n, of.busy, of.done)
    end
    stage_:drain()
    worker:drain()
  end)

  same("a server that starts again has its streams, and what was not acknowledged", function(conn, log, tools)
    make(conn, "s", { subjects = { "a" } }, {})
    make(conn, "m", { subjects = { "b" }, storage = "memory" })
    for i = 1, 3 do store(conn, "a", "text " .. i, { ["Nats-Msg-Id"] = "id " .. i }) end
    count(conn, "s", 3)
    local first = next_message(conn, "s")
    next_message(conn, "s")
    log(conn:request(first.reply, "+ACK").data)
    tools.restart("s", "c", 2, 1)
    log(api(conn, "STREAM.INFO.s"), api(conn, "STREAM.INFO.m"))
    log(store(conn, "a", "again", { ["Nats-Msg-Id"] = "id 2" }))
    local info = api(conn, "CONSUMER.INFO.s.c")
    log(info.num_ack_pending, info.num_pending, info.delivered)
    log(shown(next_message(conn, "s")))
  end)

  -- What servers do after a purge, or a loss, depends on their version, and on what they had written: the world does,
  -- by a choice, what any of them does. `n`: in so many ways.
  local function one_of(name, n, script)
    it(name, function()
      local seen, outcomes, real = {}, {}, text_of(on_server(script))
      for seed = 1, 20 do
        local text = text_of(in_world(script, seed))
        if not seen[text] then outcomes[#outcomes + 1] = text end
        seen[text] = true
      end
      assert.equal(n, #outcomes, table.concat(outcomes, "\n"))
      assert(seen[real], ("%s\nis not one of\n%s"):format(real, table.concat(outcomes, "\n")))
    end)
  end

  -- Makes a work queue with messages of these subjects, of which `taken` are taken, and those in `acked` acknowledged.
  local function work_queue(conn, subjects, taken, acked)
    make(conn, "s", { subjects = { "a.*" }, retention = "workqueue" }, { ack_wait = 500 * MS })
    for i, subject in ipairs(subjects) do store(conn, subject, "text " .. i) end
    count(conn, "s", #subjects)
    for i = 1, taken do
      local message = next_message(conn, "s")
      if acked[i] then conn:request(message.reply, "+ACK") end
    end
  end

  -- What the consumer still delivers.
  local function log_rest(conn, log, ms)
    local info = api(conn, "CONSUMER.INFO.s.c")
    log(info.num_ack_pending, info.num_pending, api(conn, "STREAM.INFO.s").state.messages)
    rn.sleep(600) -- longer than ack_wait
    local take, ch = pull(conn, "s", { batch = 10, expires = ms * MS })
    while true do
      local message = take()
      if message.status then break end
      log(message.data)
      conn:request(message.reply, "+ACK")
    end
    ch:close()
    info = api(conn, "CONSUMER.INFO.s.c")
    log(info.num_ack_pending, api(conn, "STREAM.INFO.s").state.messages)
  end

  -- What the consumer delivers again, and what it waits for then.
  local function log_again(conn, log)
    rn.sleep(600) -- longer than ack_wait
    local take, ch = pull(conn, "s", { batch = 3, expires = 200 * MS })
    for _ = 1, 3 do
      local message = take()
      log(message.data, message.status)
      if message.status then break end
    end
    ch:close()
    local info = api(conn, "CONSUMER.INFO.s.c")
    log(info.num_ack_pending, info.num_redelivered, info.delivered.stream_seq, info.ack_floor.stream_seq)
    log(api(conn, "STREAM.INFO.s").state.messages)
  end

  one_of("after a purge of some messages, a consumer has forgotten, or not, that others are not acknowledged", 2,
    function(conn, log)
      work_queue(conn, { "a.1", "a.1", "a.1", "a.1", "a.1" }, 4, { true, false, true })
      log(api(conn, "STREAM.PURGE.s", { seq = 2 }).purged)
      log_rest(conn, log, 2000)
    end)

  one_of("after a purge of a subject, a consumer has skipped, or not, messages of other subjects", 2,
    function(conn, log)
      work_queue(conn, { "a.1", "a.2", "a.3", "a.2" }, 1, { true })
      log(api(conn, "STREAM.PURGE.s", { filter = "a.2" }).purged)
      log_rest(conn, log, 2000)
    end)

  one_of("a consumer waits for ever, or not, for the acknowledgement of a message that the stream has lost #ci", 5,
    function(conn, log, tools)
      make(conn, "s", { subjects = { "a" } }, { ack_wait = 300 * MS })
      tools.keep("s", "msgs")
      for i = 1, 3 do
        store(conn, "a", "text " .. i)
        local message = next_message(conn, "s")
        if i < 3 then conn:request(message.reply, "+ACK") end
      end
      tools.lose("s", "msgs", "c", 3, 1)
      log(store(conn, "a", "next").seq)
      log_again(conn, log)
    end)

  one_of("a consumer forgets, or not, what was acknowledged, but not what the stream has removed at its beginning", 4,
    function(conn, log, tools)
      work_queue(conn, { "a.1", "a.2", "a.3" }, 0, {})
      local messages = {}
      for i = 1, 3 do messages[i] = next_message(conn, "s") end
      tools.keep("s", "obs", "c", 3, 3)
      for i = 1, 3 do conn:request(messages[i].reply, "+ACK") end
      tools.lose("s", "obs")
      log_again(conn, log)
    end)
end)
