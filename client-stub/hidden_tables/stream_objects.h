// The objects that slot 51 of table 21318C60 hands out for streams. They are opaque to the caller. Each stream number that was
// asked for has one, which is kept for ever. Any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "client-stub/process/process_part.h"
#include "protocol/base/mutex.h"

namespace tessera {

class StreamObjects {
 public:
  static StreamObjects& Process() { return PartOfProcess<StreamObjects>::Get(); }

  // The object of the stream with this number (cuStreamGetId); never null.
  void* Of(uint64_t number) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    std::unique_ptr<Object>& object = by_number_[number];
    if (object == nullptr) {
      object = std::make_unique<Object>();
      numbers_[object.get()] = number;
    }
    return object.get();
  }
  // The number that belongs to the object. False: it is no object of this table.
  bool Number(const void* object, uint64_t* number) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto found = numbers_.find(object);
    if (found == numbers_.end()) return false;
    *number = found->second;
    return true;
  }

 private:
  struct Object {
    std::array<std::byte, 512> zeros{};
  };
  Mutex mutex_;
  std::unordered_map<uint64_t, std::unique_ptr<Object>> by_number_ GUARDED_BY(mutex_);
  std::unordered_map<const void*, uint64_t> numbers_ GUARDED_BY(mutex_);
};

}  // namespace tessera
