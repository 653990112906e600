---The methods of connections for streams, buckets and dead letters, which JetStream stores.

return {
  stream = require("runnel.nats.stream").stream,
  source = require("runnel.nats.source").source,
  sink = require("runnel.nats.sink").sink,
  stage = require("runnel.nats.stage").stage,
  kv = require("runnel.nats.kv").kv,
  dead = require("runnel.nats.dead").dead,
}
