---The methods of connections for streams and buckets of JetStream.

return {
  stream = require("runnel.nats.stream").stream,
  source = require("runnel.nats.source").source,
  sink = require("runnel.nats.sink").sink,
  stage = require("runnel.nats.stage").stage,
  kv = require("runnel.nats.kv").kv,
}
