-- In this folder: luarocks --lua-version 5.4 make runnel-http-scm-1.rockspec. Made by `make project`.
rockspec_format = "3.0"
package = "runnel-http"
version = "scm-1"
source = { url = "." }
description = {
  summary = "the C module of runnel.http: requests over HTTP and HTTPS, by libcurl",
  detailed = "http.get, http.request and http.stream of the rock runnel need this module.",
  license = "MIT",
  homepage = "https://example.invalid/runnel",
  issues_url = "https://example.invalid/runnel/issues",
  maintainer = "The runnel authors <maintainers@example.invalid>",
  labels = { "concurrency" },
}
dependencies = { "lua >= 5.4, < 5.6", "runnel == scm-1" }
supported_platforms = { "unix" }
external_dependencies = {
  CURL = { library = "curl" },
  ZLIB = { header = "zlib.h" },
}
build = {
  type = "builtin",
  modules = {
    ["runnel.http.curl"] = {
      sources = {
        "../../csrc/base/clock.c",
        "../../csrc/base/heap.c",
        "../../csrc/base/loaded.c",
        "../../csrc/base/map.c",
        "../../csrc/base/sleep.c",
        "../../csrc/base/thread.c",
        "../../csrc/base/wakeup.c",
        "../../csrc/base/windows.c",
        "../../csrc/http/client/calls.c",
        "../../csrc/http/client/client.c",
        "../../csrc/http/client/cookies.c",
        "../../csrc/http/client/decode.c",
        "../../csrc/http/client/gzip.c",
        "../../csrc/http/client/module.c",
        "../../csrc/http/client/news.c",
        "../../csrc/http/client/options.c",
        "../../csrc/http/client/redirect.c",
        "../../csrc/http/client/response.c",
        "../../csrc/http/client/sent_file.c",
        "../../csrc/http/client/settings.c",
        "../../csrc/http/client/thread.c",
        "../../csrc/http/client/transfer.c",
        "../../csrc/kit/events.c",
        "../../csrc/kit/handle.c",
      },
      defines = { "_POSIX_C_SOURCE=200809L" },
      incdirs = { "../../csrc", "$(CURL_INCDIR)", "$(ZLIB_INCDIR)" },
      libdirs = { "$(CURL_LIBDIR)", "$(ZLIB_LIBDIR)" },
      libraries = { "pthread", "curl", "z" },
    },
  },
}
test = { type = "command", command = "make -C ../.. test SPEC=spec/http" }
