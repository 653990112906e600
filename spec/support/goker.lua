---The 68 blocking bugs of GoBench's kernels, real ones of CockroachDB, etcd, gRPC, Kubernetes, Docker and others.

local goker = { names = {}, bugs = {} } -- the names in their order; name -> program

for _, file in ipairs { "cockroach", "etcd", "grpc", "kubernetes", "moby", "others" } do
  for name, program in pairs(require("spec.support.goker." .. file)) do
    goker.names[#goker.names + 1] = name
    goker.bugs[name] = program
  end
end
table.sort(goker.names)

return goker
