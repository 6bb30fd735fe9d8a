#include "server/driver/recording_driver.h"

#include <algorithm>
#include <atomic>

#include "generated/mock/recording_table.h"
#include "protocol/base/check.h"

namespace tessera {

static std::atomic<RecordingDriver*> current{nullptr};

RecordingDriver::RecordingDriver() {
  CHECK(current.exchange(this) == nullptr);
  table_ = MakeRecordingTable(&RecordingDriver::Called);
}

RecordingDriver::~RecordingDriver() { current = nullptr; }

CUresult RecordingDriver::Called(int position) {
  RecordingDriver* driver = current;
  CHECK(driver != nullptr);
  const std::string name = RecordingNames()[position];
  MutexLock lock(driver->mutex_);
  driver->calls_.push_back(name);
  const auto found = driver->results_.find(name);
  return found != driver->results_.end() ? found->second : driver->result_;
}

void RecordingDriver::SetResult(CUresult result) {
  MutexLock lock(mutex_);
  result_ = result;
}

void RecordingDriver::SetResult(const std::string& name, CUresult result) {
  CHECK(std::ranges::find(RecordingNames(), std::string_view(name)) != RecordingNames().end());
  MutexLock lock(mutex_);
  results_[name] = result;
}

std::vector<std::string> RecordingDriver::calls() const {
  MutexLock lock(mutex_);
  return calls_;
}

size_t RecordingDriver::CallCount(std::string_view name) const {
  MutexLock lock(mutex_);
  return std::ranges::count(calls_, name);
}

void RecordingDriver::Clear() {
  MutexLock lock(mutex_);
  calls_.clear();
}

}  // namespace tessera
