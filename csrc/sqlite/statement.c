/* statement.c: preparing statements, and keeping them; see database.h. The thread that works. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sqlite/database.h"

/* ---- the first word ---- */

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Skips spaces, comments and empty statements; returns the text behind them. */
static const char *skip(const char *sql) {
  for (;;) {
    if (is_space(*sql) || *sql == ';') {
      sql++;
    } else if (sql[0] == '-' && sql[1] == '-') {
      sql += strcspn(sql, "\n");
    } else if (sql[0] == '/' && sql[1] == '*') {
      const char *end = strstr(sql + 2, "*/");
      sql = end ? end + 2 : sql + strlen(sql);
    } else {
      return sql;
    }
  }
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

Word statement_word(const char *sql) {
  static const struct {
    const char *word;
    Word kind;
  } words[] = {{"attach", WORD_ALONE},       {"detach", WORD_ALONE},         {"pragma", WORD_ALONE},
               {"vacuum", WORD_ALONE},       {"begin", WORD_TRANSACTION},    {"commit", WORD_TRANSACTION},
               {"end", WORD_TRANSACTION},    {"rollback", WORD_TRANSACTION}, {"savepoint", WORD_TRANSACTION},
               {"release", WORD_TRANSACTION}};
  sql = skip(sql);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if ((*sql | ('a' - 'A')) != *words[i].word) continue; /* as in most statements */
    size_t size = strlen(words[i].word);
    if (strncasecmp(sql, words[i].word, size) == 0 && !is_letter(sql[size])) return words[i].kind;
  }
  return WORD_OTHER;
}

/* ---- statements that are kept ---- */

static void drop(Statement *statement) {
  (void)sqlite3_finalize(statement->stmt);
  free(statement->sql);
  *statement = (Statement){0};
}

/* Keeps a statement, in place of the least recently used one; frees it instead if there is no memory. */
static void keep(Database *db, sqlite3_stmt *stmt, const char *sql, size_t size) {
  char *copy = (char *)malloc(size + 1);
  if (!copy) return;
  memcpy(copy, sql, size);
  copy[size] = '\0';
  Statement *place = &db->statements[0];
  for (size_t i = 1; place->stmt && i < KEPT_STATEMENTS; i++) {
    Statement *other = &db->statements[i];
    if (!other->stmt || other->used < place->used) place = other;
  }
  drop(place);
  *place = (Statement){.stmt = stmt, .sql = copy, .size = size, .used = ++db->uses};
}

/* The place where a statement is kept; or NULL. */
static Statement *kept_of(Database *db, const sqlite3_stmt *stmt) {
  for (size_t i = 0; i < KEPT_STATEMENTS; i++) {
    if (db->statements[i].stmt == stmt) return &db->statements[i];
  }
  return NULL; /* seldom covered: there was no memory for keeping it */
}

/* Whether a text begins with another one. Many statements begin with the same words, so the end is compared first. */
static bool begins_with(const char *text, const char *other, size_t size) {
  uint64_t end, other_end;
  if (size < sizeof end) return memcmp(text, other, size) == 0;
  memcpy(&end, text + size - sizeof end, sizeof end);
  memcpy(&other_end, other + size - sizeof end, sizeof end);
  return end == other_end && memcmp(text, other, size) == 0;
}

/* The kept statement that a text begins with; or NULL. */
static Statement *find(Database *db, const char *sql, size_t size) {
  for (size_t i = 0; i < KEPT_STATEMENTS; i++) {
    Statement *s = &db->statements[i];
    if (!s->stmt || s->size > size || !begins_with(sql, s->sql, s->size)) continue;
    if (s->size == size || s->sql[s->size - 1] == ';') return s;
  }
  return NULL;
}

int statement_get(Database *db, const char *sql, size_t size, sqlite3_stmt **stmt, const char **tail) {
  Statement *kept = find(db, sql, size);
  if (kept) {
    kept->used = ++db->uses;
    *stmt = kept->stmt;
    *tail = skip(sql + kept->size);
    return SQLITE_OK;
  }
  *stmt = NULL;
  if (size >= INT32_MAX) return SQLITE_TOOBIG;
  int code = sqlite3_prepare_v3(db->connection, sql, (int)size + 1, SQLITE_PREPARE_PERSISTENT, stmt, tail);
  if (code != SQLITE_OK) return code;
  if (*stmt) keep(db, *stmt, sql, (size_t)(*tail - sql));
  *tail = skip(*tail);
  return SQLITE_OK;
}

Statement *statement_find(Database *db, const char *sql, size_t size) {
  Statement *kept = find(db, sql, size);
  return kept && kept->size == size ? kept : NULL;
}

/* ---- how long they take ---- */

/* Whether an instruction of SQLite's virtual machine is one of a loop, runs another program, or may itself take as long
   as a table is large. */
static bool is_long(const char *name, int address, int target) {
  static const char *const names[] = {"Clear",   "Count",      "Destroy", "IntegrityCk", "ParseSchema",
                                      "Program", "RowSetRead", "VFilter", "Vacuum",      "Yield"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(name, names[i]) == 0) return true;
  }
  if (strcmp(name, "Goto") == 0) return target > 1 && target < address; /* 1: behind the start, once */
  return strstr(name, "Next") || strstr(name, "Prev");
}

/* Looks at the program of a statement. If that fails, it may take many steps. */
static Steps look_at(Database *db, const char *sql) {
  sqlite3_stmt *stmt = NULL;
  char *text = sqlite3_mprintf("explain %s", sql);
  int code = text ? sqlite3_prepare_v2(db->connection, text, -1, &stmt, NULL) : SQLITE_NOMEM;
  Steps steps = code == SQLITE_OK && sqlite3_column_count(stmt) > 3 ? STEPS_FEW : STEPS_MANY;
  while (steps == STEPS_FEW && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
    const char *name = (const char *)sqlite3_column_text(stmt, 1);
    if (!name || is_long(name, sqlite3_column_int(stmt, 0), sqlite3_column_int(stmt, 3))) steps = STEPS_MANY;
  }
  if (code != SQLITE_ROW && code != SQLITE_DONE) steps = STEPS_MANY;
  (void)sqlite3_finalize(stmt);
  sqlite3_free(text);
  return steps;
}

bool statement_has_few_steps(Database *db, Statement *kept) {
  if (kept->steps == STEPS_UNKNOWN) kept->steps = look_at(db, kept->sql);
  return kept->steps == STEPS_FEW;
}

void statement_note(Database *db, sqlite3_stmt *stmt, int64_t ns) {
  Statement *kept = kept_of(db, stmt);
  if (!kept) return;
  kept->was_quick = ns < (int64_t)QUICK_US * 1000;
  int prepared = sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_REPREPARE, 0);
  if (kept->prepared != prepared) kept->steps = STEPS_UNKNOWN; /* the tables have changed */
  kept->prepared = prepared;
}

void statement_put(Database *db, sqlite3_stmt *stmt) {
  if (!kept_of(db, stmt)) {
    (void)sqlite3_finalize(stmt); /* seldom covered: there was no memory for keeping it */
    return;
  }
  (void)sqlite3_reset(stmt);
  (void)sqlite3_clear_bindings(stmt);
}

void statement_free_all(Database *db) {
  for (size_t i = 0; i < KEPT_STATEMENTS; i++) drop(&db->statements[i]);
}
