// Receives the states of a grant: a thread reads the placer's stream.
//
//   GrantWatch watch(stub, request);
//   poll({watch.fd(), POLLIN}); for (GrantState& state : watch.Take()) ...
//   if (watch.ended()) ...                     // watch.why()
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <thread>
#include <vector>

#include "generated/control/placement.grpc.pb.h"
#include "protocol/base/mutex.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

class GrantWatch {
 public:
  // `stub` outlives the object.
  GrantWatch(control::v1::PlacementService::StubInterface& stub, const control::v1::PlaceRequest& request);
  // Ends the stream. If the job still waits this withdraws its request.
  ~GrantWatch();
  GrantWatch(const GrantWatch&) = delete;
  GrantWatch& operator=(const GrantWatch&) = delete;

  // Readable when Take() has something, or the stream has ended.
  int fd() const { return news_.get(); }
  // The states that have come since the last call, in order. One thread.
  std::vector<control::v1::GrantState> Take() EXCLUDES(mutex_);
  bool ended() EXCLUDES(mutex_);
  // Why the stream has ended.
  grpc::Status why() EXCLUDES(mutex_);

 private:
  void Read(control::v1::PlacementService::StubInterface& stub, const control::v1::PlaceRequest& request) EXCLUDES(mutex_);

  const UniqueFd news_;  // an eventfd
  grpc::ClientContext context_;
  Mutex mutex_;
  std::vector<control::v1::GrantState> states_ GUARDED_BY(mutex_);
  bool ended_ GUARDED_BY(mutex_) = false;
  grpc::Status why_ GUARDED_BY(mutex_);
  std::thread reader_;
};

}  // namespace tessera
