#include "client-stub/process/guest_thread.h"

namespace tessera {

__attribute__((tls_model("initial-exec"))) constinit thread_local bool is_guest_thread = false;

}  // namespace tessera
