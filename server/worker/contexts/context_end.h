// What the worker itself holds in a context and must let go of before the driver ends it.
#pragma once

#include <cuda.h>

#include "protocol/wire/handle.h"

namespace tessera {

class Worker;

// Waits for the context's work, then gives up everything of the session that lives in it: watches and cached events, the
// per-thread streams, device memory, host memory, the table's objects. Afterwards the driver may destroy or reset it. The
// calling thread, a helper, has no current context then. What the work ended with is passed on, for information: a context
// that is broken can still be ended.
CUresult PrepareContextEnd(Worker& worker, HandleId id, CUcontext context);

// After the driver has ended it: its handle names nothing any more, and no thread trusts what it remembers as current.
void FinishContextEnd(Worker& worker, HandleId id);

}  // namespace tessera
