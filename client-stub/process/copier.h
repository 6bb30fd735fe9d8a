// Copies and reads large ranges of host memory with several threads: one core moves 9 GB/s from memory on the machine
// this was measured on (H200 host, 16 cores), four 38, eight 53; past their caches 5, 19, 33. DMA moves 55.
//
// Threads are started at the first large copy. Any thread may call; several copies share the threads (WorkCrew).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "client-stub/process/process_part.h"
#include "protocol/channel/work_crew.h"

namespace tessera {

class Copier {
 public:
  static constexpr size_t kThreadsMax = 8;                    // the caller included, and no more than half of the cores...
  static constexpr size_t kThreadsOfFewCores = 4;             // ...but on few cores
  static constexpr size_t kSharedBytesMin = size_t{1} << 20;  // below this size waking threads costs more than it brings
  static constexpr size_t kPartBytesMin = size_t{32} << 10;
  static constexpr size_t kPartBytesMax = size_t{256} << 10;

  // A copy of this size is out of the caches before the program reads it. (256 MiB from an H100, eight threads: 34 GB/s past the
  // caches, else 27. 16 MiB: 31, 29.)
  static constexpr size_t kBeyondCachesBytesMin = size_t{64} << 20;

  // The copier of the process.
  static Copier& Process() { return PartOfProcess<Copier>::Get(); }
  // With as many threads as this machine's cores allow.
  Copier();
  // With `threads` threads, the caller included. For tests.
  explicit Copier(size_t threads);

  // Who reads the copy next. Several threads copy past their caches (past_caches.h) for a device, and from kBeyondCachesBytesMin
  // on for the program too.
  enum class Reader : uint8_t { kProgram, kDevice };

  // As memcpy. Returns when all bytes are copied.
  void Copy(void* to, const void* from, size_t bytes) { CopyPiece(to, from, bytes, bytes, Reader::kProgram); }
  // The same for a piece of a copy of `whole` bytes.
  void CopyPiece(void* to, const void* from, size_t bytes, size_t whole, Reader reader);
  // The same on a thread of the library, beside the program's. Where cores are few it copies alone, since the program wants them
  // too.
  void CopyBeside(void* to, const void* from, size_t bytes, size_t whole, Reader reader);
  // Calls `work(i)` for every i below `count`, several at once, and returns when all have returned.
  void ForEach(size_t count, const std::function<void(size_t part)>& work);

 private:
  const size_t threads_;
  WorkCrew crew_;
};

}  // namespace tessera
