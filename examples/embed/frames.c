/* A program that draws frames and runs go blocks for 2 ms in each; the others continue in the next frame.

     cc -o frames frames.c $(pkg-config --cflags --libs runnel)
     ./frames frames.lua              for ever, or  ./frames frames.lua 120  for 120 frames */
#include <lauxlib.h>
#include <lualib.h>
#include <runnel.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { FRAME_US = 16667, LUA_US = 2000 };

static long long now_us(void) {
  struct timespec ts;
  (void)clock_gettime(CLOCK_MONOTONIC, &ts);
  return (long long)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void sleep_us(long long us) {
  struct timespec ts = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000 * 1000)};
  if (us > 0) (void)nanosleep(&ts, NULL);
}

/* Ends the program after an error. */
static void must(lua_State *L, int code, const char *what) {
  if (code >= RUNNEL_OK) return;
  const char *message = runnel_message(L);
  (void)fprintf(stderr, "frames: %s: %s%s%s\n", what, runnel_strerror(code), message ? ": " : "",
                message ? message : "");
  exit(EXIT_FAILURE);
}

/* Draws what the script has put on `drawings`. Returns the number of drawings. */
static int draw(lua_State *L, runnel_chan *drawings) {
  int n = 0;
  while (runnel_poll(L, drawings) == RUNNEL_OK) {
    const char *text = lua_tostring(L, -1);
    if (text) printf("  %s\n", text);
    lua_pop(L, 1);
    n++;
  }
  return n;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    (void)fprintf(stderr, "usage: frames SCRIPT [FRAMES]\n");
    return EXIT_FAILURE;
  }
  long limit = argc > 2 ? strtol(argv[2], NULL, 10) : -1;
  lua_State *L = luaL_newstate();
  if (!L) return EXIT_FAILURE;
  luaL_openlibs(L);
  must(L, runnel_open(L), "open");

  /* The script takes frame numbers, only the latest if it is slow, and puts what to draw. */
  runnel_chan *frames = NULL, *drawings = NULL;
  must(L, runnel_chan_new(L, RUNNEL_SLIDING, 1, &frames), "frames");
  must(L, runnel_chan_new(L, RUNNEL_FIXED, 100, &drawings), "drawings");
  if (luaL_loadfile(L, argv[1]) != LUA_OK) {
    (void)fprintf(stderr, "frames: %s\n", lua_tostring(L, -1));
    lua_close(L);
    return EXIT_FAILURE;
  }
  must(L, runnel_chan_push(L, frames), "frames");
  must(L, runnel_chan_push(L, drawings), "drawings");
  must(L, runnel_go(L, 2, NULL), argv[1]);

  long drawn = 0;
  long long longest = 0, total = 0, begun = now_us();
  for (long frame = 1; limit < 0 || frame <= limit; frame++) {
    must(L, runnel_offer_integer(L, frames, frame), "offer");
    long long before = now_us();
    must(L, runnel_step_for(L, LUA_US, NULL), "step");
    long long took = now_us() - before;
    total += took;
    if (took > longest) longest = took;
    drawn += draw(L, drawings);
    sleep_us(begun + frame * FRAME_US - now_us());
  }
  if (limit > 0) {
    printf("%ld frames, %ld drawings; Lua took %lld us of a frame, at most %lld\n", limit, drawn, total / limit,
           longest);
  }
  lua_close(L);
  return EXIT_SUCCESS;
}
