---The names of the options of uv.spawn, most of which uv.run has, too.
return {
  stdin = true, stdout = true, stderr = true, cwd = true, env = true, grace = true, detached = true, max = true,
}
