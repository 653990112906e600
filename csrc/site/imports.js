// imports.js: the functions of csrc/site/imports.h, for emcc's --js-library. The worker sets those of Module.
mergeInto(LibraryManager.library, {
  // The worker's own, which may be a WebAssembly.Suspending, and must not be called by another function.
  page_sleep: function (ms) {},
  page_sleep__postset: "_page_sleep = Module['sleep'];",
  page_reaches: function () { return Module["reaches"] ? 1 : 0; },
  page_number: function (text, end) {
    var hex = /^[ \t-\r]*([+-]?)0x(?=\.?[\da-f])([\da-f]*)\.?([\da-f]*)(?:p([+-]?\d+))?/i;
    var all = UTF8ToString(text), found = hex.exec(all), number = 0;
    if (found) {
      var power = (found[4] || 0) - 4 * found[3].length, half = power >> 1; // 2 ** power alone may be too small
      number = Number(BigInt("0x0" + found[2] + found[3])) * Math.pow(2, half) * Math.pow(2, power - half);
      if (found[1] === "-") number = -number;
    } else if ((found = /^[ \t-\r]*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?/i.exec(all))) {
      number = Number(found[0]);
    }
    HEAPU32[end >> 2] = text + (found ? found[0].length : 0);
    return number;
  },
  page_message: function (json, length) { Module["message"](UTF8ToString(json, length)); },
  page_story: function (json, length) { Module["story"](UTF8ToString(json, length)); },
  $giveBytes__deps: ["malloc"],
  $giveBytes: function (bytes, length) {
    var at = _malloc(bytes.length + 1);
    HEAPU8.set(bytes, at);
    HEAPU8[at + bytes.length] = 0;
    HEAP32[length >> 2] = bytes.length;
    return at;
  },
  page_command__deps: ["$giveBytes"],
  page_command: function (length) {
    var bytes = Module["command"]();
    return bytes ? giveBytes(bytes, length) : 0;
  },
  page_module__deps: ["$giveBytes"],
  page_module: function (name, length) {
    var bytes = Module["other"](UTF8ToString(name));
    return bytes ? giveBytes(bytes, length) : 0;
  },
  page_fetch: function (number, url) { Module["fetch"](number, UTF8ToString(url)); },
  page_fetched__deps: ["$giveBytes"],
  page_fetched: function (status, body, length) {
    var one = Module["fetched"]();
    if (!one) return 0;
    HEAP32[status >> 2] = one.status;
    HEAP32[body >> 2] = giveBytes(one.bytes, length);
    return one.number;
  },
});

// What emscripten's files in memory have for pages of other kinds: 2 KB of the compressed glue.
for (var name of ["createLazyFile", "createPreloadedFile", "forceLoadFile", "indexedDB", "DB_NAME", "loadFilesFromDB",
  "saveFilesToDB"]) {
  delete LibraryManager.library.$FS[name];
}
LibraryManager.library.$FS__deps = LibraryManager.library.$FS__deps.filter(function (what) { return what !== "$asyncLoad"; });
