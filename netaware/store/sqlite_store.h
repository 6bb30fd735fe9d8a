// A store in one file of SQLite: write-ahead log, a synchronised write for all that Commit() is given
// (https://sqlite.org/wal.html, https://sqlite.org/pragma.html#pragma_synchronous). One thread.
#pragma once

#include <memory>
#include <string>

#include "netaware/store/store.h"

namespace tessera {

// Opens the file, or makes it, for its owner alone (mode 0600), and counts its epoch up. What it holds is read at once.
//
// kUnavailable: another process has it; kVersionMismatch: a newer release has written it; kPermissionDenied: it cannot be read or
// written; kInvalidArgument: it is no store, or damaged; kResourceExhausted: the disk is full; kInternal: another error of
// SQLite. The sentences name the file.
Result<std::unique_ptr<Store>> OpenSqliteStore(const std::string& path);

}  // namespace tessera
