-- A model works on tasks with tools, and may ask a person, for whose answer it waits, days if need be. What the model
-- has said, and what the tools have done, is kept, and paid for, once. Needs luv, libcurl and libsqlite3.
--
--     runnel examples/recipes/agent.lua tasks.db 8080 https://model.example/turn
--     curl localhost:8080/tasks/1 -d '"How many users are there?"'; curl localhost:8080/tasks/1
--     curl localhost:8080/tasks/1/answer -d '"those of Berlin"'

local http = require "runnel.http"
local path, port, url = ...
local store, NOW <const> = require("runnel.store").open(path), { timeout = 0 }

-- The model gets the whole talk, and answers with { tool =, input = }, { question = } or { result = }.
local think = store:once("think", function(_, talk)
  return assert(http.request { method = "POST", url = url, json = talk, timeout = 600000, fail = true }):json()
end, { tries = 10, backoff = 5000 })

local use = store:once("use", function(_, tool, input)
  if tool == "get" then return assert(http.get(input, { timeout = 60000 })).body end
  return "there is no tool " .. tool
end)

local tasks = store:runs("task", function(run, task)
  local talk = { { task = task } }
  for turn = 1, 50 do
    local said = think(turn, talk)
    if said.result then return said.result end
    run:note(said.question or "uses " .. said.tool)
    if said.question then said.answer = run:wait "answer" else said.answer = use(turn, said.tool, said.input) end
    table.insert(talk, said)
  end
  error "no result after 50 turns"
end)

local function get(req) return assert(tasks:get(req.params.id)) end
assert(http.serve(tonumber(port), http.router {
  ["POST /tasks/:id"] = function(req) return tasks:start(req.params.id, req:json()) and 202 end,
  ["GET /tasks/:id"] = function(req) return 200, nil, { state = get(req):state(), result = get(req):result(NOW) } end,
  ["POST /tasks/:id/answer"] = function(req) return get(req):signal("answer", req:json()) and 202 or 410 end,
}))
