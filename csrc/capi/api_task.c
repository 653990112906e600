/* capi/api_task.c: tasks in the C API; see runnel.h. */
#include "capi/api.h"

/* Removes a task from the list. */
static void unlink_task(runnel_task *task) {
  *task->list = task->next;
  if (task->next) task->next->list = task->list;
  task->next = NULL;
  task->list = NULL;
}

/* Sched.run_tasks. A task may add itself again, and cancel others. */
static void run_tasks(Sched *S) {
  runnel_task *due = S->tasks;
  S->tasks = NULL;
  due->list = &due;
  while (due) {
    runnel_task *task = due;
    unlink_task(task);
    task->run(task->data);
  }
}

static int add(lua_State *L, Sched *S, Call *call) {
  (void)L;
  runnel_task *task = call->task;
  if (!S->running) return api_code(call, RUNNEL_IDLE);
  runnel_task **end = &S->tasks; /* they are run in the order in which they were added; there are few */
  while (*end) end = &(*end)->next;
  task->list = end;
  *end = task;
  S->run_tasks = run_tasks;
  return 0;
}

int runnel_task_add(lua_State *L, runnel_task *task) {
  if (!task || !task->run) return RUNNEL_BAD_ARGUMENT;
  if (task->list) return RUNNEL_OK;
  return api_call(L, 0, &(Call){.body = add, .task = task});
}

int runnel_task_cancel(runnel_task *task) {
  if (!task) return RUNNEL_BAD_ARGUMENT;
  if (task->list) unlink_task(task);
  return RUNNEL_OK;
}
