-- In this folder: luarocks --lua-version 5.4 make runnel-tls-scm-1.rockspec. Made by `make project`.
rockspec_format = "3.0"
package = "runnel-tls"
version = "scm-1"
source = { url = "." }
description = {
  summary = "the C module of runnel.tls: connections and servers with TLS, by OpenSSL",
  detailed = "runnel.tls of the rock runnel needs this module.",
  license = "MIT",
  homepage = "https://example.invalid/runnel",
  issues_url = "https://example.invalid/runnel/issues",
  maintainer = "The runnel authors <maintainers@example.invalid>",
  labels = { "concurrency" },
}
dependencies = { "lua >= 5.4, < 5.6", "runnel == scm-1" }
supported_platforms = { "unix" }
external_dependencies = {
  OPENSSL = { header = "openssl/ssl.h" },
}
build = {
  type = "builtin",
  modules = {
    ["runnel.tls.core"] = {
      sources = {
        "../../csrc/base/clock.c",
        "../../csrc/base/heap.c",
        "../../csrc/base/loaded.c",
        "../../csrc/base/map.c",
        "../../csrc/base/sleep.c",
        "../../csrc/base/thread.c",
        "../../csrc/base/wakeup.c",
        "../../csrc/base/windows.c",
        "../../csrc/kit/events.c",
        "../../csrc/kit/handle.c",
        "../../csrc/tls/context.c",
        "../../csrc/tls/digest.c",
        "../../csrc/tls/identity.c",
        "../../csrc/tls/module.c",
        "../../csrc/tls/names.c",
        "../../csrc/tls/pipe.c",
        "../../csrc/tls/session.c",
        "../../csrc/tls/setup.c",
        "../../csrc/tls/tickets.c",
        "../../csrc/tls/verify.c",
        "../../csrc/tls/why.c",
      },
      defines = { "_POSIX_C_SOURCE=200809L" },
      incdirs = { "../../csrc", "$(OPENSSL_INCDIR)" },
      libdirs = { "$(OPENSSL_LIBDIR)" },
      libraries = { "pthread", "ssl", "crypto" },
    },
  },
}
test = { type = "command", command = "make -C ../.. test SPEC=spec/tls_spec.lua" }
