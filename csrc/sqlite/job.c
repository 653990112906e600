/* job.c: the life of a job; see database.h. Any thread. */
#include <stdlib.h>
#include <string.h>

#include "sqlite/database.h"

void job_reset(Job *job) {
  free(job->problem);
  job->problem = NULL;
  job->code = SQLITE_OK;
  job->changes = job->rowid = 0;
  job->ncolumns = 0;
  bytes_clear(&job->columns);
  bytes_clear(&job->rows);
  if (job->further) (void)fclose(job->further);
  job->further = NULL;
}

void job_fail(Job *job, int code, const char *problem) {
  size_t size = problem ? strlen(problem) + 1 : 0;
  char *copy = size ? (char *)malloc(size) : NULL;
  if (copy) memcpy(copy, problem, size);
  free(job->problem);
  job->problem = copy;
  job->code = code;
}

void job_free(void *object) {
  Job *job = (Job *)object;
  job_reset(job);
  bytes_free(&job->columns);
  bytes_free(&job->rows);
  bytes_free(&job->many);
  bytes_free(&job->names);
  free(job->memory);
  if (job->database) handle_release(job->database);
  free(job);
}

Job *job_take(List *list) {
  Link *first = list->first;
  if (!first) return NULL;
  list_remove(list, first);
  return CONTAINER_OF(first, Job, link);
}
