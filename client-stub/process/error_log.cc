#include "client-stub/process/error_log.h"

#include <pthread.h>
#include <time.h>

#include <cstdio>

#include "client-stub/process/error_table.h"

namespace tessera {
namespace {

// What stands where entries are missing.
constexpr char kTruncated[] = "[CUDA][W] older entries of the error log are missing here\n";

// "[22:21:32.099][25642][CUDA][E] Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuX": the form that CUDA documents.
std::string Entry(const char* function, CUresult result) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm local{};
  localtime_r(&now.tv_sec, &local);
  const ErrorText* text = FindErrorText(result);
  char line[ErrorLog::kEntryBytesMax];
  const int written = snprintf(line, sizeof(line) - 1, "[%02d:%02d:%02d.%03ld][%lu][CUDA][E] Returning %d (%s) from %s",
                               local.tm_hour, local.tm_min, local.tm_sec, now.tv_nsec / 1'000'000, pthread_self(),
                               static_cast<int>(result), text == nullptr ? "no CUresult" : text->name, function);
  if (written < 0) return "\n";
  return std::string(line) + "\n";
}

}  // namespace

void ErrorLog::Add(const char* function, CUresult result) {
  // A callback's own failing calls are logged and told to nobody: it would never end.
  static thread_local bool telling = false;
  std::string entry = Entry(function, result);
  std::vector<Callback> callbacks;
  {
    MutexLock lock(mutex_);
    entries_.push_back(entry);
    if (entries_.size() > kEntriesMax) entries_.pop_front();
    ++next_;
    if (callbacks_.empty() || telling) return;
    callbacks = callbacks_;
  }
  telling = true;
  // A callback gets the message alone.
  std::string message = entry.substr(entry.find("Returning"));
  message.pop_back();
  for (const Callback& callback : callbacks) callback.function(callback.data, CU_LOG_LEVEL_ERROR, message.data(), message.size());
  telling = false;
}

void ErrorLog::Register(HandleId handle, CUlogsCallback callback, void* data) {
  MutexLock lock(mutex_);
  callbacks_.push_back({handle, callback, data});
}

void ErrorLog::Unregister(HandleId handle) {
  MutexLock lock(mutex_);
  std::erase_if(callbacks_, [&](const Callback& callback) { return callback.handle == handle; });
}

uint32_t ErrorLog::Next() const {
  MutexLock lock(mutex_);
  return next_;
}

uint32_t ErrorLog::Oldest() const {
  MutexLock lock(mutex_);
  return next_ - static_cast<uint32_t>(entries_.size());
}

std::string ErrorLog::Text(uint32_t first, size_t bytes_max, uint32_t* next, bool* fits) const {
  MutexLock lock(mutex_);
  *next = next_;
  *fits = true;
  const auto kept = static_cast<uint32_t>(entries_.size());
  // Numbers wrap; one that lies ahead names nothing yet.
  uint32_t wanted = next_ - first;
  if (static_cast<int32_t>(wanted) <= 0) return {};
  bool missing = wanted > kept;
  if (missing) wanted = kept;
  size_t taken = 0, bytes = 0;
  while (taken < wanted && bytes + entries_[kept - taken - 1].size() <= bytes_max) bytes += entries_[kept - ++taken].size();
  if (taken == 0) {
    *fits = wanted == 0;
    return {};
  }
  missing = missing || taken < wanted;
  std::string text;
  // The line takes the place of an entry where there is no room for both.
  while (missing && taken > 1 && bytes + sizeof(kTruncated) - 1 > bytes_max) bytes -= entries_[kept - taken--].size();
  if (missing && bytes + sizeof(kTruncated) - 1 <= bytes_max) text = kTruncated;
  for (size_t i = kept - taken; i < kept; ++i) text += entries_[i];
  return text;
}

}  // namespace tessera
