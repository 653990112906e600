---Media types of files, by the ending of their names in lower case.

local TEXT <const> = "; charset=utf-8"

return {
  -- text
  atom = "application/atom+xml", css = "text/css" .. TEXT, csv = "text/csv" .. TEXT, htm = "text/html" .. TEXT,
  html = "text/html" .. TEXT, ics = "text/calendar" .. TEXT, js = "text/javascript" .. TEXT,
  json = "application/json", jsonl = "application/jsonl", log = "text/plain" .. TEXT, lua = "text/plain" .. TEXT,
  map = "application/json", md = "text/markdown" .. TEXT, mjs = "text/javascript" .. TEXT,
  rss = "application/rss+xml", text = "text/plain" .. TEXT, txt = "text/plain" .. TEXT, vtt = "text/vtt" .. TEXT,
  webmanifest = "application/manifest+json", xhtml = "application/xhtml+xml", xml = "application/xml",
  yaml = "application/yaml", yml = "application/yaml",
  -- pictures
  avif = "image/avif", bmp = "image/bmp", gif = "image/gif", ico = "image/vnd.microsoft.icon", jpeg = "image/jpeg",
  jpg = "image/jpeg", jxl = "image/jxl", png = "image/png", svg = "image/svg+xml", tif = "image/tiff",
  tiff = "image/tiff", webp = "image/webp",
  -- sound and films
  aac = "audio/aac", flac = "audio/flac", m4a = "audio/mp4", mov = "video/quicktime", mp3 = "audio/mpeg",
  mp4 = "video/mp4", oga = "audio/ogg", ogg = "audio/ogg", ogv = "video/ogg", opus = "audio/ogg", wav = "audio/wav",
  webm = "video/webm",
  -- fonts
  otf = "font/otf", ttf = "font/ttf", woff = "font/woff", woff2 = "font/woff2",
  -- others
  epub = "application/epub+zip", gz = "application/gzip", pdf = "application/pdf", tar = "application/x-tar",
  wasm = "application/wasm", zip = "application/zip",
}
