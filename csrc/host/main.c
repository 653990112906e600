/* main.c: the executable: reads the options, runs scripts and the prompt, and sets the exit status. */
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif

#include "base/clock.h"
#include "capi/runnel.h"
#include "host/beside.h"
#include "host/bundle/builder.h"
#include "host/bundle/bundle.h"
#include "host/bundle/carried.h"
#include "host/linked.h"
#include "host/options.h"
#include "host/prompt/output.h"
#include "host/prompt/prompt.h"
#include "host/prompt/terminal.h"
#include "host/runtime/call.h"
#include "host/runtime/core.h"
#include "host/runtime/inspect.h"
#include "host/runtime/interrupt.h"
#include "host/script.h"
#include "port/standard.h"

/* Exit status for an invalid command line, as in most programs; lua5.4 exits with 1. */
enum { WRONG_USAGE = 2 };

typedef struct Command {
  int argc;
  char **argv;
  Bundle *bundle; /* of a program that `runnel build` has made, or NULL */
  Options options;
} Command;

static void print_version(const Command *c) {
  const Part *version = c->bundle ? bundle_next(c->bundle, PART_VERSION, &(size_t){0}) : NULL;
  if (version) (void)printf("%s\n", version->module.name);
  else (void)printf("runnel %s on %s\n", RUNNEL_VERSION, LUA_COPYRIGHT);
  (void)fflush(stdout);
}

/* The path of this executable, if its caller says no more than a name, which was found in PATH. */
static const char *path_of(const char *called) {
#ifdef __linux__
  const char *path = (const char *)getauxval(AT_EXECFN);
  if (path && !strchr(called, '/')) return path;
#endif
  return called;
}

/* Sets the global `arg` of a program that was built: its path at 0, its arguments from 1. */
static void set_arg_of_bundle(lua_State *L, const Command *c) {
  int first = c->options.script;
  lua_createtable(L, c->argc - first, 1);
  lua_pushstring(L, path_of(c->options.program));
  lua_rawseti(L, -2, 0);
  for (int i = first; i < c->argc; i++) {
    lua_pushstring(L, c->argv[i]);
    lua_rawseti(L, -2, i - first + 1);
  }
  lua_setglobal(L, "arg");
}

/* Sets the global `arg`: the script at 0, its arguments from 1, the words before it at negative indices. */
static void set_arg(lua_State *L, const Command *c) {
  int script = c->options.script < c->argc ? c->options.script : 0;
  lua_createtable(L, c->argc - script, script + 1);
  for (int i = 0; i < c->argc; i++) {
    lua_pushstring(L, c->argv[i]);
    lua_rawseti(L, -2, i - script);
  }
  lua_setglobal(L, "arg");
}

/* Seeds Lua's and the core's random numbers. */
static void set_seed(lua_State *L, const Options *o) {
  if (!o->seeded) return;
  luaL_requiref(L, LUA_MATHLIBNAME, luaopen_math, 0);
  lua_getfield(L, -1, "randomseed");
  lua_pushinteger(L, (lua_Integer)o->seed);
  lua_call(L, 1, 0);
  core_seed(L, o->seed);
  lua_pop(L, 1);
}

/* Whether there will be a prompt, according to the command line. */
static bool wants_prompt(const Command *c) {
  const Options *o = &c->options;
  if (c->bundle) return false;
  return o->interactive || (o->script >= c->argc && !o->executes && !o->version && isatty(STDIN_FILENO));
}

/* Runs the options, the script, and the prompt. Returns whether all succeeded. */
static bool run(lua_State *L, const Command *c) {
  const Options *o = &c->options;
  bool has_script = o->script < c->argc;
  if (o->version || wants_prompt(c)) print_version(c);
  if (!script_watch(L, o)) return false;
  if (c->bundle) return script_run_bundle(L, o, c->bundle) && script_drain(L, o);
  if (!script_init(L, o) || !script_options(L, o, c->argv)) return false;
  if (has_script) {
    const char *path = c->argv[o->script];
    bool is_stdin = strcmp(path, "-") == 0 && strcmp(c->argv[o->script - 1], "--") != 0;
    if (!script_run(L, o, is_stdin ? NULL : path)) return false;
  }
  if (wants_prompt(c)) return prompt_run(L, o->program);
  if (!has_script && !o->executes && !o->version && !script_run(L, o, NULL)) return false;
  return script_drain(L, o);
}

/* Protected: (command) -> whether all succeeded. */
static int start(lua_State *L) {
  const Command *c = (const Command *)lua_touserdata(L, 1);
  luaL_checkversion(L);
  lua_warning(L, "@off", 0); /* as lua5.4: until -W */
  if (c->options.no_environment) {
    lua_pushboolean(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV"); /* for luaL_openlibs */
  }
  if (wants_prompt(c)) output_install();
  luaL_openlibs(L);
  static const luaL_Reg loaders[] = {
      {"runnel.host.builder", builder_open},
      {"runnel.host.inspect", inspect_open},
      {"runnel.host.terminal", terminal_open},
      {NULL, NULL},
  };
  linked_preload(L);
  if (c->bundle) carried_preload(L, c->bundle);
  core_preload(L, wants_prompt(c));
  if (!c->bundle) beside_add_places(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  luaL_setfuncs(L, loaders, 0);
  lua_pop(L, 1);
  if (c->options.errors_pass) core_let_errors_pass();
  if (c->bundle) set_arg_of_bundle(L, c);
  else set_arg(L, c);
  set_seed(L, &c->options);
  lua_gc(L, LUA_GCGEN, 0, 0); /* as lua5.4 */
  lua_pushboolean(L, run(L, c));
  return 1;
}

/* --time */
static void print_time(const Options *o, int64_t began) {
  struct rusage usage;
  if (!o->timed || getrusage(RUSAGE_SELF, &usage) != 0) return;
  double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
               (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
  (void)fprintf(stderr, "%s: %.3f s elapsed, %.3f s CPU, %.1f MB peak memory\n", o->program,
                (double)(clock_ns() - began) / 1e9, cpu, (double)usage.ru_maxrss / 1024);
}

/* Says which option is wrong, and where the others are. */
static void complain_of_option(const Options *o, bool has_list) {
  if (o->reason) {
    (void)fprintf(stderr, "%s: '%s' %s\n", o->program, o->wrong, o->reason);
  } else {
    const char *meant = has_list ? options_meant(o->wrong) : NULL;
    (void)fprintf(stderr, "%s: unrecognized option '%s'", o->program, o->wrong);
    (void)fprintf(stderr, meant ? "; did you mean '%s'?\n" : "\n", meant);
  }
  if (has_list) (void)fprintf(stderr, "(%s --help lists the options)\n", o->program);
}

/* Whether the standard output was written, which may be on a disk that is full. Says it if not. */
static bool has_written(const Options *o) {
  bool is_flushed = fflush(stdout) == 0;
  if (is_flushed && !ferror(stdout)) return true;
  (void)fprintf(stderr, "%s: cannot write the output%s%s\n", o->program, is_flushed ? "" : ": ",
                is_flushed ? "" : strerror(errno));
  return false;
}

int main(int argc, char **argv) {
  int64_t began = clock_ns();
  standard_reserve();
  static Command command; /* not on the stack, since threads may outlive `main` and use the bundle */
  command = (Command){.argc = argc, .argv = argv};
  const char *damage = bundle_open(&command.bundle);
  command.options = command.bundle ? options_of_bundle(command.bundle, argc, argv) : options_read(argc, argv);
  const Options *o = &command.options;
  if (damage) {
    call_complain(o->program, damage);
    return EXIT_FAILURE;
  }
  if (o->help) {
    options_usage(stdout, o->program);
    return has_written(o) ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  if (o->version_only) {
    print_version(&command);
    return has_written(o) ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  if (o->wrong) {
    complain_of_option(o, !command.bundle);
    return WRONG_USAGE;
  }
  lua_State *L = luaL_newstate();
  if (!L) {
    call_complain(o->program, "cannot create state: not enough memory"); /* uncovered: only when memory runs out */
    return EXIT_FAILURE;
  }
  lua_pushcfunction(L, start);
  lua_pushlightuserdata(L, &command);
  int status = lua_pcall(L, 1, 1, 0);
  if (status != LUA_OK) call_complain(o->program, lua_tostring(L, -1));
  bool well = status == LUA_OK && lua_toboolean(L, -1);
  if (o->command && !has_written(o)) well = false; /* a script may write what it wants, as in lua5.4 */
  interrupt_close(L);
  print_time(o, began);
  if (!well && interrupt_came()) {
    (void)signal(SIGINT, SIG_DFL);
    (void)raise(SIGINT); /* so that a shell sees the cause, and ends its loop, too */
  }
  return well ? EXIT_SUCCESS : EXIT_FAILURE;
}
