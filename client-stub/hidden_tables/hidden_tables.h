// Tables of functions that cuGetExportTable hands out: CUDA libraries use them behind the documented API. What is known
// of them was observed (which slot is called with what, and what a real driver answers); names are the community's.
//
// A table begins with its size in bytes, that word included; slot n lies at byte 8 * n. Tables live as long as the
// process, each at one address. Any thread.
#pragma once

#include <cuda.h>

namespace tessera {

// Null for a table that is not served.
const void* FindHiddenTable(const CUuuid& id);

// The tables, one file each. CONTEXT_LOCAL_STORAGE has no size word.
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
