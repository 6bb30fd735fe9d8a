// Stores for tests.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "netaware/store/store.h"

namespace tessera {

// A directory that is gone at the end of the test.
class StoreDirectory {
 public:
  StoreDirectory() {
    std::string name = ::testing::TempDir() + "storeXXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~StoreDirectory() { std::filesystem::remove_all(path_); }
  std::string File() const { return path_ + "/placer.db"; }

 private:
  std::string path_;
};

// A transaction of one change.
inline StoreTransaction Put(std::string key, std::string value, std::vector<StoreCompare> compares = {}) {
  return {.compares = std::move(compares), .changes = {{std::move(key), std::move(value)}}};
}
inline StoreResult Commit(Store& store, const StoreTransaction& transaction) { return store.Commit({&transaction, 1})[0]; }

}  // namespace tessera
