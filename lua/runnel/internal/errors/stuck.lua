---What a thread does when its go blocks would wait forever. By default its function fails. A thread of a pool sets
---`fail`, so that only its jobs fail.

---@class runnel.Stuck
---@field fail? fun(why: string): boolean ends what waits; returns false if there was nothing to end
return { fail = nil }
