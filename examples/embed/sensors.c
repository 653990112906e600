/* A program with its own poll loop, two sensors in threads, and a Lua script that processes their values. SIGHUP
   reloads the script while the sensors go on; SIGINT ends the program.

     cc -o sensors sensors.c $(pkg-config --cflags --libs runnel)
     ./sensors sensors.lua            for ever, or  ./sensors sensors.lua 2000  for two seconds */
#include <lauxlib.h>
#include <lualib.h>
#include <poll.h>
#include <pthread.h>
#include <runnel.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- the sensors: they use a port, and no Lua ---- */

typedef struct Sensor {
  runnel_port *port; /* where it posts its values; the sensor holds a reference */
  long lost;         /* values dropped because the port was full */
} Sensor;

static void pause_ms(long ms) {
  struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  (void)nanosleep(&ts, NULL);
}

/* Posts numbers. */
static void *measure_temperature(void *arg) {
  Sensor *sensor = (Sensor *)arg;
  for (int i = 0;; i++) {
    int code = runnel_post_number(sensor->port, 20.0 + (double)(i % 50) / 10);
    if (code == RUNNEL_FULL) sensor->lost++;
    else if (code != RUNNEL_OK) break; /* closed: the program ends */
    pause_ms(2);
  }
  (void)runnel_port_release(sensor->port);
  return NULL;
}

/* A message that becomes a table. */
typedef struct Passage {
  int door;
  bool inwards;
} Passage;

/* Pushes the table. Called in the Lua thread; may raise. */
static int push_passage(lua_State *L, void *data) {
  Passage passage = *(Passage *)data;
  free(data);
  lua_createtable(L, 0, 2);
  lua_pushinteger(L, passage.door);
  lua_setfield(L, -2, "door");
  lua_pushboolean(L, passage.inwards);
  lua_setfield(L, -2, "inwards");
  return 1;
}

static void *watch_doors(void *arg) {
  Sensor *sensor = (Sensor *)arg;
  for (int i = 0;; i++) {
    Passage *passage = (Passage *)malloc(sizeof *passage);
    if (!passage) break;
    *passage = (Passage){.door = i % 3 + 1, .inwards = i % 5 != 0};
    int code = runnel_post_call(sensor->port, push_passage, free, passage);
    if (code != RUNNEL_OK) free(passage); /* not posted: still ours */
    if (code == RUNNEL_FULL) sensor->lost++;
    else if (code != RUNNEL_OK) break;
    pause_ms(3);
  }
  (void)runnel_port_release(sensor->port);
  return NULL;
}

/* ---- signals: a handler may not call runnel, so it writes to a pipe ---- */

static int signals[2];

static void on_signal(int number) {
  unsigned char byte = (unsigned char)number;
  (void)!write(signals[1], &byte, 1);
}

static void catch_signal(int number) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  (void)sigaction(number, &action, NULL);
}

/* ---- Lua ---- */

/* Ends the program after an error. */
static void must(lua_State *L, int code, const char *what) {
  if (code >= RUNNEL_OK) return;
  const char *message = runnel_message(L);
  (void)fprintf(stderr, "sensors: %s: %s%s%s\n", what, runnel_strerror(code), message ? ": " : "",
                message ? message : "");
  exit(EXIT_FAILURE);
}

/* Starts the script as a go block, with the two inputs and a channel that closes when the script must end. Returns a
   handle to that channel, or NULL if the script cannot be loaded. */
static runnel_chan *load_script(lua_State *L, const char *file, runnel_chan *temperatures, runnel_chan *passages) {
  if (luaL_loadfile(L, file) != LUA_OK) {
    (void)fprintf(stderr, "sensors: %s\n", lua_tostring(L, -1));
    lua_pop(L, 1);
    return NULL;
  }
  runnel_chan *stop = NULL;
  must(L, runnel_chan_new(L, RUNNEL_FIXED, 0, &stop), "stop");
  must(L, runnel_chan_push(L, temperatures), "temperatures");
  must(L, runnel_chan_push(L, passages), "passages");
  must(L, runnel_chan_push(L, stop), "stop");
  must(L, runnel_go(L, 3, NULL), file);
  return stop;
}

/* Reloads the script. If it does not compile, the old version goes on. */
static void reload_script(lua_State *L, const char *file, runnel_chan *temperatures, runnel_chan *passages,
                          runnel_chan **stop) {
  runnel_chan *next = load_script(L, file, temperatures, passages);
  if (!next) return;
  if (*stop) {
    must(L, runnel_chan_close(L, *stop, NULL), "stop");
    must(L, runnel_chan_release(L, *stop), "stop");
  }
  *stop = next;
}

/* Opens a port to the channel, and starts the sensor that posts to it. */
static runnel_port *start_sensor(lua_State *L, Sensor *sensor, void *(*run)(void *), runnel_chan *ch,
                                 pthread_t *thread) {
  must(L, runnel_port_open(L, ch, 64, RUNNEL_LEAVE_OPEN, &sensor->port), "port");
  (void)runnel_port_hold(sensor->port); /* one reference for the thread, one for main */
  if (pthread_create(thread, NULL, run, sensor) != 0) exit(EXIT_FAILURE);
  return sensor->port;
}

static long long now_ms(void) {
  struct timespec ts;
  (void)clock_gettime(CLOCK_MONOTONIC, &ts);
  return (long long)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    (void)fprintf(stderr, "usage: sensors SCRIPT [MILLISECONDS]\n");
    return EXIT_FAILURE;
  }
  const char *file = argv[1];
  long long end = argc > 2 ? now_ms() + strtoll(argv[2], NULL, 10) : -1;

  (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* write each line at once, also to a pipe or a file */
  if (pipe(signals) != 0) return EXIT_FAILURE;
  catch_signal(SIGHUP);
  catch_signal(SIGINT);
  catch_signal(SIGTERM);

  lua_State *L = luaL_newstate();
  if (!L) return EXIT_FAILURE;
  luaL_openlibs(L);
  must(L, runnel_open(L), "open");

  runnel_chan *temperatures = NULL, *passages = NULL, *stop = NULL;
  must(L, runnel_chan_new(L, RUNNEL_FIXED, 0, &temperatures), "temperatures");
  must(L, runnel_chan_new(L, RUNNEL_FIXED, 0, &passages), "passages");
  reload_script(L, file, temperatures, passages, &stop);
  if (!stop) {
    lua_close(L);
    return EXIT_FAILURE;
  }

  Sensor thermometer = {0}, doors = {0};
  pthread_t threads[2];
  runnel_port *ports[2] = {start_sensor(L, &thermometer, measure_temperature, temperatures, &threads[0]),
                           start_sensor(L, &doors, watch_doors, passages, &threads[1])};

  int work = -1;
  must(L, runnel_fd(L, &work), "fd");
  for (bool running = true; running;) {
    int64_t next = 0;
    must(L, runnel_step(L, 1000, &next), "step");
    long long wait = next < 0 ? -1 : (next + 999) / 1000;
    if (end >= 0) {
      long long left = end - now_ms();
      if (left <= 0) break;
      if (wait < 0 || left < wait) wait = left;
    }
    struct pollfd fds[2] = {{.fd = work, .events = POLLIN}, {.fd = signals[0], .events = POLLIN}};
    if (poll(fds, 2, (int)wait) <= 0 || !(fds[1].revents & POLLIN)) continue;
    unsigned char number = 0;
    (void)!read(signals[0], &number, 1);
    if (number == SIGHUP) reload_script(L, file, temperatures, passages, &stop);
    else running = false;
  }

  /* lua_close would close the ports, too, but then messages already posted would be lost. */
  for (int i = 0; i < 2; i++) (void)runnel_port_close(ports[i]);
  for (int i = 0; i < 2; i++) (void)pthread_join(threads[i], NULL);
  must(L, runnel_chan_close(L, stop, NULL), "stop");
  must(L, runnel_step(L, 10000, NULL), "step");
  printf("lost: %ld temperatures, %ld passages\n", thermometer.lost, doors.lost);
  lua_close(L);
  for (int i = 0; i < 2; i++) (void)runnel_port_release(ports[i]);
  return EXIT_SUCCESS;
}
