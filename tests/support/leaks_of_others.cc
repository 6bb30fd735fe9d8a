// What LeakSanitizer shall not report: the C library's. A thread that has asked dlerror() and is just ending holds its answer.
extern "C" const char* __lsan_default_suppressions() { return "leak:_dlerror_run\n"; }
