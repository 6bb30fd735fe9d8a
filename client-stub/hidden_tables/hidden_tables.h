// Tables of functions that cuGetExportTable hands out. CUDA libraries use them behind the documented API. What is known of them
// was observed: which slot is called with what, and what a real driver answers. The names are those that the community uses.
//
// A table begins with its size in bytes, that word included. Slot n lies at byte 8 * n. A table stays at one address as long as
// the process runs. Any thread.
#pragma once

#include <cuda.h>

namespace tessera {

// Returns the table with this UUID; null: it is not served.
const void* FindHiddenTable(const CUuuid& id);

// The tables; each has a file. CONTEXT_LOCAL_STORAGE has no size word.
const void* CudartInterface();
const void* RuntimeHooks();
const void* ToolsTls();
const void* ContextLocalStorage();
const void* ContextChecks();
const void* IntegrityCheck();
const void* ContextQueries();     // 21318C60
const void* ModuleFunctions();    // 6E163FBE
const void* ClusterMap();         // 1734DC26
const void* CompileCacheTable();  // DA9151D3

}  // namespace tessera
