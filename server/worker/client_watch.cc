#include "server/worker/client_watch.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <iterator>
#include <system_error>
#include <utility>

#include "protocol/base/log.h"
#include "protocol/channel/channel.h"

namespace tessera {

ClientWatch::ClientWatch(Channel& channel, std::function<void(const Status& why)> end)
    : channel_(channel), end_(std::move(end)), stop_(eventfd(0, EFD_CLOEXEC)) {
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    LogWarning("nobody ends a call that outlives its client: {}", error.what());
  }
}

ClientWatch::~ClientWatch() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_.get(), &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
}

void ClientWatch::Run() {
  // poll() skips negative descriptors.
  pollfd ready[] = {{stop_.get(), POLLIN, 0}, {channel_.socket(), POLLRDHUP, 0}, {channel_.peer_process(), POLLIN, 0}};
  while (poll(ready, std::size(ready), -1) < 0) {
    if (errno != EINTR) return LogWarning("nobody ends a call that outlives its client: errno {}", errno);
  }
  if (ready[0].revents == 0) poll(ready, 1, static_cast<int>(kPatienceNs / 1'000'000));
  if (ready[0].revents != 0) return;
  const Status why = channel_.Check();  // takes the client's last words
  end_(channel_.peer_left()
           ? Status::Ok()
           : Status(StatusCode::kUnavailable, "a call was still inside the driver when the session was over: " + why.message()));
}

}  // namespace tessera
