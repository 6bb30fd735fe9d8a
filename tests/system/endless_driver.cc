// The emulated GPU's driver, whose loading of code never ends, as that of code which takes minutes to compile. For lifecycle
// tests.
#include <unistd.h>

extern "C" __attribute__((visibility("default"))) int cuArrayCreate_v2(void*, const void*) {
  for (;;) pause();
}
