// What the address sanitizer's library shall leave alone. It asks for these functions by name: they have to be visible there.
#define ASKED_FOR extern "C" __attribute__((visibility("default")))

// The C library's leaks: a thread that has asked dlerror() and is just ending holds its answer.
ASKED_FOR const char* __lsan_default_suppressions() { return "leak:_dlerror_run\n"; }

// Thread-local storage of libraries that were loaded later. The library of GCC before 14 takes some of it, by its address, for
// that of an old glibc, reads a length from what is not one, and dies of it while it looks for leaks.
// Source: github.com/google/sanitizers, issue 1322.
ASKED_FOR const char* __asan_default_options() { return "intercept_tls_get_addr=0"; }
