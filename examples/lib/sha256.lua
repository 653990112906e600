-- SHA-256 (FIPS 180-4) in plain Lua, as work for a processor: examples/checksum.lua uses it.
--
--     local hash = sha256.new()
--     hash:add "some"
--     hash:add " text"
--     print(hash:hex())

local sha256 = {}
sha256.__index = sha256

local BLOCK <const> = 64 -- bytes that are hashed at a time
local MASK <const> = 0xffffffff

local WORDS = ">" .. ("I4"):rep(16) -- a block, for string.unpack

-- Of the square roots of the first 8 primes, and of the cube roots of the first 64, the first 32 bits behind the point.
local START = {
  0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
}
local K = {
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
  0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
  0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
}

function sha256.new()
  return setmetatable({ state = { table.unpack(START) }, rest = "", length = 0 }, sha256)
end

-- Hashes the block that begins there.
local function add_block(state, text, at)
  local w = { string.unpack(WORDS, text, at) }
  for i = 17, 64 do
    local x, y = w[i - 15], w[i - 2]
    x, y = x | x << 32, y | y << 32 -- so that a shift to the right rotates
    w[i] = w[i - 16] + (x >> 7 ~ x >> 18 ~ (x & MASK) >> 3) + w[i - 7] + (y >> 17 ~ y >> 19 ~ (y & MASK) >> 10) & MASK
  end
  local a, b, c, d, e, f, g, h = table.unpack(state)
  for i = 1, 64 do
    local ee, aa = e | e << 32, a | a << 32
    local t = h + (ee >> 6 ~ ee >> 11 ~ ee >> 25) + (e & f ~ ~e & g) + K[i] + w[i]
    h, g, f, e = g, f, e, d + t & MASK
    d, c, b, a = c, b, a, t + (aa >> 2 ~ aa >> 13 ~ aa >> 22) + (a & b ~ a & c ~ b & c) & MASK
  end
  for i, v in ipairs { a, b, c, d, e, f, g, h } do state[i] = state[i] + v & MASK end
end

function sha256:add(text)
  self.length = self.length + #text
  text = self.rest .. text
  local at = 1
  while at + BLOCK - 1 <= #text do
    add_block(self.state, text, at)
    at = at + BLOCK
  end
  self.rest = text:sub(at)
end

-- The hash of all that was added. Nothing can be added after that.
function sha256:hex()
  local zeros = (BLOCK - 9 - self.length) % BLOCK
  self:add("\x80" .. ("\0"):rep(zeros) .. string.pack(">I8", self.length * 8))
  return (("%08x"):rep(8):format(table.unpack(self.state)))
end

return sha256
