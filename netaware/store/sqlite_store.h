// A store in one file of SQLite, with a write-ahead log and one synchronised write for each Commit()
// (https://sqlite.org/wal.html, https://sqlite.org/pragma.html#pragma_synchronous). One thread.
#pragma once

#include <memory>
#include <string>

#include "netaware/store/store.h"

namespace tessera {

// Opens the file, or makes it for its owner alone (mode 0600). Increments its epoch and reads all of it.
//
// kUnavailable: another process has it; kVersionMismatch: a newer release has written it; kPermissionDenied: it cannot be read or
// written; kInvalidArgument: it is no store, or damaged; kResourceExhausted: the disk is full; kInternal: another error of
// SQLite. The sentences name the file.
Result<std::unique_ptr<Store>> OpenSqliteStore(const std::string& path);

}  // namespace tessera
