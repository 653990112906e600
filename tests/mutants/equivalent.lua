---Faults that change nothing that a program can see, by their keys (faults.key), with the reason.

return {
  faults = {},
  files = {
    ["csrc/channels/chan_check.c"] = "assertions",
  },
}
