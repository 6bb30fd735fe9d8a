// Images over the socket between a worker and the keeper (image_keeper.h). A question is one message of fixed size, and so is its
// answer, with the descriptor beside it; an offer has no answer.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "protocol/base/mutex.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "server/images/image_cache.h"

namespace tessera {

// The keeper only looks into a directory; one that does not answer is no help.
inline constexpr uint64_t kImageAnswerNs = 2'000'000'000;

// The worker's end.
class SocketImageCache : public ImageCache {
 public:
  explicit SocketImageCache(UniqueFd socket, uint64_t answer_ns = kImageAnswerNs)
      : answer_ns_(answer_ns), socket_(std::move(socket)) {}
  // kUnavailable, from then on, once there was no answer in time.
  Result<UniqueFd> Find(const ImageKey& key, uint64_t bytes) override EXCLUDES(mutex_);
  void Offer(const ImageKey& key, uint64_t bytes, int file) override EXCLUDES(mutex_);

 private:
  const uint64_t answer_ns_;
  Mutex mutex_;  // over question and answer
  UniqueFd socket_ GUARDED_BY(mutex_);
};

// The keeper's end: takes every message that waits on `socket`. Does not block. Anything but Ok: the socket is of no more use.
struct ImageService {
  std::function<Result<UniqueFd>(const ImageKey& key, uint64_t bytes)> find;
  std::function<void(const ImageKey& key, uint64_t bytes, UniqueFd file)> offer;
};
Status ServeImages(int socket, const ImageService& service);

}  // namespace tessera
