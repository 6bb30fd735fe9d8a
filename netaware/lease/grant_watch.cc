#include "netaware/lease/grant_watch.h"

#include <sys/eventfd.h>

#include <utility>

namespace tessera {

using control::v1::GrantState;
using control::v1::PlacementService;
using control::v1::PlaceRequest;

GrantWatch::GrantWatch(PlacementService::StubInterface& stub, const PlaceRequest& request)
    : news_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), reader_([this, &stub, request] { Read(stub, request); }) {}

GrantWatch::~GrantWatch() {
  context_.TryCancel();
  reader_.join();
}

void GrantWatch::Read(PlacementService::StubInterface& stub, const PlaceRequest& request) {
  const auto reader = stub.Place(&context_, request);
  for (GrantState state; reader->Read(&state);) {
    {
      MutexLock lock(mutex_);
      states_.push_back(std::move(state));
    }
    eventfd_write(news_.get(), 1);
  }
  const grpc::Status why = reader->Finish();
  {
    MutexLock lock(mutex_);
    ended_ = true;
    why_ = why;
  }
  eventfd_write(news_.get(), 1);
}

std::vector<GrantState> GrantWatch::Take() {
  eventfd_t count = 0;
  eventfd_read(news_.get(), &count);
  MutexLock lock(mutex_);
  return std::exchange(states_, {});
}

bool GrantWatch::ended() {
  MutexLock lock(mutex_);
  return ended_ && states_.empty();
}

grpc::Status GrantWatch::why() {
  MutexLock lock(mutex_);
  return why_;
}

}  // namespace tessera
