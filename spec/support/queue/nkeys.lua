---Keys and tokens as nats-server reads them, made with openssl: NKeys, which are Ed25519 keys in base 32, and JSON Web
---Tokens that they sign.

local background = require "spec.support.background"
local json = require "runnel.json"

local nkeys = {}

---Whether openssl is installed.
nkeys.available = background.has_command "openssl"

-- The first byte of a public key, by kind, and of any seed.
local PREFIX = { operator = 14 << 3, account = 0, user = 20 << 3 }
local SEED <const> = 18 << 3

-- Groups of `bits` bits of a string as letters of an alphabet.
local function encode(bytes, bits, alphabet)
  local out, value, have = {}, 0, 0
  for i = 1, #bytes do
    value, have = (value << 8 | bytes:byte(i)) & 0xffff, have + 8
    while have >= bits do
      have = have - bits
      local at = (value >> have) % (1 << bits) + 1
      out[#out + 1] = alphabet:sub(at, at)
    end
  end
  if have > 0 then
    local at = (value << (bits - have)) % (1 << bits) + 1
    out[#out + 1] = alphabet:sub(at, at)
  end
  return table.concat(out)
end

local UPPER <const> = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
local function base32(bytes) return encode(bytes, 5, UPPER .. "234567") end
local function base64(bytes) return encode(bytes, 6, UPPER .. UPPER:lower() .. "0123456789-_") end

-- CRC-16 as XMODEM has it.
local function checksum(bytes)
  local crc = 0
  for i = 1, #bytes do
    crc = crc ~ bytes:byte(i) << 8
    for _ = 1, 8 do crc = crc & 0x8000 ~= 0 and (crc << 1 ~ 0x1021) & 0xffff or crc << 1 & 0xffff end
  end
  return string.pack("<I2", crc)
end

local function with_checksum(bytes) return base32(bytes .. checksum(bytes)) end

local function run(format, ...)
  local pipe <close> = assert(io.popen(format:format(...)))
  return pipe:read "a"
end

---Makes a key. Its fields: public, seed, and file: a file with the seed.
---@param set any a set of programs (spec/support/background.lua), whose directory gets the files
---@param kind "operator"|"account"|"user"
function nkeys.new(set, kind)
  set.keys = (set.keys or 0) + 1
  local pem = ("%s/key%d.pem"):format(set.dir, set.keys)
  -- The last 32 bytes of the DER form are the key itself.
  assert(run("openssl genpkey -algorithm ed25519 -out %s 2>&1", pem) == "")
  local private = run("openssl pkey -in %s -outform DER", pem):sub(-32)
  local public = run("openssl pkey -in %s -pubout -outform DER", pem):sub(-32)
  local prefix = PREFIX[kind]
  local seed = with_checksum(string.char(SEED | prefix >> 5, (prefix & 31) << 3) .. private)
  return {
    pem = pem, set = set, public = with_checksum(string.char(prefix) .. public), seed = seed,
    file = set:write(("key%d.seed"):format(set.keys), seed .. "\n"),
  }
end

---A token about the key `subject`, signed by the key `issuer`.
---@param claims table the field `nats` of the token
function nkeys.token(issuer, subject, name, claims)
  local body = { jti = subject.public, iat = 1700000000, iss = issuer.public, sub = subject.public, name = name,
    nats = claims }
  local text = base64(json.encode { typ = "JWT", alg = "ed25519-nkey" }) .. "." .. base64(json.encode(body))
  local path = issuer.set:write("token", text)
  local signature = run("openssl pkeyutl -sign -rawin -inkey %s -in %s", issuer.pem, path)
  assert(#signature == 64, "openssl has not signed")
  return text .. "." .. base64(signature)
end

---The text of a file of credentials: a user's token and seed.
function nkeys.credentials(token, seed)
  return ([[
-----BEGIN NATS USER JWT-----
%s
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
%s
------END USER NKEY SEED------
]]):format(token, seed)
end

return nkeys
