// What LeakSanitizer shall not report: the C library's. A thread that has asked dlerror() and is just ending holds its answer.
// The sanitizer's library asks for the function: it has to be visible there.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions() { return "leak:_dlerror_run\n"; }
