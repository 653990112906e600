---The name under which runnel.http knows runnel.internal.json.
return require "runnel.internal.json"
