---Functions and methods of the manual that never park, neither in reality nor in a simulation: they compute, or start
---something and return at once, so that only a take from what they return parks. And fields of objects. By page.

local never = {
  build = "rn.file",
  channels = [[rn.chan rn.buffer rn.dropping_buffer rn.sliding_buffer rn.priority_buffer rn.promise_chan
    rn.unblocking_buffer rn.is_chan ch:poll ch:offer ch:take_async ch:put_async ch:close ch:closed ch:done ch:name
    ch:stats]],
  drivers = "rn.driver d:wait d:alive",
  flow = [[flow.batch flow.rate flow.debounce f:start f:pause f:resume f:replace f:workers f:inject f:tap
    f:connect f:disconnect f:add f:remove f:stats f:done]],
  ["go-blocks"] = "rn.go rn.rename rn.on_error rn.ps",
  ["http-server"] = [[http.serve server.port server.path server.url server:close req.method req.path req.query
    req.target req.headers req.address req.cookies req.queries req:hints req:pieces req:trailer req:trailers
    req:websocket]],
  ["http-services"] = [[http.router http.files http.log http.cookie http.basic_auth http.compress
    http.cors http.limit http.proxy http.within req:events http.events]],
  http = [[http.stream http.cookies http.fake http.null http.array http.close_idle http.max_connections res.status
    res.headers res.body res.bytes res.certificates res.resumed res.timing res.trailers
    res.url res:json jar:add jar:all]],
  io = [[uv.reader reader:lines reader:pieces reader:close
    uv.spawn p.exit p.pid p.stdin p.stdout p.stderr p:close p:stop p:kill uv.lines
    rn.each_line uv.read uv.follow uv.write uv.list uv.watch uv.listen conn:read conn:lines conn:writer
    conn:shutdown conn:close conn:peer conn:address sock.dropped sock:address sock:close sock:join sock:leave sock:read
    uv.resolve uv.signal uv.ticker]],
  -- keepers.stage waits for what the keeper's `open` waits for.
  keepers = "keepers.stage keepers.report keepers.on_close keepers.is_cancelled keepers.error_text",
  csv = "csv.rows csv.decode csv.encode",
  json = "json.encode json.decode json.null json.array",
  metrics = [[rn.metrics m:text m:answer rn.counter rn.gauge rn.histogram c:add g:set g:add g:remove h:observe]],
  monitor = "monitor.listen m.url m.port m:close",
  nats = [[conn:publish conn:inbox conn:events conn:stats conn:close conn:on_event conn:on_close conn:on_drain
    conn:beat conn:unbeat conn.max_payload conn.url conn:subscribe sub:close sub:drain sub:stats m:respond]],
  operations = [[rn.into rn.reduce rn.transduce rn.pipe rn.merge rn.onto_chan rn.to_chan rn.split rn.map rn.take
    rn.mult rn.mix rn.pub rn.batch rn.rate rn.debounce rn.throttle rn.sample rn.latest latest:get latest:tap
    rn.multiplex rn.broadcast
    m:tap m:untap m:untap_all m:admix m:unmix m:unmix_all m:toggle m:solo_mode p:sub p:unsub p:unsub_all]],
  otlp = "otlp.start exporter:stop exporter:stats",
  pipelines = [[rn.pmap rn.pmap_unordered rn.frontier rn.pipeline_async rn.pipeline_async_unordered rn.pipeline
    rn.pipeline_blocking]],
  queues = "queue:dead",
  profile = "p.blocked p.first p.elapsed p.ran p.loop p.waited p:text p:write rn.leaks",
  remote = "conn:dead remote:close remote:stats worker:done worker:stats worker:stop nats.hand_back",
  runs = "runs:stop run.key run.name", schedules = "schedule.runs",
  scopes = "rn.cancel rn.is_timeout s:go s:after s:cancel",
  sqlite = "sqlite.blob sqlite.version db:query tx:query",
  store = "store:dead store:once store.db stores.hand_back m.remaining",
  streams = [[m.value m.data m.headers m.subject m.sequence m.time m.deliveries m.remaining m:ack m:nak m:term
    m:progress sink:from sink:close stage:done stage:stats stage:stop nats.hand_back]],
  threads = "rn.cores rn.shared_chan",
  time = "rn.timeout rn.after timer:stop timer:restart rn.timers rn.now sim.elapsed sim.world sim.choose",
  tls = "conn:tls_info tls.client tls.server context:reload uv.listen",
  tracing = "rn.trace rn.graph rn.traceparent g:dot g:mermaid g:text",
  transducers = [[xf.completing xf.map xf.map_indexed xf.filter xf.remove xf.keep xf.mapcat xf.cat xf.take
    xf.take_while xf.drop xf.drop_while xf.take_nth xf.dedupe xf.distinct xf.interpose xf.partition_all
    xf.partition_by xf.comp rn.reduced rn.is_reduced]],
  worlds = [[sim.world world:host world:program world:nats world:elect host:crash host:restart host:kill
    host:move_clock host:signal
    host:put host:get host:move world:partition world:heal world:latency]],
  websocket = "req:websocket conn:read conn:writer conn:close conn.protocol conn.code conn.reason",
}

---Those that cannot run in a simulation, and why.
local NOT_THERE = {
  ["go-blocks rn.exit"] = "it ends the program, or on a host the program of that host: spec/sim/exit_spec.lua",
  ["go-blocks rn.run"] = "it is for the main program; a go block cannot wait for the scheduler",
  ["go-blocks rn.step"] = "the same",
  ["io uv.stdin"] = "hosts have no standard input",
  ["threads rn.thread"] = "threads need real time",
  ["scopes s:thread"] = "threads need real time",
  ["threads pool:drain"] = "pools of threads need real time",
  ["threads rn.threads"] = "threads need real time",
  ["time sim.run"] = "it is for the main program",
  ["time sim.each_seed"] = "the same",
  ["time sim.explore"] = "the same",
}

return { never = never, not_there = NOT_THERE }
