// A driver for tests: every function of its table records that it was called and returns what the test asked for. It
// writes no output. Replace single pointers of table() where a test needs more:
//
//   RecordingDriver driver;
//   driver.SetResult("cuMemAlloc_v2", CUDA_ERROR_OUT_OF_MEMORY);
//   driver.table().cuDeviceGetCount = [](int* count) { *count = 1; return CUDA_SUCCESS; };
//
// At most one lives at a time (CUDA's functions carry no object); its functions may be called by any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "generated/driver_table.h"
#include "protocol/base/mutex.h"

namespace tessera {

class RecordingDriver {
 public:
  RecordingDriver();
  ~RecordingDriver();
  RecordingDriver(const RecordingDriver&) = delete;
  RecordingDriver& operator=(const RecordingDriver&) = delete;

  DriverTable& table() { return table_; }
  // What functions return: CUDA_SUCCESS until told otherwise.
  void SetResult(CUresult result);
  void SetResult(const std::string& name, CUresult result);
  // The exported names called so far, in order.
  std::vector<std::string> calls() const;
  size_t CallCount(std::string_view name) const;
  void Clear();

 private:
  static CUresult Called(int position);

  DriverTable table_;
  mutable Mutex mutex_;
  std::vector<std::string> calls_ GUARDED_BY(mutex_);
  CUresult result_ GUARDED_BY(mutex_) = CUDA_SUCCESS;
  std::map<std::string, CUresult> results_ GUARDED_BY(mutex_);
};

}  // namespace tessera
