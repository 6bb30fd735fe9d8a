#include "server/images/image_keeper.h"

#include <errno.h>
#include <poll.h>

#include <array>
#include <deque>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "protocol/base/log.h"
#include "protocol/base/mutex.h"
#include "protocol/base/shortage.h"
#include "protocol/channel/unix_socket.h"
#include "server/images/image_directory.h"
#include "server/images/image_socket.h"

namespace tessera {
namespace {

// Images that wait to be written; each is memory of a worker that may have ended. Those beyond are not kept.
constexpr size_t kWaitingMax = 256;

// Checks and writes images on a thread of its own: it takes a second for a large one, and questions have to be answered
// meanwhile.
class Writer {
 public:
  explicit Writer(ImageDirectory& directory) : directory_(directory), thread_([this] { Run(); }) {}
  ~Writer() {
    {
      MutexLock lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void Add(const ImageKey& key, uint64_t bytes, UniqueFd file) EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (waiting_.size() >= kWaitingMax) return LogInfo("an image is not kept: {} wait already", kWaitingMax);
      waiting_.push_back({key, bytes, std::move(file)});
    }
    changed_.notify_all();
  }

 private:
  struct Offered {
    ImageKey key;
    uint64_t bytes;
    UniqueFd file;
  };

  void Run() EXCLUDES(mutex_) {
    for (;;) {
      Offered offered;
      {
        MutexLock lock(mutex_);
        while (waiting_.empty() && !ended_) changed_.wait(mutex_);
        if (ended_) return;
        offered = std::move(waiting_.front());
        waiting_.pop_front();
      }
      const Status status = directory_.Add(offered.key, offered.bytes, offered.file.get());
      if (!status.ok()) LogWarning("an image of {} bytes is not kept: {}", offered.bytes, status.message());
    }
  }

  ImageDirectory& directory_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<Offered> waiting_ GUARDED_BY(mutex_);
  bool ended_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace

Result<UniqueFd> ImageKeeper::Connect() {
  Result<std::pair<UniqueFd, UniqueFd>> ends = MakeSocketPair();
  if (!ends.ok()) return ends.status();
  const std::array<std::byte, 1> word{};
  for (int attempt = 0;; ++attempt) {
    if (!socket_.valid()) {
      Result<std::pair<UniqueFd, UniqueFd>> line = MakeSocketPair();
      if (!line.ok()) return line.status();
      socket_ = std::move(line->first);
      RETURN_IF_ERROR(start_(line->second.get()));
    }
    const Status sent = SendMessage(socket_.get(), word, std::array{ends->first.get()}, 0);
    if (sent.ok()) return std::move(ends->second);
    // It has ended: a new one, once.
    socket_.reset();
    if (attempt == 1) return sent;
  }
}

int RunImageKeeper(int socket, const std::string& path, uint64_t bytes_max, const KeeperSandbox& sandbox) {
  Result<ImageDirectory> directory = ImageDirectory::Open(path, bytes_max, sandbox.own_user);
  if (directory.ok() && geteuid() == 0) {
    if (const Status given = directory->HandOver(sandbox.user); !given.ok()) directory = given;
  }
  if (!directory.ok()) LogWarning("no images are kept: {}", directory.status().message());
  if (const Status entered = sandbox.enter ? sandbox.enter() : Status::Ok(); !entered.ok()) {
    LogError("the keeper of images ends: {}", entered.message());
    return 1;
  }
  std::optional<Writer> writer;
  if (directory.ok()) writer.emplace(directory.value());
  const ImageService service = {[&](const ImageKey& key, uint64_t bytes) -> Result<UniqueFd> {
                                  return directory.ok() ? directory->Find(key, bytes) : directory.status();
                                },
                                [&](const ImageKey& key, uint64_t bytes, UniqueFd file) {
                                  if (writer) writer->Add(key, bytes, std::move(file));
                                }};
  std::vector<UniqueFd> workers;
  for (;;) {
    std::vector<pollfd> ready = {{socket, POLLIN, 0}};
    for (const UniqueFd& worker : workers) ready.push_back({worker.get(), POLLIN, 0});
    if (poll(ready.data(), ready.size(), -1) < 0) {
      if (errno != EINTR)
        poll(nullptr, 0, static_cast<int>(Shortage::kPauseNs / 1'000'000));  // for want of memory or descriptors
      continue;
    }
    for (size_t i = 0; i < workers.size(); ++i) {
      if (ready[i + 1].revents != 0 && !ServeImages(workers[i].get(), service).ok()) workers[i].reset();
    }
    std::erase_if(workers, [](const UniqueFd& worker) { return !worker.valid(); });
    if (ready[0].revents == 0) continue;
    Result<SocketMessage> message = ReceiveMessage(socket, 1, 0);
    if (message.ok() && message->fds.size() == 1) workers.push_back(std::move(message->fds[0]));
    if (message.status().code() == StatusCode::kUnavailable) return 0;  // the daemon is gone
  }
}

}  // namespace tessera
