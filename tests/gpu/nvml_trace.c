// A libnvidia-ml.so.1 that writes down what a program asks of another one, and what it answers: `FUNCTION RESULT` a line, to the
// file that NVML_TRACE_OUT names. NVML_TRACE_REAL is the library that answers. The functions of nvidia-smi's own table are
// written down as `slot NUMBER (PARAMETERS)`, with the words behind the first three before and after the call. Built and used by
// the script beside it, natively and forwarded: the difference is what nvidia-smi misses.
//
// cc -shared -fPIC -o libnvidia-ml.so.1 -DNAMES='"names.inc"' nvml_trace.c -ldl
// where names.inc has one line X(name) for each function.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

// Functions of NVML have up to six parameters, all of them integers or pointers.
typedef long (*Function)(long, long, long, long, long, long);

static void* real(const char* name) {
  static void* library;
  if (library == NULL) library = dlopen(getenv("NVML_TRACE_REAL"), RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "nvml_trace: %s\n", dlerror());
    _Exit(99);
  }
  return dlsym(library, name);
}

static void note(const char* name, long result) {
  static FILE* out;
  if (out == NULL) out = fopen(getenv("NVML_TRACE_OUT"), "a");
  if (out == NULL) return;
  fprintf(out, "%s %d\n", name, (int)result);
  fflush(out);
}

static long call(const char* name, long a, long b, long c, long d, long e, long f) {
  Function function = (Function)real(name);
  const long result = function == NULL ? 13 : function(a, b, c, d, e, f);
  note(name, result);
  return result;
}

#define X(name) \
  long name(long a, long b, long c, long d, long e, long f) { return call(#name, a, b, c, d, e, f); }
#include NAMES
#undef X

const char* nvmlErrorString(int result) {
  const char* (*function)(int) = (const char* (*)(int))real("nvmlErrorString");
  return function(result);
}

#define SLOTS 512
static Function* the_table;

#define WORDS 12

// What lies at an address, if anything does.
static size_t peek(long address, unsigned* words) {
  struct iovec here = {words, WORDS * sizeof(unsigned)}, there = {(void*)address, WORDS * sizeof(unsigned)};
  const ssize_t got = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
  return got < 0 ? 0 : (size_t)got / sizeof(unsigned);
}

static long call_slot(int slot, long a, long b, long c, long d, long e, long f) {
  const long behind[3] = {a, b, c};
  unsigned before[3][WORDS];
  size_t counts[3];
  for (int i = 0; i < 3; ++i) counts[i] = peek(behind[i], before[i]);
  const long result = the_table[slot](a, b, c, d, e, f);
  char name[1024];
  size_t at = (size_t)snprintf(name, sizeof(name), "slot %d (%#lx %#lx %#lx %#lx)", slot, a, b, c, d);
  for (int i = 0; i < 3; ++i) {
    unsigned after[WORDS];
    const size_t count = peek(behind[i], after);
    at += (size_t)snprintf(name + at, sizeof(name) - at, " %c", 'a' + i);
    for (size_t w = 0; w < count; ++w) {
      at += (size_t)snprintf(name + at, sizeof(name) - at, " %x", after[w]);
      if (w < counts[i] && before[i][w] != after[w]) at += (size_t)snprintf(name + at, sizeof(name) - at, "(%x)", before[i][w]);
    }
  }
  note(name, result);
  return result;
}

#define S(n) \
  static long slot_##n(long a, long b, long c, long d, long e, long f) { return call_slot(0##n, a, b, c, d, e, f); }
#define A(n) slot_##n,
// Octal digits: 512 of them.
#define EACH8(M, n) M(n##0) M(n##1) M(n##2) M(n##3) M(n##4) M(n##5) M(n##6) M(n##7)
#define EACH64(M, n) \
  EACH8(M, n##0) EACH8(M, n##1) EACH8(M, n##2) EACH8(M, n##3) EACH8(M, n##4) EACH8(M, n##5) EACH8(M, n##6) EACH8(M, n##7)
#define EACH512(M) EACH64(M, 0) EACH64(M, 1) EACH64(M, 2) EACH64(M, 3) EACH64(M, 4) EACH64(M, 5) EACH64(M, 6) EACH64(M, 7)
EACH512(S)
static Function the_slots[SLOTS] = {EACH512(A)};

// The first word of a table is its size; what is behind it, or null, stays as it is.
long nvmlInternalGetExportTable(const void** table, const void* id) {
  long (*function)(const void**, const void*) = (long (*)(const void**, const void*))real("nvmlInternalGetExportTable");
  const long result = function(table, id);
  note("nvmlInternalGetExportTable", result);
  if (result != 0) return result;
  the_table = (Function*)*table;
  const size_t words = (size_t)the_table[0] / sizeof(Function);
  static Function copy[SLOTS];
  char name[32];
  snprintf(name, sizeof(name), "table of %zu words", words);
  note(name, 0);
  copy[0] = the_table[0];
  for (size_t i = 1; i < words && i < SLOTS; ++i) copy[i] = the_table[i] == NULL ? NULL : the_slots[i];
  *table = copy;
  return result;
}
