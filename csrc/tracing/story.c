/* story.c: see story.h. */
#include "tracing/story.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "tracing/trace_state.h"

/* Fills in where the running go block is: the innermost line that is not one of the library's. */
static void find_line(const Story *story, StoryEvent *event) {
  const Go *go = story->running;
  lua_Debug ar;
  for (int level = 0; go && go->alt.co && lua_getstack(go->alt.co, level, &ar); level++) {
    lua_getinfo(go->alt.co, "Sl", &ar);
    if (ar.currentline <= 0) continue;
    if (story->library && strncmp(ar.source, story->library, strlen(story->library)) == 0) continue;
    event->line = ar.currentline;
    memcpy(event->source, ar.short_src, sizeof event->source);
    return;
  }
}

void story_add(Story *story, int kind, uint32_t go, uint16_t label, uint32_t chan, uint64_t seq, int what) {
  StoryEvent *events = (StoryEvent *)grow(story->events, &story->size, story->n + 1, sizeof *events);
  if (!events) return; /* uncovered: only when memory runs out */
  story->events = events;
  StoryEvent *event = &story->events[story->n++];
  *event = (StoryEvent){.time = story->sched->world.clock.virtual_ns,
                        .go = go,
                        .chan = chan,
                        .seq = (uint32_t)seq,
                        .label = label,
                        .kind = (uint8_t)kind,
                        .what = (uint8_t)what};
  find_line(story, event);
  if (kind == TRACE_PARK || kind == TRACE_END) story->running = NULL; /* it may be collected from here on */
}

void story_clear(Story *story) {
  free(story->library);
  free(story->events);
  *story = (Story){0};
}
