// The server's end of a session, scripted by a test: answers records as the test says, over a real channel.
#pragma once

#include <cuda.h>

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "client-stub/session/session.h"
#include "protocol/base/mutex.h"
#include "protocol/channel/channel.h"
#include "protocol/wire/device_snapshot.h"
#include "protocol/wire/record.h"

namespace tessera {

// Two devices with an attribute or two; peers of each other.
DeviceSnapshot TestSnapshot();

class FakeServer {
 public:
  // Called on the server's thread for every record. Without one, records that want a reply get CUDA_SUCCESS and no
  // message.
  using Handler = std::function<void(FakeServer& server, const RecordHeader& header, std::span<const std::byte> message)>;

  explicit FakeServer(Handler handler = nullptr, DeviceSnapshot snapshot = TestSnapshot());
  ~FakeServer();

  // The client's end; installed as the process' session until this object goes.
  Session& session() { return *session_; }

  // Server side; any thread.
  void Reply(const RecordHeader& header, CUresult result, std::span<const std::byte> message = {});
  void Notice(NoticeKind kind, uint64_t extra, CUresult result = CUDA_SUCCESS, uint32_t thread = 0,
              std::span<const std::byte> payload = {});
  // The connection breaks, as when the server is killed.
  void Die();

  // How many records with this call id have come.
  size_t Count(uint32_t call) EXCLUDES(mutex_);
  // The headers of all records so far, in order.
  std::vector<RecordHeader> Headers() EXCLUDES(mutex_);

 private:
  void Serve();
  void Send(const ReplyHeader& header, std::span<const std::byte> payload);

  const Handler handler_;
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<Session> session_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
  Mutex send_mutex_;
  Mutex mutex_;
  std::vector<RecordHeader> headers_ GUARDED_BY(mutex_);
};

}  // namespace tessera
